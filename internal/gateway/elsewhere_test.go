package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// pair is two gateways that share keys and limits, as two replicas do, each with a library of its own.
type pair struct {
	hub     *replicatest.Hub
	a, b    *bench
	atA     *library
	atB     *library
	memberA *replicatest.Member
}

const aliceToken = "the-token-of-alice"

var errToken = errors.New("a token of nobody")

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
			cfg.Verify = func(_ context.Context, token string) (auth.Principal, error) {
				if token != aliceToken {
					return auth.Principal{}, errToken
				}
				return alice, nil
			}
			if change != nil {
				change(home, cfg)
			}
		}, tenants...)
	}
	p.a, p.atA = open(true)
	p.b, p.atB = open(false)
	t.Cleanup(p.a.guests.close)
	t.Cleanup(p.b.guests.close)
	return p
}

// parks makes the library at A ask, in a way that only A can go on with, until the last round, which answers.
func (p *pair) parks(rounds int, answer func(context.Context, *registry.Call) (mcp.Object, error)) {
	p.atA.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		round := 1
		if state := c.Params.Text("requestState"); state != "" {
			if _, err := fmt.Sscanf(state, "parked %d", &round); err != nil {
				return mcp.Object{}, err
			}
			round++
		}
		if round > rounds {
			return answer(ctx, c)
		}
		if c.Stays != nil {
			*c.Stays = true
		}
		return object(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":"parked %d"}`, question, round)), nil
	}
	p.atB.fails(errors.New("this ran at the wrong replica"))
}

func done(context.Context, *registry.Call) (mcp.Object, error) {
	return object(subjects[0].answer("do\u202Ene")), nil
}

// askAlice is the request of a client that has alice's token.
func askAlice(params string) *Request {
	r := ask(mcp.MethodToolsCall, params)
	r.Token = aliceToken
	return r
}

// TestRepeatAtAnotherReplicaGoesHome alternates the repeats of a call between replicas.
func TestRepeatAtAnotherReplicaGoesHome(t *testing.T) {
	t.Parallel()
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1} // for the call alone
	p := newPair(t, nil, tenant)
	p.parks(4, func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		for i := range 20 {
			if err := c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: object(fmt.Sprintf(`{"progressToken":7,"progress":%d,"message":"h\u202Ealf"}`, i))}); err != nil {
				return mcp.Object{}, err
			}
		}
		return done(ctx, c)
	})
	r := askAlice(`{"name":"lib__ask","arguments":{"n":1},"_meta":{"progressToken":7}}`)
	var told []string
	r.Notify = func(_ context.Context, n mcp.Notification) error {
		told = append(told, string(n.Params.JSON()))
		return nil
	}
	result := p.a.asked(t, r)
	for i, at := range []*bench{p.b, p.a, p.b} {
		again := repeat(r, result)
		again.ID = fmt.Sprintf("again-%d", i)
		result = at.asked(t, again)
	}
	last := repeat(r, result)
	last.Refusals = map[string]*mcp.Error{"q2": mcp.Errorf(-7, "no")}
	result, failure := p.b.handle(t, last)
	if failure != nil || firstText(result) != "done" || !result.Has("resultType") {
		t.Fatalf("the last round: %s, %v", result.JSON(), failure)
	}
	if len(told) != 20 || !strings.Contains(told[19], `"progress":19`) || strings.Contains(told[0], "\u202E") {
		t.Errorf("told %d times, at last %v; want all 20 in order, clean", len(told), told)
	}
	use := p.atA.uses[len(p.atA.uses)-1]
	if use.Refusals["q2"] == nil || use.Refusals["q2"].Code != -7 || use.Capabilities.Len() == 0 || use.Principal.Subject != "alice" {
		t.Errorf("the item got %+v", use)
	}
	if len(p.atB.uses) != 0 || len(p.atA.uses) != 5 {
		t.Errorf("%d uses at the home, %d elsewhere; want 5, 0", len(p.atA.uses), len(p.atB.uses))
	}
	records := strings.Split(strings.TrimSpace(p.a.records(t)), "\n")
	if len(records) != 5 || strings.Count(strings.Join(records, ""), `"call_id":"r1"`) != 5 || !strings.Contains(records[1], `"request_id":"again-0"`) || p.b.records(t) != "" {
		t.Errorf("records at home %s\nand elsewhere %s; want one for each round, at home", records, p.b.records(t))
	}
	if home, there := metricstest.Sum(t, p.a.metrics, "drawbridge_calls_total"), metricstest.Sum(t, p.b.metrics, "drawbridge_calls_total"); home != 5 || there != 0 {
		t.Errorf("counted %v at home and %v elsewhere, want 5 and 0", home, there)
	}
	if all := p.a.records(t) + p.b.records(t); strings.Contains(all, aliceToken) {
		t.Error("the token is on record")
	}
	if in := metricstest.Sum(t, p.b.metrics, "drawbridge_calls_in_flight") + float64(p.b.inflight.Held()+p.a.inflight.Held()); in != 0 {
		t.Errorf("%v places are left taken", in)
	}
}

// TestBothReplicasJudgeARepeat shows that what either config forbids is refused, and runs nowhere.
func TestBothReplicasJudgeARepeat(t *testing.T) {
	t.Parallel()
	nothing := everything()
	nothing.Rules = []Rule{{Allow: []string{"*other"}}}
	set := func(t *testing.T, b *bench, tenants ...TenantConfig) {
		t.Helper()
		if err := b.SetTenants(tenants); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := everything()
	elsewhere.ID = "globex"
	for _, test := range []struct {
		name   string
		change func(*testing.T, *pair)
		want   string
		atHome bool // the home records it
	}{
		{"the home's config", func(t *testing.T, p *pair) { set(t, p.a, nothing) }, "DB-TOOL", true},
		{"the config of the replica that was asked", func(t *testing.T, p *pair) { set(t, p.b, nothing) }, "DB-TOOL", false},
		{"the home serves no such tenant", func(t *testing.T, p *pair) { set(t, p.a, elsewhere) }, "DB-TENANT", false},
		{"the home does not accept the token", func(_ *testing.T, p *pair) {
			p.a.config.Verify = func(context.Context, string) (auth.Principal, error) { return auth.Principal{}, errToken }
		}, "DB-TENANT", false},
		{"the token means another tenant at home", func(_ *testing.T, p *pair) {
			p.a.config.Verify = func(context.Context, string) (auth.Principal, error) {
				return auth.Principal{Issuer: alice.Issuer, Subject: alice.Subject, TenantID: "globex"}, nil
			}
		}, "DB-TENANT", false},
		{"the token means another user at home", func(_ *testing.T, p *pair) {
			p.a.config.Verify = func(context.Context, string) (auth.Principal, error) {
				return auth.Principal{Issuer: alice.Issuer, Subject: "bob", TenantID: "acme"}, nil
			}
		}, "DB-STATE", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, nil)
			p.parks(1, done)
			r := askAlice(subjects[0].params)
			result := p.a.asked(t, r)
			test.change(t, p)
			_, failure := p.b.handle(t, repeat(r, result))
			if stable(failure) != test.want || len(p.atA.uses) != 1 || len(p.atB.uses) != 0 {
				t.Errorf("%v and %d uses, want %s and none more", failure, len(p.atA.uses)+len(p.atB.uses), test.want)
			}
			home, there := strings.Count(p.a.records(t), `"request_id":"r2"`), strings.Count(p.b.records(t), `"request_id":"r2"`)
			if test.atHome && (home != 1 || there != 0) || !test.atHome && (home != 0 || there != 1) {
				t.Errorf("%d records at home, %d elsewhere", home, there)
			}
		})
	}
}

// waits makes the last round wait until its context ends, which it reports.
func waits(began, ended chan<- struct{}) func(context.Context, *registry.Call) (mcp.Object, error) {
	return func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return mcp.Object{}, ctx.Err()
	}
}

func TestClientLeavesElsewhere(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, nil)
			began, ended := make(chan struct{}), make(chan struct{})
			p.parks(1, waits(began, ended))
			r := askAlice(subjects[0].params)
			again := repeat(r, p.a.asked(t, r))
			ctx, leave := context.WithCancel(t.Context())
			if early { // as when the door gives up: the home must still let go
				leave()
			}
			over := make(chan error)
			go func() {
				c, err := p.b.Resolve(alice)
				if err == nil {
					_, err = p.b.Handle(ctx, c, again)
				}
				over <- err
			}()
			<-began
			left := time.Now()
			leave()
			if err := <-over; err == nil {
				t.Error("a client that left got a result")
			}
			<-ended
			if took := time.Since(left); took > time.Second {
				t.Errorf("the call went on for %v", took)
			}
			synctest.Wait()
			if !strings.Contains(p.a.records(t), `"outcome":"cancelled"`) {
				t.Errorf("records at home %s, want that it was cancelled", p.a.records(t))
			}
		})
	}
}

// TestReplicaThatWasAskedDies shows that the home ends the calls of a replica that is gone.
func TestReplicaThatWasAskedDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		began, ended := make(chan struct{}), make(chan struct{})
		p.parks(1, waits(began, ended))
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		over := make(chan *mcp.Error)
		go func() { _, failure := p.b.handle(t, again); over <- failure }()
		<-began
		p.hub.Leave(p.b.config.Others.(*replicatest.Member))
		<-ended
		if failure := <-over; stable(failure) != "DB-REPLICA-LOST" {
			t.Errorf("got %v, want that the home is silent", failure)
		}
	})
}

func TestRepeatOfACallWhoseHomeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.parks(1, done)
		r := askAlice(subjects[0].params)
		result := p.a.asked(t, r)
		p.hub.Leave(p.memberA)
		began := time.Now()
		_, failure := p.b.handle(t, repeat(r, result))
		if stable(failure) != "DB-REPLICA-LOST" || failure.RetryAfter != 0 || time.Since(began) > absence+time.Second {
			t.Errorf("got %v after %v, want soon that the call is lost, and not to try again", failure, time.Since(began))
		}
		if !strings.Contains(p.b.records(t), `"call_id":"r1"`) || !strings.Contains(p.b.records(t), `"reason":"lost"`) {
			t.Errorf("audit = %s", p.b.records(t))
		}
	})
}

func TestHomeDiesWhileARepeatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		began, ended := make(chan struct{}), make(chan struct{})
		p.parks(1, waits(began, ended))
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		over := make(chan *mcp.Error)
		go func() { _, failure := p.b.handle(t, again); over <- failure }()
		<-began
		p.hub.Leave(p.memberA)
		if failure := <-over; stable(failure) != "DB-REPLICA-LOST" {
			t.Errorf("got %v, want that the call is lost", failure)
		}
		if len(p.atB.uses) != 0 {
			t.Error("it ran again")
		}
	})
}

// deaf is a replica that cannot send word now.
type deaf struct {
	replica.Others

	down atomic.Bool
}

func (d *deaf) Send(ctx context.Context, to replica.ID, w replica.Word) error {
	if d.down.Load() {
		return redis.ErrDown
	}
	return d.Others.Send(ctx, to, w)
}

// newDeafPair opens a pair of which one, home or the other, can be kept from sending word.
func newDeafPair(t *testing.T, home bool) (p *pair, d *deaf) {
	t.Helper()
	p = newPair(t, func(of bool, cfg *Config) {
		if of == home {
			d = &deaf{Others: cfg.Others}
			cfg.Others = d
		}
	})
	return p, d
}

func TestRepeatWhileReplicasCannotTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDeafPair(t, false)
		p.parks(1, done)
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		d.down.Store(true)
		_, failure := p.b.handle(t, again)
		if stable(failure) != "DB-REPLICAS" || failure.Code != mcp.CodeUnavailable || failure.RetryAfter <= 0 {
			t.Errorf("got %v, want DB-REPLICAS and when to come back", failure)
		}
		d.down.Store(false)
		if result, failure := p.b.handle(t, again); firstText(result) != "done" {
			t.Errorf("afterwards: %v, want that nothing has happened to the call", failure)
		}
	})
}

// TestASilentHomeIsLost shows that a client does not wait for ever for a home that lives and cannot send word.
func TestASilentHomeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDeafPair(t, true)
		began, ended := make(chan struct{}), make(chan struct{})
		p.parks(1, waits(began, ended))
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		over := make(chan *mcp.Error)
		go func() { _, failure := p.b.handle(t, again); over <- failure }()
		<-began
		time.Sleep(8 * time.Second) // beats come, though the item says nothing
		d.down.Store(true)
		if failure := <-over; stable(failure) != "DB-REPLICA-LOST" {
			t.Errorf("got %v, want that the call is lost", failure)
		}
		<-ended // the home was told that the client is gone
	})
}

// TestTwoRepeatsAtTwoReplicas sends one repeat to both replicas at once: both run at home, one of them is free.
func TestTwoRepeatsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.0001, Burst: 1}
	p := newPair(t, nil, tenant)
	p.parks(1, done)
	r := askAlice(subjects[0].params)
	again := repeat(r, p.a.asked(t, r))
	var mu sync.Mutex
	var got []string
	var both sync.WaitGroup
	for _, at := range []*bench{p.a, p.b} {
		both.Go(func() {
			_, failure := at.handle(t, again)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, stable(failure))
		})
	}
	both.Wait()
	slices.Sort(got)
	if !slices.Equal(got, []string{"", "DB-LIMIT-USER"}) {
		t.Errorf("got %q, want one free and one charged", got)
	}
}

// echoes is a replica whose letters all come once more, when it is told so.
type echoes struct {
	replica.Others

	mu   sync.Mutex
	sent []func()
}

func (e *echoes) Send(ctx context.Context, to replica.ID, w replica.Word) error {
	again := func() { _ = e.Others.Send(context.WithoutCancel(ctx), to, w) }
	again() // at once, as when the first was thought lost
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, again)
	return e.Others.Send(ctx, to, w)
}

// TestLettersThatComeTwiceCountOnce shows that what is sent again because nobody knew whether it had come runs nothing
// again, neither while the call runs nor afterwards.
func TestLettersThatComeTwiceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*echoes
		p := newPair(t, func(_ bool, cfg *Config) {
			e := &echoes{Others: cfg.Others}
			all, cfg.Others = append(all, e), e
		})
		p.parks(1, func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			_ = c.Notify(ctx, mcp.Notification{Method: mcp.NotifyMessage, Params: object(`{"level":"error","data":1}`)})
			return texts(strings.Repeat("many letters ", partSize/4)), nil
		})
		r := askAlice(subjects[0].params)
		told := 0
		r.LogLevel, r.Notify = 1, func(context.Context, mcp.Notification) error { told++; return nil }
		result, failure := p.b.handle(t, repeat(r, p.a.asked(t, r)))
		if failure != nil || len(firstText(result)) != 13*partSize/4 || told != 1 {
			t.Errorf("got %v and %d bytes, told %d times", failure, len(firstText(result)), told)
		}
		for _, e := range all {
			for _, again := range e.sent {
				again()
			}
		}
		synctest.Wait()
		if records := strings.Count(p.a.records(t), "\n"); len(p.atA.uses) != 2 || records != 2 {
			t.Errorf("%d uses, %d records; want one for each round", len(p.atA.uses), records)
		}
	})
}

// TestRevokedWhereItWasAsked shows that a caller who loses the item where the client is connected loses the call.
func TestRevokedWhereItWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		began, ended := make(chan struct{}), make(chan struct{})
		p.parks(1, waits(began, ended))
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		over := make(chan *mcp.Error)
		go func() { _, failure := p.b.handle(t, again); over <- failure }()
		<-began
		if n := p.b.Judge(func(auth.Principal) (Caller, bool) { return Caller{}, false }); n != 1 {
			t.Errorf("ended %d calls, want 1", n)
		}
		if failure := <-over; stable(failure) != "DB-CANCELLED" {
			t.Errorf("got %v, want it cancelled", failure)
		}
		<-ended
		if !strings.Contains(p.b.records(t), `"reason":"revoked"`) {
			t.Errorf("audit = %s", p.b.records(t))
		}
	})
}

// TestLargeMessagesBetweenReplicas passes large requests and answers on, within the memory of the user on both sides.
func TestLargeMessagesBetweenReplicas(t *testing.T) {
	t.Parallel()
	memory := map[bool]*share.Budget{true: share.New(1 << 30), false: share.New(1 << 30)}
	small := share.New(4 << 20)
	tenant := everything()
	tenant.Output.MaxText = 64 << 20
	p := newPair(t, func(home bool, cfg *Config) { cfg.Memory = memory[home] }, tenant)
	large := strings.Repeat("abcdefgh", 4<<20/8)
	p.parks(1, func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		if got := c.Params.Object("inputResponses").Text("q"); got != "" && got != large {
			return mcp.Object{}, errors.New("another request arrived")
		}
		return texts(large), nil
	})
	for _, test := range []struct {
		name    string
		answers string
		size    int
		room    *share.Budget
		want    string
	}{
		{"an answer of 4 MiB", `{}`, 4 << 20, memory[false], ""},
		{"a request of 4 MiB", `{"q":` + quote(large) + `}`, 4 << 20, memory[false], ""},
		{"no room for the answer", `{}`, 4 << 20, small, "DB-OUTPUT-MEMORY"},
		{"too large an answer", `{}`, maxPassed + 1, memory[false], "DB-OUTPUT-SIZE"},
		{"too large a request", `{"q":` + quote(strings.Repeat("a", maxPassed)) + `}`, 1, memory[false], "DB-BODY-SIZE"},
	} {
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		again.Params = again.Params.With("inputResponses", mcp.RawJSON(test.answers))
		large = strings.Repeat("abcdefgh", (test.size+7)/8)
		again.Room = test.room.Claim(share.User(alice.User()))
		result, failure := p.b.handle(t, again)
		if stable(failure) != test.want || test.want == "" && firstText(result) != large {
			t.Errorf("%s: got %v and %d bytes, want %q", test.name, failure, result.Size(), test.want)
		}
		again.Room.Release()
	}
	p.a.guests.close()
	if a, b := memory[true].Held(), memory[false].Held(); a != 0 || b != 0 || small.Held() != 0 {
		t.Errorf("%d and %d and %d bytes are left held", a, b, small.Held())
	}
}

// TestTaskOfASessionGoesHome asks for tasks of both forms at another replica than the one that made them.
func TestTaskOfASessionGoesHome(t *testing.T) {
	for _, form := range []mcp.Tasks{mcp.TasksAsked, mcp.TasksGiven} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, nil)
			for b, l := range map[*bench]*library{p.a: p.atA, p.b: p.atB} {
				s := l.source("lib")
				s.Tools[0].Tasks = form
				if form == mcp.TasksAsked {
					s.Tools[0].Definition = s.Tools[0].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"optional"}`))
				}
				b.replace(t, s)
			}
			id := made(t, p.a, p.atA, form)
			at, wrong := p.atA, p.atB
			if form == mcp.TasksGiven {
				at, wrong = p.atB, p.atA
			}
			wrong.fails(errors.New("this ran at the wrong replica"))
			at.says(`{"taskId":"own-1","status":"working"}`)
			get := about(form, mcp.MethodTasksGet, id, "")
			get.Token = aliceToken
			if result, failure := p.b.handle(t, get); failure != nil || result.Text("taskId") != id {
				t.Fatalf("form %d: got %s, %v", form, result.JSON(), failure)
			}
			if form == mcp.TasksGiven {
				return
			}
			at.reply = func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
				select { // longer than a silence
				case <-time.After(20 * time.Minute):
					return texts("at last"), nil
				case <-ctx.Done():
					return mcp.Object{}, ctx.Err()
				}
			}
			wait := about(form, mcp.MethodTasksResult, id, "")
			wait.Token = aliceToken
			over := make(chan mcp.Object)
			go func() { result, _ := p.b.handle(t, wait); over <- result }()
			time.Sleep(time.Minute)
			if here, there := p.a.inflight.Held(), p.b.inflight.Held(); here != 1 || there != 0 {
				t.Errorf("%d places taken at home, %d elsewhere; want 1, 0", here, there)
			}
			if result := <-over; firstText(result) != "at last" {
				t.Errorf("the result: got %s", result.JSON())
			}
			p.hub.Leave(p.memberA)
			if _, failure := p.b.handle(t, get); stable(failure) != "DB-TASK" {
				t.Errorf("after its home: got %v, want DB-TASK", failure)
			}
		})
	}
}

// TestStatesThatNeedNoHome shows which states name a replica: only those with which no other could go on, so that a
// version of the gateway that knows no such states opens all others.
func TestStatesThatNeedNoHome(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.atA.asksOnce(subjects[0])
	p.atB.asksOnce(subjects[0])
	r := askAlice(subjects[0].params)
	result := p.a.asked(t, r)
	if _, err := p.a.config.Seal.OpenLong(purposeState, result.Text("requestState")); err != nil {
		t.Error("a state that any replica can go on with is sealed in another form than before")
	}
	p.hub.Leave(p.memberA)
	if result, failure := p.b.handle(t, repeat(r, result)); firstText(result) != "done" {
		t.Errorf("at the other replica: %v", failure)
	}
	p.parks(1, done)
	result = p.a.asked(t, r)
	if _, err := p.a.config.Seal.OpenLong(purposeHome, result.Text("requestState")); err != nil {
		t.Error("the state of a parked call does not name its home")
	}
	alone, l := newLibrary(t)
	l.reply = p.atA.reply
	if _, err := alone.config.Seal.OpenLong(purposeState, alone.asked(t, r).Text("requestState")); err != nil {
		t.Error("a gateway without others names a home")
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
	r := askAlice(subjects[0].params)
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
	s.Tools = append([]registry.Offer{{Definition: object(`{"name":"aaa","inputSchema":{"type":"object"}}`), Timeout: libraryTime, Call: s.Tools[0].Call}}, s.Tools...)
	p.b.replace(t, s)
	if next, failure = list(p.b, alice, cursor); failure != nil || !strings.Contains(string(next.JSON()), "lib__other") {
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
