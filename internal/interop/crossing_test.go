package interop_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var crossingFlag = flag.Int("crossing", 10_000,
	"how many calls of two tenants are interleaved, a fifth of them at a fleet")

// crossingCaller is one of those who call at the same time.
type crossingCaller struct {
	*talker

	owner  who
	server string
	marker string // of the call that is open
	asked  []string
}

// TestTrap09_NothingOfACallCrosses interleaves calls of two tenants over every transport.
// Each call is asked something, and hears progress and log lines; all of it names its
// caller, and all of it must come to this caller and no other.
func TestTrap09_NothingOfACallCrosses(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			crossings(t, form.settle(t))
		})
	}
}

func crossings(t *testing.T, g *gateway) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	legacy, modern, old := newAsker(false), newAsker(true), newAsker(false)
	servers := fmt.Sprintf(
		"  web: %s\n  new: %s\n  old: {url: %q, type: sse, private_addresses: true}\n  kid: {command: %q, env: {%s: asker}, max_children: 12}\n",
		private(abrupt(t, http.HandlerFunc(legacy.web))), private(abrupt(t, http.HandlerFunc(modern.web))),
		abrupt(t, http.HandlerFunc(old.sse)), binary, childRole)
	besiegeAt(t, g, twoTenants(`{allow: ["*"]}`, servers))
	names := []string{"web", "new", "old", "kid"}
	people := []who{{tenant: "acme", subject: "alice"}, {tenant: "globex", subject: "bob"}}
	spoken := []string{"2025-11-25", modernRevision}
	calls := *crossingFlag
	if testing.Short() { // make nightly has all of them
		calls /= 5
	}
	if g.replicas != nil {
		calls /= 5
	}
	perCrosser := calls / (len(names) * len(people) * len(spoken))
	started := time.Now()
	var all sync.WaitGroup
	for _, server := range names {
		for _, owner := range people {
			for _, revision := range spoken {
				c := g.crosser(owner, server, revision)
				all.Go(func() { c.run(t, perCrosser) })
			}
		}
	}
	all.Wait()
	t.Logf("%d calls in %v", perCrosser*len(names)*len(people)*len(spoken), time.Since(started))
	g.unhurt(t)
	ownRecords(t, g, people, names, spoken, perCrosser)
}

func (g *gateway) crosser(owner who, server, revision string) *crossingCaller {
	c := &crossingCaller{owner: owner, server: server}
	c.talker = &talker{
		base: "http://" + g.addr, path: "/mcp", token: g.mint(owner), revision: revision,
		capabilities: `{"elicitation":{"form":{}},"sampling":{}}`, level: "info", answer: c.reply,
	}
	return c
}

// reply answers with what it was asked, so that an answer that goes astray is seen at the
// other end.
func (c *crossingCaller) reply(question message) string {
	c.asked = append(c.asked, string(question.Params))
	if question.Method == "elicitation/create" {
		return fmt.Sprintf(`{"action":"accept","content":{"name":"answer of %s"}}`, c.marker)
	}
	return fmt.Sprintf(`{"role":"assistant","model":"m","content":{"type":"text","text":"answer of %s"}}`,
		c.marker)
}

// run makes the calls one after another.
func (c *crossingCaller) run(t *testing.T, calls int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := c.open(ctx); err != nil {
		t.Errorf("%v %s: %v", c.owner, c.revision, err)
		return
	}
	for i := range calls {
		c.asked, c.marker = nil, markerOf(c.owner, c.server, c.revision, i)
		params := fmt.Sprintf(`"name":"%s__ask","arguments":{"marker":%q}`, c.server, c.marker)
		if c.revision != modernRevision {
			params += `,"_meta":{"progressToken":1}`
		}
		limit, done := context.WithTimeout(ctx, patient)
		got, err := c.ask(limit, "tools/call", c.server+"__ask", params)
		done()
		if err == nil {
			err = c.complete(got)
		}
		if err != nil {
			t.Errorf("%s: %v", c.marker, err)
			return
		}
	}
}

// markerOf ends in a mark, so that no marker is the beginning of another.
func markerOf(owner who, server, revision string, i int) string {
	return fmt.Sprintf("%s %s %s %d#", owner, server, revision, i)
}

// complete says what is missing or not the caller's own.
func (c *crossingCaller) complete(got []message) error {
	var told []string
	for _, m := range got {
		text := string(m.Params) + string(m.Result)
		if m.Error != nil {
			return fmt.Errorf("got the error %d %s %s after %v", m.Error.Code, m.Error.Message, m.Error.Data,
				told)
		}
		if !strings.Contains(text, c.marker) {
			return fmt.Errorf("was sent what is not its own: %s %s", m.Method, text)
		}
		switch {
		case m.Method == "notifications/message" && strings.Contains(text, "before "+c.marker):
			told = append(told, "before")
		case m.Method == "notifications/message" && strings.Contains(text, "after "+c.marker):
			told = append(told, "after")
		case m.Method == "notifications/progress" && strings.Contains(text, `"progressToken":1`):
			told = append(told, "progress")
		case m.Method != "" && m.ID == nil:
			return fmt.Errorf("was sent %s %s", m.Method, text)
		}
	}
	if want := "before progress after"; strings.Join(told, " ") != want {
		return fmt.Errorf("was told %v, want %s", told, want)
	}
	if len(c.asked) != 1 || !strings.Contains(c.asked[0], c.marker) {
		return fmt.Errorf("was asked %q, want one question of its own", c.asked)
	}
	if last := string(got[len(got)-1].Result); !strings.Contains(last, "answer of "+c.marker) {
		return fmt.Errorf("the upstream was answered %s", last)
	}
	return nil
}

// ownRecords checks that each record of a call names the caller whose marker is in the
// arguments.
func ownRecords(t *testing.T, g *gateway, people []who, servers, spoken []string, calls int) {
	t.Helper()
	owners := make(map[string]string)
	for _, owner := range people {
		for _, server := range servers {
			for _, revision := range spoken {
				for i := range calls {
					arguments, err := json.Marshal(map[string]string{"marker": markerOf(owner, server,
						revision, i)})
					if err != nil {
						t.Fatal(err)
					}
					owners[digest(owner.tenant, arguments)] = owner.String()
				}
			}
		}
	}
	seen := make(map[string]bool)
	for _, line := range g.audited(t) {
		if line.Method != "tools/call" {
			continue
		}
		if owner := line.Tenant + "/" + line.Subject; owners[line.Arguments] != owner {
			t.Errorf("the record of %s is about arguments of %s", owner, owners[line.Arguments])
		}
		seen[line.Arguments] = true
	}
	if len(seen) != len(owners) {
		t.Errorf("%d of %d calls are recorded", len(seen), len(owners))
	}
}

// TestAskerIsRight lets talkers talk to the upstream without the gateway, so that what
// fails with it is its own.
func TestAskerIsRight(t *testing.T) {
	t.Parallel()
	legacy, modern, old := newAsker(false), newAsker(true), newAsker(false)
	for _, test := range []struct {
		name, base, revision string
	}{
		{"Streamable HTTP 2025-11-25", abrupt(t, http.HandlerFunc(legacy.web)), "2025-11-25"},
		{"Streamable HTTP 2026-07-28", abrupt(t, http.HandlerFunc(modern.web)), modernRevision},
		{"HTTP+SSE", abrupt(t, http.HandlerFunc(old.sse)), "2024-11-05"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := (&gateway{addr: strings.TrimPrefix(test.base, "http://")}).crosser(who{
				tenant:  "acme",
				subject: "alice",
			}, "up", test.revision)
			c.run(t, 50)
		})
	}
}
