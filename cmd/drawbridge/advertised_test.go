package main

import (
	"crypto/ed25519"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// TestOnlyAddressesAreAdvertised shows which issuers clients are sent to. To any other
// they would fail with an error of their own that hides why the gateway refused them.
func TestOnlyAddressesAreAdvertised(t *testing.T) {
	advertised := []string{
		"https://login.acme.example/", "https://login.acme.example",
		"HTTPS://login.acme.example:8443/realms/acme", "https://[2001:db8::1]/",
		"http://localhost:9000", "http://127.0.0.1:9000/", "http://127.8.8.8", "http://[::1]:9000/a",
	}
	names := []string{
		"local", "", "dev", devIssuer, "login.acme.example", "//login.acme.example/", "/login", "https:",
		"https://", "https:///x", "https:login.acme.example",
		"http://login.acme.example/", "http://192.168.1.1/", "http://127.0.0.1.evil.example/",
		"http://localhost.example/", "ftp://login.acme.example/",
		"https://user@login.acme.example/", "https://user:secret@login.acme.example/",
		"https://login.acme.example/?tenant=acme", "https://login.acme.example/?",
		"https://login.acme.example/#x", "https://login.acme.example/#", "https://login.acme.example:99999/",
		"https://login.acme.example:0/",
		"https://:443/", "https://a b/", "https://[::1/", "https://%zz/", "https://login.acme.example/\n",
		"urn:acme:issuer", "mailto:a@login.acme.example",
	}
	cfg := config.Default()
	for _, issuer := range slices.Concat(names, advertised) {
		cfg.Issuers = append(cfg.Issuers, config.Issuer{Issuer: auth.Issuer{Issuer: issuer}})
	}
	var got []string
	for _, s := range settingsOf(cfg, "127.0.0.1:8080").AuthorizationServers {
		got = append(got, s.Issuer)
	}
	if !slices.Equal(got, advertised) {
		t.Errorf("got %q, want %q", got, advertised)
	}
}

// TestFixedIssuerIsAdvertisedForItsTenantAlone shows that the door knows whose issuer is
// whose.
func TestFixedIssuerIsAdvertisedForItsTenantAlone(t *testing.T) {
	cfg := config.Default()
	cfg.Issuers = []config.Issuer{
		{Issuer: auth.Issuer{Issuer: "https://acme.example/", Tenant: "acme"}},
		{Issuer: auth.Issuer{
			Issuer: "https://all.example/", TenantClaim: "team",
			TenantsAllowed: []string{"acme"},
		}},
	}
	want := []server.AuthorizationServer{
		{Issuer: "https://acme.example/", Tenant: "acme"},
		{Issuer: "https://all.example/"},
	}
	if got := settingsOf(cfg, "127.0.0.1:8080").AuthorizationServers; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDevAdvertisesNoIssuer shows that dev sends nobody to itself: it gives tokens to
// whoever started it, and to no client.
func TestDevAdvertisesNoIssuer(t *testing.T) {
	clients, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	cfg := config.Default()
	trial := newTrial(cfg, listeners{clients: clients}, config.Imported{})
	if err := trial.makeToken(time.Now()); err != nil || trial.token == "" {
		t.Fatalf("got %+v, %v", trial, err)
	}
	if _, ok := cfg.Issuers[0].Keys[0].Private.(ed25519.PrivateKey); !ok {
		t.Fatalf("got %+v, want an issuer that signs", cfg.Issuers)
	}
	if got := settingsOf(cfg, clients.Addr().String()); len(got.AuthorizationServers) != 0 {
		t.Errorf("got %+v, want an issuer that is not advertised", got)
	}
}

// TestScopesToAskFor shows what clients are told to ask for: what an issuer gives who
// asks for it, and behind our own sign-in the same for every name.
func TestScopesToAskFor(t *testing.T) {
	cfg := config.Default()
	for id, scopes := range map[string][]string{"acme": {"b", "a"}, "globex": {"c"}} {
		cfg.Tenants = append(cfg.Tenants, gateway.TenantConfig{ID: id, Rules: []gateway.Rule{
			{Scopes: scopes, Allow: []string{"*"}}, {Scopes: []string{"x"}, Deny: []string{"*"}},
		}})
	}
	cfg.Issuers = []config.Issuer{
		{Issuer: auth.Issuer{Issuer: "https://acme.example/", Tenant: "acme"}},
		{Issuer: auth.Issuer{Issuer: "https://roles.example/", Tenant: "globex", ScopeClaims: []string{"roles"}}},
	}
	check := func(what string, want map[string]string) {
		t.Helper()
		s := settingsOf(cfg, "127.0.0.1:8080")
		for tenant, scopes := range want {
			told, known := s.Scopes[tenant]
			if !known {
				told = s.ScopesOf(tenant)
			}
			if got := strings.Join(told, " "); got != scopes {
				t.Errorf("%s: got %q for %q, want %q", what, got, tenant, scopes)
			}
		}
		p := auth.Principal{Issuer: "https://roles.example/"}
		if s.CouldGrant(&p, "c") {
			t.Errorf("%s: roles are taken for scopes that can be asked for", what)
		}
		p.Spare = []string{"c"}
		if !s.CouldGrant(&p, "c") || s.CouldGrant(&p, "d") {
			t.Errorf("%s: another sign-in here brings what the person has to spare, and nothing else", what)
		}
	}
	check("issuers", map[string]string{"": "a b", "acme": "a b", "globex": ""})
	cfg.Logins = []config.Login{{Issuer: auth.Issuer{Issuer: "https://login.example", Tenant: "globex"}}}
	check("sign-in", map[string]string{"": "a b c", "acme": "a b", "globex": "c"})
	cfg.ScopesSupported = []string{"only"}
	if got := strings.Join(knownScopes(cfg), " "); got != "a b c only" {
		t.Errorf("clients may ask for %q, want also the scopes of rules", got)
	}
	check("a setting", map[string]string{"": "only", "acme": "only", "nobody": "only"})
	cfg.ScopesSupported = strings.Fields(strings.Repeat("scope-of-17-bytes ", 57))
	if got := settingsOf(cfg, "127.0.0.1:8080").ScopesOf(""); len(got) != 0 {
		t.Errorf("clients are told of %d scopes, want none: they may not ask for so many", len(got))
	}
	cfg.ScopesSupported = cfg.ScopesSupported[1:]
	if got := settingsOf(cfg, "127.0.0.1:8080").ScopesOf(""); len(got) != 56 {
		t.Errorf("clients are told of %d scopes, want 56, for which they may ask", len(got))
	}
	cfg.Logins, cfg.ScopesSupported = nil, append(cfg.ScopesSupported, "another")
	if got := settingsOf(cfg, "127.0.0.1:8080").ScopesOf("acme"); len(got) != 57 {
		t.Errorf("clients of another issuer are told of %d scopes, want 57", len(got))
	}
}

// TestSignInIsAdvertised shows which issuers are named beside a sign-in of the gateway:
// those of tenants whose people cannot sign in here.
func TestSignInIsAdvertised(t *testing.T) {
	cfg := config.Default()
	cfg.PublicURL = "https://mcp.example.com"
	cfg.Issuers = []config.Issuer{
		{Issuer: auth.Issuer{Issuer: "https://acme.example/", Tenant: "acme"}},
		{Issuer: auth.Issuer{Issuer: "https://globex.example/", Tenant: "globex"}},
		{Issuer: auth.Issuer{Issuer: "https://all.example/", TenantClaim: "team", TenantsAllowed: []string{"acme"}}},
	}
	cfg.Logins = []config.Login{{Issuer: auth.Issuer{Issuer: "https://login.example", Tenant: "acme"}}}
	want := []server.AuthorizationServer{{Issuer: "https://globex.example/", Tenant: "globex"}}
	s := settingsOf(cfg, "127.0.0.1:8080")
	if !s.SignIn || !slices.Equal(s.AuthorizationServers, want) || s.Advertise != nil {
		t.Errorf("got %+v, want %+v", s, want)
	}
	cfg.Advertise = []string{config.SignInKeyword, "https://globex.example/", "local"}
	if got := settingsOf(cfg, "127.0.0.1:8080").Advertise; !slices.Equal(got,
		[]string{"https://mcp.example.com", "https://globex.example/"}) {
		t.Errorf("got %q", got)
	}
}

// TestThePublicAddressIsThatOfTheConfig listens on a name, without public_url: clients
// are told that name, which tokens are for, and not the address that it stands for.
func TestThePublicAddressIsThatOfTheConfig(t *testing.T) {
	cfg := parse(t, "listen: localhost:8080\n"+minimal)
	p, err := build(cfg, memoryPlan{budget: 16 << 20}, slog.New(slog.DiscardHandler), new(slog.LevelVar),
		listeners{clients: address{}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.audit.Close()
	got := p.settings.Load()
	if want := cfg.PublicAddress(); got.Base() != want ||
		!slices.Contains(cfg.Issuers[0].Audiences, got.Base()+"/mcp") {
		t.Errorf("got %q, want %q, of which tokens are: %q", got.Base(), want, cfg.Issuers[0].Audiences)
	}
	for _, host := range []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080"} {
		if !got.AllowsHost(host) {
			t.Errorf("the host %s is refused", host)
		}
	}
}

// TestTheUsualPortMayBeLeftOut has a public_url with and without the port that most
// clients leave out.
func TestTheUsualPortMayBeLeftOut(t *testing.T) {
	for public, hosts := range map[string][]string{
		"https://mcp.example.com":     {"mcp.example.com", "mcp.example.com:443"},
		"https://mcp.example.com:443": {"mcp.example.com", "mcp.example.com:443"},
		"http://[2001:db8::1]:80":     {"[2001:db8::1]", "[2001:db8::1]:80"},
	} {
		cfg := config.Default()
		cfg.PublicURL = public
		for _, host := range hosts {
			if !settingsOf(cfg, "127.0.0.1:8080").AllowsHost(host) {
				t.Errorf("with public_url %s the host %s is refused", public, host)
			}
		}
	}
	cfg := config.Default()
	cfg.PublicURL = "https://mcp.example.com:8443"
	if settingsOf(cfg, "127.0.0.1:8080").AllowsHost("mcp.example.com") {
		t.Error("another port may be left out")
	}
}
