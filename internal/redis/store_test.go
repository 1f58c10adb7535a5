package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// counts counts what a Store tells.
type counts struct {
	mu       sync.Mutex
	outcomes map[redis.Outcome]int
	opened   []redis.State
}

func (c *counts) of(o redis.Outcome) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcomes[o]
}

func (c *counts) openings() []redis.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]redis.State(nil), c.opened...)
}

// counted returns a config that counts.
func counted(cfg redis.Config) (redis.Config, *counts) {
	c := &counts{outcomes: map[redis.Outcome]int{}}
	cfg.Called = func(_ string, o redis.Outcome,
		_ time.Duration,
	) {
		c.mu.Lock()
		c.outcomes[o]++
		c.mu.Unlock()
	}
	cfg.Opened = func(s redis.State) { c.mu.Lock(); c.opened = append(c.opened, s); c.mu.Unlock() }
	return cfg, c
}

// set returns a command that writes.
func set() redis.Command {
	return redis.Command{Name: "SET", Key: redis.CommonKey("x"), Args: []string{"1", "PX", "60000"}}
}

// waitState returns when the store is in a state.
func waitState(t *testing.T, store *redis.Store, want redis.State) {
	t.Helper()
	redistest.Wait(t, func() error {
		if got := store.State(); got != want {
			return fmt.Errorf("got state %s, want %s: %w", got, want, store.Up())
		}
		return nil
	})
}

func TestServerThatIsDownAtStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	server.Stop()
	cfg, c := counted(redis.Config{Addresses: []string{server.Address}, Patience: redistest.Patience})
	store := redis.New(cfg)
	lifetimetest.Run(t, store.Run)
	redistest.Wait(t, func() error {
		if err := store.Up(); !strings.Contains(err.Error(), "connection refused") {
			return err
		}
		return nil
	})
	if _, err := store.Do(t.Context(), set()); !errors.Is(err, redis.ErrDown) || store.Reached() ||
		store.State() != redis.StateStarting {
		t.Errorf("got %v, reached %v, state %s", err, store.Reached(), store.State())
	}
	if _, ok := store.Generation(); ok {
		t.Error("there is a generation before the server was reached")
	}
	server.Begin(t)
	redistest.WaitUp(t, store)
	if _, err := store.Do(t.Context(), set()); err != nil || !store.Reached() {
		t.Errorf("got %v, reached %v", err, store.Reached())
	}
	if len(c.openings()) > 0 || c.of(redis.OutcomeSkipped) != 1 {
		t.Errorf("got openings %v, %d skipped", c.openings(), c.of(redis.OutcomeSkipped))
	}
	redistest.Wait(t, func() error { // the goroutine of Run tells after it has closed the breaker
		if store.State() != redis.StateUp {
			return store.Up()
		}
		return nil
	})
}

// TestCallsWaitForSlowServerOnce shows that after a call that is late, when a probe is
// late, too, none is made until the server is well.
func TestCallsWaitForSlowServerOnce(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(*redistest.Server, *netfault.Proxy) (heal func()){
		"an answer that is late": func(_ *redistest.Server,
			p *netfault.Proxy,
		) func() {
			p.Delay(5 * time.Second)
			return p.Heal
		},
		"a black hole": func(_ *redistest.Server,
			p *netfault.Proxy,
		) func() {
			p.BlackHole()
			return p.Heal
		},
		"a server that stands": func(s *redistest.Server,
			_ *netfault.Proxy,
		) func() {
			s.Freeze(t)
			return func() { s.Thaw(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartOne(t)
			proxy := redistest.NewProxy(t, server.Address)
			cfg, c := counted(redis.Config{Addresses: []string{proxy.Address}, Patience: time.Second})
			store := redistest.Run(t, redis.New(cfg))
			generation, _ := store.Generation()
			heal := slow(server, proxy)
			redistest.Wait(t, func() error {
				if _, err := store.Do(t.Context(), set()); !errors.Is(err, redis.ErrDown) {
					return errors.New("the call got its answer")
				}
				return nil
			})
			redistest.WaitDown(t, store)
			skipped := c.of(redis.OutcomeSkipped)
			for range 1000 {
				if _, err := store.Do(t.Context(), set()); !errors.Is(err, redis.ErrDown) {
					t.Fatalf("got %v", err)
				}
			}
			if n := c.of(redis.OutcomeSkipped) - skipped; n != 1000 {
				t.Errorf("%d of 1000 calls were not made", n)
			}
			heal()
			redistest.Wait(t, func() error { _, err := store.Do(t.Context(), set()); return err })
			if again, ok := store.Generation(); !ok || again != generation {
				t.Errorf("got generation %q, want %q", again, generation)
			}
		})
	}
}

// TestCallerThatGivesUpLeavesTheConnection has callers give up while their answers are
// under way: the library sees no context of a caller. While it did, one with little time
// left set the deadline of the connection, and one that was cancelled while the library
// dialed failed all who waited for that.
func TestCallerThatGivesUpLeavesTheConnection(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	proxy := redistest.NewProxy(t, server.Address)
	cfg, c := counted(redis.Config{Addresses: []string{proxy.Address}, Patience: redistest.Patience})
	store := redistest.Run(t, redis.New(cfg))
	proxy.Delay(100 * time.Millisecond)
	for range 5 {
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := store.Do(ctx, set()); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, redis.ErrDown) {
			t.Errorf("got %v", err)
		}
		stop()
		if _, err := store.Do(t.Context(), set()); err != nil {
			t.Errorf("another caller got %v", err)
		}
	}
	if got := c.openings(); len(got) > 0 {
		t.Errorf("calls were not made any more: %v", got)
	}
}

// TestServerThatCannotWriteIsNotAsked makes each fault of a server that answers, and
// heals it.
func TestServerThatCannotWriteIsNotAsked(t *testing.T) {
	t.Parallel()
	for want, fault := range map[redis.State]struct{ begin, end []string }{
		redis.StateFull: {
			[]string{"CONFIG", "SET", "maxmemory", "1"},
			[]string{"CONFIG", "SET", "maxmemory", "0"},
		},
		redis.StateReadOnly: {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		redis.StateSlow:     {[]string{"CLIENT", "PAUSE", "600000", "WRITE"}, []string{"CLIENT", "UNPAUSE"}},
		redis.StateDenied: {
			[]string{"ACL", "SETUSER", "default", "-set"},
			[]string{"ACL", "SETUSER", "default", "+@all"},
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			server := redistest.StartOne(t)
			patience := redistest.Patience
			if want == redis.StateSlow {
				patience = time.Second
			}
			store := redistest.Run(t,
				redis.New(redis.Config{Addresses: []string{server.Address}, Patience: patience}))
			generation, _ := store.Generation()
			server.Exec(t, fault.begin...)
			waitState(t, store, want)
			if _, err := store.Do(t.Context(), set()); !errors.Is(err, redis.ErrDown) {
				t.Errorf("got %v", err)
			}
			server.Exec(t, fault.end...)
			redistest.WaitUp(t, store)
			if again, _ := store.Generation(); again != generation {
				t.Errorf("got generation %q, want %q", again, generation)
			}
		})
	}
}

// TestUserWithoutARightIsSaid takes a right from the user that only scripts need. The
// state says so until the user has it, also at a start. A right that is missing for one
// command shows when that is used.
func TestUserWithoutARightIsSaid(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"evalsha", "time"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartOne(t)
			server.Exec(t, "ACL", "SETUSER", "default", "-"+right)
			cfg, counts := counted(redis.Config{
				Addresses: []string{server.Address}, Patience: redistest.Patience,
			})
			store := redis.New(cfg)
			lifetimetest.Run(t, store.Run)
			redistest.Wait(t, func() error {
				if err := store.Up(); err == nil || !strings.Contains(err.Error(), "user") {
					return fmt.Errorf("got %w", err)
				}
				return nil
			})
			server.Exec(t, "ACL", "SETUSER", "default", "+@all", "-hset")
			redistest.WaitUp(t, store)
			_, _ = store.Do(t.Context(), redis.Command{
				Name: "HSET", Key: redis.CommonKey("h"), Args: []string{"a", "b"},
			})
			if got := counts.openings(); len(got) != 1 || got[0] != redis.StateDenied {
				t.Errorf("got openings %v, want one of a user without a right", got)
			}
		})
	}
}

// withJunk returns a store with a value of another type than GET wants, under the key
// that it returns, and what is counted of the store.
func withJunk(t *testing.T) (store *redis.Store, c *counts, junk string) {
	t.Helper()
	cfg, c := counted(redis.Config{
		Addresses: []string{redistest.StartOne(t).Address},
		Patience:  redistest.Patience,
	})
	store = redistest.Run(t, redis.New(cfg))
	junk = redis.CommonKey("junk")
	if _, err := store.Do(t.Context(), redis.Command{Name: "LPUSH", Key: junk, Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	return store, c, junk
}

// TestJunkFailsOneCallOnly puts a value of another type under a key that the gateway
// uses.
func TestJunkFailsOneCallOnly(t *testing.T) {
	t.Parallel()
	store, c, junk := withJunk(t)
	for range 10 {
		if _, err := store.Do(t.Context(), redis.Command{Name: "GET", Key: junk}); !errors.Is(err,
			redis.ErrDown) {
			t.Errorf("got %v", err)
		}
		if _, err := store.Do(t.Context(), set()); err != nil {
			t.Errorf("another call got %v", err)
		}
	}
	if len(c.openings()) > 0 || c.of(redis.OutcomeRefused) != 10 {
		t.Errorf("got openings %v, %d refused", c.openings(), c.of(redis.OutcomeRefused))
	}
}

// TestRepliesBeforeAFaultAreKept has a command fail after a whole batch of others, whose
// replies say for example which entries are not there.
func TestRepliesBeforeAFaultAreKept(t *testing.T) {
	t.Parallel()
	store, c, junk := withJunk(t)
	var commands []redis.Command
	for range 300 {
		commands = append(commands, redis.Command{Name: "EXISTS", Key: redis.CommonKey("absent")})
	}
	replies, err := store.DoAll(t.Context(), append(commands, redis.Command{Name: "GET", Key: junk})...)
	if !errors.Is(err, redis.ErrDown) || len(replies) == 0 || len(replies) >= len(commands) {
		t.Fatalf("got %d replies, %v; want those of the batches before the fault", len(replies), err)
	}
	for i, reply := range replies {
		if n, err := reply.Int(); err != nil || n != 0 {
			t.Errorf("reply %d: got %d, %v; want 0", i, n, err)
		}
	}
	if done, refused := c.of(redis.OutcomeDone), c.of(redis.OutcomeRefused); done < 2 || refused != 1 {
		t.Errorf("got %d calls answered, %d refused; want one of each batch", done, refused)
	}
}

// TestManyCallersAtOnceWhenServerIsWellAgain shows that nobody but the probe asks a
// server that was gone.
func TestManyCallersAtOnceWhenServerIsWellAgain(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	cfg, c := counted(redis.Config{Addresses: []string{server.Address}, Patience: redistest.Patience})
	store := redis.New(cfg)
	var losses, generations atomic.Int32
	store.OnLoss(func() { losses.Add(1) })
	store.OnGeneration(func() { generations.Add(1) })
	lifetimetest.Run(t, store.Run)
	redistest.WaitUp(t, store)
	server.Stop()
	redistest.WaitDown(t, store)
	broken := c.of(redis.OutcomeBroken)
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			redistest.Wait(t, func() error { _, err := store.Do(t.Context(), set()); return err })
		})
	}
	server.Begin(t)
	callers.Wait()
	if n := c.of(redis.OutcomeBroken) - broken; n > 10 {
		t.Errorf("%d calls were made to a server that was gone", n)
	}
	redistest.Wait(t, func() error {
		if ups := losses.Load() - generations.Load(); ups != 2 || len(c.openings()) != 1 {
			return fmt.Errorf("told of %d ups and %d downs", ups, len(c.openings()))
		}
		return nil
	})
}
