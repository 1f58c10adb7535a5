package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

// schemas validates messages against the official schema of one revision.
type schemas struct {
	revision string
	compiler *jsonschema.Compiler
	place    string // of the definitions
	have     map[string]bool
}

// template is the form of https://datatracker.ietf.org/doc/html/rfc6570#section-2.
var template = regexp.MustCompile(`^([^{}]|\{[^{}]+\})*$`)

// official returns what the official schema of a revision says.
func official(t *testing.T, revision string) *schemas {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(corpus.Schema(t, revision)))
	if err != nil {
		t.Fatal(err)
	}
	s := &schemas{revision: revision, compiler: jsonschema.NewCompiler(), have: make(map[string]bool)}
	s.compiler.AssertFormat()
	// The library's own takes a template for a URL, and an expression as its host is
	// none.
	s.compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: func(v any) error {
		if text, ok := v.(string); ok && !template.MatchString(text) {
			return errors.New("braces do not match")
		}
		return nil
	}})
	for _, place := range []string{"definitions", "$defs"} {
		if definitions, ok := doc.(map[string]any)[place].(map[string]any); ok {
			s.place = place
			for name := range definitions {
				s.have[name] = true
			}
		}
	}
	if err := s.compiler.AddResource("mcp.json", doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// valid checks a value against a definition.
func (s *schemas) valid(t *testing.T, definition string, value []byte) {
	t.Helper()
	schema, err := s.compiler.Compile("mcp.json#/" + s.place + "/" + definition)
	if err != nil {
		t.Fatalf("%s of %s: %v", definition, s.revision, err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("no valid %s of %s: %s\n%v", definition, s.revision, value, err)
	}
}

// firstOf returns the first of the names that the revision has: some definitions were
// renamed.
func (s *schemas) firstOf(names ...string) string {
	for _, name := range names {
		if s.have[name] {
			return name
		}
	}
	return names[len(names)-1]
}

// answer checks a response, and its result against the definition.
func (s *schemas) answer(t *testing.T, definition string, m message, raw []byte) {
	t.Helper()
	if m.Error != nil || m.Result == nil {
		t.Errorf("want a %s, got %s", definition, raw)
		return
	}
	s.valid(t, s.firstOf("JSONRPCResultResponse", "JSONRPCResponse"), raw)
	s.valid(t, definition, m.Result)
}

// refusal checks an error response.
func (s *schemas) refusal(t *testing.T, code int, a answer) {
	t.Helper()
	m := a.last(t)
	if m.Error == nil || m.Error.Code != code {
		t.Errorf("want error %d, got %s", code, a.body)
		return
	}
	s.valid(t, s.firstOf("JSONRPCErrorResponse", "JSONRPCError"), a.messages(t)[0])
}

// stream checks every message of an answer: notifications first, then the result.
func (s *schemas) stream(t *testing.T, definition string, a answer) {
	t.Helper()
	all := a.messages(t)
	for i, raw := range all {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if i == len(all)-1 {
			s.answer(t, definition, m, raw)
			continue
		}
		s.told(t, "", raw)
	}
	if len(all) == 0 {
		t.Errorf("no message: status %d", a.status)
	}
}

// Names of definitions by method. That a revision lacks one means that it does not know
// the method.
var (
	requestDefinitions = map[string]string{
		"initialize": "InitializeRequest", "ping": "PingRequest", "server/discover": "DiscoverRequest",
		"tools/list": "ListToolsRequest", "tools/call": "CallToolRequest",
		"prompts/list": "ListPromptsRequest", "prompts/get": "GetPromptRequest",
		"resources/list": "ListResourcesRequest", "resources/templates/list": "ListResourceTemplatesRequest",
		"resources/read": "ReadResourceRequest", "resources/subscribe": "SubscribeRequest",
		"resources/unsubscribe": "UnsubscribeRequest",
		"completion/complete":   "CompleteRequest", "logging/setLevel": "SetLevelRequest",
		"subscriptions/listen": "SubscriptionsListenRequest",
		"elicitation/create":   "ElicitRequest", "sampling/createMessage": "CreateMessageRequest",
		"roots/list": "ListRootsRequest",
	}
	resultDefinitions = map[string]string{
		"initialize": "InitializeResult", "ping": "EmptyResult", "server/discover": "DiscoverResult",
		"tools/list": "ListToolsResult", "tools/call": "CallToolResult",
		"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult",
		"resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult",
		"resources/read": "ReadResourceResult", "resources/subscribe": "EmptyResult",
		"resources/unsubscribe": "EmptyResult",
		"completion/complete":   "CompleteResult", "logging/setLevel": "EmptyResult",
		"subscriptions/listen": "SubscriptionsListenResult",
	}
	notificationDefinitions = map[string]string{
		"notifications/progress":                   "ProgressNotification",
		"notifications/message":                    "LoggingMessageNotification",
		"notifications/cancelled":                  "CancelledNotification",
		"notifications/initialized":                "InitializedNotification",
		"notifications/tools/list_changed":         "ToolListChangedNotification",
		"notifications/prompts/list_changed":       "PromptListChangedNotification",
		"notifications/resources/list_changed":     "ResourceListChangedNotification",
		"notifications/resources/updated":          "ResourceUpdatedNotification",
		"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
	}
	errorDefinitions = map[int]string{
		-32020: "HeaderMismatchError", -32021: "MissingRequiredClientCapabilityError",
		-32022: "UnsupportedProtocolVersionError",
		-32042: "URLElicitationRequiredError",
	}
)

// known returns the definition for a method; "" and a failed test when the revision has
// none.
func (s *schemas) known(t *testing.T, definitions map[string]string, method string, raw []byte) string {
	t.Helper()
	if name := definitions[method]; s.have[name] {
		return name
	}
	t.Errorf("%s does not know %s: %s", s.revision, method, raw)
	return ""
}

// told checks any one message; an answer is one to a request of that method.
func (s *schemas) told(t *testing.T, method string, raw []byte) {
	t.Helper()
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("%s: %v", raw, err)
		return
	}
	var envelope, name string
	value := raw
	switch {
	case m.Method != "" && m.ID != nil:
		envelope, name = "JSONRPCRequest", s.known(t, requestDefinitions, m.Method, raw)
	case m.Method != "":
		envelope, name = "JSONRPCNotification", s.known(t, notificationDefinitions, m.Method, raw)
	case m.Error != nil:
		envelope, name = s.firstOf("JSONRPCErrorResponse", "JSONRPCError"), errorDefinitions[m.Error.Code]
		if name != "" && !s.have[name] {
			t.Errorf("%s has no error %d: %s", s.revision, m.Error.Code, raw)
			name = ""
		}
	case s.revision == modernRevision && strings.Contains(string(m.Result), `"resultType":"input_required"`):
		envelope, name, value = "JSONRPCResultResponse", "InputRequiredResult", m.Result
	case method == "":
		envelope, name, value = s.firstOf("JSONRPCResultResponse", "JSONRPCResponse"), s.answers(t, m.Result),
			m.Result
	default:
		envelope, name, value = s.firstOf("JSONRPCResultResponse", "JSONRPCResponse"), s.known(t,
			resultDefinitions, method, raw), m.Result
	}
	s.valid(t, envelope, raw)
	if name != "" {
		s.valid(t, name, value)
	}
}

// answers returns the definition of a client's answer by what only that has.
func (s *schemas) answers(t *testing.T, result json.RawMessage) string {
	t.Helper()
	for member, name := range map[string]string{
		`"action"`: "ElicitResult", `"roots"`: "ListRootsResult",
		`"model"`: "CreateMessageResult",
	} {
		if strings.Contains(string(result), member) && s.have[name] {
			return name
		}
	}
	return "EmptyResult"
}

func TestMessagesToLegacyClientsAreValid(t *testing.T) {
	t.Parallel()
	upstream := goUpstream(t, false)
	g := serve(t, after(upstream))
	bearer := "Bearer " + g.token(t)
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := official(t, revision)
			first := post(
				t, g.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
					revision+
					`","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`, "Authorization",
				bearer)
			s.stream(t, "InitializeResult", first)
			headers := []string{"Authorization", bearer, "Mcp-Session-Id", first.header.Get("Mcp-Session-Id")}
			if revision > "2025-03-26" {
				headers = append(headers, "MCP-Protocol-Version", revision)
			}
			send := func(body string) answer { return post(t, g.url, body, headers...) }
			if a := send(
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted ||
				len(a.body) > 0 {
				t.Errorf("initialized: status %d, body %q; want 202 without one", a.status, a.body)
			}
			s.stream(t, "EmptyResult", send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
			s.stream(t, "ListToolsResult", send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			for _, tool := range []string{
				"test_simple_text", "test_image_content", "test_audio_content",
				"test_embedded_resource", "test_multiple_content_types", "test_error_handling",
				"no_such_arguments",
			} {
				if tool == "no_such_arguments" {
					s.stream(t, "CallToolResult",
						send(
							`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"later__calculate","arguments":{"wrong":1}}}`))
					continue
				}
				s.stream(t, "CallToolResult",
					send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+tool+
						`","arguments":{}}}`))
			}
			s.stream(t, "CallToolResult",
				send(
					`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"later__calculate","arguments":{"expression":"1/3"}}}`))
			s.stream(t, "CallToolResult",
				send(
					`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"test_tool_with_progress","arguments":{},"_meta":{"progressToken":"p1"}}}`))
			s.refusal(
				t, -32602, send(
					`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nobody_knows"}}`))
			s.refusal(t, -32601, send(`{"jsonrpc":"2.0","id":6,"method":"no/such"}`))
			s.refusal(
				t, -32602, send(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"junk"}}`))
		})
	}
}

func TestMessagesToModernClientsAreValid(t *testing.T) {
	t.Parallel()
	s := official(t, "2026-07-28")
	upstream := goUpstream(t, true)
	g := serve(t, after(upstream))
	token := g.token(t)
	s.stream(t, "DiscoverResult", g.modern(t, token, "server/discover", "", ""))
	s.stream(t, "ListToolsResult", g.modern(t, token, "tools/list", "", ""))
	for _, tool := range []string{
		"test_simple_text", "test_image_content", "test_audio_content",
		"test_embedded_resource", "test_multiple_content_types", "test_error_handling",
		"test_tool_with_progress",
	} {
		s.stream(t, "CallToolResult", g.modern(t, token, "tools/call", tool,
			`"name":"`+tool+`","arguments":{}`))
	}
	s.stream(t, "CallToolResult", g.modern(t, token, "tools/call", "later__calculate",
		`"name":"later__calculate","arguments":{"expression":"2^0.5"}`))
	s.refusal(t, -32602, g.modern(t, token, "tools/call", "nobody", `"name":"nobody"`))
	s.refusal(t, -32601, g.modern(t, token, "no/such", "", ""))
	mismatch := g.modern(t, token, "tools/call", "other", `"name":"later__calculate","arguments":{}`)
	s.refusal(t, -32020, mismatch)
	s.valid(t, "HeaderMismatchError", mismatch.messages(t)[0])
}

// recorder is a proxy before an upstream that keeps every message the gateway sends.
type recorder struct {
	mu   sync.Mutex
	sent [][]byte
}

func (r *recorder) before(t *testing.T, upstream string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = target.Scheme, target.Host, target.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if len(body) > 0 {
			r.mu.Lock()
			r.sent = append(r.sent, body)
			r.mu.Unlock()
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path
}

func (r *recorder) messages() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.sent)
}

// sent validates what the gateway sent and returns the methods it saw. The first request
// to a server of an unknown era is a modern one.
func (s *schemas) sent(t *testing.T, messages [][]byte) map[string]bool {
	t.Helper()
	seen := make(map[string]bool)
	for _, raw := range messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if m.Method == "server/discover" && s.revision != "2026-07-28" {
			continue
		}
		seen[m.Method] = true
		s.told(t, "", raw)
	}
	return seen
}
