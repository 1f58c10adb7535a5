package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// keyedCall is a tools/call that is to run once.
func keyedCall(tool, key string) message { return modernCall(tool).with("Idempotency-Key", key) }

// begins sends m in the background. Its client leaves when ctx ends.
func (w *world) begins(ctx context.Context, m message) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- record(w.Handler(), m.request(ctx, "")) }()
	return done
}

// keeping opens two worlds that share the answers of calls with a key, as two replicas
// do.
func keeping(t *testing.T) (a, b *world) {
	t.Helper()
	answers := once.NewMemory(share.New(64 << 20))
	share := func(w *world) { w.config.Once = answers }
	return newWorld(t, share), newWorld(t, share)
}

func same(t *testing.T, what string, got, want *httptest.ResponseRecorder) {
	t.Helper()
	if got.Code != want.Code || got.Body.String() != want.Body.String() {
		t.Errorf("%s: got %d %s, want %d %s", what, got.Code, got.Body, want.Code, want.Body)
	}
}

func wantRefusal(t *testing.T, what string, got *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	if got.Code != status || !strings.Contains(got.Body.String(), `"`+code+`"`) {
		t.Errorf("%s: got %d %s, want %d %s", what, got.Code, got.Body, status, code)
	}
}

// TestACallWithAKeyRunsOnce sends a call to two replicas while it runs, and again later.
func TestACallWithAKeyRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := keeping(t)
		m := keyedCall("slow", "k")
		first := a.begins(t.Context(), m)
		synctest.Wait()
		repeats := []<-chan *httptest.ResponseRecorder{
			a.begins(t.Context(), m),
			b.begins(t.Context(), keyedCall("slow", `"k"`)),
		}
		wait(t)
		a.letGo()
		want := <-first
		if want.Code != http.StatusOK || !strings.Contains(want.Body.String(), "late") {
			t.Fatalf("got %d %s, want the result", want.Code, want.Body)
		}
		for _, repeat := range repeats {
			same(t, "a repeat while it ran", <-repeat, want)
		}
		<-time.After(once.Retention - time.Second)
		same(t, "a repeat later", b.do(t, m), want)
		if n, _ := a.counts(); n != 1 {
			t.Errorf("it ran %d times, want once", n)
		}
		<-time.After(time.Minute)
		again := b.begins(t.Context(), m)
		synctest.Wait()
		b.letGo()
		if got := <-again; got.Code != http.StatusOK {
			t.Errorf("after ten minutes: got %d", got.Code)
		}
		if n, _ := b.counts(); n != 1 {
			t.Errorf("after ten minutes it ran %d times at the other, want once", n)
		}
	})
}

// TestAKeyIsOfItsOwnerAndBody sends other bodies under a key, and the same by others.
func TestAKeyIsOfItsOwnerAndBody(t *testing.T) {
	t.Parallel()
	a, b := keeping(t)
	m := keyedCall("echo", "k")
	want := a.do(t, m)
	other := m
	other.body = strings.Replace(m.body, `"text":"x"`, `"text":"y"`, 1)
	wantRefusal(t, "another body", b.do(t, other), http.StatusUnprocessableEntity, "DB-IDEMPOTENCY-BODY")
	for _, token := range []string{"bob", "alice-other", "alice-issuer", "alice-globex", "alice-shift"} {
		if got := b.do(t, other.as(token)); got.Code != http.StatusOK || !strings.Contains(got.Body.String(),
			`"text":"y"`) {
			t.Errorf("%s: got %d %s, want a result of its own", token, got.Code, got.Body)
		}
	}
	same(t, "another token of the same owner", b.do(t, m.as("alice-again")), want)
	same(t, "the path of the tenant", b.do(t, message{m.method, "/t/acme/mcp", m.token, m.body, m.headers}),
		want)
}

func TestFormOfAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	longest := strings.Repeat("k", 128)
	for key, good := range map[string]bool{
		"k": true, `"k"`: true, `"a \"b\\ c"`: true, "8e03978e-40d5-43dd-bc93-6894a57f9324": true,
		longest: true, `"` + longest + `"`: true,
		`""`: false, " ": false, "a b": false, `"a`: false, `"a"b`: false, `"a\b"`: false, `"a\"`: false,
		"ä": false, "\"a\tb\"": false, longest + "k": false, `"a";p=1`: false,
	} {
		got := w.do(t, keyedCall("echo", key))
		if good && got.Code != http.StatusOK {
			t.Errorf("%q: got %d %s, want 200", key, got.Code, got.Body)
		} else if !good {
			wantRefusal(t, key, got, http.StatusBadRequest, "DB-IDEMPOTENCY-KEY")
		}
	}
	r := keyedCall("echo", "k").request(t.Context(), "")
	r.Header.Add("Idempotency-Key", "k")
	wantRefusal(t, "two keys", record(w.Handler(), r), http.StatusBadRequest, "DB-IDEMPOTENCY-KEY")
}

// TestOnlyCallsHaveKeys sends the header, malformed, with what has no effect and what
// sessions have.
func TestOnlyCallsHaveKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607,
			mcp.HeaderMethod:          mcp.MethodToolsList,
		},
	}
	id := w.open(t, "alice", mcp.Revision2511)
	for what, m := range map[string]message{"a list": list, "a session": legacyCall(id, "rich")} {
		for range 2 {
			if got := w.do(t, m.with("Idempotency-Key", "a b")); got.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", what, got.Code, got.Body)
			}
		}
	}
}

// TestAKeyOfARefusedCallIsFree calls a tool that is not there yet.
func TestAKeyOfARefusedCallIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := keyedCall("newcomer", "k")
	for range 2 {
		if got := w.do(t, m).Body.String(); !strings.Contains(got, "DB-TOOL") {
			t.Fatalf("got %s, want DB-TOOL", got)
		}
	}
	w.offer(t, "newcomer")
	if got := w.do(t, m).Body.String(); !strings.Contains(got, `"result"`) {
		t.Errorf("got %s, want the result", got)
	}
}

// TestARepeatKeepsItsCall lets the client of a call leave, once with a repeat that waits
// at another replica, and once without.
func TestARepeatKeepsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := keeping(t)
		for _, tool := range []string{"slow", "slow_progress"} {
			ctx, leave := context.WithCancel(t.Context())
			first := a.begins(ctx, keyedCall(tool, tool))
			synctest.Wait()
			repeat := b.begins(t.Context(), keyedCall(tool, tool))
			synctest.Wait()
			leave()
			<-time.After(time.Minute)
			a.letGo()
			<-first
			if got := <-repeat; !strings.Contains(got.Body.String(), "late") {
				t.Errorf("%s: the repeat got %s, want the result", tool, got.Body)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		lost := a.begins(ctx, keyedCall("slow", "lost"))
		synctest.Wait()
		leave()
		began := time.Now()
		<-lost
		if took := time.Since(began); took > time.Second {
			t.Errorf("a call that nobody waits for was cancelled after %v, want a second at most", took)
		}
		if got := b.do(t, keyedCall("slow", "lost")).Body.String(); !strings.Contains(got, "DB-CANCELLED") {
			t.Errorf("its repeat got %s, want DB-CANCELLED", got)
		}
		if started, cancelled := a.counts(); started != 3 || cancelled != 1 {
			t.Errorf("%d calls began, %d were cancelled; want 3, 1", started, cancelled)
		}
	})
}

// TestAKeptAnswerIsJudgedAgain asks for an answer where the caller may not use the tool
// any more, or never could.
func TestAKeptAnswerIsJudgedAgain(t *testing.T) {
	t.Parallel()
	a, b := keeping(t)
	m := keyedCall("echo", "k")
	want := a.do(t, m)
	b.tenants[0].Rules = []gateway.Rule{{Allow: []string{"fails"}}}
	b.setTenants(t, b.tenants)
	if got := b.do(t, m).Body.String(); !strings.Contains(got, "DB-TOOL") ||
		strings.Contains(got, `"result"`) {
		t.Errorf("where its config denies the tool: got %s, want DB-TOOL", got)
	}
	same(t, "where it may", a.do(t, m), want)
	a.setTenants(t, a.tenants[1:])
	wantRefusal(t, "without its tenant", a.do(t, m), http.StatusForbidden, "DB-TENANT")
}

// TestARevokedRepeatGetsNoAnswer revokes whoever waits for the answer of a call that runs
// at another replica.
func TestARevokedRepeatGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := keeping(t)
		first := a.begins(t.Context(), keyedCall("slow", "k"))
		synctest.Wait()
		repeat := b.begins(t.Context(), keyedCall("slow", "k"))
		synctest.Wait()
		b.tenants[0].Rules = []gateway.Rule{{Allow: []string{"echo"}}}
		b.setTenants(t, b.tenants)
		a.letGo()
		<-first
		if got := (<-repeat).Body.String(); strings.Contains(got, "late") ||
			!strings.Contains(got, "DB-TOOL") {
			t.Errorf("got %s, want DB-TOOL", got)
		}
	})
}

// TestARepeatThatIsGivenUpIsOnRecordAsCancelled has the client of a repeat leave, or
// revokes it, while the call runs. Neither says anything of what replicas share.
func TestARepeatThatIsGivenUpIsOnRecordAsCancelled(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		giveUp func(t *testing.T, b *world, leave func())
	}{
		"its client leaves": {"", func(_ *testing.T, _ *world, leave func()) { leave() }},
		"it is revoked": {"revoked", func(t *testing.T, b *world, _ func()) {
			b.setTenants(t, b.tenants[1:])
			b.Reauthorize()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := keeping(t)
				recorded := b.recording()
				lifetimetest.Run(t, b.Run)
				first := a.begins(t.Context(), keyedCall("slow", "k"))
				synctest.Wait()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				repeat := b.begins(ctx, keyedCall("slow", "k"))
				synctest.Wait()
				test.giveUp(t, b, leave)
				if got := (<-repeat).Body.String(); !strings.Contains(got, "DB-CANCELLED") {
					t.Errorf("got %s, want DB-CANCELLED", got)
				}
				records := recorded()
				if len(records) != 1 || records[0].Outcome != "cancelled" || records[0].Reason != test.reason {
					t.Errorf("got %+v, want one that is cancelled, with the reason %q", records, test.reason)
				}
				a.letGo()
				<-first
			})
		})
	}
}

// TestARepeatOfAStreamIsPlain repeats a call whose notifications made a stream of its
// answer.
func TestARepeatOfAStreamIsPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := keyedCall("progress", "k")
	first := w.do(t, m)
	if kind := first.Header().Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the first is %s, want a stream", kind)
	}
	got := w.do(t, m)
	if got.Header().Get("Content-Type") != "application/json" || !strings.Contains(first.Body.String(),
		got.Body.String()) {
		t.Errorf("got %s %s, want the last message of %s", got.Header().Get("Content-Type"), got.Body,
			first.Body)
	}
}

func TestALargeAnswerIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := keyedCall("echo", "k")
	m.body = strings.Replace(m.body, `"text":"x"`, `"text":"`+strings.Repeat("x", once.MaxAnswer)+`"`, 1)
	if got := w.do(t, m); got.Code != http.StatusOK {
		t.Fatalf("got %d, want 200", got.Code)
	}
	wantRefusal(t, "the repeat", w.do(t, m), http.StatusConflict, "DB-IDEMPOTENCY-ANSWER")
}

// TestRepeatsLeaveSlotsForOthers lets one user wait many times.
func TestRepeatsLeaveSlotsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.config.MaxRequests = 32 })
		m := keyedCall("slow", "k")
		first := w.begins(t.Context(), m)
		synctest.Wait()
		waiting, refused := 0, 0
		var all []<-chan *httptest.ResponseRecorder
		for range 16 {
			repeat := w.begins(t.Context(), m)
			time.Sleep(150 * time.Millisecond) // refusals are that late
			synctest.Wait()
			select {
			case got := <-repeat:
				wantRefusal(t, "one too many", got, http.StatusTooManyRequests, "DB-IDEMPOTENCY-FULL")
				refused++
			default:
				all = append(all, repeat)
				waiting++
			}
		}
		if waiting == 0 || waiting > 4 || refused == 0 {
			t.Errorf("%d wait and %d are refused; want 4 to wait at most", waiting, refused)
		}
		w.letGo()
		want := <-first
		for _, repeat := range all {
			same(t, "who waited", <-repeat, want)
		}
	})
}

// TestRedisKeepsAnswers sends repeats to another replica over a real Redis, and then
// stops that.
func TestRedisKeepsAnswers(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var hub replicatest.Hub
	replica := func() (*world, context.CancelFunc) {
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error, 1)
		var answers *once.Redis
		w := newWorld(t, func(w *world) {
			w.config.Seal, w.config.Others = ring, hub.Join()
			store := redis.New(server.Config())
			answers = once.NewRedis(once.RedisConfig{
				Store: store, Seal: ring, Others: w.config.Others, Quota: share.New(128 << 20),
			})
			redistest.Run(t, store)
			w.config.Once = answers
		})
		go func() { over <- answers.Run(ctx) }()
		return w, func() { stop(); <-over }
	}
	a, stopA := replica()
	defer stopA()
	b, stopB := replica()
	defer stopB()
	m := keyedCall("slow", "k")
	first := a.begins(t.Context(), m)
	eventually(t, func() bool { n, _ := a.counts(); return n == 1 })
	repeat := b.begins(t.Context(), m)
	want := a.do(t, keyedCall("echo", "other"))
	same(t, "a repeat of another call meanwhile", b.do(t, keyedCall("echo", "other")), want)
	a.letGo()
	same(t, "a repeat while it ran", <-repeat, <-first)
	if n, _ := b.counts(); n != 0 {
		t.Errorf("it ran %d times at the other", n)
	}
	lost := keyedCall("slow", "lost")
	over := a.begins(t.Context(), lost)
	eventually(t, func() bool { n, _ := a.counts(); return n == 2 })
	repeat = b.begins(t.Context(), lost)
	hub.Leave(a.config.Others.(*replicatest.Member))
	wantRefusal(t, "its replica is gone", <-repeat, http.StatusConflict, "DB-IDEMPOTENCY-OUTCOME")
	a.letGo()
	<-over
	server.Stop()
	got := b.do(t, m)
	wantRefusal(t, "without Redis", got, http.StatusServiceUnavailable, "DB-REPLICAS")
	if got.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if got := b.do(t, modernCall("echo")); got.Code != http.StatusOK {
		t.Errorf("a call without a key: got %d, want 200", got.Code)
	}
}

// denied is a store that believes each request to run at another replica.
type denied struct {
	home  replica.ID
	asked atomic.Int64
}

func (d *denied) Begin(context.Context, once.Request) (once.Claim, *once.Answer, error) {
	d.asked.Add(1)
	return nil, nil, &once.ElsewhereError{Home: d.home}
}

// TestADeniedRepeatIsTriedAgainWithPauses sends a repeat to a replica that believes its
// call to run at another one, which denies that.
func TestADeniedRepeatIsTriedAgainWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := &denied{}, &denied{home: replica.NewID()}
		c := together(t, 2, func(w *world) { w.config.Once = there })
		here.home = c.worlds[0].word().Self()
		b := c.join(t, func(w *world) { w.config.Once = here })
		began := time.Now()
		got := b.do(t, keyedCall("echo", "k"))
		if !strings.Contains(got.Body.String(), "DB-REPLICA-LOST") {
			t.Errorf("got %s, want that the call may have taken effect", got.Body)
		}
		if took, n := time.Since(began), here.asked.Load(); took < 5*time.Second || n > 20 {
			t.Errorf("asked %d times in %v, want 20 times at most, for some seconds", n, took)
		}
	})
}

// FuzzKey looks for a header that is taken although it is no key.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"k", `"k"`, `"\\"`, `"a" `, ""} {
		f.Add(key)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, key string) {
		r := modernCall("fails").request(t.Context(), "")
		r.Header["Idempotency-Key"] = []string{key}
		got := record(w.Handler(), r)
		clean := !strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' })
		if got.Code == http.StatusOK && (!clean || len(key) > 2*128+2) || got.Code != http.StatusOK &&
			got.Code != http.StatusBadRequest && got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q: got %d %s", fmt.Sprint(key), got.Code, got.Body)
		}
	})
}
