package seats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestLentSessionsNeverServeTwoOwnersAtOnce lets the clients of one user come, go, return
// to a seat and die in random order. At no time do calls of two owners run on one
// session, and in the end nobody waits in vain.
func TestLentSessionsNeverServeTwoOwnersAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		play(t, 1+int(seed%4), func(t *testing.T, r *stage) {
			random := rand.New(rand.NewPCG(seed, 2))
			lister := &session{}
			r.Lend(lister, Key{Traits: "t", Patient: true})
			var (
				mu      sync.Mutex
				running = map[*session]map[auth.Owner]int{}
				solo    = map[*session]int{}
				callers sync.WaitGroup
			)
			enter := func(s *session, k Key, by int) {
				mu.Lock()
				defer mu.Unlock()
				if running[s] == nil {
					running[s] = map[auth.Owner]int{}
				}
				if running[s][k.Owner] += by; running[s][k.Owner] == 0 {
					delete(running[s], k.Owner)
				}
				if k.Solo || k.Alone {
					solo[s] += by
				}
				calls := 0
				for _, n := range running[s] {
					calls += n
				}
				if len(running[s]) > 1 || solo[s] > 0 && calls > 1 {
					t.Errorf("seed %d: %d owners with %d calls, %d of them alone, on one session", seed,
						len(running[s]), calls, solo[s])
				}
			}
			for range 150 {
				k := user("dev", "dev")
				k.ClientID = fmt.Sprint(random.IntN(4))
				k.Solo, k.Dedicated, k.Alone = random.IntN(3) == 0, random.IntN(9) == 0, random.IntN(9) == 0
				if random.IntN(8) == 0 {
					k.Traits, k.Patient = "", false
				}
				comes, stays := time.Duration(random.IntN(60_000))*time.Millisecond,
					time.Duration(random.IntN(4_000))*time.Millisecond
				gives, dies, suspected := random.IntN(8) == 0, random.IntN(12) == 0, random.IntN(6) == 0
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
					r.mu.Unlock()
					s, _, err := r.Take(ctx, k, Call)
					if err != nil {
						if !gives {
							t.Errorf("seed %d: %+v got no seat: %v", seed, k, err)
						}
						return
					}
					enter(s.Session, k, 1)
					time.Sleep(stays)
					enter(s.Session, k, -1)
					if s.Session != lister && suspected {
						s.Session.doubt()
						s.Session.dying.Store(dies)
					}
					r.Release(s, Call)
				})
			}
			r.watch(&callers, seed, func() { r.bound.Store(random.IntN(10) == 0) })
			if len(r.queue) > 0 || r.lent.calls > 0 {
				t.Errorf("seed %d: %d wait in vain, %d calls on the lent session", seed, len(r.queue),
					r.lent.calls)
			}
		})
	}
}
