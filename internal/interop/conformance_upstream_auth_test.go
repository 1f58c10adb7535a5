package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// upstreamAuth are the scenarios of the suite's client side in which a client gets its
// tokens without a browser, and the check that the gateway must pass as the client. In
// the others of auth/* a person is sent to an authorization endpoint, or the client
// registers itself there for that.
var upstreamAuth = map[string]string{
	"auth/client-credentials-basic": "client-credentials-basic-auth",
	"auth/client-credentials-jwt":   "client-credentials-jwt-verified",
	"auth/metadata-issuer-mismatch": "sep-2468-client-validate-metadata-issuer",
}

// TestConformanceOfUpstreamAuth has the suite's mock servers want a token, which the
// gateway gets from the suite's authorization server by its own config. What an operator
// is told of that server, its issuer, is read from the metadata of the resource here.
func TestConformanceOfUpstreamAuth(t *testing.T) {
	t.Parallel()
	node(t) // says whether it is there before anything starts
	for scenario, id := range upstreamAuth {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			jobs := takeJobs(t)
			command := clientWithAuth(t, jobs.url)
			finished := make(chan error, 1)
			go func() { // ends with the suite, which has a limit of its own
				finished <- suite(t, patient, "client", "--command", command, "--scenario", scenario, "-o", out,
					"--timeout", "180000")
			}()
			for running := true; running; {
				select {
				case j := <-jobs.all:
					j.runWithAuth(t)
				case err := <-finished:
					running = false
					if err != nil {
						t.Error(err)
					}
				}
			}
			passed := false
			for name, checks := range readChecks(t, out, "") {
				for _, c := range checks {
					if c.ID == id && c.Status == "SUCCESS" {
						passed = true
					}
				}
				if _, failed := count(checks); len(failed) > 0 {
					t.Errorf("%s: failed %v", name, failed)
				}
			}
			if !passed {
				t.Errorf("the check %s was not passed", id)
			}
		})
	}
}

// clientWithAuth is clientUnderTest for scenarios of auth/*.
func clientWithAuth(t *testing.T, parent string) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client")
	script := fmt.Sprintf("#!/bin/sh\n%s=job %s=%q exec %q \"$@\"\n", childRole, parentAddress, parent, binary)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// runWithAuth puts a gateway before the mock server that has the client's credential in
// its config, and lists the tools through it.
func (j *job) runWithAuth(t *testing.T) {
	code := 1
	defer func() { j.done <- code }()
	var resource struct {
		Servers []string `json:"authorization_servers"`
	}
	about := strings.TrimSuffix(j.URL, "/mcp") + "/.well-known/oauth-protected-resource/mcp"
	if err := json.Unmarshal([]byte(fetch(t, about)), &resource); err != nil || len(resource.Servers) != 1 {
		t.Errorf("got %v, %v, want one authorization server", resource.Servers, err)
		return
	}
	told := struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
	}{ID: "conformance-test-client", Secret: "conformance-test-secret"}
	if j.Context != "" {
		if err := json.Unmarshal([]byte(j.Context), &told); err != nil {
			t.Error(err)
			return
		}
	}
	file, proof, content := filepath.Join(t.TempDir(), "proof"), "client_secret_file", told.Secret
	if told.Key != "" {
		proof, content = "client_key_file", told.Key
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Error(err)
		return
	}
	g := settle(t)
	g.configure(t, fmt.Sprintf(`tenants:
  acme: {servers: [mock], rules: [{allow: ["*"]}], limits: %s}
servers:
  mock: {url: %q, prefix: "", private_addresses: true, auth: {client_credentials: {issuer: %q, client_id: %q, %s: %q}}}
`, generous, j.URL, resource.Servers[0], told.ID, proof, file))
	g.launch(t)
	t.Cleanup(g.kill)
	if j.Scenario == "auth/metadata-issuer-mismatch" {
		eventually(t, "the metadata are refused", func() bool {
			return strings.Contains(g.out.String(), "metadata at the issuer's address are of another issuer")
		})
		code = 0
		return
	}
	token := g.mint(who{tenant: "acme", subject: "alice"})
	eventually(t, "the mock's tools are listed", func() bool {
		return len(g.speak(t, token, modernRevision).names(t)) > 0
	})
	code = 0
}
