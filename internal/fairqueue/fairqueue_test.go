package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// work is how long the turns of these tests hold a slot.
const work = 10 * time.Millisecond

func user(tenant, subject string) share.User {
	return share.User{TenantID: tenant, Issuer: "https://login.example", Subject: subject}
}

// served are users in the order in which they got a slot.
type served struct {
	mu   sync.Mutex
	who  []string
	each sync.WaitGroup
}

// take waits for a slot and holds it for as long as the work takes. In a bubble it has
// its place in line when it returns.
func (s *served) take(t *testing.T, q *fairqueue.Queue, u share.User, estimate, takes time.Duration) {
	t.Helper()
	s.each.Go(func() {
		leave, err := q.Enter(t.Context(), u, estimate)
		if err != nil {
			t.Errorf("%v: %v", u, err)
			return
		}
		s.mu.Lock()
		s.who = append(s.who, u.TenantID+"/"+u.Subject)
		s.mu.Unlock()
		time.Sleep(takes)
		leave()
	})
	synctest.Wait()
}

func (s *served) wait() []string {
	s.each.Wait()
	return s.who
}

// waiting counts the work that waits.
func waiting(q *fairqueue.Queue) int {
	sum := 0
	for _, n := range q.Waiting() {
		sum += n
	}
	return sum
}

func TestSmallWorkTakesNoSlot(t *testing.T) {
	q := fairqueue.New(1)
	if _, err := q.Enter(t.Context(), user("loud", "x"), time.Second); err != nil {
		t.Fatal(err)
	}
	ctx, quiet := t.Context(), user("quiet", "y")
	allocations := testing.AllocsPerRun(100, func() {
		leave, err := q.Enter(ctx, quiet, fairqueue.Small-1)
		if err != nil {
			t.Fatal(err)
		}
		leave()
	})
	if allocations != 0 {
		t.Errorf("got %v allocations, want none", allocations)
	}
}

// TestOneTenantWithMuchWorkDelaysNoOther: however much work of one tenant waits, that of
// another comes next but one.
func TestOneTenantWithMuchWorkDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(1), new(served)
		for range 24 {
			s.take(t, q, user("loud", "x"), work, work)
		}
		s.take(t, q, user("quiet", "y"), work, work)
		if who := s.wait(); who[1] != "quiet/y" {
			t.Errorf("got the order %v, want quiet second", who)
		}
	})
}

func TestOneUserWithMuchWorkDelaysNoColleague(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(1), new(served)
		for range 12 {
			s.take(t, q, user("acme", "loud"), work, work)
			s.take(t, q, user("globex", "other"), work, work)
		}
		s.take(t, q, user("acme", "quiet"), work, work)
		got := strings.Join(s.wait(), " ")
		if before, _, _ := strings.Cut(got, "acme/quiet"); strings.Count(before, "acme/loud") > 1 {
			t.Errorf("got the order %s, want quiet after one turn of its colleague", got)
		}
	})
}

// TestLongWorkIsNotServedAsOftenAsShortWork: the time for which a slot is held counts, so
// that whoever has work that takes ten times as long as it looks gets as much time as the
// other, and no more.
func TestLongWorkIsNotServedAsOftenAsShortWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(1), new(served)
		for range 30 {
			s.take(t, q, user("long", "x"), work, 10*work)
			s.take(t, q, user("short", "y"), work, work)
		}
		got := strings.Join(s.wait()[:33], " ")
		long, short := strings.Count(got, "long"), strings.Count(got, "short")
		if short < 28 || long < 3 {
			t.Errorf("got %d turns of long work and %d of short work, want about 3 and 30", long, short)
		}
	})
}

// TestEveryTenantGetsTheSameTime: whatever comes in whatever order, two tenants that both
// have work waiting never differ by more time than one turn of each takes, as start-time
// fair queueing promises.
func TestEveryTenantGetsTheSameTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { sameTime(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func sameTime(t *testing.T, random *rand.Rand) {
	const (
		most = 20 // times work, of one turn
		work = fairqueue.Small
	)
	q, s := fairqueue.New(1), new(served)
	tenants := 2 + random.IntN(4)
	takes := make(map[string]time.Duration) // by tenant, of every of its turns
	var turns []string                      // by tenant
	for tenant := range tenants {
		id := fmt.Sprint(tenant)
		takes[id] = time.Duration(1+random.IntN(most)) * work
		turns = append(turns, slices.Repeat([]string{id}, 20)...)
	}
	random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	s.take(t, q, user("first", "x"), work, time.Second) // until all others wait
	for _, id := range turns {
		s.take(t, q, user(id, fmt.Sprint(random.IntN(3))), time.Duration(1+random.IntN(most))*work, takes[id])
	}
	left, had := make(map[string]int), make(map[string]time.Duration)
	for id := range takes {
		left[id] = 20
	}
	for _, who := range s.wait()[1:] {
		id, _, _ := strings.Cut(who, "/")
		left[id]--
		had[id] += takes[id]
		for other, n := range left {
			if n > 0 && left[id] > 0 && had[id]-had[other] > 2*most*work {
				t.Fatalf("tenant %s had %v when tenant %s, which waits, had %v", id, had[id], other,
					had[other])
			}
		}
	}
}

// TestIdleTimeEarnsNothing: a tenant that comes late takes turns from then on, and does
// not make up for all the time that others had before.
func TestIdleTimeEarnsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(1), new(served)
		for range 40 {
			s.take(t, q, user("early", "x"), work, work)
		}
		time.Sleep(20*work + work/2)
		for range 10 {
			s.take(t, q, user("late", "y"), work, work)
		}
		order := s.wait()
		if late := strings.Count(strings.Join(order[21:29], " "), "late"); late < 3 || late > 5 {
			t.Errorf("got %d turns of the late one among 8, want 4: %v", late, order[21:29])
		}
	})
}

func TestSlotsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(3), new(served)
		for i := range 10 {
			s.take(t, q, user("acme", fmt.Sprint(i)), work, work)
			if want := min(i+1, 3); q.Busy() != want || waiting(q) != i+1-want {
				t.Errorf("%d turns: got %d busy and %d waiting, want %d busy", i+1, q.Busy(), waiting(q),
					want)
			}
		}
		s.wait()
		if q.Busy() != 0 || waiting(q) != 0 {
			t.Errorf("at the end: %d busy, %d waiting", q.Busy(), waiting(q))
		}
	})
}

func TestWhoLeavesTheLineIsNotServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s := fairqueue.New(1), new(served)
		s.take(t, q, user("acme", "first"), work, work)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := q.Enter(ctx, user("acme", "gone"), work)
			gone <- err
		}()
		synctest.Wait()
		s.take(t, q, user("acme", "last"), work, work)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if got := strings.Join(s.wait(), " "); got != "acme/first acme/last" || q.Busy() != 0 ||
			waiting(q) != 0 {
			t.Errorf("served %s, %d busy, %d waiting", got, q.Busy(), waiting(q))
		}
	})
}

func TestNobodyWaitsForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New(1)
		leave, err := q.Enter(t.Context(), user("acme", "x"), work)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Enter(t.Context(), user("globex", "y"), work); !errors.Is(err, fairqueue.ErrTotal) {
			t.Errorf("got %v, want %v", err, fairqueue.ErrTotal)
		}
		leave()
		leave()
		if q.Busy() != 0 || waiting(q) != 0 {
			t.Errorf("%d busy, %d waiting", q.Busy(), waiting(q))
		}
	})
}

// TestWhatHasBegunIsFinished: work that Finish asks for waits longer than Enter would,
// without a bound on how much, and in turn with all other work.
func TestWhatHasBegunIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New(1)
		hold, err := q.Enter(t.Context(), user("globex", "y"), work)
		if err != nil {
			t.Fatal(err)
		}
		finished := make(chan error, 300)
		for range 300 {
			go func() {
				leave, err := q.Finish(t.Context(), user("acme", "x"), work)
				if err == nil {
					leave()
				}
				finished <- err
			}()
		}
		time.Sleep(time.Minute)
		if waiting(q) != 300 {
			t.Errorf("%d wait, want 300", waiting(q))
		}
		hold()
		for range 300 {
			if err := <-finished; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTheLineIsSharedFairly: whoever fills the line is told so, and a tenant that has
// nothing in it finds a place.
func TestTheLineIsSharedFairly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New(1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		var mu sync.Mutex
		refused := make(map[error]int)
		enter := func(u share.User) {
			all.Go(func() {
				if _, err := q.Enter(ctx, u, work); err != nil && ctx.Err() == nil {
					mu.Lock()
					refused[err]++
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		for range 300 {
			enter(user("loud", "x"))
		}
		if refused[fairqueue.ErrUser] == 0 || len(refused) != 1 {
			t.Errorf("got %v, want only %v", refused, fairqueue.ErrUser)
		}
		for i := range 300 {
			enter(user("loud", fmt.Sprint(i)))
		}
		if refused[fairqueue.ErrTenant] == 0 {
			t.Errorf("got %v, want %v, too", refused, fairqueue.ErrTenant)
		}
		enter(user("quiet", "y"))
		if q.Waiting()["quiet"] != 1 {
			t.Errorf("got %v waiting, want the first of the quiet tenant among them", q.Waiting())
		}
	})
}
