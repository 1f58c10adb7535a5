package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// turn is one request of the conversation that is held with and without the gateway.
type turn struct {
	name, method, item, params string
}

// callTurns call tools with these arguments.
var callTurns = map[string]string{
	"test_simple_text": `{}`, "test_image_content": `{}`, "test_audio_content": `{}`,
	"test_embedded_resource":      `{}`,
	"test_multiple_content_types": `{}`, "test_tool_with_logging": `{}`, "test_tool_with_progress": `{}`,
	"test_error_handling": `{}`,
	"test_sampling":       `{"prompt":"say it"}`, "test_elicitation": `{"message":"who is it"}`,
	"test_elicitation_sep1034_defaults": `{}`,
	"test_elicitation_sep1330_enums":    `{}`,
	"json_schema_2020_12_tool":          `{"name":"n","phone":"1","contactMethod":"phone"}`,
	"test_x_mcp_header":                 `{"level":1}`, "test_missing_capability": `{}`,
	"test_logging_tool":                      `{}`,
	"test_input_required_result_elicitation": `{}`, "test_input_required_result_sampling": `{}`,
	"test_input_required_result_list_roots":    `{}`,
	"test_input_required_result_request_state": `{}`, "test_input_required_result_multi_round": `{}`,
	"no_such_tool": `{}`,
}

// conversation is what is said to a server of either era.
func conversation(modern bool) []turn {
	all := []turn{
		{"tools", "tools/list", "", ""},
		{"prompts", "prompts/list", "", ""},
		{"resources", "resources/list", "", ""},
		{"templates", "resources/templates/list", "", ""},
		{
			"invalid arguments", "tools/call", "test_sampling",
			`"name":"test_sampling","arguments":{"prompt":1}`,
		},
	}
	for _, name := range slices.Sorted(maps.Keys(callTurns)) {
		params := fmt.Sprintf(`"name":%q,"arguments":%s`, name, callTurns[name])
		if !modern {
			params += `,"_meta":{"progressToken":1}`
		}
		all = append(all, turn{"call " + name, "tools/call", name, params})
	}
	for _, prompt := range []struct{ name, arguments string }{
		{"test_simple_prompt", `{}`},
		{"test_prompt_with_arguments", `{"arg1":"a","arg2":"b"}`},
		{"test_prompt_with_embedded_resource", `{"resourceUri":"test://example"}`},
		{"test_prompt_with_image", `{}`},
		{"test_input_required_result_prompt", `{}`},
		{"no_such_prompt", `{}`},
	} {
		all = append(all, turn{
			"get " + prompt.name, "prompts/get", prompt.name,
			fmt.Sprintf(`"name":%q,"arguments":%s`, prompt.name, prompt.arguments),
		})
	}
	for _, uri := range []string{
		"test://static-text", "test://static-binary", "test://template/123/data",
		"test://no/such/resource",
	} {
		all = append(all, turn{"read " + uri, "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri)})
	}
	all = append(all,
		turn{
			"complete", "completion/complete", "",
			`"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"a"}`,
		},
		turn{
			"complete of nothing", "completion/complete", "",
			`"ref":{"type":"ref/prompt","name":"no_such_prompt"},"argument":{"name":"arg1","value":"a"}`,
		})
	if modern { // to an older client the SDK's server answers an unknown method with a line of text
		return append(all, turn{"unknown method", "unknown/method", "", ""},
			turn{"discover", "server/discover", "", ""})
	}
	return append(all, turn{"ping", "ping", "", ""},
		turn{"subscribe", "resources/subscribe", "", `"uri":"test://watched-resource"`},
		turn{"unsubscribe", "resources/unsubscribe", "", `"uri":"test://watched-resource"`})
}

// allowance is a difference that has a reason. Turn and place are patterns of package
// path, in which * does not match a slash; places have slashes between names.
type allowance struct {
	turn, place string
	reason      string
	used        bool
}

func allowances(modern bool) []*allowance {
	const (
		ownCode   = "data.code is stable and the gateway's own"
		ownUnwise = "unknown and denied are one answer, and it is the gateway's"
	)
	all := []*allowance{
		{
			turn: "*", place: "0/error/data/requestId",
			reason: "an operator finds the request in the records by it",
		},
		{turn: "call no_such_tool", place: "0/error/data/code", reason: ownCode},
		{turn: "call no_such_tool", place: "0/error/message", reason: ownUnwise},
		{turn: "get no_such_prompt", place: "0/error/data/code", reason: ownCode},
		{turn: "get no_such_prompt", place: "0/error/message", reason: ownUnwise},
		{turn: "read test:~~no~such~resource", place: "0/error/data/code", reason: ownCode},
		{turn: "complete of nothing", place: "0/error/*", reason: ownUnwise},
		{turn: "complete of nothing", place: "0/error/data/code", reason: ownCode},
		{
			turn: "complete of nothing", place: "0/result/completion/values",
			reason: "https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion#error-handling",
		},
		{
			turn: "invalid arguments", place: "0/result/content/0/text",
			reason: "arguments are checked before the upstream is bothered",
		},
		{
			turn: "call test_tool_with_progress", place: "3/result/content/0/text",
			reason: "the tool tells the token that it was given, and the gateway gives its own",
		},
	}
	if modern {
		return append(all,
			&allowance{
				turn: "*", place: "*/result/_meta/io.modelcontextprotocol~serverInfo/*",
				reason: "serverInfo names who answers: https://modelcontextprotocol.io/specification/2026-07-28/basic",
			},
			&allowance{
				turn: "*", place: "*/result/requestState",
				reason: "sealed for the caller: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr",
			},
			&allowance{
				turn: "*", place: "*/result/cacheScope",
				reason: "what is filtered by policy is private: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching",
			},
			&allowance{
				turn:   "discover",
				place:  "0/result/capabilities/extensions/io.modelcontextprotocol~tasks",
				reason: "tasks of other servers pass through: https://modelcontextprotocol.io/extensions/tasks",
			},
			&allowance{
				turn: "complete of nothing", place: "0/result/resultType",
				reason: "as above, an error has no result",
			},
			&allowance{turn: "unknown method", place: "0/error/message", reason: ownUnwise},
			&allowance{turn: "unknown method", place: "0/error/data/code", reason: ownCode},
		)
	}
	return append(all,
		&allowance{
			turn: "*", place: "*/result/ttlMs",
			reason: "no hint of that revision: https://modelcontextprotocol.io/specification/2025-11-25/server/tools",
		},
		&allowance{
			turn: "*", place: "*/result/cacheScope",
			reason: "no hint of that revision: https://modelcontextprotocol.io/specification/2025-11-25/server/tools",
		},
		&allowance{
			turn: "call test_input_required_result_list_roots", place: "0/params",
			reason: "may be left out: https://modelcontextprotocol.io/specification/2025-11-25/client/roots",
		},
		&allowance{
			turn: "read test:~~no~such~resource", place: "0/error/code",
			reason: "-32002 is resource not found: https://modelcontextprotocol.io/specification/2025-11-25/server/resources#error-handling",
		},
	)
}

// TestDifferential holds one conversation with the Go SDK's server, and again through the
// gateway. Whatever differs is either allowed with a reason, or wrong.
func TestDifferential(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"2025-11-25": false, modernRevision: true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := goUpstream(t, modern)
			g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [go], rules: [{allow: ["*", "prompt:*", "resource:*"]}], limits: %s}
servers:
  go: {url: %q, prefix: "", private_addresses: true}
`, generous, upstream))
			t.Cleanup(g.kill) // others look at how it stops
			direct := hold(t, strings.TrimSuffix(upstream, "/mcp"), "", name)
			for turn, places := range differences(direct, hold(t, strings.TrimSuffix(upstream, "/mcp"), "",
				name)) {
				t.Errorf("the upstream by itself differs from itself in %s: %v", turn, places)
			}
			allowed := allowances(modern)
			through := hold(t, "http://"+g.addr, g.mint(who{tenant: "acme", subject: "alice"}), name)
			for turn, places := range differences(direct, through) {
				for place, what := range places {
					if !allow(allowed, turn, place) {
						t.Errorf("%s: %s: %s", turn, place, what)
					}
				}
			}
			for _, one := range allowed {
				if !one.used {
					t.Errorf("nothing differs at %s of %s: take the allowance out", one.place, one.turn)
				}
			}
			g.unhurt(t)
		})
	}
}

// allow looks for an allowance and marks it as used.
func allow(allowed []*allowance, turn, place string) bool {
	for _, one := range allowed {
		inTurn, err := path.Match(one.turn, strings.ReplaceAll(turn, "/", "~"))
		if err != nil {
			panic(err) // a pattern of the table above
		}
		inPlace, err := path.Match(one.place, place)
		if err != nil {
			panic(err) // a pattern of the table above
		}
		if inTurn && inPlace {
			one.used = true
			return true
		}
	}
	return false
}

// hold holds the conversation and returns the plain values of all that came back, by turn
// and place.
func hold(t *testing.T, base, token, revision string) map[string]map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patient)
	defer cancel()
	s := &talker{
		base: base, path: "/mcp", token: token, revision: revision,
		capabilities: `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`, level: "info", answer: anAnswer,
	}
	if err := s.open(ctx); err != nil {
		t.Fatalf("%s: %v", base, err)
	}
	told := make(map[string]map[string]string)
	for _, one := range conversation(revision == modernRevision) {
		got, err := s.ask(ctx, one.method, one.item, one.params)
		if err != nil {
			t.Fatalf("%s: %s: %v", base, one.name, err)
		}
		places := map[string]string{"messages": fmt.Sprint(len(got))}
		for i, m := range got {
			m.ID = nil // chosen by who sends
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var plain any
			if err := json.Unmarshal(text, &plain); err != nil {
				t.Fatal(err)
			}
			flatten(fmt.Sprint(i), plain, places)
		}
		told[one.name] = places
	}
	return told
}

// flatten notes each plain value by the names that lead to it.
func flatten(place string, value any, places map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			flatten(place+"/"+strings.ReplaceAll(name, "/", "~"), inner, places)
		}
		if len(v) == 0 {
			places[place] = "{}"
		}
	case []any:
		for i, inner := range v {
			flatten(fmt.Sprint(place, "/", i), inner, places)
		}
		if len(v) == 0 {
			places[place] = "[]"
		}
	case nil:
		if !strings.HasSuffix(place, "/error/data") { // left out is the same
			places[place] = "null"
		}
	default:
		places[place] = fmt.Sprintf("%#v", v)
	}
}

// differences are the places of each turn at which two conversations are not the same,
// and how.
func differences(a, b map[string]map[string]string) map[string]map[string]string {
	found := make(map[string]map[string]string)
	for turn := range a {
		places := maps.Clone(a[turn])
		maps.Copy(places, b[turn])
		for place := range places {
			x, y := a[turn][place], b[turn][place]
			if x == y {
				continue
			}
			if found[turn] == nil {
				found[turn] = make(map[string]string)
			}
			found[turn][place] = fmt.Sprintf("%s became %s", orNothing(x), orNothing(y))
		}
	}
	return found
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// anAnswer answers any question, the same each time.
func anAnswer(question message) string {
	switch question.Method {
	case "elicitation/create":
		var params struct {
			RequestedSchema struct {
				Properties map[string]map[string]any
			}
		}
		_ = json.Unmarshal(question.Params, &params) // then nothing is filled in
		content := make(map[string]any)
		for name, schema := range params.RequestedSchema.Properties {
			if schema["type"] == "string" && schema["enum"] == nil && schema["oneOf"] == nil {
				content[name] = "value of " + name
			}
			if schema["type"] == "boolean" {
				content[name] = true
			}
		}
		// plain values always encode
		text, _ := json.Marshal(map[string]any{"action": "accept", "content": content})
		return string(text)
	case "sampling/createMessage":
		return `{"role":"assistant","model":"m","content":{"type":"text","text":"an answer"}}`
	case "roots/list":
		return `{"roots":[{"uri":"file:///root","name":"r"}]}`
	}
	return `{}`
}
