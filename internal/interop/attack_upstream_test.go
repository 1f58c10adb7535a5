package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// execution is one tools/call that reached a fake upstream.
type execution struct {
	name      string
	arguments string // as received
	header    http.Header
	body      string
}

// hostile is an upstream that notes what it was asked and misbehaves as its test says.
type hostile struct {
	*httptest.Server
	tools  string // the tools array of its list
	modern bool
	// answer takes over the answer to a call when it is not nil.
	answer func(w http.ResponseWriter, id json.RawMessage, e execution, params json.RawMessage)

	mu  sync.Mutex // guards the fields below
	ran []execution
	saw []http.Header
}

// tool is a definition without conditions.
func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"a tool","inputSchema":{"type":"object"}}`, name)
}

// ambush starts a fake upstream with the given definitions.
func ambush(t testing.TB, h *hostile) *hostile {
	t.Helper()
	h.Server = httptest.NewServer(h)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// ServeHTTP implements http.Handler: Streamable HTTP without sessions.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	h.saw = append(h.saw, r.Header)
	h.mu.Unlock()
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch m.Method {
	case "initialize":
		h.result(
			w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`)
	case "server/discover":
		if !h.modern {
			fail(w, m.ID, -32601)
			return
		}
		h.result(
			w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public","serverInfo":{"name":"hostile","version":"1"}}`)
	case "tools/list":
		h.result(w, m.ID, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[`+h.tools+
			`]}`)
	case "tools/call":
		h.call(w, r, m, body)
	case "ping":
		h.result(w, m.ID, `{}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fail(w, m.ID, -32601)
	}
}

func (h *hostile) call(w http.ResponseWriter, r *http.Request, m message, body []byte) {
	var params struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		fail(w, m.ID, -32602)
		return
	}
	e := execution{params.Name, string(params.Arguments), r.Header, string(body)}
	h.mu.Lock()
	h.ran = append(h.ran, e)
	h.mu.Unlock()
	if h.answer != nil {
		h.answer(w, m.ID, e, m.Params)
		return
	}
	h.result(w, m.ID, `{"resultType":"complete","content":[{"type":"text","text":"ran `+params.Name+`"}]}`)
}

func (h *hostile) result(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func fail(w http.ResponseWriter, id json.RawMessage, code int) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, id, code)
}

// executions returns the calls so far.
func (h *hostile) executions() []execution {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]execution(nil), h.ran...)
}

// headers returns the headers of all requests so far.
func (h *hostile) headers() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]http.Header(nil), h.saw...)
}
