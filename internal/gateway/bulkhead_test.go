package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// hangingServers is a gateway with servers of which those named ill1, ill2, … hang.
type hangingServers struct {
	*bench
	heal chan struct{} // closed when they hang no longer

	mu    sync.Mutex // guards the field below
	codes map[string]int
	calls sync.WaitGroup
}

// ward runs a story with servers in a bubble. Its gateway has that many slots for calls
// of all tenants.
func withHangingServers(t *testing.T, slots int, tenants []TenantConfig, story func(t *testing.T, w *hangingServers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for i := range tenants {
			concurrency := tenants[i].Limits.Concurrency
			tenants[i].Limits, tenants[i].Rules = unlimited(), []Rule{{Allow: []string{"*"}}}
			tenants[i].Limits.Concurrency = concurrency
		}
		w := &hangingServers{bench: newBench(t, tenants...), heal: make(chan struct{}), codes: map[string]int{}}
		w.bulkhead = newBulkhead(slots)
		for _, name := range []string{"well", "ill1", "ill2", "ill3"} {
			w.replace(t, w.server(name))
		}
		story(t, w)
		select {
		case <-w.heal:
		default:
			close(w.heal)
		}
		w.calls.Wait()
		if left := len(w.bulkhead.active); left > 0 {
			t.Errorf("%d counts of calls are left when all have ended, want none", left)
		}
		if got := metricstest.Sum(t, w.metrics, "drawbridge_upstream_calls_in_flight"); got != 0 {
			t.Errorf("the metric has %v calls under way when all have ended", got)
		}
	})
}

func (w *hangingServers) server(name string) registry.Source {
	return registry.Source{Name: name, Prefix: name, Tools: []registry.Offer{{
		Definition: object(`{"name":"use","inputSchema":{"type":"object"}}`), Timeout: libraryTime,
		Call: func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
			if name == "well" {
				return texts("ok"), nil
			}
			select {
			case <-w.heal:
				return texts("ok"), nil
			case <-ctx.Done():
				return mcp.Object{}, ctx.Err()
			}
		},
	}}}
}

func user(tenant string, n int) auth.Principal {
	p := alice
	p.TenantID, p.Subject = tenant, fmt.Sprintf("user-%d", n)
	return p
}

// use calls the tool of a server and returns the code of the error, "" for a result.
func (w *hangingServers) use(t *testing.T, p auth.Principal, server string) string {
	_, failure := w.handleAs(t, w.caller(t, p), request(server+"__use", `{}`))
	return stable(failure)
}

// crowd makes n calls at once by each of the users, and returns how many of them are
// under way.
func (w *hangingServers) crowd(t *testing.T, server, tenant string, users, n int) (underway int) {
	was := w.taken(tenant, server)
	for u := range users {
		caller := w.caller(t, user(tenant, u))
		for range n {
			w.calls.Go(func() {
				_, err := w.Handle(t.Context(), caller, request(server+"__use", `{}`))
				if err != nil {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.codes[asError(t, err).StableCode()]++
				}
			})
		}
	}
	synctest.Wait()
	return w.taken(tenant, server) - was
}

func (w *hangingServers) taken(tenant, server string) int {
	w.bulkhead.mu.Lock()
	defer w.bulkhead.mu.Unlock()
	return w.bulkhead.active[counter{tenant, server}]
}

// refusedBy checks that calls were refused for this reason. A few may have found no slot
// at all, because those that are just being refused had it.
func (w *hangingServers) refusedBy(t *testing.T, code string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.codes[code] == 0 {
		t.Errorf("calls were refused by %v, want %q among them", w.codes, code)
	}
	delete(w.codes, "DB-LIMIT-CONCURRENCY")
	delete(w.codes, code)
	if len(w.codes) > 0 {
		t.Errorf("calls were refused by %v too, want %q alone", w.codes, code)
	}
}

func TestAServerThatHangsLeavesSlotsOfItsTenant(t *testing.T) {
	tenants := []TenantConfig{{ID: "acme", Servers: []string{"well", "ill1", "ill2", "ill3"}}}
	withHangingServers(t, 1024, tenants, func(t *testing.T, w *hangingServers) {
		for _, step := range []struct {
			server string
			want   int
		}{{"ill1", 42}, {"ill2", 14}, {"ill3", 5}} {
			if got := w.crowd(t, step.server, "acme", 32, 8); got != step.want {
				t.Errorf("%s has %d slots, want %d", step.server, got, step.want)
			}
			w.refusedBy(t, "DB-LIMIT-SERVER")
			for u := range 40 {
				if got := w.use(t, user("acme", u), "well"); got != "" {
					t.Errorf("user %d at the server that is well, while %s hangs: %s", u, step.server, got)
				}
			}
		}
		close(w.heal)
		synctest.Wait()
		if got := w.use(t, user("acme", 0), "ill1"); got != "" {
			t.Errorf("a call to the server that hung, after it: %s", got)
		}
	})
}

// partSlots gives out a part of the slots, and a few times twice as many.
type partSlots struct {
	mu          sync.Mutex // guards the fields below
	here, steps int
}

func (p *partSlots) Here(_ allot.Kind, _ string, limit int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.here, limit)
}

func (p *partSlots) More(context.Context, allot.Kind, string, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.steps > 0 {
		p.steps--
		p.here *= 2
	}
}

// TestAServerThatHangsLeavesSlotsOfEachReplica has a replica that may give out a part of
// the slots, as each of several does: what a server takes of all of them together is what
// it takes of each.
func TestAServerThatHangsLeavesSlotsOfEachReplica(t *testing.T) {
	for _, test := range []struct{ here, steps, want int }{{32, 0, 21}, {8, 1, 10}, {8, 3, 42}} {
		tenants := []TenantConfig{{ID: "acme", Servers: []string{"well", "ill1"}}}
		withHangingServers(t, 1024, tenants, func(t *testing.T, w *hangingServers) {
			w.config.Allot = &partSlots{here: test.here, steps: test.steps}
			if got := w.crowd(t, "ill1", "acme", 32, 8); got != test.want {
				t.Errorf("%+v: the server has %d slots", test, got)
			}
			w.refusedBy(t, "DB-LIMIT-SERVER")
			if got := w.use(t, user("acme", 40), "well"); got != "" {
				t.Errorf("%+v: a call to the server that is well: %s", test, got)
			}
		})
	}
}

func TestAServerThatHangsLeavesSlotsOfAUser(t *testing.T) {
	tenants := []TenantConfig{{ID: "acme", Servers: []string{"well", "ill1"}}}
	withHangingServers(t, 1024, tenants, func(t *testing.T, w *hangingServers) {
		if got := w.crowd(t, "ill1", "acme", 1, 64); got != 21 {
			t.Errorf("the server has %d slots of one user, want 21 of 32", got)
		}
		w.refusedBy(t, "DB-LIMIT-SERVER")
		if got := w.use(t, user("acme", 0), "well"); got != "" {
			t.Errorf("the same user at the server that is well: %s", got)
		}
	})
}

func TestAServerThatHangsLeavesSlotsToOtherTenants(t *testing.T) {
	var tenants []TenantConfig
	for i := range 8 {
		tenants = append(tenants, TenantConfig{ID: fmt.Sprintf("t%d", i), Servers: []string{"ill1"}})
	}
	tenants = append(tenants, TenantConfig{ID: "quiet", Servers: []string{"well"}})
	withHangingServers(t, 64, tenants, func(t *testing.T, w *hangingServers) {
		total := 0
		for i := range 8 {
			total += w.crowd(t, "ill1", fmt.Sprintf("t%d", i), 2, 16)
		}
		if total != 42 {
			t.Errorf("the server has %d slots of all tenants, want 42 of 64", total)
		}
		w.refusedBy(t, "DB-OVERLOAD-SERVER")
		if got := w.use(t, user("quiet", 0), "well"); got != "" {
			t.Errorf("another tenant at another server: %s", got)
		}
	})
}

func TestTheOnlyServerOfATenantMayHaveAllItsPlaces(t *testing.T) {
	withHangingServers(t, 1024, []TenantConfig{{ID: "acme", Servers: []string{"ill1"}}}, func(t *testing.T, w *hangingServers) {
		if got := w.crowd(t, "ill1", "acme", 4, 20); got != 64 {
			t.Errorf("the server has %d slots, want all 64", got)
		}
		w.refusedBy(t, "DB-LIMIT-CONCURRENCY")
	})
}

// TestAFirstCallFindsItsSlot tries all small numbers of slots, which halves and thirds
// might round to none.
func TestAFirstCallFindsItsSlot(t *testing.T) {
	for slots := 1; slots <= 8; slots++ {
		tenants := []TenantConfig{{
			ID: "acme", Servers: []string{"well", "ill1"},
			Limits: Limits{Concurrency: &slots},
		}}
		withHangingServers(t, slots, tenants, func(t *testing.T, w *hangingServers) {
			if got := w.use(t, user("acme", 0), "well"); got != "" {
				t.Errorf("%d slots: a call while there is no other: %s", slots, got)
			}
			w.crowd(t, "ill1", "acme", 4, 4)
			got := w.use(t, user("acme", 9), "well")
			if want := map[bool]string{true: "DB-LIMIT-CONCURRENCY"}[slots == 1]; got != want {
				t.Errorf("%d slots: a call while a server hangs: %q, want %q", slots, got, want)
			}
		})
	}
}

func TestAServerThatIsFullAndDownIsDown(t *testing.T) {
	tenants := []TenantConfig{{ID: "acme", Servers: []string{"well", "ill1"}}}
	withHangingServers(t, 1024, tenants, func(t *testing.T, w *hangingServers) {
		w.crowd(t, "ill1", "acme", 8, 8)
		w.registry.Lose("ill1", "ill1")
		if got := w.use(t, user("acme", 9), "ill1"); got != "DB-UPSTREAM-DOWN" {
			t.Errorf("a call to the server: %s, want that it is down", got)
		}
	})
}
