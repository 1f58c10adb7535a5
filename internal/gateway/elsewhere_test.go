package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// pair is two gateways that share keys and limits, as two replicas do, each with a
// library of its own.
type pair struct {
	hub     *replicatest.Hub
	a, b    *bench
	atA     *library
	atB     *library
	memberA *replicatest.Member
}

// newPair opens a pair. change may alter the config of either; it is told which.
func newPair(t *testing.T, change func(home bool, cfg *Config), tenants ...TenantConfig) *pair {
	t.Helper()
	if len(tenants) == 0 {
		tenants = []TenantConfig{everything()}
	}
	p := &pair{hub: &replicatest.Hub{}}
	ring, limits := seal.RandomRing(), ratelimit.NewMemory(0)
	open := func(home bool) (*bench, *library) {
		member := p.hub.Join()
		if home {
			p.memberA = member
		}
		return newLibraryOf(t, func(cfg *Config) {
			cfg.Seal, cfg.Limiter, cfg.Others = ring, limits, member
			if change != nil {
				change(home, cfg)
			}
		}, tenants...)
	}
	p.a, p.atA = open(true)
	p.b, p.atB = open(false)
	return p
}

// parks makes the library at A ask once, in a way that only A can go on with, before it
// answers.
func (p *pair) parks(answer func(context.Context, *registry.Call) (mcp.Object, error)) {
	p.atA.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		round := 1
		if state := c.Params.Text("requestState"); state != "" {
			if _, err := fmt.Sscanf(state, "parked %d", &round); err != nil {
				return mcp.Object{}, err
			}
			round++
		}
		if round > 1 {
			return answer(ctx, c)
		}
		if c.Sticky != nil {
			*c.Sticky = true
		}
		return object(
			fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":"parked %d"}`,
				question, round)), nil
	}
	p.atB.fails(errors.New("this ran at the wrong replica"))
}

func done(context.Context, *registry.Call) (mcp.Object, error) {
	return object(subjects[0].answer("do\u202Ene")), nil
}

func TestRepeatOfACallWhoseHomeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.parks(done)
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result := p.a.asked(t, r)
		p.hub.Leave(p.memberA)
		_, failure := p.b.handle(t, repeat(r, result))
		if stable(failure) != "DB-REPLICA-LOST" || failure.RetryAfter != 0 {
			t.Errorf("got %v, want that the call is lost, and not to try again", failure)
		}
		if !strings.Contains(p.b.records(t), `"call_id":"r1"`) ||
			!strings.Contains(p.b.records(t), `"reason":"replica_lost"`) {
			t.Errorf("audit = %s", p.b.records(t))
		}
	})
}

// TestStatesThatNeedNoHome shows which states name a replica: only those with which no
// other could go on.
func TestStatesThatNeedNoHome(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	homeIn := func(g *Gateway, result mcp.Object) replica.ID {
		t.Helper()
		s := &state{}
		if !g.open(purposeState, result.Text("requestState"), s) {
			t.Error("the state does not open")
		}
		return s.Home
	}
	p.atA.asksOnce(subjects[0])
	p.atB.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	result := p.a.asked(t, r)
	if home := homeIn(p.a.Gateway, result); home != "" {
		t.Errorf("a state that any replica can go on with names %q", home)
	}
	p.hub.Leave(p.memberA)
	if result, failure := p.b.handle(t, repeat(r, result)); firstText(result) != "done" {
		t.Errorf("at the other replica: %v", failure)
	}
	p.parks(done)
	result = p.a.asked(t, r)
	if home := homeIn(p.a.Gateway, result); home != p.a.self {
		t.Errorf("the state of a parked call names %q, not its home", home)
	}
	alone, l := newLibrary(t)
	l.reply = p.atA.reply
	if home := homeIn(alone.Gateway, alone.asked(t, r)); home != "" {
		t.Errorf("a gateway without others names the home %q", home)
	}
}

// TestStateIsFreeOnceEverywhere uses one state at two replicas over a real Redis.
func TestStateIsFreeOnceEverywhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.0001, Burst: 2}
	p := newPair(t, func(_ bool, cfg *Config) { cfg.Shared = server.Store(t) }, tenant)
	p.atA.asksOnce(subjects[0])
	p.atB.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	first := repeat(r, p.a.asked(t, r))
	second := repeat(r, p.b.asked(t, r)) // the last token
	for i, step := range []struct {
		at   *bench
		r    *Request
		want string
	}{
		{p.b, first, ""}, {p.a, first, "DB-LIMIT-USER"}, {p.b, first, "DB-LIMIT-USER"}, {p.a, second, ""},
	} {
		if _, failure := step.at.handle(t, step.r); stable(failure) != step.want {
			t.Errorf("step %d: got %v, want %q", i, failure, step.want)
		}
	}
	server.Stop()
	for i, step := range []struct {
		at   *bench
		want string
	}{
		{p.b, ""}, // B has not seen it, and can ask nobody
		{p.b, "DB-LIMIT-USER"}, {p.a, "DB-LIMIT-USER"},
	} {
		if _, failure := step.at.handle(t, second); stable(failure) != step.want {
			t.Errorf("without redis, step %d: got %v, want %q", i, failure, step.want)
		}
	}
}

// TestCursorAtAnotherReplica goes on with a list at a replica whose list is another one.
func TestCursorAtAnotherReplica(t *testing.T) {
	t.Parallel()
	globex := everything()
	globex.ID = "globex"
	p := newPair(t, func(_ bool, cfg *Config) { cfg.PageSize = 1 }, everything(), globex)
	list := func(b *bench, who auth.Principal, cursor string) (mcp.Object, *mcp.Error) {
		params := mcp.Object{}
		if cursor != "" {
			params = params.With("cursor", mcp.String(cursor))
		}
		return b.handleAs(t, b.caller(t, who), &Request{Method: mcp.MethodToolsList, Params: params})
	}
	first, _ := list(p.a, alice, "")
	cursor := first.Text("nextCursor")
	next, failure := list(p.b, alice, cursor)
	if failure != nil || !strings.Contains(string(next.JSON()), "lib__other") {
		t.Errorf("the next page: got %s, %v", next.JSON(), failure)
	}
	s := p.atB.source("lib")
	s.Tools = append([]registry.Offer{{
		Definition: object(`{"name":"aaa","inputSchema":{"type":"object"}}`),
		Timeout:    libraryTime, Call: s.Tools[0].Call,
	}}, s.Tools...)
	p.b.replace(t, s)
	if next, failure = list(p.b, alice, cursor); failure != nil || !strings.Contains(string(next.JSON()),
		"lib__other") {
		t.Errorf("the next page of a list that has more: got %s, %v", next.JSON(), failure)
	}
	s.Tools = s.Tools[2:]
	p.b.replace(t, s)
	if _, failure = list(p.b, alice, cursor); stable(failure) != "DB-CURSOR" {
		t.Errorf("a list without the item: got %v, want DB-CURSOR", failure)
	}
	other := alice
	other.TenantID = "globex"
	if _, failure = list(p.b, other, cursor); stable(failure) != "DB-CURSOR" {
		t.Errorf("another tenant's cursor: got %v, want DB-CURSOR", failure)
	}
}

// TestRequestsNameTheReplicaThatGoesOn lists what the door asks before it forwards a
// request.
func TestRequestsNameTheReplicaThatGoesOn(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.parks(done)
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	parked := repeat(r, p.a.asked(t, r))
	p.atA.asksOnce(subjects[0])
	free := repeat(r, p.a.asked(t, r))
	s := p.atB.source("lib")
	s.Tools[0].Tasks = mcp.TasksAsked
	s.Tools[0].Definition = s.Tools[0].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"optional"}`))
	p.b.replace(t, s)
	task := about(mcp.TasksAsked, mcp.MethodTasksGet, made(t, p.b, p.atB, mcp.TasksAsked), "")
	home := p.memberA.Self()
	for name, test := range map[string]struct {
		r    *Request
		want replica.ID
	}{
		"a call":                           {r, ""},
		"a repeat that waits there":        {parked, home},
		"a repeat that any can go on with": {free, ""},
		"a task":                           {task, p.b.config.Others.Self()},
		"a state of nobody": {&Request{Method: r.Method, Params: r.Params.With("requestState",
			mcp.String("forged"))}, ""},
		"a task of nobody": {about(mcp.TasksAsked, mcp.MethodTasksGet, "forged", ""), ""},
	} {
		for _, at := range []*bench{p.a, p.b} {
			want := test.want
			if want == at.config.Others.Self() {
				want = ""
			}
			if got := at.Home(at.caller(t, alice), test.r.Method, test.r.Params,
				mcp.Extensions{}); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

// TestRepeatsOfAppsNameTheirReplica shows that a call which waits at a replica is found
// there although its tool is for clients alone that declare an extension.
func TestRepeatsOfAppsNameTheirReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.parks(done)
	for at, l := range map[*bench]*library{p.a: p.atA, p.b: p.atB} {
		s := l.source("lib")
		s.Tools[0].Definition = s.Tools[0].Definition.With("_meta",
			mcp.RawJSON(`{"ui":{"visibility":["app"]}}`))
		at.replace(t, s)
	}
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	r.Extensions = appHost
	parked := repeat(r, p.a.asked(t, r))
	for name, test := range map[string]struct {
		declared mcp.Extensions
		want     replica.ID
	}{
		"a client that shows apps": {appHost, p.memberA.Self()},
		"a client that shows none": {mcp.Extensions{}, ""},
	} {
		if got := p.b.Home(p.b.caller(t, alice), r.Method, parked.Params, test.declared); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
