package server_test

import (
	"net/http"
	"testing"
)

// TestKeyEndpointsHaveNoDiscovery calls at the addresses of access keys, and looks for
// anything that leads a client to a login.
func TestKeyEndpointsHaveNoDiscovery(t *testing.T) {
	on := newWorld(t, func(w *world) { w.settings.AccessKeys = true })
	off := newWorld(t)
	for path, tenant := range map[string]string{"/key/mcp": "", "/t/acme/key/mcp": "acme"} {
		call := modernCall("echo")
		call.path = path
		call.token = ""
		if got := on.do(t, call); got.Code != http.StatusUnauthorized ||
			got.Header().Get("WWW-Authenticate") != `Bearer realm="drawbridge"` {
			t.Errorf("%s: got %d %v, want 401 without metadata", path, got.Code, got.Header())
		}
		call.token = "forged"
		if got := on.do(t, call); got.Code != http.StatusUnauthorized ||
			got.Header().Get("WWW-Authenticate") != `Bearer error="invalid_token", error_description="The token is not `+
				`understood: it is damaged, or of an issuer or key that is not known here"` {
			t.Errorf("%s: got %d %v, want 401 without metadata", path, got.Code, got.Header())
		}
		call.token = "alice"
		if got := on.do(t, call); got.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", path, got.Code, got.Body)
		}
		if got := off.do(t, call); got.Code != http.StatusNotFound {
			t.Errorf("%s, off: got %d, want 404", path, got.Code)
		}
		metadata := message{method: "GET", path: "/.well-known/oauth-protected-resource" + path}
		if got := on.do(t, metadata); got.Code != http.StatusNotFound {
			t.Errorf("%s: its metadata: got %d, want 404", path, got.Code)
		}
		on.settings.AccessKeys = false // by a reload
		if got := on.do(t, call); got.Code != http.StatusNotFound {
			t.Errorf("%s, off again: got %d, want 404", path, got.Code)
		}
		on.settings.AccessKeys = true
		if tenant == "" {
			continue
		}
		call.path = "/t/globex/key/mcp" // of another tenant
		if got := on.do(t, call); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", call.path, got.Code)
		}
	}
}

// TestATenantMayBeCalledKey looks for discovery at the address of a tenant whose path
// ends like that of access keys.
func TestATenantMayBeCalledKey(t *testing.T) {
	w := newWorld(t, func(w *world) { w.settings.AccessKeys = true })
	call := modernCall("echo").as("")
	call.path = "/t/key/mcp"
	const want = `Bearer resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/t/key/mcp"`
	if got := w.do(t, call).Header().Get("WWW-Authenticate"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
