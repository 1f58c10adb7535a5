package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// revocation is one way in which alice of acme loses what she has begun, while others
// keep theirs.
type revocation struct {
	name    string
	tenants func() []TenantConfig
	refused bool // her token is not accepted any more
}

func revocations() []revocation {
	changed := func(change func(acme *TenantConfig)) func() []TenantConfig {
		return func() []TenantConfig {
			acme := everything()
			change(&acme)
			return []TenantConfig{acme, elsewhere()}
		}
	}
	return []revocation{
		{"a deny is added", changed(func(acme *TenantConfig) {
			acme.Rules = append(acme.Rules, Rule{
				Subjects: []string{"https://login.test/#alice"},
				Deny:     []string{"*", "prompt:*", "resource:*"},
			})
		}), false},
		{"its rule is removed", changed(func(acme *TenantConfig) {
			acme.Rules = []Rule{{
				Subjects: []string{"https://login.test/#bob"},
				Allow:    []string{"*", "prompt:*", "resource:*"},
			}}
		}), false},
		{
			"the server is taken from the tenant", changed(func(acme *TenantConfig) { acme.Servers = nil }),
			false,
		},
		{"the tenant is removed", func() []TenantConfig { return []TenantConfig{elsewhere()} }, false},
		{"the token is refused", changed(func(*TenantConfig) {}), true},
	}
}

// elsewhere is a tenant like acme under another name.
func elsewhere() TenantConfig {
	other := everything()
	other.ID = "globex"
	return other
}

// revoke puts a revocation in force, and judges by it as the door does.
func (b *bench) revoke(t *testing.T, r revocation) (ended int) {
	t.Helper()
	b.SetPolicy("", r.tenants())
	return b.Reauthorize(func(p auth.Principal) (Caller, bool) {
		c, err := b.Resolve(p)
		return c, err == nil && (!r.refused || p.Subject != "alice" || p.TenantID != "acme")
	})
}

// TestACallEndsWithWhatAllowedIt takes the permission from a call in every way, while it
// is under way, while it waits for answers and in its second round. The same call of
// another tenant goes on.
func TestACallEndsWithWhatAllowedIt(t *testing.T) {
	outside := alice
	outside.TenantID = "globex"
	for _, revoked := range revocations() {
		for _, subject := range subjects {
			for _, stage := range []string{"under way", "parked", "in its second round"} {
				if stage != "under way" && !methods()[subject.method].Asks {
					continue
				}
				t.Run(revoked.name+"/"+subject.method+"/"+stage, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b, l := newLibrary(t, everything(), elsewhere())
						p := &pending{stage: stage}
						l.reply = p.reply
						hers, others := p.begin(t, b, alice, subject), p.begin(t, b, outside, subject)
						synctest.Wait()
						if got := b.revoke(t, revoked); got == 0 {
							t.Error("nothing was ended")
						}
						synctest.Wait()
						if !hers.over() {
							t.Error("the call goes on")
						}
						if others.over() {
							t.Error("the call of another tenant has ended")
						}
						hers.end()
						others.end()
						synctest.Wait()
						if len(b.ongoing.all()) != 0 {
							t.Errorf("%d calls are still known, want none", len(b.ongoing.all()))
						}
						if stage != "parked" && !strings.Contains(b.records(t),
							`"outcome":"cancelled","reason":"revoked"`) {
							t.Errorf("audit = %s, want the call as revoked", b.records(t))
						}
					})
				})
			}
		}
	}
}

// pending makes calls that last.
type pending struct {
	stage string
	all   []*lasting
}

// lasting is a call that goes on until it is revoked or the test ends it.
type lasting struct {
	ended   []context.Context // of the rounds under way
	dropped bool              // the source was told to end what it keeps open
	release func()
	finish  context.CancelFunc
}

func (l *lasting) over() bool {
	return l.dropped || slices.ContainsFunc(l.ended,
		func(ctx context.Context) bool { return ctx.Err() != nil })
}

func (l *lasting) end() {
	l.finish()
	if l.release != nil {
		l.release()
	}
}

// reply asks in the first round of a call that is to be parked, and otherwise waits for
// the end of the call.
func (p *pending) reply(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	one := p.all[len(p.all)-1]
	if p.stage != "under way" && !c.Params.Has("requestState") {
		one.release = c.Hold(func() { one.dropped = true })
		return object(`{"resultType":"input_required","requestState":"s"}`), nil
	}
	one.ended = append(one.ended, ctx)
	<-ctx.Done()
	return mcp.Object{}, ctx.Err()
}

// begin begins a call and brings it to its stage.
func (p *pending) begin(t *testing.T, b *bench, who auth.Principal, s subject) *lasting {
	ctx, finish := context.WithCancel(t.Context())
	one := &lasting{finish: finish}
	p.all = append(p.all, one)
	r := ask(s.method, s.params)
	if p.stage == "under way" {
		go func() { _, _ = b.Handle(ctx, b.caller(t, who), r) }() // the test looks at the record
		synctest.Wait()
		return one
	}
	asked, err := b.Handle(ctx, b.caller(t, who), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.stage == "parked" {
		return one
	}
	go func() { _, _ = b.Handle(ctx, b.caller(t, who), repeat(r, asked)) }()
	synctest.Wait()
	return one
}

// TestAStateIsNoWayPastANewRule repeats a call that asked for input after its item was
// denied: it is unknown, like any call of it.
func TestAStateIsNoWayPastANewRule(t *testing.T) {
	for _, revoked := range revocations() {
		if revoked.refused || revoked.name == "the tenant is removed" {
			continue // the door lets nobody in
		}
		for _, subject := range subjects {
			if !methods()[subject.method].Asks {
				continue
			}
			t.Run(revoked.name+"/"+subject.method, func(t *testing.T) {
				b, l := newLibrary(t, everything(), elsewhere())
				l.says(`{"resultType":"input_required","requestState":"s"}`)
				r := ask(subject.method, subject.params)
				asked := b.asked(t, r)
				b.revoke(t, revoked)
				used := len(l.uses)
				_, of := b.handle(t, repeat(r, asked))
				_, fresh := b.handle(t, r)
				if of == nil || fresh == nil || of.Error() != fresh.Error() || len(l.uses) != used {
					t.Errorf("the repeat: %v, a new call: %v, %d uses; want both unknown and no use", of,
						fresh, len(l.uses)-used)
				}
			})
		}
	}
}

// TestACallThatTheNewTenantsDenyDoesNotBegin replaces the tenants between the admission
// of a caller and its call, so that Reauthorize has looked already when the call begins.
func TestACallThatTheNewTenantsDenyDoesNotBegin(t *testing.T) {
	for _, revoked := range revocations() {
		if revoked.refused {
			continue // the door looks at tokens
		}
		t.Run(revoked.name, func(t *testing.T) {
			b, l := newLibrary(t, everything(), elsewhere())
			c := b.caller(t, alice)
			b.revoke(t, revoked)
			if _, err := b.Handle(t.Context(), c,
				ask(mcp.MethodToolsCall, subjects[0].params)); stable(asError(t, err)) != "DB-CANCELLED" ||
				len(l.uses) > 0 {
				t.Errorf("got %v and %d uses, want it cancelled before", err, len(l.uses))
			}
		})
	}
}

// TestATaskIsReachedOnlyByWhoMayUseItsTool takes the tool of a task from its owner. A
// request that waits for the result ends, and the id is good for nothing any more.
func TestATaskIsReachedOnlyByWhoMayUseItsTool(t *testing.T) {
	for _, revoked := range revocations() {
		if revoked.name == "the tenant is removed" {
			continue // the door lets nobody in
		}
		t.Run(revoked.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newTasks(t, mcp.TasksAsked, everything(), elsewhere())
				id := made(t, b, l, mcp.TasksAsked)
				l.reply = func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
					<-ctx.Done()
					return mcp.Object{}, ctx.Err()
				}
				waiting := make(chan *mcp.Error, 1)
				go func() {
					_, err := b.Handle(t.Context(), b.caller(t, alice),
						about(mcp.TasksAsked, mcp.MethodTasksResult, id, ""))
					waiting <- asError(t, err)
				}()
				synctest.Wait()
				b.revoke(t, revoked)
				synctest.Wait()
				select {
				case told := <-waiting:
					if told.StableCode() != "DB-CANCELLED" {
						t.Errorf("whoever waits is told %v", told)
					}
				default:
					t.Fatal("the request for the result goes on")
				}
				if revoked.refused {
					return // the door refuses the token
				}
				used := len(l.uses)
				for _, method := range []string{
					mcp.MethodTasksGet, mcp.MethodTasksResult,
					mcp.MethodTasksCancel,
				} {
					if _, told := b.handle(t, about(mcp.TasksAsked, method, id,
						"")); stable(told) != "DB-TASK" || len(l.uses) != used {
						t.Errorf("%s: %v and %d uses, want the task unknown", method, told, len(l.uses)-used)
					}
				}
			})
		})
	}
}
