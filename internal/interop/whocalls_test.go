package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// whoServer is a server from npm that verifies who calls.
type whoServer struct {
	*process

	url string
}

// whoServes starts one with these settings.
func whoServes(t testing.TB, settings map[string]any) *whoServer {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(freePort(t))
	s := &whoServer{nodeProcess(t, nil, "clients/whocalls.mjs", port, string(text)), "http://127.0.0.1:" + port + "/mcp"}
	eventually(t, "the server listens", func() bool { return strings.Contains(s.out.String(), "listening") })
	return s
}

// whoLine is what a server's own log says of a call, or of a token that it refused.
type whoLine struct{ Marker, Sub, Tenant, Session, Refused string }

// lines returns the log so far.
func (s *whoServer) lines(t testing.TB) []whoLine {
	t.Helper()
	var all []whoLine
	for text := range strings.Lines(s.out.String()) {
		if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "\n") {
			continue
		}
		var line whoLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, line)
	}
	return all
}

// whoAsks calls the tool who of a server as one user, and returns what the server
// answers.
func whoAsks(ctx context.Context, s *talker, server, marker string) (string, error) {
	limit, done := context.WithTimeout(ctx, patient)
	defer done()
	got, err := s.ask(limit, "tools/call", server+"__who", fmt.Sprintf(`"name":"%s__who","arguments":{"marker":%q}`, server, marker))
	if err != nil {
		return "", err
	}
	last, result := got[len(got)-1], toolResult{}
	if last.Error != nil {
		return "", fmt.Errorf("%d %s %s", last.Error.Code, last.Error.Message, last.Error.Data)
	}
	if err := json.Unmarshal(last.Result, &result); err != nil || len(result.Content) != 1 || result.IsError {
		return "", fmt.Errorf("%s (%w)", last.Result, err)
	}
	return result.Content[0].Text, nil
}

// as returns a talker for somebody.
func (g *gateway) as(w who, revision string) *talker {
	return &talker{base: "http://" + g.addr, path: "/mcp", token: g.mint(w), revision: revision, capabilities: `{}`}
}

// subject is what an identity calls a user.
func (w who) identity() string {
	if w.issuer == "" {
		w.issuer = "https://issuer.test/"
	}
	return w.tenant + " " + w.issuer + "#" + w.subject
}

// TestNPMServersVerifyWhoCalls has servers of both generations of the official SDK verify
// who calls by the gateway's key set, with the SDK's own guard for bearer tokens. Users
// of two tenants and two issuers, some with the same subjects, call at the same time.
func TestNPMServersVerifyWhoCalls(t *testing.T) {
	t.Parallel()
	g := settle(t)
	servers := map[string]*whoServer{}
	var entries strings.Builder
	for name, settings := range map[string]map[string]any{
		"first": {"sdk": 1}, "second": {"sdk": 2}, "newest": {"sdk": 2, "modern": true},
	} {
		settings["keys"], settings["issuer"], settings["audience"] = "http://"+g.addr+"/identity/jwks", "http://"+g.addr, name
		servers[name] = whoServes(t, settings)
		fmt.Fprintf(&entries, "  %s: {url: %q, private_addresses: true, auth: {identity: {audience: %s}}}\n", name, servers[name].url, name)
	}
	besiegeAt(t, g, twoTenants(`{allow: ["*"]}`, entries.String()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	const calls = 4 // of each user, server and revision
	for name := range servers {
		for _, revision := range []string{"2025-11-25", modernRevision} {
			for _, w := range principals() {
				all.Go(func() {
					s := g.as(w, revision)
					if err := s.open(ctx); err != nil {
						t.Errorf("%s, %v: %v", revision, w, err)
						return
					}
					for range calls {
						if got, err := whoAsks(ctx, s, name, w.identity()); err != nil || got != w.identity() {
							t.Errorf("%s of %s: got %q, %v, want %q", name, revision, got, err, w.identity())
						}
					}
				})
			}
		}
	}
	all.Wait()
	want := 2 * calls * len(principals())
	for name, s := range servers {
		called, users := 0, map[string]string{}
		eventually(t, "the log of "+name+" is read", func() bool { return len(s.lines(t)) >= want })
		for _, line := range s.lines(t) {
			got := line.Tenant + " " + line.Sub
			switch {
			case line.Refused != "":
				t.Errorf("%s refused a token: %s", name, line.Refused)
			case line.Marker != got:
				t.Errorf("%s holds a call of %q for one of %q", name, line.Marker, got)
			case line.Session != "" && users[line.Session] != "" && users[line.Session] != got:
				t.Errorf("%s has one session of %q and %q", name, users[line.Session], got)
			}
			called++
			users[line.Session] = got
		}
		if called != want {
			t.Errorf("%s had %d calls, want %d", name, called, want)
		}
		if _, without := users[""]; without != (name == "newest") {
			t.Errorf("%s had calls without a session: %v", name, without)
		}
	}
	g.unhurt(t)
}
