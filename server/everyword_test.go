package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// saying is one message for a server to say, and the request that it is said in answer
// to.
type saying struct {
	path   string
	method string
	say    func(ctx context.Context, c *registry.Call, text string) (mcp.Object, error)
}

// answersWith says a message as the result of a call.
func answersWith(message string) func(context.Context, *registry.Call, string) (mcp.Object, error) {
	return func(_ context.Context, c *registry.Call, text string) (mcp.Object, error) {
		if c.Params.Has("inputResponses") {
			return textResult("done"), nil
		}
		return object(strings.Replace(message, corpus.Here, text, 1)), nil
	}
}

// makesTask says a message as a task in the place of a result, in the form that the
// client knows.
func makesTask(message string) func(context.Context, *registry.Call, string) (mcp.Object, error) {
	return func(_ context.Context, c *registry.Call, text string) (mcp.Object, error) {
		made := object(strings.Replace(message, corpus.Here, text, 1)).With("resultType", mcp.String("task"))
		if c.Tasks == mcp.TasksGiven {
			task := made.Object("task")
			made = made.Without("task")
			for name, value := range task.Members {
				made = made.With(name, value)
			}
		}
		return made, nil
	}
}

// notifiesOf sends a message before the result of a call.
func notifiesOf(message string) func(context.Context, *registry.Call, string) (mcp.Object, error) {
	return func(ctx context.Context, c *registry.Call, text string) (mcp.Object, error) {
		m := object(strings.Replace(message, corpus.Here, text, 1))
		params := m.Object("params")
		if token := c.Params.Object("_meta").Value("progressToken"); string(
			params.Value("progressToken")) == `"s"` {
			params = params.With("progressToken", token)
		}
		return textResult("done"), c.Notify(ctx, mcp.Notification{Method: m.Text("method"), Params: params})
	}
}

// failsWith ends a call in an error.
func failsWith(message string) func(context.Context, *registry.Call, string) (mcp.Object, error) {
	return func(_ context.Context, _ *registry.Call, text string) (mcp.Object, error) {
		e := object(strings.Replace(message, corpus.Here, text, 1))
		if e.Has("error") {
			e = e.Object("error")
		}
		code, _ := e.Value("code").Int()
		return mcp.Object{}, &mcp.Error{Code: int(code), Message: e.Text("message"), Data: e.Value("data")}
	}
}

// everything that a server can say to a client in the course of a request.
var everySaying = []struct {
	definition string
	method     string // of the request
	path       string // of the message in what is said
	within     string // what is said, around the message; "": the message alone
	say        func(message string) func(context.Context, *registry.Call, string) (mcp.Object, error)
}{
	{"CallToolResult", mcp.MethodToolsCall, "", "", answersWith},
	{"GetPromptResult", mcp.MethodPromptsGet, "", "", answersWith},
	{"ReadResourceResult", mcp.MethodResourcesRead, "", "", answersWith},
	{"CompleteResult", mcp.MethodComplete, "", "", answersWith},
	{"InputRequiredResult", mcp.MethodToolsCall, "", "", answersWith},
	{
		"ElicitRequest", mcp.MethodToolsCall, "InputRequiredResult.inputRequests.*<elicitation/create>",
		`{"inputRequests":{"q":$}}`, answersWith,
	},
	{
		"CreateMessageRequest", mcp.MethodToolsCall,
		"InputRequiredResult.inputRequests.*<sampling/createMessage>", `{"inputRequests":{"q":$}}`,
		answersWith,
	},
	{
		"ListRootsRequest", mcp.MethodToolsCall, "InputRequiredResult.inputRequests.*<roots/list>",
		`{"inputRequests":{"q":$}}`, answersWith,
	},
	{"CreateTaskResult", callAsTask, "", "", makesTask},
	{"GetTaskResult", mcp.MethodTasksGet, "", "", answersWith},
	{"ProgressNotification", mcp.MethodToolsCall, "", "", notifiesOf},
	{"LoggingMessageNotification", mcp.MethodToolsCall, "", "", notifiesOf},
	{"Error", mcp.MethodToolsCall, "", "", failsWith},
	{"URLElicitationRequiredError", mcp.MethodToolsCall, "", "", failsWith},
}

// everyWord returns each place of a string in everything that a server can say, once.
func everyWord(t *testing.T) []saying {
	t.Helper()
	var all []saying
	seen := make(map[string]bool)
	for _, kind := range everySaying {
		for _, revision := range slices.Backward(mcp.Revisions()) {
			for _, s := range corpus.Sayings(t, revision, kind.definition) {
				path, message := s.Path, s.Message
				if kind.path != "" {
					path = kind.path + strings.TrimPrefix(path, kind.definition)
					message = strings.Replace(kind.within, "$", message, 1)
				}
				if seen[path] {
					continue
				}
				if strings.HasPrefix(path, "InputRequiredResult") {
					message = asInputRequired(message)
				}
				message = strings.Replace(message, `"resultType":"s"`, `"resultType":"complete"`, 1)
				seen[path] = true
				all = append(all, saying{path, kind.method, kind.say(message)})
			}
		}
	}
	return all
}

// asInputRequired makes a result that asks for input one that asks for something.
func asInputRequired(message string) string {
	o := object(message)
	if o.Text("resultType") == "s" || !o.Has("resultType") {
		o = o.With("resultType", mcp.String("input_required"))
	}
	if !o.Has("inputRequests") {
		o = o.With("inputRequests", mcp.RawJSON(`{"q":{"method":"roots/list"}}`))
	}
	return string(o.JSON())
}

// scriptedServer is a server that says what a test puts into its mouth.
type scriptedServer struct {
	say atomic.Pointer[func(context.Context, *registry.Call) (mcp.Object, error)]
}

func (v *scriptedServer) says(say func(context.Context, *registry.Call, string) (mcp.Object, error), text string) {
	f := func(ctx context.Context, c *registry.Call) (mcp.Object, error) { return say(ctx, c, text) }
	v.say.Store(&f)
}

func (v *scriptedServer) use(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	return (*v.say.Load())(ctx, c)
}

// newVoice returns a world with a voice.
func newVoice(t *testing.T, form mcp.Tasks) (*world, *scriptedServer) {
	t.Helper()
	w := newWorld(t, func(w *world) {
		w.tenants[0].Servers = []string{"voice"}
		w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "prompt:*", "resource:*"}}}
		w.tenants[0].Limits.Tools = map[string]ratelimit.Limit{}
	})
	v := &scriptedServer{}
	support := ""
	if form == mcp.TasksAsked {
		support = `,"execution":{"taskSupport":"optional"}`
	}
	source := registry.Source{
		Name: "voice",
		Tools: []registry.Offer{{
			Definition: object(`{"name":"say","inputSchema":{"type":"object"}` + support + `}`),
			Timeout:    time.Minute, Tasks: form, Call: v.use,
		}},
		Prompts:   []mcp.Object{object(`{"name":"greet"}`)},
		Resources: []mcp.Object{object(`{"uri":"file:///a","name":"a"}`)},
		Use:       v.use, Reads: true, Completes: true, Timeout: time.Minute,
	}
	for _, refusal := range w.registry.Replace(source) {
		t.Fatalf("refused: %+v", refusal)
	}
	return w, v
}

// callAsTask is a tools/call that asks for a task.
const callAsTask = "tools/call as a task"

// paramsOf are the params of requests to a voice.
var paramsOf = map[string]string{
	mcp.MethodToolsCall: `"name":"say"`, callAsTask: `"name":"say","task":{"ttl":1}`,
	mcp.MethodPromptsGet: `"name":"greet"`, mcp.MethodResourcesRead: `"uri":"file:///a"`,
	mcp.MethodComplete: `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"x","value":"y"}`,
}

// hearingClient is a client of one era, and the id of a task that it has. It makes a
// request and returns all that it hears until the answer.
type hearingClient struct {
	task string
	hear func(t *testing.T, method, params string, asked bool) string
}

// ask makes the request that a saying is an answer to. asked tells that a question may
// come before the answer.
func (e *hearingClient) ask(t *testing.T, request string, asked bool) string {
	t.Helper()
	method, params := request, paramsOf[request]
	switch request {
	case callAsTask:
		method = mcp.MethodToolsCall
	case mcp.MethodTasksGet:
		params = `"taskId":"` + e.task + `"`
	}
	return e.hear(t, method, params, asked)
}

// modernEar is a client of 2026-07-28.
func modernEar(w *world) *hearingClient {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug","progressToken":"t",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	return &hearingClient{hear: func(t *testing.T, method, params string, _ bool) string {
		return w.do(t, message{
			method: "POST", path: "/mcp", token: "alice", body: `{"jsonrpc":"2.0","id":1,"method":"` +
				method + `","params":{` + params + `,` + meta + `}}`,
			headers: map[string]string{
				mcp.HeaderProtocolVersion: mcp.Revision2607, mcp.HeaderMethod: method,
				mcp.HeaderName: object(`{` + params + `}`).Text(mcp.MethodOf(method).Subject),
			},
		}).Body.String()
	}}
}

// legacyEar is a client of 2025-11-25 in a session. It answers what it is asked with an
// error.
func legacyEar(t *testing.T, w *world) *hearingClient {
	t.Helper()
	base, session := w.serve(t), w.openAsking(t, mcp.Revision2511)
	w.do(t, inSession("POST", session,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`))
	return &hearingClient{hear: func(t *testing.T, method, params string, asked bool) string {
		request := inSession("POST", session, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+
			params+`,"_meta":{"progressToken":"t"}}}`)
		if !asked {
			return w.do(t, request).Body.String()
		}
		stream := call(t.Context(), t, base, request)
		defer stream.Body.Close()
		var heard strings.Builder
		for line := stream.line(t); line != ""; line = stream.line(t) {
			heard.WriteString(line + "\n")
			if question := questionID.FindStringSubmatch(line); question != nil {
				w.do(t, inSession("POST", session, `{"jsonrpc":"2.0","id":"`+question[1]+
					`","error":{"code":-1,"message":"no"}}`))
			}
		}
		return heard.String()
	}}
}

// makeTask makes the task that the ear asks about later.
func (e *hearingClient) makeTask(t *testing.T, v *scriptedServer) {
	t.Helper()
	v.says(makesTask(`{"task":{"taskId":"s","status":"working","ttl":1}}`), "")
	found := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(e.ask(t, callAsTask, false))
	if found == nil {
		t.Fatal("no task was made")
	}
	e.task = found[1]
}

// deaf are places at which a text reaches no client although it is not withheld, each
// with its reason. One that is not needed is a fault.
var deaf = []struct {
	era  string // "": both
	path *regexp.Regexp
	why  string
}{
	{"", place(`.*\._meta\.io\.modelcontextprotocol/serverInfo\..*`), "the gateway says who it is itself"},
	{"", place(`InputRequiredResult\.requestState`), "the gateway seals it"},
	{"", place(`CreateTaskResult\.task\.taskId`), "the gateway seals it"},
	{"", place(`GetTaskResult\.taskId`), "this is the state of another task"},
	{
		"", place(`(ProgressNotification|LoggingMessageNotification)(\{name\}|\.jsonrpc|\.\*.*)`),
		"only params are passed on",
	},
	{
		"", place(`URLElicitationRequiredError(\.error)?(\{name\}|\.id|\.jsonrpc|\.\*.*)`),
		"only code, message and data are passed on",
	},
	{
		"", place(`InputRequiredResult\.inputRequests\.\*<[^>]*>\.jsonrpc`),
		"it is cleaned, and too short to be found",
	},
	{
		"legacy", place(`InputRequiredResult\.inputRequests\.\*<[^>]*>\.(id|\*.*)`),
		"only method and params are passed on",
	},
	{
		"legacy", place(`InputRequiredResult\.inputRequests\.\*<[^>]*>\.params(<[^>]*>)?\.task\..*`),
		"a client makes no tasks for the gateway",
	},
	{"legacy", place(`InputRequiredResult(\._meta)?\.\*.*`), "a session gets the questions alone"},
	{"legacy", place(`CallToolResult\.structuredContent(\[\])?`), "the revision has objects only"},
	{"legacy", place(`CreateTaskResult\.\*.*`), "the revision has task and _meta only"},
}

func place(path string) *regexp.Regexp { return regexp.MustCompile("^" + path + "$") }

// hidden returns a string in what was heard that shows more than printable ASCII, "" when
// there is none.
func hidden(t *testing.T, heard string) string {
	t.Helper()
	for line := range strings.Lines(heard) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data:")
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "{") {
			if bad := unprintable(line); bad != "" {
				return bad
			}
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if bad := unprintable(value); bad != "" {
			return bad
		}
	}
	return ""
}

func unprintable(value any) string {
	switch v := value.(type) {
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' && r != '\n') || r > '~' }) {
			return v
		}
	case []any:
		for _, element := range v {
			if bad := unprintable(element); bad != "" {
				return bad
			}
		}
	case map[string]any:
		for name, member := range v {
			if bad := unprintable(name) + unprintable(member); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// TestNothingHiddenIsHeardInAnyPlace lets a server say everything that the schemas of all
// revisions allow, with hidden text in each place of a string in turn, to a client of
// each era. Nothing hidden may arrive: the text arrives without it, or the answer is
// withheld. All kinds of hidden text stand in each place together. Where the answer is
// withheld, one of them may have hidden the others from view, so each place gets one kind
// alone too, in turn; sanitize has a test of all of them in all places.
func TestNothingHiddenIsHeardInAnyPlace(t *testing.T) {
	words := everyWord(t)
	t.Attr("positions", fmt.Sprint(2*len(words))) // each era hears them
	if len(words) < 1000 {
		t.Fatalf("only %d places", len(words))
	}
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			form := map[string]mcp.Tasks{"modern": mcp.TasksGiven, "legacy": mcp.TasksAsked}[era]
			w, v := newVoice(t, form)
			e := modernEar(w)
			if era == "legacy" {
				e = legacyEar(t, w)
			}
			e.makeTask(t, v)
			used := make([]bool, len(deaf))
			kinds := slices.Sorted(maps.Keys(corpus.Hidden))
			for i, word := range words {
				e.listen(t, v, era, word, kinds[i%len(kinds)], used)
			}
			for i, place := range deaf {
				if !used[i] && (place.era == "" || place.era == era) {
					t.Errorf("%s reaches the client, or there is no such place: %s", place.path, place.why)
				}
			}
		})
	}
}

// listen hears one saying with all kinds of hidden text together, and when it is
// withheld, with that kind alone.
func (e *hearingClient) listen(t *testing.T, v *scriptedServer, era string, word saying, kind string, used []bool) {
	t.Helper()
	every := ""
	for _, kind := range slices.Sorted(maps.Keys(corpus.Hidden)) {
		every += corpus.Hidden[kind]
	}
	switch heard := e.try(t, v, word, every); {
	case strings.Contains(heard, "leftright"):
	case isWithheld(word, heard):
		if heard := e.try(t, v, word, corpus.Hidden[kind]); !isWithheld(word, heard) {
			t.Errorf("%s, %s: got %s, want it withheld", word.path, kind, heard)
		}
	default:
		for i, place := range deaf {
			if (place.era == "" || place.era == era) && place.path.MatchString(word.path) {
				used[i] = true
				return
			}
		}
		t.Errorf("%s: got %s, want the text without what it hid, or that the answer is withheld", word.path,
			heard)
	}
}

// try hears a saying with that text, in which nothing hidden may be.
func (e *hearingClient) try(t *testing.T, v *scriptedServer, word saying, text string) string {
	t.Helper()
	quoted := string(mcp.String(text))
	v.says(word.say, quoted[1:len(quoted)-1])
	heard := e.ask(t, word.method, strings.HasPrefix(word.path, "InputRequiredResult"))
	if bad := hidden(t, heard); bad != "" {
		t.Errorf("%s: %+q arrives", word.path, bad)
	}
	return heard
}

// isWithheld tells whether an answer is withheld, a notification is dropped, or an error
// has lost its data.
func isWithheld(word saying, heard string) bool {
	switch kind, _, _ := strings.Cut(strings.TrimSuffix(word.path, "{name}"), "."); kind {
	case "ProgressNotification", "LoggingMessageNotification":
		return strings.Contains(heard, "done") && !strings.Contains(heard, "notifications/")
	case "Error", "URLElicitationRequiredError":
		return strings.Contains(heard, "DB-UPSTREAM-ERROR") && !strings.Contains(heard, "left")
	}
	return strings.Contains(heard, "DB-OUTPUT-HIDDEN")
}
