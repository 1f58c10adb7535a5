package interop_test

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// named returns a config whose one issuer is called as given.
func (g *gateway) named(issuer string) string {
	return fmt.Sprintf(`listen: %s
operator: %s
public_url: http://%s
issuers:
  - {issuer: %q, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [own], rules: [{allow: ["*"]}]}
servers:
  own: {builtin: [calculate]}
audit: {file: audit.jsonl}
`, g.addr, strings.TrimPrefix(g.operator, "http://"), g.addr, issuer)
}

// TestUsersOfNpmClientsLearnThatTheTokenExpired lets clients of both generations come
// with a token that is refused, to a gateway whose issuer has no address: what the user
// reads is the reason, whether or not the client could get tokens for itself.
func TestUsersOfNpmClientsLearnThatTheTokenExpired(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	g := settle(t)
	g.write(t, g.named("local"))
	g.run(t)
	claims := func(change map[string]any) map[string]any {
		all := map[string]any{
			"iss": "local", "sub": "alice", "aud": g.url,
			"iat": time.Now().Add(-2 * time.Hour).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		maps.Copy(all, change)
		return all
	}
	tokens := []struct{ name, token, says, step string }{
		{"good", sign(claims(nil), hmacSecret), "", "connected"},
		{
			"expired", sign(claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), hmacSecret),
			"The token has expired", "refused",
		},
		{"for another audience", sign(claims(map[string]any{"aud": "https://elsewhere.test/mcp"}),
			hmacSecret), "The token is for another audience", "refused"},
		{
			"forged", sign(claims(map[string]any{"exp": 1}), strings.ToUpper(hmacSecret)),
			"The token is not understood", "refused",
		},
	}
	for _, generation := range []string{"v1", "v2"} {
		for _, kind := range []string{"given", "oauth"} {
			for _, test := range tokens {
				t.Run(generation+" "+kind+" "+test.name, func(t *testing.T) {
					t.Parallel()
					told := follow(t, exec.CommandContext(t.Context(), binary, "clients/refused.mjs",
						generation, kind, g.url, test.token), func() {})
					got, there := told[test.step]
					if !there || len(told) != 1 || !strings.Contains(got.Text, test.says) {
						t.Errorf("the user reads %+v, want %q in it", told, test.says)
					}
					for _, wrong := range []string{"Invalid URL", "Invalid OAuth", "invalid_type"} {
						if strings.Contains(got.Text, wrong) {
							t.Errorf("the user reads %q", got.Text)
						}
					}
				})
			}
		}
	}
}

// TestReloadChangesWhoIsAdvertised shows that clients are sent to an issuer from the
// reload on that gives it an address, and no longer when that is taken away.
func TestReloadChangesWhoIsAdvertised(t *testing.T) {
	t.Parallel()
	g := settle(t)
	g.write(t, g.named("local"))
	g.run(t)
	metadata := "http://" + g.addr + "/.well-known/oauth-protected-resource/mcp"
	for _, issuer := range []string{"local", "https://login.acme.test/", "local", "http://127.0.0.1:1"} {
		g.write(t, g.named(issuer))
		want := http.StatusOK
		if issuer == "local" {
			want = http.StatusNotFound
		}
		eventually(t, "the metadata follows the issuer "+issuer,
			func() bool { return status(t, metadata) == want })
		body := fetch(t, metadata)
		if strings.Contains(body, `"local"`) || strings.Contains(body, `"authorization_servers":["`+issuer+
			`"]`) != (want == http.StatusOK) {
			t.Errorf("with the issuer %s the metadata is %s", issuer, body)
		}
		a := post(t, g.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if leads := strings.Contains(a.header.Get("WWW-Authenticate"),
			"resource_metadata="); a.status != http.StatusUnauthorized || leads != (want == http.StatusOK) {
			t.Errorf("with the issuer %s: %d %q", issuer, a.status, a.header.Get("WWW-Authenticate"))
		}
	}
}

// TestOptionsOfTheWholeServerAreJudgedLikeAnyRequest asks what the server as a whole
// offers, which net/http would answer for it.
func TestOptionsOfTheWholeServerAreJudgedLikeAnyRequest(t *testing.T) {
	t.Parallel()
	g := settle(t)
	g.write(t, g.named("local"))
	g.run(t)
	for host, want := range map[string]int{g.addr: http.StatusNotFound, "evil.test": http.StatusForbidden} {
		connection, err := (&net.Dialer{Timeout: patient}).DialContext(t.Context(), "tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "OPTIONS * HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want || response.Header.Get("X-Request-Id") == "" {
			t.Errorf("OPTIONS * for %s: %d %v, want %d with an id", host, response.StatusCode,
				response.Header, want)
		}
		response.Body.Close()
		connection.Close()
	}
}
