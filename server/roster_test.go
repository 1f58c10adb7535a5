package server_test

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

const limitSessions = "DB-LIMIT-SESSIONS"

// bounded bounds the sessions of the tenant acme, and of each user of it.
func bounded(tenant, user int) func(*world) {
	return func(w *world) { w.tenants[0].Limits.Sessions, w.tenants[0].Limits.UserSessions = &tenant, &user }
}

// alive tells whether a session is, and fails the test when the answer says neither. It
// is a use of the session.
func (w *world) alive(t *testing.T, token, id string) bool {
	t.Helper()
	got := w.do(t, inSession("POST", id, pingBody).as(token))
	if got.Code != http.StatusOK && got.Code != http.StatusNotFound {
		t.Fatalf("ping: got %d %s", got.Code, got.Body)
	}
	return got.Code == http.StatusOK
}

// expectAlive wants some sessions of alice to be alive and the others to have ended.
func (w *world) expectAlive(t *testing.T, want map[string]bool) {
	t.Helper()
	for id, want := range want {
		if got := w.alive(t, "alice", id); got != want {
			t.Errorf("a session: got alive %v, want %v", got, want)
		}
	}
}

// sessionsOpen returns the gauge of the sessions of acme.
func (w *world) sessionsOpen(t testing.TB) int {
	t.Helper()
	return int(metricstest.Sum(t, w.metrics, "drawbridge_sessions_open", "tenant", "acme"))
}

// TestSessionsOpenedAtOnceKeepTheBound opens thousands of sessions of one user over many
// connections at once, with as many clients. At every moment and in the end there are as
// many as may be, and no more.
func TestSessionsOpenedAtOnceKeepTheBound(t *testing.T) {
	const most, connections, each = 1000, 64, 50
	w := newWorld(t)
	h, ids := w.Handler(), make([][]string, connections)
	var all sync.WaitGroup
	for n := range connections {
		all.Go(func() {
			token := []string{"alice", "alice-other"}[n%2]
			for i := range each {
				got := record(h, initialize(mcp.Revision2511).as(token).request(t.Context(), ""))
				if i%8 == 0 {
					if open := w.sessionsOpen(t); open > most {
						t.Errorf("%d sessions are open, want at most %d", open, most)
					}
				}
				switch {
				case got.Code == http.StatusOK:
					ids[n] = append(ids[n], got.Header().Get(mcp.HeaderSessionID))
				case stable(t, got.Body) != limitSessions:
					t.Errorf("got %d %s, want a session or %s", got.Code, got.Body, limitSessions)
				}
			}
		})
	}
	all.Wait()
	alive := 0
	for n, some := range ids {
		for _, id := range some {
			if w.alive(t, []string{"alice", "alice-other"}[n%2], id) {
				alive++
			}
		}
	}
	if open := w.sessionsOpen(t); alive != most || open != most {
		t.Errorf("%d sessions are alive and the gauge says %d, want %d", alive, open, most)
	}
}

// TestNewSessionReplacesTheOneLongestIdle opens one session more than a user may have.
// The new one works; the one that was not used for longest has ended, not the one opened
// first, as that was used since.
func TestNewSessionReplacesTheOneLongestIdle(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		files := &files{told: make(map[string]map[int]func(string))}
		w.behind(&fakeDesk{files: files})
		var ids []string
		for range 3 {
			ids = append(ids, w.open(t, "alice", mcp.Revision2511))
			wait(t)
		}
		w.do(t, inSession("POST", ids[1],
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
		wait(t)
		bob, elsewhere := w.open(t, "bob", mcp.Revision2511), w.open(t, "alice-globex", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{ids[0]: true, ids[2]: true})
		wait(t)
		next := w.open(t, "alice", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{ids[0]: true, ids[1]: false, ids[2]: true, next: true})
		if n := files.open(); n != 0 {
			t.Errorf("%d subscriptions of the session that ended are open, want none", n)
		}
		if !w.alive(t, "bob", bob) || !w.alive(t, "alice-globex", elsewhere) {
			t.Error("a session of another user or tenant ended, want those of the user only")
		}
	}, bounded(10, 3))
}

// TestUserIsBoundWhateverTheClient opens sessions with another client id: it is the
// client's own choice.
func TestUserIsBoundWhateverTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.open(t, "alice", mcp.Revision2511)
		for range 2 {
			wait(t)
			w.open(t, "alice-other", mcp.Revision2511)
		}
		w.expectAlive(t, map[string]bool{first: false})
	}, bounded(10, 2))
}

// TestTenantIsBoundWhateverTheUsers opens sessions of several users, none of whom has as
// many as one may have.
func TestTenantIsBoundWhateverTheUsers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.open(t, "alice", mcp.Revision2511)
		wait(t)
		bob := w.open(t, "bob", mcp.Revision2511)
		wait(t)
		again := w.open(t, "alice-issuer", mcp.Revision2511)
		if w.alive(t, "alice", alice) || !w.alive(t, "bob", bob) || !w.alive(t, "alice-issuer", again) {
			t.Error("want the oldest session ended, and the others alive")
		}
	}, bounded(2, 2))
}

// inUse opens three sessions of alice: one has a stream open, one a call in work, one is
// over HTTP+SSE.
func (w *world) inUse(t *testing.T) (ids []string, sse net.Conn) {
	t.Helper()
	ids = []string{w.open(t, "alice", mcp.Revision2511), w.open(t, "alice", mcp.Revision2511)}
	w.follow(t, inSession("GET", ids[0], ""))
	w.follow(t, legacyCall(ids[1], "slow"))
	sse = w.pipe(t, message{method: "GET", path: "/sse", token: "alice"})
	go io.Copy(io.Discard, sse)
	<-time.After(5 * time.Minute) // what began long ago goes on
	synctest.Wait()
	return ids, sse
}

// TestSessionInUseIsNotEvicted opens one more session while all that the user may have
// are in use: it is refused, and says why. Once a call ended, its session is the one that
// goes.
func TestSessionInUseIsNotEvicted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ids, _ := w.inUse(t)
		for range 2 {
			for _, m := range []message{
				initialize(mcp.Revision2511),
				{method: "GET", path: "/sse", token: "alice-other"},
			} {
				got := w.do(t, m)
				if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "5" ||
					got.Header().Get(mcp.HeaderSessionID) != "" {
					t.Errorf("%s: got %d %v, want 429 and Retry-After 5", m.method, got.Code, got.Header())
				}
				if text := got.Body.String(); stable(t, got.Body) != limitSessions ||
					!strings.Contains(
						text, "All sessions that you may have are in use: end one with DELETE") {
					t.Errorf("%s: got %s, want the code and what to do", m.method, text)
				}
			}
		}
		if open := w.sessionsOpen(t); open != 3 {
			t.Errorf("%d sessions are open, want 3", open)
		}
		w.letGo()
		wait(t)
		next := w.open(t, "alice", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{ids[0]: true, ids[1]: false, next: true})
	}, bounded(10, 3))
}

// TestSessionOverSSEGivesItsSlotBack ends the stream of a session over HTTP+SSE, and
// with it the session.
func TestSessionOverSSEGivesItsSlotBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ids, sse := w.inUse(t)
		sse.Close()
		wait(t)
		next := w.open(t, "alice", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{ids[0]: true, ids[1]: true, next: true})
		w.letGo()
	}, bounded(3, 3))
}

// TestNewSessionDoesNotDieBeforeItsFirstMessage opens two sessions in a row where there
// is room for one: the first had no time to use its own yet, and keeps it.
func TestNewSessionDoesNotDieBeforeItsFirstMessage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.do(t, initialize(mcp.Revision2511)).Header().Get(mcp.HeaderSessionID)
		if got := w.do(t, initialize(mcp.Revision2511)); stable(t, got.Body) != limitSessions {
			t.Errorf("got %d %s, want %s", got.Code, got.Body, limitSessions)
		}
		w.expectAlive(t, map[string]bool{first: true}) // and from this message on it is like others
		second := w.do(t, initialize(mcp.Revision2511)).Header().Get(mcp.HeaderSessionID)
		w.expectAlive(t, map[string]bool{first: false})
		wait(t) // longer than a client may take
		w.open(t, "alice", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{second: false})
	}, bounded(1, 1))
}

// TestNewSessionThatWasUsedHasItsTurn uses a new session at once, and then another one:
// of the two, the new one is longer idle, although a new one that was not used would
// stay.
func TestNewSessionThatWasUsedHasItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		older := w.open(t, "alice", mcp.Revision2511)
		wait(t)
		newer := w.open(t, "alice", mcp.Revision2511)
		<-time.After(server.OpeningTime / 4)
		w.expectAlive(t, map[string]bool{older: true})
		<-time.After(server.OpeningTime / 4)
		next := w.open(t, "alice", mcp.Revision2511)
		w.expectAlive(t, map[string]bool{older: true, newer: false, next: true})
	}, bounded(2, 2))
}

// TestSessionBoundsAreReloaded lowers the bound while sessions are open, and then to
// nothing.
func TestSessionBoundsAreReloaded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range 6 {
			w.open(t, "alice", mcp.Revision2511)
		}
		wait(t)
		for _, test := range []struct{ tenant, user, open int }{{5, 5, 5}, {2, 3, 2}, {3, 1, 1}} {
			bounded(test.tenant, test.user)(w)
			w.gateway.SetPolicy("", w.tenants)
			w.open(t, "alice", mcp.Revision2511)
			if open := w.sessionsOpen(t); open != test.open {
				t.Errorf("%+v: %d sessions are open", test, open)
			}
		}
		for _, none := range [][2]int{{0, 3}, {3, 0}} {
			bounded(none[0], none[1])(w)
			w.gateway.SetPolicy("", w.tenants)
			got := w.do(t, initialize(mcp.Revision2511))
			if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "" ||
				stable(t, got.Body) != limitSessions {
				t.Errorf("%v: got %d %v, want 429 without Retry-After", none, got.Code, got.Header())
			}
		}
		if open := w.sessionsOpen(t); open != 1 {
			t.Errorf("%d sessions are open, want the one that was", open)
		}
	}, bounded(10, 10))
}

// TestMessagesTakeNoSharedLock sends a message of a session while the roster's mutex is
// held, as it is when somebody opens a session.
func TestMessagesTakeNoSharedLock(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "alice", mcp.Revision2511)
	release := server.HoldRoster(w.Server)
	defer release()
	answered := make(chan int, 1)
	go func() { answered <- w.do(t, legacyCall(id, "fails")).Code }()
	select {
	case code := <-answered:
		if code != http.StatusOK {
			t.Errorf("got %d, want 200", code)
		}
	case <-time.After(time.Minute):
		t.Error("the message waits for the roster")
	}
}

// pausingRecords can be held up while a record is looked up.
type pausingRecords struct {
	primarytest.Store
	pause atomic.Bool
	goOn  chan struct{}
}

func (r *pausingRecords) Read(ctx context.Context, k primary.Key) (primary.Entry, error) {
	found, err := r.Store.Read(ctx, k)
	if r.pause.Load() {
		<-r.goOn
	}
	return found, err
}

// TestEvictedSessionTakesNoCall evicts a session after a request has found it, and before
// its call begins: nobody would end that call with the session.
func TestEvictedSessionTakesNoCall(t *testing.T) {
	records := &pausingRecords{}
	bubble(t, func(t *testing.T, w *world) {
		records.goOn = make(chan struct{})
		id := w.open(t, "alice", mcp.Revision2511)
		records.pause.Store(true)
		w.config.Others.(*replicatest.Member).SetLeads(false)
		wait(t)
		<-time.After(time.Second)
		w.config.Others.(*replicatest.Member).SetLeads(true) // so the session is looked up once more
		answered := make(chan int, 1)
		go func() { answered <- w.do(t, legacyCall(id, "slow")).Code }()
		synctest.Wait()
		if got := w.do(t, initialize(mcp.Revision2511)); got.Code != http.StatusOK {
			t.Errorf("initialize: got %d %s, want 200", got.Code, got.Body)
		}
		close(records.goOn)
		synctest.Wait()
		if started, _ := w.counts(); started != 0 {
			t.Error("a call began in a session that has ended")
			w.letGo()
		}
		if code := <-answered; code != http.StatusNotFound {
			t.Errorf("the call: got %d, want 404", code)
		}
	}, bounded(1, 1), func(w *world) {
		w.config.Entries, w.config.Others = records, new(replicatest.Hub).Join()
	})
}

// TestEvictedSessionsGiveTheirMemoryBack evicts sessions of other users for a new one:
// their users would hold what they took for ever.
func TestEvictedSessionsGiveTheirMemoryBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open(t, "alice", mcp.Revision2511)
		held := w.config.Memory.InUse()
		for _, user := range []string{"bob", "alice", "bob"} {
			<-time.After(time.Second)
			w.open(t, user, mcp.Revision2511)
		}
		if got := w.config.Memory.InUse(); got != held {
			t.Errorf("%d bytes are held for one session, which took %d", got, held)
		}
	}, bounded(1, 1), func(w *world) { w.config.Memory = share.New(share.DefaultMemory) })
}

// TestRefusedSessionKeepsNoMemory refuses a session after one of its user was evicted for
// it, since a reload lowered the bound of the tenant: the user would hold for ever what
// the evicted session took.
func TestRefusedSessionKeepsNoMemory(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		busy := w.open(t, "bob", mcp.Revision2511)
		called := make(chan int, 1)
		go func() { called <- w.do(t, legacyCall(busy, "slow").as("bob")).Code }()
		synctest.Wait()
		held := w.config.Memory.InUse()
		idle := w.open(t, "alice", mcp.Revision2511)
		wait(t)
		bounded(1, 1)(w)
		w.gateway.SetPolicy("", w.tenants)
		got := w.do(t, initialize(mcp.Revision2511))
		if got.Code != http.StatusTooManyRequests || stable(t, got.Body) != limitSessions {
			t.Errorf("got %d %s, want 429 %s", got.Code, got.Body, limitSessions)
		}
		if w.alive(t, "alice", idle) {
			t.Error("want the idle session to have ended")
		}
		if now := w.config.Memory.InUse(); now != held {
			t.Errorf("%d bytes are held for the one session that is left, which took %d", now, held)
		}
		w.letGo()
		if code := <-called; code != http.StatusOK {
			t.Errorf("the call: got %d, want 200", code)
		}
	}, bounded(2, 1), memory(share.DefaultMemory))
}

// modelled is what the model knows of one session.
type modelled struct {
	user, id string
	used     time.Time
	heard    bool
	streams  []net.Conn
	sse      bool
}

func (m *modelled) idleSince() time.Time {
	if m.heard {
		return m.used
	}
	return m.used.Add(server.OpeningTime)
}

// sessionModel says in the simplest way which sessions are alive: it looks at all of them
// whenever one is opened.
type sessionModel struct {
	tenant, user int
	alive, ended []*modelled
	evicted      int
}

// open adds a session, or says false.
func (m *sessionModel) open(s *modelled) bool {
	ofUser := func(other *modelled) bool {
		return strings.TrimSuffix(other.user, "-other") == strings.TrimSuffix(s.user, "-other")
	}
	return m.makeRoom(m.user, ofUser) && m.makeRoom(m.tenant, func(*modelled) bool { return true })
}

func (m *sessionModel) makeRoom(most int, counts func(*modelled) bool) bool {
	var oldest *modelled
	n := 0
	for _, s := range m.alive {
		if !counts(s) {
			continue
		}
		n++
		if len(s.streams) == 0 && !s.idleSince().After(time.Now()) &&
			(oldest == nil || s.idleSince().Before(oldest.idleSince())) {
			oldest = s
		}
	}
	if n >= most && oldest != nil {
		m.evicted++
		m.end(oldest)
	}
	return n < most || oldest != nil
}

func (m *sessionModel) end(s *modelled) {
	m.ended = append(m.ended, s)
	m.alive = slices.DeleteFunc(m.alive, func(other *modelled) bool { return other == s })
}

// TestSessionsAreThoseOfTheModel opens, uses, follows and ends sessions at random, and
// compares which are alive with what a model says that keeps no order and looks at
// everything.
func TestSessionsAreThoseOfTheModel(t *testing.T) {
	evicted, refused := 0, 0
	for seed := range uint64(4) {
		bubble(t, func(t *testing.T, w *world) {
			r := &modelRun{
				world: w, model: sessionModel{tenant: 7, user: 4},
				dice: rand.New(rand.NewPCG(seed, 0)),
			}
			defer func() { t.Logf("seed %d: %d evicted, %d refused", seed, r.model.evicted, r.refused) }()
			for range 300 {
				r.step(t)
			}
			r.compare(t)
			evicted, refused = evicted+r.model.evicted, refused+r.refused
		}, bounded(7, 4))
	}
	if evicted < 50 || refused < 15 {
		t.Errorf("%d sessions were evicted and %d refused: too few to tell", evicted, refused)
	}
}

type modelRun struct {
	*world
	model   sessionModel
	dice    *rand.Rand
	refused int
}

// step does one thing at random to the gateway and the model. Some time passes, so that
// no two things are at once.
func (r *modelRun) step(t *testing.T) {
	t.Helper()
	<-time.After(time.Duration(1+r.dice.IntN(60)) * time.Millisecond)
	synctest.Wait()
	op := r.dice.IntN(30)
	if op < 8 || len(r.model.alive) == 0 {
		r.open(t, op == 0)
		return
	}
	s := r.model.alive[r.dice.IntN(len(r.model.alive))]
	switch {
	case s.sse && op < 22:
	case op < 16:
		r.use(t, s)
	case op < 22:
		stream, status := r.stream(t, inSession("GET", s.id, "").as(s.user))
		if status != http.StatusOK {
			t.Fatalf("GET: got %d, want 200: the model says that the session is alive", status)
		}
		s.streams, s.used, s.heard = append(s.streams, stream), time.Now(), true
	case op < 26 && len(s.streams) > 0:
		s.streams[0].Close()
		synctest.Wait()
		s.streams, s.used = s.streams[1:], time.Now()
		if s.sse {
			r.model.end(s)
		}
	case op >= 26 && !s.sse:
		if got := r.do(t, inSession("DELETE", s.id, "").as(s.user)); got.Code != http.StatusNoContent {
			t.Fatalf("DELETE: got %d, want 204: the model says that it is alive", got.Code)
		}
		r.model.end(s)
	}
	if got := r.sessionsOpen(t); got != len(r.model.alive) {
		t.Fatalf("%d sessions are open, want %d", got, len(r.model.alive))
	}
}

// open opens a session over either transport.
func (r *modelRun) open(t *testing.T, sse bool) {
	t.Helper()
	users := []string{"alice", "alice-other", "bob", "alice-issuer"}
	s := &modelled{user: users[r.dice.IntN(len(users))], used: time.Now(), sse: sse}
	want := r.model.open(s)
	if got := r.enter(t, s); got != want {
		t.Fatalf("a session of %s was opened: %v, want %v", s.user, got, want)
	}
	if want {
		r.model.alive = append(r.model.alive, s)
	} else {
		r.refused++
	}
	if got := r.sessionsOpen(t); got != len(r.model.alive) {
		t.Fatalf("%d sessions are open, want %d", got, len(r.model.alive))
	}
}

// enter opens a session at the gateway. It is false when that was refused.
func (r *modelRun) enter(t *testing.T, s *modelled) bool {
	t.Helper()
	if !s.sse {
		got := r.do(t, initialize(mcp.Revision2511).as(s.user))
		s.id = got.Header().Get(mcp.HeaderSessionID)
		return got.Code == http.StatusOK
	}
	stream, status := r.stream(t, message{method: "GET", path: "/sse", token: s.user})
	s.streams = []net.Conn{stream}
	return status == http.StatusOK
}

// stream opens an event stream, and reads it away.
func (r *modelRun) stream(t *testing.T, m message) (stream net.Conn, status int) {
	t.Helper()
	stream = r.pipe(t, m)
	resp, err := http.ReadResponse(bufio.NewReader(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, resp.Body)
	synctest.Wait()
	return stream, resp.StatusCode
}

func (r *modelRun) use(t *testing.T, s *modelled) {
	t.Helper()
	if !r.alive(t, s.user, s.id) {
		t.Fatal("a session has ended that the model says is alive")
	}
	s.used, s.heard = time.Now(), true
}

// compare asks every session whether it is alive, but those over HTTP+SSE, which end with
// their streams.
func (r *modelRun) compare(t *testing.T) {
	t.Helper()
	for _, s := range r.model.alive {
		if !s.sse {
			r.use(t, s)
		}
	}
	for _, s := range r.model.ended {
		if !s.sse && r.alive(t, s.user, s.id) {
			t.Error("a session is alive that the model says has ended")
		}
	}
}
