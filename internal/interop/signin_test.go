package interop_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signInAddress is how a client comes to a gateway.
type signInAddress struct {
	url    string // what its user types
	tenant string // that the person chooses where the gateway asks
}

// caller calls a tool by the client's own means, and returns what its user, or the model,
// reads.
type caller func(t *testing.T, tool string) string

// signInClients are the clients that sign in, and what is known of each.
var signInClients = []struct {
	name    string
	connect func(t *testing.T, w *signInWorld, at signInAddress) caller
	quick   bool // part of the short form
	life    int  // seconds that its tokens say to live, for those who refresh by the clock alone
	// What is read when a call needs a scope that it did not ask for: the result, if it
	// signs in again for that or has all scopes. The tool is listed, since its rule is
	// announced.
	lacks   string
	stepsUp bool // it signs in again for that scope
	// What is read when its sign-in was ended while it was connected. Most sign in again
	// by themselves, so that the call is answered.
	ended string
}{
	// It refreshes its tokens where it should sign in again, and so gets no further
	// scope.
	{name: "npm SDK 1", connect: npmSDK("1"), quick: true, lacks: "403 after trying upscoping", ended: "42"},
	{name: "npm SDK 2", connect: npmSDK("2"), lacks: "UTC", stepsUp: true, ended: "42"},
	{name: "Go SDK", connect: goSDK, quick: true, life: 1, lacks: "UTC", stepsUp: true, ended: "42"},
	// It asks for no scopes, and so has all.
	{name: "mcp-go", connect: mcpGoOAuth, lacks: "UTC", ended: "42"},
	{name: "Claude Code", connect: claudeSignsIn, lacks: "needs additional permissions", ended: "uthenti"},
	{name: "Codex", connect: codexSignsIn, lacks: "Insufficient scope", ended: "Authentication required"},
	// A 401 or 403 in a conversation makes it register a client without redirect_uris. It
	// refreshes by the clock, five minutes early, so that people meet this only when a
	// sign-in was ended.
	{name: "Gemini CLI", connect: geminiSignsIn, life: 1, lacks: "redirect_uris", ended: "redirect_uris"},
	{name: "MCP Inspector", connect: inspectorSignsIn, lacks: "AUTHORIZED without authorization code", ended: "42"},
	{name: "mcp-remote", connect: remoteSignsIn, lacks: "UTC", stepsUp: true, ended: "42"},
	{name: "Python SDK, its wire", connect: pythonWire, lacks: "UTC", stepsUp: true, ended: "42"},
}

// TestEveryClientSignsIn has each client go from a 401 to a tool call with no token
// typed: alice signs in at her company's provider and consents, with Chromium. Then its
// access token expires, it comes to both tenants of alice at once, it needs one more
// scope, and the operator ends its sign-in while it is connected.
func TestEveryClientSignsIn(t *testing.T) {
	t.Parallel()
	node(t)
	fronts := make([]*recordingProxy, len(signInClients))
	urls := make([]string, len(fronts))
	for i := range fronts {
		fronts[i] = newRecordingProxy(t)
		urls[i] = fronts[i].URL
	}
	issuer, browser := company(t, urls...), newChromiumBrowser(t)
	t.Run("with", func(t *testing.T) {
		for i, c := range signInClients {
			t.Run(c.name, func(t *testing.T) {
				if testing.Short() && !c.quick {
					t.Skip("the whole of the tests has all clients")
				}
				t.Parallel()
				w := newSignInWorld(t, issuer, fronts[i], browser)
				w.life = c.life
				call := c.connect(t, w, signInAddress{url: w.public() + "/mcp", tenant: "acme"})
				answers(t, call, "toolbox__calculate", "42")
				w.namesAlice(t)

				before := w.refreshes()
				w.expire()
				answers(t, call, "toolbox__calculate", "42")
				if w.refreshes() == before {
					t.Error("the client did not refresh its tokens")
				}
				if !testing.Short() {
					comesToTwoTenants(t, w, c.connect)
				}
				consents := w.consents()
				answers(t, call, "toolbox__current_time", c.lacks)
				if asked := w.consents() - consents; asked > 0 != c.stepsUp {
					t.Errorf("for one more scope alice consented %d times", asked)
				}

				consents = w.consents()
				w.signOut(t)
				answers(t, call, "toolbox__calculate", c.ended)
				if again := w.consents() > consents; again != (c.ended == "42") {
					t.Errorf("after the end of its sign-in alice consented again: %t", again)
				}
				w.saysWhatItAsks(t)
				browser.isSilent(t, w.public()+"/")
			})
		}
	})
}

// comesToTwoTenants connects a client to the addresses of two tenants. Each has what its
// tenant has.
func comesToTwoTenants(t *testing.T, w *signInWorld, connect func(*testing.T, *signInWorld, signInAddress) caller) {
	t.Helper()
	one := connect(t, w, signInAddress{url: w.public() + "/t/acme/mcp"})
	other := connect(t, w, signInAddress{url: w.public() + "/t/globex/mcp"})
	answers(t, one, "toolbox__calculate", "42")
	answers(t, other, "clock__current_time", "UTC")
	if got := one(t, "clock__current_time"); strings.Contains(got, "UTC") {
		t.Errorf("at acme a tool of globex answers %q", got)
	}
}

// answers calls a tool and checks what is read of it.
func answers(t *testing.T, call caller, tool, want string) {
	t.Helper()
	if got := call(t, tool); !strings.Contains(got, want) {
		t.Fatalf("%s: got %q, want %q in it", tool, got, want)
	}
}

// namesAlice checks that the audit knows who called.
func (w *signInWorld) namesAlice(t *testing.T) {
	t.Helper()
	eventually(t, "a call of alice in the audit", func() bool {
		text, err := os.ReadFile(filepath.Join(w.dir, "audit.jsonl"))
		return err == nil && strings.Contains(string(text), `"subject":"alice"`)
	})
}

// saysWhatItAsks checks what clients send that the gateway relies on: PKCE and an address
// of this machine.
func (w *signInWorld) saysWhatItAsks(t *testing.T) {
	t.Helper()
	asked := w.heard("/authorize", http.StatusSeeOther)
	for _, one := range asked {
		back, err := url.Parse(one.form.Get("redirect_uri"))
		if err != nil || one.form.Get("code_challenge_method") != "S256" || one.form.Get("state") == "" ||
			back.Hostname() != "127.0.0.1" && back.Hostname() != "localhost" {
			t.Errorf("the client asks for %v", one.form)
		}
	}
	if len(asked) == 0 {
		t.Error("no request came by the browser")
	}
}
