package main

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestReloadChangesWhoGetsIn runs one process, and turns access keys and registration off
// and on again, removes a client and brings it back, and gives the gateway another secret
// at its provider. Nothing of that needs a restart.
func TestReloadChangesWhoGetsIn(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	const some = `access_keys: on
registration: on
clients:
  - {client_id: robot, client_secret_file: secret, grants: [client_credentials], tenant: acme}
`
	r := startReplica(t, func(listen, operator string) string {
		return some + signInHead(listen, operator, d.URL, "tenants: {claim: groups, map: {staff: acme}}") + `tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`
	})
	origin := strings.TrimSuffix(r.url, "/mcp")
	_, said := operate(t, "keys", "create", "-tenant", "acme", "-subject", "ci", "-config", r.path("drawbridge.yaml"))
	key := regexp.MustCompile(`dbk_[a-z2-7]{47}`).FindString(said)
	w := newBrowserClient(t)
	call := func(path, token string) int {
		answer, _ := w.ask("POST", origin+path, jsonKind, aPing, "Accept", aMessage, "Authorization", "Bearer "+token)
		return answer.StatusCode
	}
	robot := func() int {
		answer, _ := w.ask("POST", origin+"/t/acme/token", formKind, url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"robot"},
			"client_secret": {"f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"},
		}.Encode())
		return answer.StatusCode
	}
	register := func() int {
		answer, _ := w.ask("POST", origin+"/register", jsonKind, `{"redirect_uris":["`+clientsBack+`"]}`)
		return answer.StatusCode
	}
	states := func() string {
		return fmt.Sprint("key ", call("/mcp", key), call("/key/mcp", key), " robot ", robot(), " register ", register())
	}
	with := "key 200 200 robot 200 register 201"
	if got := states(); got != with {
		t.Fatalf("at first: got %s, want %s\n%s", got, with, r.log())
	}
	open := r.streams(t, key)
	config := r.config(t)
	r.save(t, "drawbridge.yaml", strings.Replace(config, some, "registration: off\n", 1))
	without := "key 401 404 robot 401 register 403"
	eventually(t, "nobody of these gets in", func() bool { return states() == without })
	for kind, ended := range open {
		eventually(t, "the stream "+kind+" of the key ends", func() bool { return isClosed(ended) })
	}
	r.save(t, "secret.new", "another-secret-of-the-gateway")
	r.save(t, "drawbridge.yaml", strings.Replace(config, "client_id: gateway, client_secret_file: secret",
		"client_id: gateway, client_secret_file: secret.new", 1))
	eventually(t, "all get in again", func() bool { return states() == with })
	newBrowserClient(t).signIn(r.url)
	if d.mu.Lock(); d.secret != "another-secret-of-the-gateway" {
		t.Errorf("the provider was sent the secret %q", d.secret)
	}
	d.mu.Unlock()
	r.save(t, "drawbridge.yaml", strings.Replace(config, "client_id: robot", "client_id: ci", 1))
	eventually(t, "a client with the name of the key is refused", func() bool {
		_, text := fetched("http://" + r.operator + "/readyz")
		return strings.Contains(text, `the client \"ci\": the access key `)
	})
	if got := states(); got != with {
		t.Errorf("with the config of before: got %s, want %s", got, with)
	}
	r.save(t, "drawbridge.yaml", config)
	eventually(t, "the config is taken again", func() bool {
		_, text := fetched("http://" + r.operator + "/readyz")
		return !strings.Contains(text, "access key")
	})
	if code, text := fetched("http://" + r.operator + "/readyz"); code != http.StatusOK || strings.Contains(text, "restart") {
		t.Errorf("/readyz: status %d: %s", code, text)
	}
}
