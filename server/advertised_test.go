package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestOnlyIssuersThatAreAddressesAreAdvertised asks for the metadata, and for what wants
// a token, by every route and method, while there is an authorization server, when a
// reload took it away, and when it is back.
func TestOnlyIssuersThatAreAddressesAreAdvertised(t *testing.T) {
	w := newWorld(t)
	h := w.Handler()
	for _, servers := range [][]exchange.AuthorizationServer{
		issuers("https://issuer.test"), nil, issuers("https://issuer.test", "https://issuer2.test"),
	} {
		w.settings.AuthorizationServers = servers
		for _, path := range routes(t, h) {
			for _, method := range methods {
				for _, token := range []string{"", "forged", "expired"} {
					got := record(h, message{method: method, path: path, token: token}.request(t.Context(),
						""))
					challenge, named := got.Header().Get("WWW-Authenticate"),
						strings.Contains(got.Body.String(), `"local"`)
					if leads := strings.Contains(challenge,
						"resource_metadata="); leads != (servers != nil) && challenge != "" || named {
						t.Errorf("%s %s with %d servers: got %q and %s", method, path, len(servers),
							challenge, got.Body)
					}
					if got.Code == http.StatusUnauthorized && !strings.Contains(challenge, "=") {
						t.Errorf("%s %s: got challenge %q, want a parameter in it", method, path, challenge)
					}
					if !strings.HasPrefix(path, "/.well-known/") {
						continue
					}
					nowhere := record(h, message{
						method: method, path: "/nowhere",
						token: token,
					}.request(t.Context(), ""))
					switch {
					case servers == nil && nameless(t, got) != nameless(t, nowhere):
						t.Errorf("%s %s: got %s, want what any path gives that is not there: %s", method,
							path, nameless(t, got), nameless(t, nowhere))
					case method == http.MethodGet && servers != nil &&
						strings.Count(got.Body.String(), "https://issuer") != len(servers):
						t.Errorf("GET %s: got %s, want %q", path, got.Body, servers)
					}
				}
			}
		}
		if got := w.do(t, modernCall("echo")); got.Code != http.StatusOK {
			t.Errorf("got %d %s, want a good token to be good whoever is advertised", got.Code, got.Body)
		}
	}
}

// issuers are authorization servers whose tokens say by a claim which tenant they are
// for.
func issuers(names ...string) []exchange.AuthorizationServer {
	var all []exchange.AuthorizationServer
	for _, name := range names {
		all = append(all, exchange.AuthorizationServer{Issuer: name})
	}
	return all
}

// TestTenantIsNotLedToAnothersIssuer asks for the metadata of tenants with issuers of
// their own, with none, and of one that is not there, which has that of /mcp.
func TestTenantIsNotLedToAnothersIssuer(t *testing.T) {
	fixed := []exchange.AuthorizationServer{
		{Issuer: "https://acme.test", Tenant: "acme"}, {Issuer: "https://globex.test", Tenant: "globex"},
	}
	both := append(issuers("https://shared.test"), fixed...)
	for _, c := range []struct {
		servers []exchange.AuthorizationServer
		path    string
		want    string // its authorization_servers; "": there is no metadata
	}{
		{both, "/mcp", `["https://shared.test","https://acme.test","https://globex.test"]`},
		{both, "/t/acme/mcp", `["https://shared.test","https://acme.test"]`},
		{both, "/t/globex/mcp", `["https://shared.test","https://globex.test"]`},
		{both, "/t/poor/mcp", `["https://shared.test"]`},
		{both, "/t/nobody/mcp", `["https://shared.test","https://acme.test","https://globex.test"]`},
		{fixed, "/t/acme/mcp", `["https://acme.test"]`},
		{fixed, "/t/poor/mcp", ""},
		{fixed, "/t/nobody/mcp", `["https://acme.test","https://globex.test"]`},
	} {
		w := newWorld(t, func(w *world) {
			w.settings.AuthorizationServers = c.servers
			w.settings.Scopes = map[string][]string{"acme": nil, "globex": nil, "poor": nil}
		})
		h := w.Handler()
		got := record(h, message{method: http.MethodGet, path: "/.well-known/oauth-protected-resource" +
			c.path}.request(t.Context(), ""))
		document := object(got.Body.String())
		if c.want == "" {
			nowhere := record(h, message{method: http.MethodGet, path: "/nowhere"}.request(t.Context(), ""))
			if nameless(t, got) != nameless(t, nowhere) {
				t.Errorf("%s: got %d %s, want what any path gives that is not there", c.path, got.Code,
					got.Body)
			}
		} else if servers := string(document.Value("authorization_servers")); servers != c.want ||
			document.Text("resource") != "https://mcp.test"+c.path {
			t.Errorf("%s: got %d %s, want %s", c.path, got.Code, got.Body, c.want)
		}
		refused := record(h, message{method: http.MethodPost, path: c.path}.request(t.Context(), ""))
		lead := `resource_metadata="https://mcp.test/.well-known/oauth-protected-resource` + c.path + `"`
		if leads := strings.Contains(refused.Header().Get("WWW-Authenticate"),
			lead); leads != (c.want != "") {
			t.Errorf("%s: got %d %q, want it to lead to metadata: %t",
				c.path, refused.Code, refused.Header().Get("WWW-Authenticate"), c.want != "")
		}
	}
}

// TestScopeIsAnnouncedWithoutMetadata shows that the missing scope is named also where no
// place can be named to get it.
func TestScopeIsAnnouncedWithoutMetadata(t *testing.T) {
	w := newWorld(t, func(w *world) { w.settings.AuthorizationServers = nil })
	w.behind(&fakeDesk{handle: refusesForScope})
	const want = `Bearer error="insufficient_scope", scope="tools.read"`
	if got := w.do(t, modernCall("echo")); got.Code != http.StatusForbidden ||
		got.Header().Get("WWW-Authenticate") != want {
		t.Errorf("got %d %q, want %q", got.Code, got.Header().Get("WWW-Authenticate"), want)
	}
}

func refusesForScope(context.Context, gateway.Caller, *gateway.Request) (mcp.Object, error) {
	return mcp.Object{}, &mcp.Error{
		Code: mcp.CodeForbidden, Message: "no",
		Data: mcp.RawJSON(`{"code":"DB-SCOPE","scope":"tools.read"}`),
	}
}

// TestOwnSignInNamesItself has a gateway where people sign in. Nothing but the name of
// the tenant differs between documents, so that nobody learns which tenants there are.
func TestOwnSignInNamesItself(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.settings.SignIn = true
		w.settings.AuthorizationServers = nil
		w.settings.Scopes = map[string][]string{"": {"tools.read", "tools.write"}, "acme": {"tools.read"}}
	})
	h := w.Handler()
	document := func(path string) string {
		return record(h, message{method: http.MethodGet, path: "/.well-known/oauth-protected-resource" +
			path}.request(t.Context(), "")).Body.String()
	}
	known, unknown := document("/t/acme/mcp"), document("/t/nobody/mcp")
	if strings.ReplaceAll(known, "acme", "nobody") != unknown {
		t.Errorf("got %s for a tenant and %s for none", known, unknown)
	}
	const want = `{"resource":"https://mcp.test/t/acme/mcp","authorization_servers":["https://mcp.test/t/acme"],` +
		`"bearer_methods_supported":["header"],"scopes_supported":["tools.read","tools.write"]}`
	if strings.TrimSpace(known) != want {
		t.Errorf("got %s, want %s", known, want)
	}
	if got := object(document("/mcp")); string(got.Value("authorization_servers")) != `["https://mcp.test"]` {
		t.Errorf("got %s at /mcp", got.JSON())
	}
	w.settings.AuthorizationServers = []exchange.AuthorizationServer{{Issuer: "https://acme.test", Tenant: "acme"}}
	if got := object(document("/t/acme/mcp")); string(got.Value("authorization_servers")) != `["https://acme.test"]` {
		t.Errorf("got %s for a tenant whose people cannot sign in here", got.JSON())
	}
	if got := object(document("/mcp")); string(got.Value("authorization_servers")) != `["https://mcp.test"]` {
		t.Errorf("got %s at /mcp, want no issuer of a tenant", got.JSON())
	}
}

// TestAdvertiseSaysWhatIsNamed bounds the metadata of /mcp, and of tenants that are not
// there.
func TestAdvertiseSaysWhatIsNamed(t *testing.T) {
	for want, list := range map[string][]string{`["https://issuer2.test"]`: {"https://issuer2.test"}, "": {}} {
		w := newWorld(t, func(w *world) { w.settings.Advertise = list })
		for _, path := range []string{"/mcp", "/t/nobody/mcp"} {
			got := record(w.Handler(), message{method: http.MethodGet, path: "/.well-known/oauth-protected-resource" +
				path}.request(t.Context(), ""))
			if servers := string(object(got.Body.String()).Value("authorization_servers")); servers != want {
				t.Errorf("%s: got %d %s, want %s", path, got.Code, got.Body, want)
			}
		}
	}
}

// TestChallengeNamesScopes shows what a client is told to ask for, by HEAD as by POST:
// some look at the header with HEAD alone.
func TestChallengeNamesScopes(t *testing.T) {
	w := newWorld(t, func(w *world) {
		scopes := []string{"tools.read", "tools.write"}
		w.settings.Scopes = map[string][]string{"": scopes, "acme": scopes}
	})
	h := w.Handler()
	for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodGet} {
		for _, path := range []string{"/mcp", "/t/acme/mcp", "/t/nobody/mcp"} {
			for _, token := range []string{"", "expired"} {
				got := record(h, message{method: method, path: path, token: token}.request(t.Context(), ""))
				if challenge := got.Header().Get("WWW-Authenticate"); got.Code != http.StatusUnauthorized ||
					!strings.Contains(challenge, `scope="tools.read tools.write", resource_metadata="https://mcp.test`) {
					t.Errorf("%s %s with token %q: got %d %q", method, path, token, got.Code, challenge)
				}
			}
		}
	}
	for _, scopes := range [][]string{nil, {`a"b`}, {strings.Repeat("a", 2000)}} {
		w.settings.Scopes = map[string][]string{"": scopes}
		got := record(h, message{method: http.MethodPost, path: "/mcp"}.request(t.Context(), ""))
		if challenge := got.Header().Get("WWW-Authenticate"); strings.Contains(challenge, "scope=") ||
			!strings.Contains(challenge, "resource_metadata=") {
			t.Errorf("%.20q: got %.200q", scopes, challenge)
		}
	}
}

// TestScopeThatNoSignInBringsIsNotAskedFor has a caller whose issuer would not give it
// the scope, however often it signs in.
func TestScopeThatNoSignInBringsIsNotAskedFor(t *testing.T) {
	for _, brings := range []bool{true, false} {
		w := newWorld(t, func(w *world) {
			w.settings.CouldGrant = func(p *auth.Principal, scope string) bool {
				return brings && p.Issuer != "" && scope == "tools.read"
			}
		})
		w.behind(&fakeDesk{handle: refusesForScope})
		got := w.do(t, modernCall("echo"))
		if names := strings.Contains(got.Header().Get("WWW-Authenticate"), `scope="tools.read"`); names != brings ||
			got.Code != http.StatusForbidden {
			t.Errorf("brings it %t: got %d %q", brings, got.Code, got.Header().Get("WWW-Authenticate"))
		}
	}
}
