package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// answer is what came back for one POST.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// message is a JSON-RPC message as loosely as the tests need it.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error,omitempty"`
}

// toolResult is a tools/call result as loosely as the tests need it.
type toolResult struct {
	Content []struct{ Type, Text string }
	IsError bool
}

// post sends body to url with the headers, given as pairs.
func post(t testing.TB, url, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url,
		bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return answer{response.StatusCode, response.Header, data}
}

// messages returns the JSON-RPC messages of an answer, be it JSON or an event stream.
func (a answer) messages(t testing.TB) []json.RawMessage {
	t.Helper()
	if len(bytes.TrimSpace(a.body)) == 0 {
		return nil
	}
	if !bytes.HasPrefix([]byte(a.header.Get("Content-Type")), []byte("text/event-stream")) {
		return []json.RawMessage{a.body}
	}
	var all []json.RawMessage
	for line := range bytes.Lines(a.body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			all = append(all, bytes.TrimSpace(data))
		}
	}
	return all
}

// last returns the last message of an answer.
func (a answer) last(t testing.TB) message {
	t.Helper()
	all := a.messages(t)
	if len(all) == 0 {
		t.Fatalf("no message in the answer: status %d, body %q", a.status, a.body)
	}
	var m message
	if err := json.Unmarshal(all[len(all)-1], &m); err != nil {
		t.Fatalf("%s: %v", all[len(all)-1], err)
	}
	return m
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"wire","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modern sends one stateless request. params is the inside of the params object, without
// _meta.
func (g *gateway) modern(t testing.TB, token, method, name, params string) answer {
	t.Helper()
	if params != "" {
		params = "," + params
	}
	headers := []string{
		"Authorization", "Bearer " + token, "MCP-Protocol-Version", "2026-07-28",
		"Mcp-Method", method,
	}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	return post(t, g.url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+modernMeta+params+`}}`,
		headers...)
}

// call calls a tool in the modern form and returns its last message.
func (g *gateway) call(t testing.TB, token, tool, arguments string) message {
	t.Helper()
	return g.modern(t, token, "tools/call", tool, `"name":"`+tool+`","arguments":`+arguments).last(t)
}

// text calls a tool and returns the text of its first content block.
func (g *gateway) text(t testing.TB, token, tool, arguments string) (text string, isError bool) {
	t.Helper()
	m := g.call(t, token, tool, arguments)
	if m.Error != nil {
		t.Fatalf("%s: %d %s", tool, m.Error.Code, m.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("%s: result %s: %v", tool, m.Result, err)
	}
	return r.Content[0].Text, r.IsError
}

// tools returns the names that tools/list gives.
func (g *gateway) tools(t testing.TB, token string) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	m := g.modern(t, token, "tools/list", "", "").last(t)
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatalf("tools/list: %s: %v", m.Result, err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}
