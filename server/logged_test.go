package server_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestTheLogHasTheWordOfTheAuditAndTheCode has requests that end in one code and several
// outcomes, and such as the door refuses by itself.
func TestTheLogHasTheWordOfTheAuditAndTheCode(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, logging(&log))
	ending := func(outcome, code string) *fakeDesk {
		return &fakeDesk{handle: func(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object,
			error,
		) {
			r.Ended = outcome
			if code == "" {
				return object(`{"content":[]}`), nil
			}
			return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, code, "x")
		}}
	}
	for _, test := range []struct{ outcome, code string }{
		{"forbidden", "DB-TOOL"}, {"unknown", "DB-TOOL"}, {"upstream_error", "error -32602"}, {"ok", ""},
	} {
		log.Reset()
		code := test.code
		desk := ending(test.outcome, code)
		if code == "error -32602" {
			desk.handle = func(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object, error) {
				r.Ended = test.outcome
				return mcp.Object{}, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "x"}
			}
		}
		w.behind(desk)
		w.do(t, modernCall("echo"))
		if line := lastLine(&log); line.Text("outcome") != test.outcome || line.Text("code") != test.code {
			t.Errorf("modern: got %s, want the outcome %s and the code %q", line.JSON(), test.outcome,
				test.code)
		}
		log.Reset()
		r := modernCall("echo").request(t.Context(), "")
		r.Header.Set("Idempotency-Key", test.outcome)
		record(w.Handler(), r)
		if line := lastLine(&log); line.Text("outcome") != test.outcome || line.Text("code") != test.code {
			t.Errorf("with a key: got %s, want the outcome %s and the code %q", line.JSON(), test.outcome,
				test.code)
		}
		log.Reset()
		session := w.open(t, "alice", mcp.Revision2511)
		w.do(t, legacyCall(session, "echo"))
		if line := lastLine(&log); line.Text("outcome") != test.outcome || line.Text("code") != test.code {
			t.Errorf("legacy: got %s, want the outcome %s and the code %q", line.JSON(), test.outcome,
				test.code)
		}
	}
	w = newWorld(t, logging(&log))
	session := w.open(t, "alice", mcp.Revision2511)
	unserved := modernCall("echo")
	unserved.method = http.MethodPut
	for _, test := range []struct {
		message       message
		outcome, code string
	}{
		{modernList("no cursor"), "invalid_request", "DB-CURSOR"},
		{
			inSession("POST", session, `{"jsonrpc":"2.0","id":1,"method":"no/method"}`), "invalid_request",
			"DB-METHOD",
		},
		{
			inSession("POST", session,
				`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`),
			"invalid_request", "DB-PARAMS",
		},
		{
			inSession("POST", session,
				`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"no:thing"}}`),
			"unknown", "DB-RESOURCE",
		},
		{unserved, "invalid_request", "DB-HTTP-METHOD"},
	} {
		log.Reset()
		w.do(t, test.message)
		if line := lastLine(&log); line.Text("outcome") != test.outcome || line.Text("code") != test.code {
			t.Errorf("%s: got %s, want the outcome %s and the code %s", test.message.body, line.JSON(),
				test.outcome, test.code)
		}
	}
	forms, _ := newFormsWorldOf(t, logging(&log))
	forms.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*"}}}
	forms.setTenants(t, forms.tenants)
	session = forms.open(t, "alice", mcp.Revision2511)
	log.Reset()
	forms.do(t, inSession("POST", session,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
	if line := lastLine(&log); line.Text("outcome") != "forbidden" || line.Text("code") != "DB-RESOURCE" {
		t.Errorf("a subscription that no rule allows: got %s, want the outcome forbidden", line.JSON())
	}
	log.Reset()
	r := modernCall("echo").request(t.Context(), "")
	r.Header.Set("Authorization", "Bearer nonsense")
	if got := record(w.Handler(), r); got.Code != http.StatusUnauthorized {
		t.Fatalf("got status %d", got.Code)
	}
	if line := lastLine(&log); line.Text("outcome") != "unauthenticated" ||
		line.Text("code") != "DB-AUTH-TOKEN" {
		t.Errorf("got %s, want the outcome unauthenticated", line.JSON())
	}
}

// TestTheLineOfAHandshakeOverSSENamesExtensions declares one, which the line of the
// request says, although the request is over before its answer is made.
func TestTheLineOfAHandshakeOverSSENamesExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, logging(&log))
		_, address := w.openSSE(t, "alice")
		body := strings.Replace(initialize(mcp.Revision2511).body, `"capabilities":{}`,
			`"capabilities":{"extensions":{"io.modelcontextprotocol/ui":{}}}`, 1)
		if got := w.do(t, posted(address, body)); got.Code != http.StatusAccepted {
			t.Fatalf("got %d %s, want 202", got.Code, got.Body)
		}
		if line := lastLine(&log); line.Text("extensions") != "io.modelcontextprotocol/ui" {
			t.Errorf("got %s, want the extension that the client declares", line.JSON())
		}
	})
}
