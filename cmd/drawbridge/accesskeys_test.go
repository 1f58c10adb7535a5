package main

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

func TestAccessKeysAreMadeListedAndRevokedBesideAGateway(t *testing.T) {
	file := keepingConfig(t, "access_keys: on\n")
	s := keep(t, file)
	revoked := make(chan struct{}, 8)
	cfg, err := config.Load(file, config.ProcessEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := newVerifiers(cfg.Issuers, keySetStorage{}, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	both := logins{tokens, accesskey.New(accesskey.Config{
		Store: s.db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Issuer:  func() string { return cfg.PublicAddress() },
		Revoked: func() { revoked <- struct{}{} }, Taken: func() bool { return true },
	})}

	code, said := operate(t, "keys", "create", "-tenant", "acme", "-subject", "ci", "-scopes", "tools.read,admin",
		"-ttl", "30d", "-config", file)
	key := regexp.MustCompile(`dbk_[a-z2-7]{47}`).FindString(said)
	if code != exitOK || key == "" || !strings.Contains(said, "speaks for https://gw.example#ci until") {
		t.Fatalf("create: got exit %d and %s", code, said)
	}
	p, err := both.verify(t.Context(), key)
	if err != nil || p.TenantID != "acme" || p.Subject != "ci" || p.Issuer != "https://gw.example" ||
		len(p.Scopes) != 2 || both.recheck(p) != nil {
		t.Fatalf("got %+v and error %v", p, err)
	}
	code, said = operate(t, "keys", "list", "-config", file)
	expires := p.Expiry.UTC().Format("2006-01-02 15:04")
	if code != exitOK || !strings.Contains(said, `"ci"`) || !strings.Contains(said, expires+"  never") ||
		strings.Contains(said, key) {
		t.Errorf("list: got exit %d and %s", code, said)
	}
	id := strings.TrimPrefix(p.ClientID, "access-key-")
	if code, said = operate(t, "keys", "revoke", id, "-config", file); code != exitOK {
		t.Fatalf("revoke: got exit %d and %s", code, said)
	}
	_, err = both.verify(t.Context(), key)
	if refused, ok := errors.AsType[*auth.Error](err); !ok || refused.Reason != "key" || both.recheck(p) == nil {
		t.Errorf("after it was revoked: got error %v", err)
	}
	select {
	case <-revoked:
	default:
		t.Error("nobody was told to judge again")
	}
	if _, err := both.verify(t.Context(), "eyJ.a.b"); err == nil {
		t.Error("a token that is none was taken")
	}
}

func TestKeysCommandSaysWhatIsWrong(t *testing.T) {
	file := keepingConfig(t, "clients: [{client_id: robot, client_secret_file: gateway.key, "+
		"grants: [client_credentials], tenant: acme}]\n")
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"", exitRefused, "write create, list or revoke ID"},
		{"revoke", exitRefused, "write create, list or revoke ID"},
		{"create -tenant acme", exitRefused, "needs -tenant and -subject"},
		{"create -tenant acme -subject " + strings.Repeat("x", 256), exitRefused, "-subject has 255 bytes at most"},
		{"create -tenant acme -subject ci -ttl 400d", exitRefused, "is no time such as 90d or 12h, of a year at most"},
		{"create -tenant acme -subject ci -ttl -1h", exitRefused, "is no time"},
		{"create -tenant nobody -subject ci", exitFailure, `there is no tenant "nobody"`},
		{"create -tenant acne -subject ci", exitFailure, `there is no tenant "acne" (did you mean acme?)`},
		{"create -tenant acme -subject ci", exitOK, "no key is taken: the config needs access_keys: on"},
		{"list", exitOK, "no key is taken: the config needs access_keys: on"},
		{"list -tenant acne", exitFailure, `there is no tenant "acne" (did you mean acme?)`},
		{
			"create -tenant acme -subject ci -scopes tools.writ", exitOK,
			`no rule of the tenant acme names the scope "tools.writ"`,
		},
		{"create -tenant acme -subject robot", exitFailure, `a client of the config is called "robot"`},
		{"create -tenant acme -subject https://gw.example#ci", exitFailure, "write -subject ci"},
		{"revoke ffff -tenant acme", exitRefused, "revoke goes without -tenant"},
		{"revoke -ttl 1h ffff -subject ci", exitRefused, "revoke goes without -subject and -ttl"},
		{"list -scopes admin -tenant acme", exitRefused, "list goes without -scopes"},
		{"revoke ffff", exitFailure, "ffff: there is no such key"},
		{"revoke dbk_4rsyqdzkbo5q3zw7e4nqgj2v6t", exitFailure, "the key: there is no such key"},
	} {
		args := append(append([]string{"keys"}, strings.Fields(test.args)...), "-config", file)
		if code, said := operate(t, args...); code != test.code || !strings.Contains(said, test.want) {
			t.Errorf("%v: got exit %d and %s, want %d and %q", args, code, said, test.code, test.want)
		}
	}
	code, said := operate(t, "keys", "create", "-tenant", "acme", "-subject", " ci", "-config", file)
	if code != exitRefused || !strings.Contains(said, "no blanks around it") {
		t.Errorf("a blank before the subject: got exit %d and %s", code, said)
	}
}

// TestALeakedKeyIsRevokedByItself has whoever found a key, and knows no id, end it.
func TestALeakedKeyIsRevokedByItself(t *testing.T) {
	file := keepingConfig(t, "")
	_, said := operate(t, "keys", "create", "-tenant", "acme", "-subject", "ci", "-config", file)
	key := regexp.MustCompile(`dbk_[a-z2-7]{47}`).FindString(said)
	for _, want := range []struct {
		code int
		text string
	}{{exitOK, `of "ci" in tenant acme is revoked`}, {exitFailure, "the key: there is no such key"}} {
		code, said := operate(t, "keys", "revoke", key, "-config", file)
		if code != want.code || !strings.Contains(said, want.text) || strings.Contains(said, key) {
			t.Errorf("got exit %d and %s, want %d and %q, without the key", code, said, want.code, want.text)
		}
	}
}

// TestClientWithTheNameOfAKeyIsRefused adds a client that would be the same subject as an
// access key: at a start, by a reload and to validate. A client of people is no subject.
func TestClientWithTheNameOfAKeyIsRefused(t *testing.T) {
	file := keepingConfig(t, "")
	if code, said := operate(t, "keys", "create", "-tenant", "acme", "-subject", "robot", "-config", file); code != exitOK {
		t.Fatalf("create: got exit %d and %s", code, said)
	}
	s := keep(t, file)
	const unreachedLogin = `  - {issuer: "http://127.0.0.1:1", private_addresses: true, tenant: acme, algorithms: [EdDSA],
     sign_in: {client_id: a, client_secret_file: gateway.key}}
`
	for _, test := range []struct {
		name, more string
		refused    bool
	}{
		{"a machine", "client_id: robot, client_secret_file: gateway.key, grants: [client_credentials], tenant: acme", true},
		{
			"another machine", "client_id: other, client_secret_file: gateway.key, grants: [client_credentials], " +
				"tenant: acme", false,
		},
		{"people", "client_id: robot, redirect_uris: [https://ide.example/cb]", false},
	} {
		overwrite(t, file, strings.Replace(keepingText, "tenants:", unreachedLogin+"tenants:", 1)+
			"clients: [{"+test.more+"}]\n")
		cfg, err := config.Load(file, config.ProcessEnvironment())
		if err != nil {
			t.Fatal(err)
		}
		const want = `the client "robot": the access key `
		_, atStart := storingOf(t, file)
		for when, err := range map[string]error{"reload": s.mayServe(cfg), "start": atStart} {
			if (err != nil) != test.refused || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %s: got error %v, want one: %t", test.name, when, err, test.refused)
			}
		}
		code, said := operate(t, "validate", "-online", "-config", file)
		if test.refused && code == exitOK || strings.Contains(said, want) != test.refused {
			t.Errorf("%s: validate: got exit %d and %s", test.name, code, said)
		}
	}
}

func TestRulesKnowTheSubjectsOfAccessKeys(t *testing.T) {
	rule := `["*"], subjects: ["https://gw.example#ci"]}]`
	for more, want := range map[string]bool{"access_keys: on\n": true, "": false} {
		file := keepingConfig(t, "")
		text := strings.Replace(keepingText, `["*"]}]`, rule, 1) + more
		overwrite(t, file, text)
		loaded, err := config.Load(file, config.ProcessEnvironment())
		if (err == nil) != want {
			t.Errorf("%q: got error %v, want none: %t", more, err, want)
		}
		if err == nil && len(loaded.Warnings) > 0 {
			t.Errorf("%q: got the warnings %v, want none", more, loaded.Warnings)
		}
	}
}
