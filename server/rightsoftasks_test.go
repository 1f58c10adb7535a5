package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/once"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// tasksApart opens two replicas with the same keys, sessions and answers, and tools that
// run as tasks.
func tasksApart(t *testing.T) (a, b *world) {
	t.Helper()
	hub, ring, log, answers := &replicatest.Hub{}, seal.RandomRing(),
		eventlog.NewMemory(eventlog.MemoryConfig{}), once.NewMemory(share.New(64<<20))
	records := &primarytest.Store{}
	open := func() *world {
		return newTasksWorld(t, func(w *world) {
			w.config.Seal, w.config.Log, w.config.Entries, w.config.Others, w.config.Once = ring, log,
				records, hub.Join(), answers
		})
	}
	return open(), open()
}

// tasksOf makes a task of each form, and returns what asks for them: that of the
// extension, which each replica reaches, and that of 2025-11-25, which only its home
// does.
func (w *world) tasksOf(t *testing.T) (given, asked func(method string) message) {
	t.Helper()
	call := modernCall("given")
	call.body = strings.Replace(call.body, modernMeta, tasksMeta, 1)
	id := w.resultOf(t, call).Text("taskId")
	session := w.open(t, "alice", mcp.Revision2511)
	made := w.resultOf(t, inSession("POST", session,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asked","task":{"ttl":7}}}`))
	own := made.Object("task").Text("taskId")
	if id == "" || own == "" {
		t.Fatalf("got the tasks %q and %q", id, own)
	}
	given = func(method string) message { return modernTask(method, id, tasksMeta) }
	asked = func(method string) message {
		return inSession("POST", session, `{"jsonrpc":"2.0","id":2,"method":"`+method+
			`","params":{"taskId":"`+own+`"}}`)
	}
	return given, asked
}

// TestTheIDOfATaskCarriesNoRight uses ids of tasks at a replica whose config is another
// than that where they were made, and at one that is asked by it.
func TestTheIDOfATaskCarriesNoRight(t *testing.T) {
	t.Parallel()
	without := func(w *world, change func(*gateway.TenantConfig)) {
		tenants := slices.Clone(w.tenants)
		change(&tenants[0])
		w.setTenants(t, tenants)
	}
	for name, test := range map[string]struct {
		change       func(a, b *world)
		given, asked string // in the answers of b; "": the task
	}{
		"the same config": {func(_, _ *world) {}, "", ""},
		"its rules lack the tools": {func(_, b *world) {
			without(b, func(c *gateway.TenantConfig) { c.Rules = []gateway.Rule{{Allow: []string{"echo"}}} })
		}, "DB-TASK", "DB-TASK"},
		"its rules deny the tools": {func(_, b *world) {
			without(b, func(c *gateway.TenantConfig) {
				c.Rules = append(c.Rules, gateway.Rule{Deny: []string{"given", "asked"}})
			})
		}, "DB-TASK", "DB-TASK"},
		"its tenant lacks the servers": {func(_, b *world) {
			without(b, func(c *gateway.TenantConfig) { c.Servers = []string{"box"} })
		}, "DB-TASK", "DB-TASK"},
		"it does not know the tools": {func(_,
			b *world,
		) {
			b.registry.Remove("given")
			b.registry.Remove("asked")
		}, "DB-UPSTREAM", "DB-UPSTREAM"},
		"it has no such tenant": {
			func(_, b *world) { b.setTenants(t, b.tenants[1:]) }, "DB-TENANT",
			"DB-TENANT",
		},
		"it has no such issuer": {func(_, b *world) {
			b.refuse(func(p auth.Principal) bool { return p.Issuer == "https://issuer.test" })
		}, "DB-AUTH-TOKEN", "DB-AUTH-TOKEN"},
		"the home denies the tools": {func(a, _ *world) {
			without(a, func(c *gateway.TenantConfig) {
				c.Rules = append(c.Rules, gateway.Rule{Deny: []string{"given", "asked"}})
			})
		}, "", "DB-TASK"},
		"the home has no such tenant": {
			func(a, _ *world) { a.setTenants(t, a.tenants[1:]) }, "",
			"DB-TENANT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := tasksApart(t)
			given, asked := a.tasksOf(t)
			test.change(a, b)
			for _, method := range []string{
				mcp.MethodTasksGet, mcp.MethodTasksUpdate,
				mcp.MethodTasksCancel,
			} {
				wantTask(t, method, b.do(t, given(method)).Body.String(), test.given)
			}
			for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel} {
				wantTask(t, method+" of 2025-11-25", b.do(t, asked(method)).Body.String(), test.asked)
			}
			for _, other := range []string{"bob", "alice-other", "alice-issuer", "alice-globex"} {
				if got := b.do(t, given(mcp.MethodTasksGet).as(other)).Body.String(); strings.Contains(got,
					`"result"`) {
					t.Errorf("%s got %s of the task of another", other, got)
				}
			}
		})
	}
}

// wantTask wants the result of a request about a task, or an error with that code and
// nothing of the task.
func wantTask(t *testing.T, what, got, code string) {
	t.Helper()
	switch {
	case code == "" && !strings.Contains(got, `"result"`):
		t.Errorf("%s: got %s, want a result", what, got)
	case code != "" && (!strings.Contains(got, code) || strings.Contains(got, `"result"`) ||
		strings.Contains(got, `"working"`)):
		t.Errorf("%s: got %s, want %s", what, got, code)
	}
}

// TestAToolThatOneReplicaKnows is offered by the first alone: its server was added there,
// or has not come up at the other. What its clients carry away is worth nothing at the
// other, and works again where it is known.
func TestAToolThatOneReplicaKnows(t *testing.T) {
	t.Parallel()
	a, b := unlike(t, func(*world) {})
	b.registry.Remove("forms")
	a.offer(t, append(many(), "lone")...)
	s := a.sealed(t)
	kept := keyedCall("lone", "once")
	first := a.do(t, kept).Body.String()
	session := func(w *world) string {
		return w.do(t, inSession("POST", s.session,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lone"}}`)).Body.String()
	}
	for what, got := range map[string]string{
		"the kept answer":   b.do(t, kept).Body.String(),
		"the parked call":   b.uses(t, s)["state"].Body.String(),
		"a call of its own": b.do(t, modernCall("lone")).Body.String(),
	} {
		if !strings.Contains(got, "DB-TOOL") || strings.Contains(got, "Ann") {
			t.Errorf("%s, where nobody knows the tool: got %s, want DB-TOOL", what, got)
		}
	}
	for what, got := range map[string]string{
		"in the session":   session(a),
		"there, forwarded": session(b),
		"the kept answer":  a.do(t, kept).Body.String(),
		"the parked call":  a.uses(t, s)["state"].Body.String(),
	} {
		if strings.Contains(got, "DB-") || what == "the kept answer" && got != first {
			t.Errorf("%s, where it is known: got %s", what, got)
		}
	}
}
