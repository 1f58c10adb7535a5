package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas validates messages against the official schema of one revision.
type schemas struct {
	revision string
	compiler *jsonschema.Compiler
	place    string // of the definitions
	have     map[string]bool
}

// official returns the official schema of a revision. The files cannot be part of the repository: they lie in a folder
// beside it, and CI needs them.
func official(t *testing.T, revision string) *schemas {
	t.Helper()
	shared := os.Getenv("DRAWBRIDGE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	data, err := os.ReadFile(filepath.Join(shared, "protocol", "schema", revision, "schema.json"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the official schema is not there: %v", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &schemas{revision: revision, compiler: jsonschema.NewCompiler(), have: make(map[string]bool)}
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

// firstOf returns the first of the names that the revision has: some definitions were renamed.
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
		s.valid(t, "JSONRPCNotification", raw)
		s.valid(t, notification(t, m.Method), raw)
	}
	if len(all) == 0 {
		t.Errorf("no message: status %d", a.status)
	}
}

func notification(t *testing.T, method string) string {
	t.Helper()
	name, ok := map[string]string{
		"notifications/progress":                   "ProgressNotification",
		"notifications/tools/list_changed":         "ToolListChangedNotification",
		"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
		"notifications/initialized":                "InitializedNotification",
		"notifications/cancelled":                  "CancelledNotification",
	}[method]
	if !ok {
		t.Fatalf("no definition known for %s", method)
	}
	return name
}

func TestMessagesToLegacyClientsAreValid(t *testing.T) {
	upstream := goUpstream(t, false)
	g := serve(t, after(upstream))
	bearer := "Bearer " + g.token(t)
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := official(t, revision)
			first := post(t, g.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+
				`","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`, "Authorization", bearer)
			s.stream(t, "InitializeResult", first)
			headers := []string{"Authorization", bearer, "Mcp-Session-Id", first.header.Get("Mcp-Session-Id")}
			if revision > "2025-03-26" {
				headers = append(headers, "MCP-Protocol-Version", revision)
			}
			send := func(body string) answer { return post(t, g.url, body, headers...) }
			if a := send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted || len(a.body) > 0 {
				t.Errorf("initialized: status %d, body %q; want 202 without one", a.status, a.body)
			}
			s.stream(t, "EmptyResult", send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
			s.stream(t, "ListToolsResult", send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			for _, tool := range []string{"test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource", "test_multiple_content_types", "test_error_handling", "no_such_arguments"} {
				if tool == "no_such_arguments" {
					s.stream(t, "CallToolResult", send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"later__calculate","arguments":{"wrong":1}}}`))
					continue
				}
				s.stream(t, "CallToolResult", send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
			}
			s.stream(t, "CallToolResult", send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"later__calculate","arguments":{"expression":"1/3"}}}`))
			s.stream(t, "CallToolResult", send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"test_tool_with_progress","arguments":{},"_meta":{"progressToken":"p1"}}}`))
			s.refusal(t, -32602, send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nobody_knows"}}`))
			s.refusal(t, -32601, send(`{"jsonrpc":"2.0","id":6,"method":"no/such"}`))
			s.refusal(t, -32602, send(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"junk"}}`))
		})
	}
}

func TestMessagesToModernClientsAreValid(t *testing.T) {
	s := official(t, "2026-07-28")
	upstream := goUpstream(t, true)
	g := serve(t, after(upstream))
	token := g.token(t)
	s.stream(t, "DiscoverResult", g.modern(t, token, "server/discover", "", ""))
	s.stream(t, "ListToolsResult", g.modern(t, token, "tools/list", "", ""))
	for _, tool := range []string{"test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource", "test_multiple_content_types", "test_error_handling", "test_tool_with_progress"} {
		s.stream(t, "CallToolResult", g.modern(t, token, "tools/call", tool, `"name":"`+tool+`","arguments":{}`))
	}
	s.stream(t, "CallToolResult", g.modern(t, token, "tools/call", "later__calculate", `"name":"later__calculate","arguments":{"expression":"2^0.5"}`))
	s.refusal(t, -32602, g.modern(t, token, "tools/call", "nobody", `"name":"nobody"`))
	s.refusal(t, -32601, g.modern(t, token, "no/such", "", ""))
	mismatch := g.modern(t, token, "tools/call", "other", `"name":"later__calculate","arguments":{}`)
	s.refusal(t, -32020, mismatch)
	s.valid(t, "HeaderMismatchError", mismatch.messages(t)[0])
	listenTo(t, g, token, func(raw []byte) {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		s.valid(t, notification(t, m.Method), raw)
	}, func() { g.configure(t, withoutLater(upstream)) })
}

// listenTo opens subscriptions/listen, causes a change after the first message, and hands on the first two.
func listenTo(t *testing.T, g *gateway, token string, seen func([]byte), change func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{"toolsListChanged":true}}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	count := 0
	for lines := bufio.NewScanner(response.Body); count < 2 && lines.Scan(); {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:")); ok {
			seen(bytes.TrimSpace(data))
			if count++; count == 1 {
				change()
			}
		}
	}
	if count != 2 {
		t.Fatalf("%d messages came on the listen stream, want 2", count)
	}
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

// check validates what the gateway sent and returns the methods it saw. The first request to a server of an unknown
// era is a modern one.
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
		if m.ID == nil {
			s.valid(t, "JSONRPCNotification", raw)
			s.valid(t, notification(t, m.Method), raw)
			continue
		}
		s.valid(t, "JSONRPCRequest", raw)
		definition, ok := map[string]string{
			"initialize": "InitializeRequest", "ping": "PingRequest", "tools/list": "ListToolsRequest", "tools/call": "CallToolRequest",
			"server/discover": "DiscoverRequest", "subscriptions/listen": "SubscriptionsListenRequest",
		}[m.Method]
		if !ok {
			t.Errorf("a request that no schema knows went to the upstream: %s", raw)
			continue
		}
		s.valid(t, definition, raw)
	}
	return seen
}

func TestMessagesToUpstreamsAreValid(t *testing.T) {
	legacy := goUpstream(t, false)
	modern := goUpstream(t, true)
	var toLegacy, toModern recorder
	g := serve(t, tenant(fmt.Sprintf("  old: {url: %q, private_addresses: true}\n  new: {url: %q, private_addresses: true}\n",
		toLegacy.before(t, legacy), toModern.before(t, modern))))
	token := g.token(t)
	for _, server := range []string{"old", "new"} {
		tool := server + "__test_tool_with_progress"
		headers := g.modern(t, token, "tools/call", tool, `"name":"`+tool+`","arguments":{}`)
		if headers.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", tool, headers.status, headers.body)
		}
		withProgress := strings.Replace(modernMeta, `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
		a := post(t, g.url, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{`+withProgress+`,"name":"`+tool+`","arguments":{}}}`,
			"Authorization", "Bearer "+token, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
		if got := len(a.messages(t)); got != 4 {
			t.Errorf("%s sent %d messages, want three of progress and the result: %s", tool, got, a.body)
		}
	}
	seen := official(t, "2025-11-25").sent(t, toLegacy.messages())
	for _, method := range []string{"initialize", "notifications/initialized", "tools/list", "tools/call"} {
		if !seen[method] {
			t.Errorf("no %s was sent to the legacy upstream; seen %v", method, seen)
		}
	}
	seen = official(t, "2026-07-28").sent(t, toModern.messages())
	for _, method := range []string{"server/discover", "tools/list", "tools/call", "subscriptions/listen"} {
		if !seen[method] {
			t.Errorf("no %s was sent to the modern upstream; seen %v", method, seen)
		}
	}
}

func TestListChangedToLegacyClientsIsValid(t *testing.T) {
	upstream := goUpstream(t, false)
	g := serve(t, withoutLater(upstream))
	bearer := "Bearer " + g.token(t)
	for i, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := official(t, revision)
			first := post(t, g.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+
				`","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}}`, "Authorization", bearer)
			session := first.header.Get("Mcp-Session-Id")
			post(t, g.url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Authorization", bearer, "Mcp-Session-Id", session)
			config := after(upstream)
			if i%2 == 1 {
				config = withoutLater(upstream)
			}
			raw := firstEvent(t, g.url, map[string]string{"Authorization": bearer, "Mcp-Session-Id": session}, func() { g.configure(t, config) })
			s.valid(t, "JSONRPCNotification", raw)
			s.valid(t, "ToolListChangedNotification", raw)
		})
	}
}

// firstEvent opens an event stream by GET, causes a change, and returns the first message that is no priming event.
func firstEvent(t *testing.T, url string, headers map[string]string, change func()) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	change()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			return bytes.Clone(bytes.TrimSpace(data))
		}
	}
	t.Fatalf("no message came: status %d", response.StatusCode)
	return nil
}

func TestMessagesToStdioUpstreamsAreValid(t *testing.T) {
	recorded := filepath.Join(t.TempDir(), "sent.jsonl")
	server := goServer(t)
	g := serve(t, tenant(fmt.Sprintf("  child: {command: /bin/sh, args: [-c, %q]}\n", "tee "+recorded+" | "+server)))
	token := g.token(t)
	if text, isError := g.text(t, token, "child__test_simple_text", `{}`); isError || !strings.Contains(text, "simple text") {
		t.Errorf("test_simple_text = %q, isError %v", text, isError)
	}
	data, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	messages := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	revision := "2025-11-25"
	if !bytes.Contains(data, []byte(`"initialize"`)) {
		revision = "2026-07-28"
	}
	if seen := official(t, revision).sent(t, messages); !seen["tools/list"] || !seen["tools/call"] {
		t.Errorf("the child saw %v, want tools/list and tools/call", seen)
	}
}
