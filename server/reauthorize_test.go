package server_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// keeper is a source whose calls and subscriptions last, and which knows of each whether
// it has ended. It keeps them by tenant.
type keeper struct {
	mu      sync.Mutex              // guards the fields below
	lives   map[string]func() error // what their contexts say
	dropped map[string]bool         // a call that waits for answers was ended
	changed []func(string)
}

func (k *keeper) source() registry.Source {
	tool := func(name string, call registry.Func) registry.Offer {
		return registry.Offer{
			Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"}}`),
			Timeout:    time.Hour, Call: call,
		}
	}
	return registry.Source{
		Name: "keeper", Prefix: "keeper", Tools: []registry.Offer{tool("lasts", k.last), tool("asks", k.ask)},
		Resources: []mcp.Object{object(`{"uri":"file:///a","name":"a"}`)}, Timeout: time.Hour, Reads: true,
		Use: func(context.Context, *registry.Call) (mcp.Object,
			error,
		) {
			return object(`{"contents":[]}`), nil
		},
		Subscribe: k.subscribe,
	}
}

// last answers only when its caller is gone, and then as if nothing had happened.
func (k *keeper) last(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	k.mu.Lock()
	k.lives[c.Principal.TenantID] = ctx.Err
	k.mu.Unlock()
	<-ctx.Done()
	return textResult("confidential"), nil
}

func (k *keeper) ask(_ context.Context, c *registry.Call) (mcp.Object, error) {
	if c.Hold != nil {
		c.Hold(func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.dropped[c.Principal.TenantID] = true
		})
	}
	return object(
			`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create",` +
				`"params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}`),
		nil
}

func (k *keeper) subscribe(ctx context.Context, user share.User, _ string, updated func(string),
	_ func(),
) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lives[user.TenantID], k.changed = ctx.Err, append(k.changed, updated)
	return nil
}

// tell announces a change to whoever ever subscribed, as a server does that was not told
// of the end.
func (k *keeper) tell() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, updated := range k.changed {
		updated("file:///a")
	}
}

// ended tells whether the call or subscription of a tenant has ended at its server.
func (k *keeper) ended(tenantID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	life := k.lives[tenantID]
	return k.dropped[tenantID] || life != nil && life() != nil
}

// newKeeperWorld returns a world in which alice of acme and an outsider of globex, with a
// token of another issuer, may use everything of a keeper.
func newKeeperWorld(t *testing.T) (*world, *keeper) {
	t.Helper()
	k := &keeper{lives: map[string]func() error{}, dropped: map[string]bool{}}
	w := newWorld(t, func(w *world) { w.tenants = keeperTenants() })
	for _, refusal := range w.registry.Replace(k.source()) {
		t.Fatalf("refused: %+v", refusal)
	}
	t.Cleanup(func() { // a call of a session goes on when its connection is gone
		over, end := context.WithCancel(context.Background())
		end()
		w.EndStreams()
		w.Wait(over)
		synctest.Wait()
	})
	return w, k
}

func keeperTenants() []gateway.TenantConfig {
	all := []gateway.Rule{{Allow: []string{"*", "prompt:*", "resource:*"}}}
	return []gateway.TenantConfig{
		{ID: "acme", Servers: []string{"keeper", "box"}, Rules: all},
		{ID: "globex", Servers: []string{"keeper", "box"}, Rules: all},
	}
}

// revocations are the ways in which alice loses her rights. Those by rules leave her
// token good; she loses only what the rules were about.
var revocations = map[string]struct {
	do     func(*testing.T, *world)
	byRule bool
}{
	"the key of the token is removed": {do: refused(
		func(p auth.Principal) bool { return p.Subject == "alice" && p.TenantID == "acme" })},
	"the issuer is removed": {do: refused(
		func(p auth.Principal) bool { return p.Issuer == "https://issuer.test" })},
	"the tenant is no longer the issuer's": {do: refused(
		func(p auth.Principal) bool { return p.TenantID == "acme" })},
	"the tenant is removed": {do: changed(
		func(tenants []gateway.TenantConfig) []gateway.TenantConfig { return tenants[1:] })},
	"the tenant is renamed": {do: changed(func(tenants []gateway.TenantConfig) []gateway.TenantConfig {
		tenants[0].ID = "umbrella"
		return tenants
	})},
	"a deny is added": {
		byRule: true,
		do: changed(func(tenants []gateway.TenantConfig) []gateway.TenantConfig {
			tenants[0].Rules = append(tenants[0].Rules,
				gateway.Rule{Deny: []string{"keeper__*", "resource:keeper:*"}})
			return tenants
		}),
	},
	"a rule is removed": {
		byRule: true,
		do: changed(func(tenants []gateway.TenantConfig) []gateway.TenantConfig {
			tenants[0].Rules = []gateway.Rule{{Allow: []string{"echo"}}}
			return tenants
		}),
	},
	"the server is taken away": {
		byRule: true,
		do: changed(func(tenants []gateway.TenantConfig) []gateway.TenantConfig {
			tenants[0].Servers = []string{"box"}
			return tenants
		}),
	},
}

func refused(whose func(auth.Principal) bool) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) { w.revoke(whose) }
}

func changed(change func([]gateway.TenantConfig) []gateway.TenantConfig) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.setTenants(t, change(keeperTenants()))
		w.Reauthorize()
	}
}

// lasting is a kind of thing that a client begins and that lasts. begin returns what
// tells whether it has ended.
type lasting struct {
	name   string
	ofItem bool // it lasts only as long as the caller may use the item
	begin  func(t *testing.T, w *world, k *keeper, who caller) (ended func() bool)
}

// caller is one who begins something.
type caller struct{ token, tenantID string }

var (
	hers      = caller{"alice", "acme"}
	outsiders = caller{"outsider", "globex"}
)

const followA = `{"toolsListChanged":true,"resourceSubscriptions":["mcp.keeper+file:///a"]}`

func (w *world) openAs(t *testing.T, who caller, capabilities string) string {
	t.Helper()
	m := initialize(mcp.Revision2511).as(who.token)
	m.body = strings.Replace(m.body, `"capabilities":{}`, `"capabilities":`+capabilities, 1)
	id := w.do(t, m).Header().Get(mcp.HeaderSessionID)
	w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).as(who.token))
	return id
}

// closed tells whether a stream that follow reads has ended.
func closed(stream <-chan string) func() bool {
	return func() bool {
		select {
		case <-stream:
			return true
		default:
			return false
		}
	}
}

func (k *keeper) endedFor(who caller) func() bool {
	return func() bool { return k.ended(who.tenantID) }
}

func lastingKinds() []lasting {
	return []lasting{
		{"listen", false, func(t *testing.T, w *world, _ *keeper, who caller) func() bool {
			return closed(w.follow(t, modernListen().as(who.token)))
		}},
		{"a resource of listen", true, func(t *testing.T, w *world, k *keeper, who caller) func() bool {
			m := modernListen().as(who.token)
			m.body = strings.Replace(m.body, `{"toolsListChanged":true}`, followA, 1)
			w.follow(t, m)
			return k.endedFor(who)
		}},
		{"get", false, func(t *testing.T, w *world, _ *keeper, who caller) func() bool {
			return closed(w.follow(t, inSession("GET", w.openAs(t, who, "{}"), "").as(who.token)))
		}},
		{"sse", false, func(t *testing.T, w *world, _ *keeper, who caller) func() bool {
			return closed(w.follow(t, message{method: "GET", path: "/sse", token: who.token}))
		}},
		{"a session", false, func(t *testing.T, w *world, _ *keeper, who caller) func() bool {
			id := w.openAs(t, who, "{}")
			return func() bool {
				w.refuse(nil) // or the token would be to blame
				return w.do(t, inSession("POST", id,
					`{"jsonrpc":"2.0","id":1,"method":"ping"}`).as(who.token)).Code != http.StatusOK
			}
		}},
		{"a resource of a session", true, func(t *testing.T, w *world, k *keeper, who caller) func() bool {
			id := w.openAs(t, who, "{}")
			w.do(t, inSession("POST", id,
				`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"mcp.keeper+file:///a"}}`).as(who.token))
			return k.endedFor(who)
		}},
		{"a call of a session", true, func(t *testing.T, w *world, k *keeper, who caller) func() bool {
			w.follow(t, legacyCall(w.openAs(t, who, "{}"), "keeper__lasts").as(who.token))
			return k.endedFor(who)
		}},
		{"a call over sse", true, func(t *testing.T, w *world, k *keeper, who caller) func() bool {
			address := w.sseAddress(t, who)
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keeper__lasts"}}`
			w.do(t, message{method: "POST", path: address, token: who.token, body: body})
			return k.endedFor(who)
		}},
		{"a modern call", true, func(t *testing.T, w *world, k *keeper, who caller) func() bool {
			answer := w.follow(t, modernCall("keeper__lasts").as(who.token))
			return func() bool {
				if !k.ended(who.tenantID) {
					return false
				}
				if got := <-answer; strings.Contains(got, "confidential") ||
					!strings.Contains(got, "DB-CANCELLED") {
					t.Errorf("got %s, want no result of what ended", got)
				}
				return true
			}
		}},
		{"a modern call that waits for answers", true, func(t *testing.T, w *world, k *keeper,
			who caller,
		) func() bool {
			m := modernCall("keeper__asks").as(who.token)
			m.body = strings.Replace(m.body, `clientCapabilities":{}`,
				`clientCapabilities":{"elicitation":{"form":{}}}`, 1)
			if got := w.do(t, m).Body.String(); !strings.Contains(got, "requestState") {
				t.Fatalf("got %s, want a question", got)
			}
			return k.endedFor(who)
		}},
		{"a call of a session that waits for answers", true, func(t *testing.T, w *world, k *keeper,
			who caller,
		) func() bool {
			w.follow(t, legacyCall(w.openAs(t, who, `{"elicitation":{}}`), "keeper__asks").as(who.token))
			return k.endedFor(who)
		}},
	}
}

// sseAddress opens a stream of 2024-11-05 and returns where its messages go.
func (w *world) sseAddress(t *testing.T, who caller) string {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(w.pipe(t, message{
		method: "GET", path: "/sse",
		token: who.token,
	})), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			go func() { // ends with the connection
				defer resp.Body.Close()
				for lines.Scan() {
					continue
				}
			}()
			return address
		}
	}
	t.Fatal("no address came")
	return ""
}

// TestNothingOutlivesTheRightToIt begins everything that lasts, in each era, and then
// takes the right to it away in every way. Within a second it has ended, if it was the
// caller's token that counts no more, or if the rules deny what it is about. What others
// began goes on.
func TestNothingOutlivesTheRightToIt(t *testing.T) {
	for how, revoked := range revocations {
		for _, kind := range lastingKinds() {
			t.Run(kind.name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, k := newKeeperWorld(t)
					ended, others := kind.begin(t, w, k, hers), kind.begin(t, w, k, outsiders)
					wait(t)
					// a session would be used by being asked
					if kind.name != "a session" && (ended() || others()) {
						t.Fatal("it has ended before anything changed")
					}
					revoked.do(t, w)
					wait(t)
					if want := kind.ofItem || !revoked.byRule; ended() != want {
						t.Errorf("ended: %v, want %v", !want, want)
					}
					if others() {
						t.Error("what an outsider began has ended too")
					}
				})
			})
		}
	}
}

// TestNothingIsToldOfWhatIsDenied announces changes of a resource after the rules deny
// it, on a stream of each era that stays open. An outsider is told.
func TestNothingIsToldOfWhatIsDenied(t *testing.T) {
	for how, revoked := range revocations {
		if !revoked.byRule {
			continue
		}
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k := newKeeperWorld(t)
				streams := map[string]<-chan string{}
				for _, who := range []caller{hers, outsiders} {
					m := modernListen().as(who.token)
					m.body = strings.Replace(m.body, `{"toolsListChanged":true}`, followA, 1)
					streams[who.token+" modern"] = w.follow(t, m)
					id := w.openAs(t, who, "{}")
					w.do(t, inSession("POST", id,
						`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"mcp.keeper+file:///a"}}`).as(who.token))
					streams[who.token+" legacy"] = w.follow(t, inSession("GET", id, "").as(who.token))
				}
				wait(t)
				revoked.do(t, w)
				wait(t)
				k.tell()
				wait(t)
				w.EndStreams()
				for name, stream := range streams {
					if told, want := strings.Contains(<-stream, mcp.NotifyResourceUpdated),
						strings.HasPrefix(name, "outsider"); told != want {
						t.Errorf("%s: told %v, want %v", name, told, want)
					}
				}
			})
		})
	}
}

// TestAnotherTokenOfTheSameUserGoesOn removes the key of one of the two tokens that a
// user has had. What the other one opened goes on, and so does a session that was last
// used with it.
func TestAnotherTokenOfTheSameUserGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newKeeperWorld(t)
		older := func(
			p auth.Principal,
		) bool {
			return p.Subject == "alice" && time.Until(p.Expiry) < 90*time.Minute
		}
		moved, left := w.openAs(t, hers, "{}"), w.openAs(t, hers, "{}")
		ping := func(id string) int {
			return w.do(t, inSession("POST", id,
				`{"jsonrpc":"2.0","id":1,"method":"ping"}`).as("alice-again")).Code
		}
		ping(moved)
		ofOlder, ofNewer := closed(w.follow(t, modernListen())),
			closed(w.follow(t, modernListen().as("alice-again")))
		ofMoved := closed(w.follow(t, inSession("GET", moved, "").as("alice-again")))
		wait(t)
		w.revoke(older)
		wait(t)
		if !ofOlder() || ofNewer() || ofMoved() {
			t.Errorf("ended: %v by the older token, %v and %v by the newer, want only the first", ofOlder(),
				ofNewer(), ofMoved())
		}
		if a, b := ping(moved), ping(left); a != http.StatusOK || b != http.StatusNotFound {
			t.Errorf("the session that went on with the newer token: %d, want 200; the other: %d, want 404",
				a, b)
		}
	})
}

// TestNothingOpensBehindReauthorize revokes a token after it was checked and before what
// it opens is known, so that all that was open then has been judged already. After it is
// a request later as well.
func TestNothingOpensBehindReauthorize(t *testing.T) {
	for name, m := range map[string]message{
		"listen":      modernListen(),
		"sse":         {method: "GET", path: "/sse", token: "alice"},
		"modern call": modernCall("slow"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.behind(&fakeDesk{admit: func() {
					w.revoke(func(p auth.Principal) bool { return p.Subject == "alice" })
					<-time.After(time.Second)
				}})
				w.run(t)
				if got := w.do(t, m); got.Code != http.StatusUnauthorized ||
					!strings.Contains(got.Header().Get("WWW-Authenticate"), "invalid_token") {
					t.Errorf("got %d %s, want 401", got.Code, got.Body)
				}
			})
		})
	}
}

// TestAnExpiredTokenEndsNothingHere judges again while a call goes on for longer than the
// token that began it lasts.
func TestAnExpiredTokenEndsNothingHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k := newKeeperWorld(t)
		brief := caller{"brief", "acme"}
		w.follow(t, modernCall("keeper__lasts").as(brief.token))
		<-time.After(2 * time.Minute)
		w.Reauthorize()
		wait(t)
		if k.ended(brief.tenantID) {
			t.Error("the call has ended because its token expired meanwhile")
		}
	})
}
