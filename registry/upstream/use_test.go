package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// params returns the params of a request as the server saw them.
func params(t *testing.T, one seenRequest) mcp.Object {
	t.Helper()
	return parse(t, one.body).Object("params")
}

// TestUseOfEveryKind uses a prompt, a resource, one that is in no list, and completes
// arguments, in both eras.
func TestUseOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := full(modern)
		cfg := serve(t, s).config()
		cfg.Prefix = "p"
		r := start(t, cfg)
		r.untilUp()
		r.until("the prompt is there",
			func() bool { return len(r.view().Prompts) == 2 && len(r.view().Resources) == 1 })
		prompt := r.view().Prompts[0]
		listed := r.view().Resources[0]
		unlisted := r.resource(strings.Replace(listed.Exposed, "a.txt", "b%20ü?id=123", 1))
		template := r.view().Templates[0]
		for _, step := range []struct {
			item           *registry.Item
			method, params string
			want           string // of the params that the server sees, before _meta
			name           string // Mcp-Name
			result         string
		}{
			{
				prompt, "prompts/get", `{"name":"p__greet","arguments":{"who":"x"}}`,
				`{"name":"greet","arguments":{"who":"x"}`, "greet", "messages",
			},
			{
				listed, "resources/read", `{"uri":"whatever"}`, `{"uri":"file:///a.txt"`, "file:///a.txt",
				"contents",
			},
			{
				unlisted, "resources/read", `{"uri":"whatever"}`, `{"uri":"file:///b%20ü?id=123"`,
				mcp.EncodeHeader("file:///b%20ü?id=123"), "contents",
			},
			{
				prompt, "completion/complete",
				`{"ref":{"type":"ref/prompt","name":"p__greet"},"argument":{"name":"who","value":"x"},"context":{"arguments":{}}}`,
				`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"x"},"context":{"arguments":{}}`, "", "completion",
			},
			{
				template, "completion/complete",
				`{"argument":{"name":"name","value":"x"},"ref":{"type":"ref/resource","uri":"whatever"}}`,
				`{"ref":{"type":"ref/resource","uri":"file:///{name}"},"argument":{"name":"name","value":"x"}`, "", "completion",
			},
		} {
			before := len(s.sights(step.method))
			result, err := r.use(step.item, request(t, step.params, nil), step.method)
			if err != nil || !result.Has(step.result) {
				t.Fatalf("modern %v, %s: got %s, %v (%s)", modern, step.method, result.JSON(), err,
					cause(err))
			}
			one := s.sights(step.method)[before]
			if got := string(params(t, one).Without("_meta").JSON()); got != step.want+"}" {
				t.Errorf("modern %v, %s: the server saw %s, want %s}", modern, step.method, got, step.want)
			}
			want := map[string]string{"Mcp-Method": "", "Mcp-Name": ""}
			if modern {
				want = map[string]string{"Mcp-Method": step.method, "Mcp-Name": step.name}
			}
			for name, text := range want {
				if got := one.header.Get(name); got != text {
					t.Errorf("modern %v, %s: header %s: got %q, want %q", modern, step.method, name, got,
						text)
				}
			}
		}
	}
}

// TestContextOfCompletionsIsLeftOutForOldServers completes with a context against each
// revision.
func TestContextOfCompletionsIsLeftOutForOldServers(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string]bool{
		"2024-11-05": false, "2025-03-26": false, "2025-06-18": true,
		"2025-11-25": true,
	} {
		s := full(false)
		s.speaks = revision
		r := start(t, serve(t, s).config())
		r.untilUp()
		r.until("the prompts are there", func() bool { return len(r.view().Prompts) == 2 })
		call := request(
			t, `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""},"context":{"arguments":{"a":"b"}}}`, nil)
		if _, err := r.use(r.prompt("greet"), call, "completion/complete"); err != nil {
			t.Fatalf("%s: %v (%s)", revision, err, cause(err))
		}
		if got := params(t, s.sights("completion/complete")[0]).Has("context"); got != want {
			t.Errorf("%s: context sent: got %v, want %v", revision, got, want)
		}
	}
}

// TestTrap14_RequestStateBytes repeats calls with answers and a state: a modern server
// gets the very bytes under a new id each time.
func TestTrap14_RequestStateBytes(t *testing.T) {
	t.Parallel()
	const (
		state   = `"a\u00e9\/\u0062 =+==\ud83d\ude00\"\\é"`
		answers = `{"k\u0065y":{"action":"accept","content":{"n":1.50,"big":9007199254740993}},"other":{"roots":[]}}`
	)
	s := full(true)
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	r.until("all is there", func() bool { return len(r.names()) == 4 })
	for item, method := range map[*registry.Item]string{
		&r.tool("tool").Item: "tools/call", r.prompt("greet"): "prompts/get",
		r.resource("file:///a.txt"): "resources/read",
	} {
		ids := map[string]bool{}
		for range 2 {
			before := len(s.sights(method))
			call := request(t, `{"name":"x","inputResponses":`+answers+`,"requestState":`+state+`,"task":{}}`,
				nil)
			if _, err := r.use(item, call, method); err != nil {
				t.Fatalf("%s: %v (%s)", method, err, cause(err))
			}
			one := s.sights(method)[before]
			ids[string(one.wire.ID)] = true
			if !strings.Contains(one.body, `"requestState":`+state) ||
				!strings.Contains(one.body, `"inputResponses":`+answers) {
				t.Errorf("%s: the server saw %s", method, one.body)
			}
			if strings.Contains(one.body, `"task"`) {
				t.Errorf("%s: asked for a task", method)
			}
		}
		if len(ids) != 2 {
			t.Errorf("%s: ids %v, want a new one each time", method, ids)
		}
	}
}

// TestLegacyServersSeeNoAnswersOfTheModernEra sends answers without a state, and a state
// that nobody gave out.
func TestLegacyServersSeeNoAnswersOfTheModernEra(t *testing.T) {
	t.Parallel()
	s := full(false)
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	r.until("all is there", func() bool { return len(r.names()) == 4 })
	for item, method := range map[*registry.Item]string{
		&r.tool("tool").Item: "tools/call", r.prompt("greet"): "prompts/get",
		r.resource("file:///a.txt"): "resources/read",
	} {
		if _, err := r.use(item, request(t, `{"inputResponses":{"k":{}}}`, nil), method); err != nil {
			t.Errorf("%s without a state: %v (%s)", method, err, cause(err))
		}
		if _, err := r.use(item, request(t, `{"inputResponses":{"k":{}},"requestState":"forged"}`, nil),
			method); kindOf(mcp.Object{}, err) != "error" {
			t.Errorf("%s with a forged state: got %v, want an error", method, err)
		}
		for _, one := range s.sights(method) {
			if strings.Contains(one.body, "inputResponses") || strings.Contains(one.body, "requestState") {
				t.Errorf("%s: the server saw %s", method, one.body)
			}
		}
	}
}

// TestMetadataOfModernRequests shows what a server is told of the client: what it can be
// asked and which log messages it wants, each call by itself.
func TestMetadataOfModernRequests(t *testing.T) {
	t.Parallel()
	s := full(true)
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	const capabilities = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}`
	for _, test := range []struct {
		capabilities string
		level        string
		want         string
	}{
		{`{}`, "", `{}`},
		{capabilities, "", capabilities},
		{`{}`, "warning", `{},"io.modelcontextprotocol/logLevel":"warning"`},
		{capabilities, "debug", capabilities + `,"io.modelcontextprotocol/logLevel":"debug"`},
		{`{}`, "", `{}`},
	} {
		before := len(s.sights("tools/call"))
		call := request(
			t, `{"name":"x","_meta":{"traceparent":"00-1-2-01","vendor/x":1.0,"progressToken":"mine",`+
				`"io.modelcontextprotocol/related-task":{"taskId":"another's"},`+
				`"io.modelcontextprotocol/clientCapabilities":{"roots":{"forged":true}},"io.modelcontextprotocol/logLevel":"emergency"}}`, nil)
		call.Capabilities = parse(t, test.capabilities)
		call.LogLevel, _ = mcp.LevelOf(test.level)
		if _, err := r.use(&r.tool("tool").Item, call, "tools/call"); err != nil {
			t.Fatalf("call: %v (%s)", err, cause(err))
		}
		one := s.sights("tools/call")[before]
		want := fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"drawbridge","version":"1.2.3"},"io.modelcontextprotocol/clientCapabilities":%s,`+
			`"traceparent":"00-1-2-01","vendor/x":1.0,"progressToken":%s}`, test.want, one.wire.ID)
		if got := string(params(t, one).Value("_meta")); got != want {
			t.Errorf("metadata:\ngot  %s\nwant %s", got, want)
		}
	}
}

// TestTrap27_LogMessagesOnlyWhenWanted sends log messages of all levels in the course of
// a call. Without a level none reaches the caller, and none ever does from the stream of
// a subscription.
func TestTrap27_LogMessagesOnlyWhenWanted(t *testing.T) {
	t.Parallel()
	levels := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	for _, modern := range []bool{false, true} {
		s := full(modern)
		s.call = func(w http.ResponseWriter, _ *http.Request, m wire) {
			send := events(w)
			for _, level := range levels {
				send(
					"%s", data(
						`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":{"x":1.0}}}`, level))
			}
			send(
				"%s", data(
					`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":1}}`))
			send("%s", data(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
			send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		}
		s.listen = func(w http.ResponseWriter, r *http.Request, m wire) {
			send := events(w)
			meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, m.ID)
			send(
				"%s", data(
					`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"stray",%s}}`, meta))
			<-r.Context().Done()
		}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		for wanted, want := range map[string][]string{
			"": nil, "debug": levels, "error": levels[4:],
			"emergency": levels[7:],
		} {
			for _, token := range []string{"", `"_meta":{"progressToken":7}`} {
				var got []string
				call := request(t, `{`+token+`}`, func(n mcp.Notification) {
					if n.Method != "notifications/message" || string(n.Params.Value("data")) != `{"x":1.0}` {
						t.Errorf("notification: got %s %s", n.Method, n.Params.JSON())
					}
					got = append(got, n.Params.Text("level"))
				})
				call.LogLevel, _ = mcp.LevelOf(wanted)
				if _, err := r.use(&r.tool("tool").Item, call, "tools/call"); err != nil {
					t.Fatalf("call: %v (%s)", err, cause(err))
				}
				if !slices.Equal(got, want) {
					t.Errorf("modern %v, level %q: got %q, want %q", modern, wanted, got, want)
				}
			}
		}
	}
}

// TestTrap22_StreamsOfAllShapes sends one answer in all the forms that event streams
// have.
func TestTrap22_StreamsOfAllShapes(t *testing.T) {
	t.Parallel()
	answer := func(
		m wire,
	) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult)
	}
	for name, stream := range map[string]func(m wire) string{
		"priming event": func(
			m wire,
		) string {
			return "id: 1\ndata:\n\nid: 2\n\n" + data("%s", answer(m))
		},
		"comments": func(m wire) string { return ": one\n\n:\n" + data("%s", answer(m)) },
		"CRLF": func(
			m wire,
		) string {
			return strings.ReplaceAll(data("%s", answer(m)), "\n", "\r\n")
		},
		"CR": func(
			m wire,
		) string {
			return strings.ReplaceAll(data("%s", answer(m)), "\n", "\r")
		},
		"BOM": func(m wire) string { return "\ufeff" + data("%s", answer(m)) },
		"several data lines": func(
			m wire,
		) string {
			return data("%s", strings.ReplaceAll(answer(m), `,"`, ",\n\""))
		},
		"no space":    func(m wire) string { return "data:" + answer(m) + "\n\n" },
		"array":       func(m wire) string { return data("[%s]", answer(m)) },
		"named event": func(m wire) string { return "event: message\n" + data("%s", answer(m)) },
		"other event": func(
			m wire,
		) string {
			return "event: ping\ndata: {\n\n" + data("%s", answer(m))
		},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", name, modern), func(t *testing.T) {
				t.Parallel()
				s := full(modern)
				s.call = func(w http.ResponseWriter, _ *http.Request, m wire) { events(w)("%s", stream(m)) }
				r := start(t, serve(t, s).config())
				r.untilTool("tool")
				if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
					t.Errorf("got %q, want ok", got)
				}
			})
		}
	}
}

// TestResultsByMethod sends results of all forms: of each type that was asked for all
// passes, and what a tool says has content. What else a method promises the desk judges
// (TestResultsThatNobodyCanUse in internal/gateway).
func TestResultsByMethod(t *testing.T) {
	t.Parallel()
	const question = `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list","params":{"x":1.0}}},"requestState":"\u0061b"}`
	const (
		same = "same"
		bad  = "protocol"
	)
	for _, test := range []struct {
		method, result string
		want           [2]string // for legacy and modern servers: same, protocol, or the result
	}{
		{"tools/call", `{"content":[]}`, [2]string{same, same}},
		{"tools/call", `{"resultType":"complete","content":[]}`, [2]string{same, same}},
		{"tools/call", `{}`, [2]string{`{"content":[]}`, `{"content":[]}`}},
		{"tools/call", `{"toolResult":"x"}`, [2]string{
			`{"content":[{"type":"text","text":"x"}]}`,
			`{"content":[{"type":"text","text":"x"}]}`,
		}},
		{"tools/call", question, [2]string{bad, same}},
		{"tools/call", `{"resultType":"task","content":[]}`, [2]string{bad, bad}},
		{"tools/call", `{"resultType":1,"content":[]}`, [2]string{bad, bad}},
		{"tools/call", `{"resultType":null,"content":[]}`, [2]string{bad, bad}},
		{"tools/call", `{"content":{}}`, [2]string{bad, bad}},
		{"tools/call", `{"resultType":"input_required"}`, [2]string{bad, same}},
		{"prompts/get", `{"messages":[],"description":"d"}`, [2]string{same, same}},
		{"prompts/get", `{"toolResult":"x"}`, [2]string{same, same}},
		{"prompts/get", `{"resultType":"task"}`, [2]string{bad, bad}},
		{"prompts/get", question, [2]string{bad, same}},
		{"resources/read", `{"contents":[],"ttlMs":5}`, [2]string{same, same}},
		{"resources/read", question, [2]string{bad, same}},
		{"completion/complete", `{"completion":{"values":[],"total":0}}`, [2]string{same, same}},
		{"completion/complete", question, [2]string{bad, same}},
	} {
		for i, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%.60s/modern=%v", test.method, test.result, modern), func(t *testing.T) {
				t.Parallel()
				s := full(modern)
				s.other[test.method] = says(strings.TrimSuffix(test.result, "}") + sep(test.result) +
					`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`)
				r := start(t, serve(t, s).config())
				r.untilTool("tool")
				r.until("all is there", func() bool { return len(r.names()) == 4 })
				item := map[string]*registry.Item{
					"tools/call": &r.tool("tool").Item, "prompts/get": r.prompt("greet"),
					"resources/read":      r.resource("file:///a.txt"),
					"completion/complete": r.prompt("greet"),
				}[test.method]
				result, err := r.use(item, request(t, `{"ref":{"type":"ref/prompt","name":"greet"}}`, nil),
					test.method)
				got := string(result.JSON())
				if err != nil {
					got = kindOf(result, err)
				}
				want := test.want[i]
				if want == same {
					want = test.result
				}
				if got != want {
					t.Errorf("got %s (%s), want %s", got, cause(err), want)
				}
			})
		}
	}
}

func sep(object string) string {
	if object == "{}" {
		return ""
	}
	return ","
}

// TestRefusalsEndACallOfAModernServer answers a question with an error, for which there
// is no place: the server is not called again.
func TestRefusalsEndACallOfAModernServer(t *testing.T) {
	t.Parallel()
	s := full(true)
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	r.until("all is there", func() bool { return len(r.names()) == 4 })
	refused := func() *registry.Call {
		call := request(t, `{"requestState":"x"}`, nil)
		call.Refusals = map[string]*mcp.Error{
			"b": mcp.Errorf(-2, "later"),
			"a": mcp.Errorf(-1, "User rejected sampling request"),
		}
		return call
	}
	result, err := r.use(&r.tool("tool").Item, refused(), "tools/call")
	if err != nil || string(result.Value("isError")) != "true" ||
		!strings.Contains(text(result), "User rejected sampling request (-1)") {
		t.Errorf("tools/call: got %s, %v, want a result with isError that says why", result.JSON(), err)
	}
	for item, method := range map[*registry.Item]string{
		r.prompt("greet"):           "prompts/get",
		r.resource("file:///a.txt"): "resources/read",
	} {
		if _, err := r.use(item, refused(), method); kindOf(mcp.Object{}, err) != "error" ||
			!strings.Contains(err.Error(), "User rejected") {
			t.Errorf("%s: got %v, want the client's error", method, err)
		}
	}
	for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
		if n := len(s.sights(method)); n != 0 {
			t.Errorf("%s: the server was called %d times, want not at all", method, n)
		}
	}
}

// TestErrorsOfTheModernEra shows which errors of a server reach the caller: what lies
// between the gateway and the server does not, and the call did not run.
func TestErrorsOfTheModernEra(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		-32020: "not sent", -32022: "not sent", -32021: "error",
		-32602: "error", -32002: "error",
	} {
		for _, method := range []string{
			"tools/call", "prompts/get", "resources/read",
			"completion/complete",
		} {
			t.Run(fmt.Sprintf("%d/%s", code, method), func(t *testing.T) {
				t.Parallel()
				s := full(true)
				s.other[method] = func(w http.ResponseWriter, _ *http.Request, m wire) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(
						w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}}`, m.ID, code)
				}
				r := start(t, serve(t, s).config())
				r.untilTool("tool")
				r.until("all is there", func() bool { return len(r.names()) == 4 })
				item := map[string]*registry.Item{
					"tools/call": &r.tool("tool").Item, "prompts/get": r.prompt("greet"),
					"resources/read":      r.resource("file:///a.txt"),
					"completion/complete": r.prompt("greet"),
				}[method]
				_, err := r.use(item, request(t, `{}`, nil), method)
				if got := kindOf(mcp.Object{}, err); got != want {
					t.Fatalf("got %s (%s), want %s", got, cause(err), want)
				}
				var answered *mcp.Error
				if want == "error" && (!asError(err, &answered) || answered.Code != code ||
					string(answered.Data) != `{"requiredCapabilities":{"roots":{}}}`) {
					t.Errorf("got %+v, want the server's error as it is", answered)
				}
				if code == -32020 {
					eventually(t, "the lists are asked for again",
						func() bool { return len(s.sights("resources/list")) > 1 })
				}
				if code == -32022 {
					eventually(t, "the server is asked what it is",
						func() bool { return len(s.sights("server/discover")) > 1 })
				}
			})
		}
	}
}

func asError(err error, to **mcp.Error) bool {
	answered, ok := err.(*mcp.Error) //nolint:errorlint // exactly that, unwrapped
	*to = answered
	return ok
}

// TestCancelReachesPrompts leaves prompts/get: a legacy server is told, a modern one sees
// the end of the connection.
func TestCancelReachesPrompts(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := full(modern)
		began, left := make(chan bool, 1), make(chan bool, 1)
		s.other["prompts/get"] = func(_ http.ResponseWriter, r *http.Request, _ wire) {
			began <- true
			<-r.Context().Done()
			left <- true
		}
		r := start(t, serve(t, s).config())
		r.untilUp()
		r.until("all is there", func() bool { return len(r.names()) == 4 })
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		call := request(t, `{}`, nil)
		call.Method = "prompts/get"
		if _, err := r.prompt("greet").Call(ctx, call); kindOf(mcp.Object{},
			err) != "unknown: context canceled" {
			t.Errorf("modern %v: got %v, want the context's error", modern, err)
		}
		await(t, left)
		if !modern {
			eventually(t, "the server is told",
				func() bool { return len(s.sights("notifications/cancelled")) == 1 })
		}
	}
}

// TestALevelThatCannotBeSetLeavesNothingOfTheCall has a server that cannot set the level
// of log messages. The caller must not be told that the call, of which nothing was sent,
// may have taken effect.
func TestALevelThatCannotBeSetLeavesNothingOfTheCall(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{session: "s", declares: `{"tools":{},"logging":{}}`, other: map[string]handler{
		"logging/setLevel": func(w http.ResponseWriter, _ *http.Request, _ wire) {
			w.WriteHeader(http.StatusInternalServerError)
		},
	}})
	r := start(t, s.config())
	r.untilTool("tool")
	for _, asks := range []string{"", anyQuestion} {
		p := person{tenant: "a", name: "alice", asks: asks, level: "info"}
		_, _, _, err := r.round(t.Context(), "tool", p.call(t, "", "", "", nil))
		if got := kindOf(mcp.Object{}, err); got != "not sent" {
			t.Errorf("asks %q: got %s (%v), want unavailable, not sent", asks, got, cause(err))
		}
	}
	if got := len(s.sights("tools/call")); got != 0 {
		t.Errorf("%d calls reached the server, want none", got)
	}
}

// TestOnlyWhatWasSentIsCancelled has many callers leave while a child does not read. The
// cancellations of calls that never left took the places of others.
func TestOnlyWhatWasSentIsCancelled(t *testing.T) {
	t.Parallel()
	r := start(t, shared(command("legacy")))
	r.untilTool("deaf")
	r.must("deaf", `{}`)
	large := `{"arguments":{"x":` + quote(strings.Repeat("x", 1<<18)) + `}}` // more than a pipe holds
	for range 80 {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		if _, err := r.call(ctx, "echo", large, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that its caller left", cause(err))
		}
	}
	if got := r.count(upstream.Flooded); got != 0 {
		t.Errorf("%d messages were dropped, want none", got)
	}
}
