package seats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// session is one that a test opens, doubts and kills.
type session struct {
	key       Key
	lost      func()
	err       error         // of Open
	takes     time.Duration // to open
	suspected chan struct{}
	dying     atomic.Bool
	polite    atomic.Bool
	closed    atomic.Int32
}

func (s *session) Open(ctx context.Context, opened func()) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.err != nil {
		return s.err
	}
	opened()
	return nil
}

func (s *session) Suspected() <-chan struct{} { return s.suspected }

// doubt calls for a proof of life.
func (s *session) doubt() {
	select {
	case s.suspected <- struct{}{}:
	default:
	}
}

func (s *session) Alive(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.dying.Load() {
		return errors.New("no answer")
	}
	return nil
}

func (s *session) Close(_ context.Context, polite bool) {
	s.closed.Add(1)
	s.polite.Store(polite)
}

// stage is a pool and the sessions that were made for it.
type stage struct {
	*Pool[*session]
	t     *testing.T
	alone atomic.Bool
	bound atomic.Bool // sessions may not be lent

	mu   sync.Mutex // guards the fields below
	made []*session
	next session // what the next one is like
}

// play tells a story of a pool with so many seats, on exact time.
func play(t *testing.T, seats int, story func(t *testing.T, r *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &stage{t: t}
		r.Pool = New(t.Context(), Config[*session]{
			Max: seats, Opening: time.Minute,
			New: func(k Key, lost func()) *session {
				r.mu.Lock()
				defer r.mu.Unlock()
				s := &session{
					key: k, lost: lost, suspected: make(chan struct{}, 1), err: r.next.err,
					takes: r.next.takes,
				}
				r.made = append(r.made, s)
				return s
			},
			Alone:    r.alone.Load,
			Lendable: func(*session, auth.Owner) bool { return !r.bound.Load() },
		})
		story(t, r)
		r.Close(context.Background(), true)
		for i, s := range r.made {
			if got := s.closed.Load(); got > 1 || got == 0 && s.err == nil && s.takes < time.Minute {
				t.Errorf("session %d of %+v was closed %d times", i, s.key, got)
			}
		}
	})
}

func (r *stage) take(k Key) *Seat[*session] {
	r.t.Helper()
	return r.must(r.Take(r.t.Context(), k, Call))
}

func (r *stage) must(s *Seat[*session], _ Waits, err error) *Seat[*session] {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *stage) state(s *Seat[*session]) State {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Pool.mu.Lock()
	defer r.Pool.mu.Unlock()
	return s.state
}

func (r *stage) expect(what string, s *Seat[*session], want State) {
	r.t.Helper()
	if got := r.state(s); got != want {
		r.t.Errorf("%s: the seat is %v, want %v", what, got, want)
	}
}

// later takes a seat in the background. What it returns tells whether that has ended by
// now, and how.
func (r *stage) later(ctx context.Context, k Key) (taken func() (*Seat[*session], error, bool)) {
	var (
		seat *Seat[*session]
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		seat, _, err = r.Take(ctx, k, Call)
	}()
	synctest.Wait()
	return func() (*Seat[*session], error, bool) {
		synctest.Wait()
		select {
		case <-done:
			return seat, err, true
		default:
			return nil, nil, false
		}
	}
}

func tenant(name string) Key { return Key{Owner: auth.Owner{User: auth.User{TenantID: name}}} }

func user(tenant, subject string) Key {
	return Key{
		Owner:  auth.Owner{User: auth.User{TenantID: tenant, Issuer: "i", Subject: subject}},
		Traits: "t", Patient: true,
	}
}

// TestCallsOfOneKeyShareASeat takes seats for equal keys and others, with and without
// calls that run alone.
func TestCallsOfOneKeyShareASeat(t *testing.T) {
	t.Parallel()
	play(t, 8, func(t *testing.T, r *stage) {
		if a, again, b := r.take(tenant("a")), r.take(tenant("a")), r.take(tenant("b")); a != again ||
			a == b {
			t.Error("calls of one tenant have seats of their own, or those of two share one")
		}
		alone := tenant("a")
		alone.Alone = true
		if first, second := r.take(alone), r.take(alone); first == second {
			t.Error("calls that run alone share a seat")
		}
		shared := r.take(user("a", "u"))
		if r.take(user("a", "u")) != shared {
			t.Error("calls of one user do not share a seat")
		}
		r.alone.Store(true)
		if r.take(user("a", "u")) == shared {
			t.Error("calls that must not share for now share a seat")
		}
		if got := r.Size(); got != 6 {
			t.Errorf("%d places are taken, want 6", got)
		}
	})
}

// TestIdleSeatMakesRoomForWhoCameFirst fills a pool and lets three wait, of whom one
// gives up.
func TestIdleSeatMakesRoomForWhoCameFirst(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		a := r.take(tenant("a"))
		gives, cancel := context.WithCancel(t.Context())
		b, c, d := r.later(gives, tenant("b")), r.later(t.Context(), tenant("c")), r.later(t.Context(),
			tenant("d"))
		cancel()
		if _, err, done := b(); !done || !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: got %v, want their own cancellation", err)
		}
		r.Release(a, Call)
		first, err, done := c()
		if !done || err != nil {
			t.Fatalf("who came first has no seat: %v", err)
		}
		r.expect("the idle one", a, Gone)
		if _, _, done := d(); done {
			t.Error("who came second has a seat as well")
		}
		r.Release(first, Call)
		if _, err, done := d(); !done || err != nil {
			t.Errorf("who came second has no seat then: %v", err)
		}
	})
}

// TestWaitsAreTold shows for how long a call is told that it waited, for room and until
// its session was open.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		r.next.takes = 2 * time.Second
		seat, waits, err := r.Take(t.Context(), user("a", "u"), Call)
		if want := (Waits{Opening: 2 * time.Second}); err != nil || waits != want {
			t.Errorf("the first: got %v and %+v, want %+v", err, waits, want)
		}
		time.AfterFunc(3*time.Second, func() { r.Release(seat, Call) })
		seat, waits, err = r.Take(t.Context(), user("b", "u"), Call)
		if err != nil || waits.Queue < 3*time.Second || waits.Opening != 2*time.Second {
			t.Errorf("the second: got %v and %+v, want 3 s in the queue and 2 s more", err, waits)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, waits, err = r.Take(ctx, user("c", "u"), Call)
		if !errors.Is(err, errBusy) || waits != (Waits{Queue: 5 * time.Second}) {
			t.Errorf("in vain: got %v and %+v, want 5 s in the queue", err, waits)
		}
		r.Release(seat, Call)
		seat = r.take(user("b", "u"))
		if _, waits, err = r.Take(t.Context(), user("b", "u"), Call); err != nil || waits != (Waits{}) {
			t.Errorf("with a free seat: got %v and %+v, want no wait", err, waits)
		}
		r.Release(seat, Call)
		r.Release(seat, Call)
	})
}

// TestDeadlineSaysWhatWasWaitedFor waits until the deadline in a full pool and for a
// session that opens slowly, and in a pool without seats not at all.
func TestDeadlineSaysWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		r.take(user("a", "u"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, _, err := r.Take(ctx, tenant("b"), Call); !errors.Is(err, errBusy) {
			t.Errorf("got %v, want errBusy", err)
		}
	})
	play(t, 1, func(t *testing.T, r *stage) {
		r.next.takes = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, waits, err := r.Take(ctx, tenant("b"), Call)
		if !errors.Is(err, errSlow) || !errors.Is(err, ErrLate) || waits != (Waits{Opening: 10 * time.Second}) {
			t.Errorf("while it is opened: got %v and %+v, want errSlow", err, waits)
		}
		time.Sleep(10 * time.Second) // then it is open
		synctest.Wait()
	})
	play(t, 0, func(t *testing.T, r *stage) {
		if _, _, err := r.Take(t.Context(), tenant("b"), Call); !errors.Is(err, ErrNone) {
			t.Errorf("got %v, want ErrNone", err)
		}
	})
	play(t, 1, func(t *testing.T, r *stage) {
		r.take(tenant("a"))
		waits := r.later(t.Context(), tenant("b"))
		r.Close(t.Context(), true)
		if _, err, done := waits(); !done || !errors.Is(err, ErrEnded) {
			t.Errorf("in the queue of a pool that closes: got %v, want ErrEnded", err)
		}
		_, _, err := r.Take(t.Context(), tenant("a"), Call)
		if _, ok := r.Go(func(context.Context) {}); !errors.Is(err, ErrEnded) || ok {
			t.Errorf("in a closed pool: got %v, want ErrEnded and no work", err)
		}
		r.seats = nil // closed above
	})
}

// TestOneUserHasHalfAndOneTenantLeavesAQuarter lets one user, then others of the tenant,
// then another tenant come to a pool of eight. Nobody's calls end.
func TestOneUserHasHalfAndOneTenantLeavesAQuarter(t *testing.T) {
	t.Parallel()
	play(t, 8, func(t *testing.T, r *stage) {
		r.alone.Store(true)
		for i := range 4 {
			if _, err, done := r.later(t.Context(), user("a", "greedy"))(); !done || err != nil {
				t.Fatalf("seat %d of one user: %v", i, err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fifth := r.later(short, user("a", "greedy"))
		if _, _, done := fifth(); done {
			t.Error("one user has more than half of all seats")
		}
		for i := range 2 {
			if _, err, done := r.later(t.Context(), user("a", fmt.Sprint("u", i)))(); !done || err != nil {
				t.Fatalf("seat of another user of the tenant: %v", err)
			}
		}
		if _, _, done := r.later(short, user("a", "u3"))(); done {
			t.Error("one tenant has more than three quarters")
		}
		for _, name := range []string{"b", "c"} {
			if _, err, done := r.later(t.Context(), user(name, "u"))(); !done || err != nil {
				t.Errorf("seat of tenant %s: %v", name, err)
			}
		}
		time.Sleep(time.Minute)
	})
}

// TestBusySeatRetiresForWhoHasNone shares a pool of two between tenants whose calls never
// cease: after its turn, the seat that was opened first takes no more calls and makes
// pool when its last one ends. One that waits for humans stays.
func TestBusySeatRetiresForWhoHasNone(t *testing.T) {
	t.Parallel()
	play(t, 2, func(t *testing.T, r *stage) {
		patient, busy := r.take(user("a", "u")), r.take(tenant("a"))
		r.take(tenant("a"))
		waits := r.later(t.Context(), tenant("b"))
		time.Sleep(turnLimit - time.Millisecond)
		r.expect("before its turn is over", busy, Open)
		time.Sleep(idleGrace)
		r.expect("after its turn", busy, Retiring)
		if r.Rejoin(busy) {
			t.Error("a retiring seat takes another call")
		}
		r.Release(busy, Call)
		r.expect("with one call left", busy, Retiring)
		r.Release(busy, Call)
		if _, err, done := waits(); !done || err != nil {
			t.Errorf("who waited has no seat: %v", err)
		}
		r.expect("when its last call has ended", busy, Gone)
		time.Sleep(time.Hour)
		r.expect("one that waits for humans", patient, Open)
	})
}

// TestWhoHasSeatsLeavesFreshOnesAlone lets a tenant with a busy seat want another one,
// for which others were used just now.
func TestWhoHasSeatsLeavesFreshOnesAlone(t *testing.T) {
	t.Parallel()
	play(t, 2, func(t *testing.T, r *stage) {
		alone := tenant("a")
		alone.Alone = true
		r.take(alone)
		other := r.take(tenant("b"))
		waits := r.later(t.Context(), alone)
		r.Release(other, Call)
		r.expect("used just now", other, Open)
		time.Sleep(2 * idleGrace)
		r.expect("idle for a while", other, Gone)
		if _, err, done := waits(); !done || err != nil {
			t.Errorf("who waited has no seat: %v", err)
		}
	})
}

// TestSeatsThatAreOfUseMakeRoomLast has one seat that is loaned, one that is needed and
// one that was used last.
func TestSeatsThatAreOfUseMakeRoomLast(t *testing.T) {
	t.Parallel()
	play(t, 3, func(t *testing.T, r *stage) {
		loaned := r.must(r.Take(t.Context(), tenant("loaned"), Loan))
		needed, plain := r.take(tenant("needed")), r.take(tenant("plain"))
		r.Need(needed, time.Now().Add(time.Hour))
		r.Release(needed, Call)
		time.Sleep(time.Minute)
		r.Release(plain, Call)
		for i, want := range []*Seat[*session]{plain, needed, loaned} {
			r.take(tenant(fmt.Sprint("new", i)))
			r.expect(fmt.Sprintf("number %d", i), want, Gone)
		}
	})
}

// TestUnusedSeatIsClosedInTheEnd sweeps a pool from time to time: a seat in use stays,
// one that is needed stays until then.
func TestUnusedSeatIsClosedInTheEnd(t *testing.T) {
	t.Parallel()
	play(t, 4, func(t *testing.T, r *stage) {
		used, needed, unused := r.take(tenant("a")), r.take(tenant("b")), r.take(tenant("c"))
		loaned := r.must(r.Take(t.Context(), tenant("d"), Loan))
		r.Need(needed, time.Now().Add(30*time.Minute))
		r.Need(needed, time.Now()) // an earlier time changes nothing
		r.Release(needed, Call)
		r.Release(unused, Call)
		sweep := func(d time.Duration) {
			for range d / (30 * time.Second) {
				time.Sleep(30 * time.Second)
				r.Sweep()
			}
		}
		sweep(idleLimit - time.Minute)
		r.expect("unused for less", unused, Open)
		sweep(2 * time.Minute)
		r.expect("unused", unused, Gone)
		r.expect("needed", needed, Open)
		sweep(30 * time.Minute)
		r.expect("needed no more", needed, Gone)
		r.expect("used", used, Open)
		r.expect("loaned", loaned, Open)
		r.Release(loaned, Loan)
		sweep(2 * idleLimit)
		r.expect("loaned no more", loaned, Gone)
	})
}

// TestDeadSeatIsClosedAfterItsLastCall doubts a session that lives and one that does not.
func TestDeadSeatIsClosedAfterItsLastCall(t *testing.T) {
	t.Parallel()
	play(t, 4, func(t *testing.T, r *stage) {
		s := r.take(tenant("a"))
		for range 2 {
			if r.take(tenant("a")) != s {
				t.Fatal("calls of one tenant do not share a seat")
			}
		}
		s.Session.doubt()
		r.Release(s, Call)
		r.expect("in doubt", s, Examined)
		if !r.Rejoin(s) {
			t.Error("a seat that is examined takes no call")
		}
		time.Sleep(2 * time.Second)
		r.expect("alive", s, Open)
		s.Session.dying.Store(true)
		s.Session.doubt()
		r.Release(s, Call)
		time.Sleep(2 * time.Second)
		r.expect("no sign of life", s, Dead)
		if r.Rejoin(s) || r.take(tenant("a")) == s {
			t.Error("a dead seat takes another call")
		}
		r.Release(s, Call)
		r.expect("with one call left", s, Dead)
		r.Release(s, Call)
		r.expect("when its last call has ended", s, Gone)
		idle := r.take(tenant("b"))
		r.Release(idle, Call)
		idle.Session.lost()
		r.expect("one that says itself that it is dead", idle, Gone)
	})
}

// TestFailureToOpenReachesAllWhoWait opens a session that fails, for two calls, while a
// third waits for its place.
func TestFailureToOpenReachesAllWhoWait(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		failure := errors.New("no such program")
		r.next = session{err: failure, takes: time.Second}
		a, b := r.later(t.Context(), tenant("a")), r.later(t.Context(), tenant("a"))
		r.mu.Lock()
		r.next = session{}
		r.mu.Unlock()
		c := r.later(t.Context(), tenant("c"))
		time.Sleep(time.Second)
		for _, taken := range []func() (*Seat[*session], error, bool){a, b} {
			if _, err, done := taken(); !done || !errors.Is(err, failure) {
				t.Errorf("got %v, want why it did not open", err)
			}
		}
		if _, err, done := c(); !done || err != nil {
			t.Errorf("who waited for the place: %v", err)
		}
	})
}

// TestSeatThatIsGivenUpWhileItOpensIsClosedThen lets who wanted a seat leave before it is
// open, and another take its place.
func TestSeatThatIsGivenUpWhileItOpensIsClosedThen(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		r.next.takes = 10 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		a := r.later(ctx, tenant("a"))
		cancel()
		if _, err, done := a(); !done || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the cancellation", err)
		}
		b := r.later(t.Context(), tenant("b"))
		time.Sleep(9 * time.Second)
		if _, _, done := b(); done {
			t.Error("its place was free before it was closed")
		}
		time.Sleep(11 * time.Second)
		if _, err, done := b(); !done || err != nil || r.made[0].closed.Load() != 1 {
			t.Errorf("who waited for the place: %v; the first was closed %d times", err,
				r.made[0].closed.Load())
		}
	})
}

// TestLentSessionGoesFromOwnerToOwner lends a session in a pool of one place: calls of
// one owner share it, another owner gets it when no call is open, and a place of its own
// while one is.
func TestLentSessionGoesFromOwnerToOwner(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		lister := &session{}
		r.Lend(lister, Key{Traits: "t", Patient: true})
		a, b := user("a", "u"), user("a", "v")
		first := r.take(a)
		if first.Session != lister || r.take(a) != first || r.lent.calls != 2 || r.Size() != 0 {
			t.Error("calls of one owner do not run on the session that is lent, or it takes a place")
		}
		other := r.take(b)
		if other.Session == lister {
			t.Error("calls of two owners run on one session")
		}
		r.Release(other, Call)
		r.Release(first, Call)
		r.Release(first, Call)
		if again := r.take(b); again != first || r.lent.calls != 1 {
			t.Error("the session that is lent did not go to the other owner, although no call was open")
		}
		r.Release(first, Call)
		r.bound.Store(true)
		kept := a
		kept.Dedicated = true
		for _, k := range []Key{a, kept} {
			if s := r.take(k); s.Session == lister {
				t.Errorf(
					"%+v got a session that its server may still use for another, or that must be its own", k)
			} else {
				r.Release(s, Call)
				time.Sleep(2 * idleGrace)
			}
		}
		time.Sleep(2 * idleLimit)
		r.Sweep()
		if first.state != Open || lister.closed.Load() != 0 {
			t.Errorf("the session that is lent is %v", first.state)
		}
	})
}

// TestOneUsersClientsMayHaveAllPlaces has as many clients of one user call at once as
// there are places, with the lent session one more. Nobody else is there for whom half of
// the places, or a quarter, would be kept.
func TestOneUsersClientsMayHaveAllPlaces(t *testing.T) {
	t.Parallel()
	play(t, 4, func(t *testing.T, r *stage) {
		r.Lend(&session{}, Key{Traits: "t", Patient: true})
		taken := make([]*Seat[*session], 5)
		for i := range taken {
			k := user("dev", "dev")
			k.ClientID = fmt.Sprint("client-", i)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			seat, _, err := r.Take(ctx, k, Call)
			cancel()
			if err != nil {
				t.Errorf("client %d of 5 got no seat, with %d of 4 places taken: %v", i+1, r.Size(), err)
			}
			taken[i] = seat
		}
		for _, s := range taken {
			if s != nil {
				r.Release(s, Call)
			}
		}
	})
}

// TestWorkEndsBeforeSeatsAreClosed closes a pool while something goes on in it.
func TestWorkEndsBeforeSeatsAreClosed(t *testing.T) {
	t.Parallel()
	play(t, 1, func(t *testing.T, r *stage) {
		s := r.take(tenant("a"))
		var early atomic.Bool
		r.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			early.Store(s.Session.closed.Load() > 0)
			r.Release(s, Call)
		})
		r.Close(t.Context(), false)
		if early.Load() || s.Session.closed.Load() != 1 || s.Session.polite.Load() {
			t.Errorf("closed before its work ended: %t; closed %d times, polite %t", early.Load(),
				s.Session.closed.Load(), s.Session.polite.Load())
		}
		r.seats = nil // closed above
	})
}

// TestAnyOrderOfEventsKeepsTheCount lets many callers come, go and doubt in random order.
// At no time are there more sessions than places, or a call on a seat that is being
// closed; in the end nobody waits in vain and the pool is empty of calls.
func TestAnyOrderOfEventsKeepsTheCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		play(t, 1+int(seed%5), func(t *testing.T, r *stage) {
			random := rand.New(rand.NewPCG(seed, 1))
			r.alone.Store(seed%2 == 0)
			var callers sync.WaitGroup
			for range 150 {
				k := tenant(string(rune('a' + random.IntN(4))))
				if random.IntN(3) == 0 {
					k = user(k.TenantID, fmt.Sprint(random.IntN(3)))
				}
				k.Alone = random.IntN(4) == 0
				u, comes, stays := Use(random.IntN(5)/4), time.Duration(random.IntN(60_000))*time.Millisecond,
					time.Duration(random.IntN(8_000))*time.Millisecond
				gives, suspected, dies, fails := random.IntN(8) == 0, random.IntN(6) == 0, random.IntN(12) == 0,
					random.IntN(20) == 0
				callers.Go(func() {
					time.Sleep(comes)
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					if gives {
						ctx, cancel = context.WithTimeout(context.Background(), stays)
						defer cancel()
					}
					r.mu.Lock()
					r.next = session{takes: stays / 10}
					if fails {
						r.next.err = errors.New("fails")
					}
					r.mu.Unlock()
					s, _, err := r.Take(ctx, k, u)
					if err != nil {
						if !gives && err.Error() != "fails" {
							t.Errorf("seed %d: %+v got no seat: %v", seed, k, err)
						}
						return
					}
					time.Sleep(stays)
					if suspected {
						s.Session.doubt()
					}
					s.Session.dying.Store(dies)
					r.Release(s, u)
				})
			}
			r.watch(&callers, seed, func() {})
			if len(r.queue) > 0 {
				t.Errorf("seed %d: %d wait in vain", seed, len(r.queue))
			}
			for _, s := range r.seats {
				if s.calls != 0 || s.loans != 0 {
					t.Errorf("seed %d: a seat that is %v has %d calls and %d loans left", seed, s.state,
						s.calls, s.loans)
				}
			}
		})
	}
}

// watch sweeps and checks the pool again and again, each time after what may change,
// until all callers have left.
func (r *stage) watch(callers *sync.WaitGroup, seed uint64, change func()) {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		callers.Wait()
	}()
	for checking := true; checking; {
		select {
		case <-done:
			checking = false
		case <-time.After(97 * time.Millisecond):
		}
		change()
		r.Sweep()
		r.check(seed)
	}
}

// check looks for what must not be.
func (r *stage) check(seed uint64) {
	r.t.Helper()
	r.Pool.mu.Lock()
	defer r.Pool.mu.Unlock()
	for _, s := range r.seats {
		switch {
		case s.state == Closing && s.calls > 0, s.state == Gone, s.calls < 0, s.loans < 0:
			r.t.Errorf("seed %d: a seat with a place is %v with %d calls and %d loans", seed, s.state,
				s.calls, s.loans)
		case (s.state == Dead || s.state == Retiring) && s.calls == 0:
			r.t.Errorf("seed %d: a seat without calls is still %v", seed, s.state)
		}
	}
	if len(r.seats) > r.cfg.Max {
		r.t.Errorf("seed %d: %d of %d places are taken", seed, len(r.seats), r.cfg.Max)
	}
}
