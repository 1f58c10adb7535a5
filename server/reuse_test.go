package server_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// earlyClient is a client that acts as soon as an answer begins to reach it.
type earlyClient struct {
	*httptest.ResponseRecorder
	act func()
}

func (e *earlyClient) Write(data []byte) (int, error) {
	if act := e.act; act != nil && bytes.Contains(data, []byte(`"result"`)) {
		e.act = nil
		act()
	}
	return e.ResponseRecorder.Write(data)
}

// TestAnIDIsFreeWhenItsAnswerComes sends the next request, with the same id, as soon as
// the answer to the one before comes.
func TestAnIDIsFreeWhenItsAnswerComes(t *testing.T) {
	for name, accept := range map[string]string{
		"plain":    "application/json, text/event-stream",
		"a stream": "text/event-stream, application/json",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			call := legacyCall(w.open(t, "alice", mcp.Revision2511), "echo").with("Accept", accept)
			again := httptest.NewRecorder()
			first := &earlyClient{httptest.NewRecorder(), func() { again = w.do(t, call) }}
			r := call.request(t.Context(), "")
			r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
			w.Handler().ServeHTTP(first, r)
			for which, got := range map[string]*httptest.ResponseRecorder{
				"first":  first.ResponseRecorder,
				"second": again,
			} {
				if got.Code != http.StatusOK || !bytes.Contains(got.Body.Bytes(), []byte(`"result"`)) {
					t.Errorf("the %s request: got %d %s", which, got.Code, got.Body)
				}
			}
		})
	}
}
