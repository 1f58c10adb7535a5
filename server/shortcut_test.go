package server_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestShortcutAnswersLikeTheRouter sends the same messages to /mcp, which the router does
// not see, and to the path of the tenant, which it leads to the same endpoint. Status,
// headers and body must not differ, but for what names the request and the path.
func TestShortcutAnswersLikeTheRouter(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "alice", mcp.Revision2511)
	for name, m := range map[string]message{
		"modern":            modernCall("echo"),
		"legacy":            legacyCall(id, "echo"),
		"ping":              inSession("POST", id, pingBody),
		"no token":          modernCall("echo").as(""),
		"forged token":      modernCall("echo").as("forged"),
		"no tenant":         modernCall("echo").as("stranger"),
		"foreign host":      modernCall("echo").with("Host", "evil.test"),
		"foreign origin":    modernCall("echo").with("Origin", "https://evil.test"),
		"own origin":        modernCall("echo").with("Origin", "https://app.test"),
		"not JSON":          modernCall("echo").with("Content-Type", "text/plain"),
		"nothing accepted":  modernCall("echo").with("Accept", "text/plain"),
		"unknown tool":      modernCall("nothing"),
		"arguments missing": legacyCall(id, "fails"),
		"no such session":   inSession("POST", "unknown", pingBody),
	} {
		t.Run(name, func(t *testing.T) {
			there := m
			there.path = "/t/acme/mcp"
			got, want := wholeAnswer(w.do(t, m)), wholeAnswer(w.do(t, there))
			if got != want {
				t.Errorf("got\n%s\nwant, as by the router,\n%s", got, want)
			}
		})
	}
}

var naming = regexp.MustCompile(`[A-Z2-7]{26}|/t/acme`)

// wholeAnswer returns all that an answer says, without the id of its request and the
// tenant in a path.
func wholeAnswer(got *httptest.ResponseRecorder) string {
	var text strings.Builder
	_ = got.Result().Header.Write(&text)
	return naming.ReplaceAllString(http.StatusText(got.Code)+"\n"+text.String()+got.Body.String(), "")
}

// TestEscapedPathIsNotTheEndpoint holds for the shortcut what holds for the router: a
// path is served as it is written.
func TestEscapedPathIsNotTheEndpoint(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/%6dcp", "/mc%70", "/mcp/", "//mcp", "/MCP", "/mcp%2f", "/./mcp"} {
		m := modernCall("echo")
		m.path = path
		if got := w.do(t, m); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want 404", path, got.Code, got.Body)
		}
	}
}
