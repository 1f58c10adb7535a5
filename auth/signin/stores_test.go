package signin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/postgres"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
)

// openSQLite opens an empty database in a folder of the test.
func openSQLite(t testing.TB, ring *seal.Ring) store.Database {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "drawbridge.db"), storing(ring))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // what it has is of the test
	return db
}

// openPostgres opens an empty database at a PostgreSQL of its own.
func openPostgres(t testing.TB, ring *seal.Ring) store.Database {
	t.Helper()
	server, err := postgrestest.Start()
	if errors.Is(err, exec.ErrNotFound) {
		server.Need(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.Create(t, "signin", "")
	server.Exec(t, "postgres", "ALTER DATABASE signin OWNER TO signin")
	db := postgres.New(server.File(t, "signin", "signin"), storing(ring))
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func storing(ring *seal.Ring) store.Config {
	return store.Config{Ring: ring, Log: slog.New(slog.DiscardHandler)}
}

// TestReplayAtTwoReplicas brings refresh tokens in parallel to two replicas that share a
// PostgreSQL. Within the window all get one token. After it nobody gets any, the family
// ends once, also for whoever comes with the present token at that moment, and its access
// tokens are refused at both.
func TestReplayAtTwoReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := openPostgres(t, w.ring)
	var later atomic.Int64 // how far the clocks have been put forward
	shared := func(c *signin.Config, _ *signin.Settings) {
		c.Store, c.Logger = db, slog.New(slog.DiscardHandler)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}
	replicas := []*signin.Server{w.replica(t, shared), w.replica(t, shared)}
	w.server = replicas[0]
	ctx, stop := contextOf(t)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var verifiers []*auth.Verifier
	for _, r := range replicas {
		running.Go(func() { _ = r.Run(ctx) })
		w.server = r
		verifiers = append(verifiers, w.verifier(t))
	}
	c := w.signIn(t, base, "ann", nil)
	spent := c.refreshWith
	// bring brings tokens to both replicas, ten of each at a time.
	bring := func(tokens ...string) map[string]int {
		var mu sync.Mutex // guards got
		got := map[string]int{}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				status, answer := c.refresh(replicas[i%2], tokens[i/2%len(tokens)])
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprint(status, " ", answer["refresh_token"], answer["error"])]++
			})
		}
		all.Wait()
		return got
	}
	within := bring(spent)
	if len(within) != 1 {
		t.Fatalf("within the window: got %v", within)
	}
	_, present := c.mustRefresh(replicas[1], spent)
	access, present := c.mustRefresh(replicas[1], present)
	later.Store(int64(2 * time.Hour))
	const refused = "400 <nil>invalid_grant"
	if after := bring(spent, present); after[refused] < 10 {
		t.Errorf("after the window: got %v, want ten at least %s", after, refused)
	}
	if after := bring(spent, present); after[refused] != 20 {
		t.Errorf("of a family that has ended: got %v", after)
	}
	if n := w.counts.get("ended", "token_replay"); n != 1 {
		t.Errorf("the family has ended %d times, want once", n)
	}
	late := time.After(time.Minute)
	for i, v := range verifiers {
		for {
			if _, err := v.Verify(t.Context(), access); err != nil {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-late:
				t.Fatalf("replica %d still takes the access token", i)
			}
		}
	}
	if status, _ := c.refresh(replicas[0], present); status != http.StatusBadRequest {
		t.Errorf("the present token: status %d", status)
	}
}

// TestManySignInsOfAPersonEndInAStore ends as many sign-ins as one person may have, at a
// process beside a replica, in a file and at a PostgreSQL. None is left out though many
// are written at one time, and the replica puts each on record once.
func TestManySignInsOfAPersonEndInAStore(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB, *seal.Ring) store.Database{
		"SQLite": openSQLite, "PostgreSQL": openPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			db := open(t, w.ring)
			var told atomic.Int64
			over := func(c *signin.Config, _ *signin.Settings) {
				c.Store, c.Logger = db, slog.New(slog.DiscardHandler)
				c.Audit = func(_ context.Context, r audit.Record) bool {
					if r.Outcome == signin.OutcomeEnded {
						told.Add(1)
					}
					return true
				}
			}
			w.server = w.replica(t, over)
			if err := w.server.Learn(t.Context()); err != nil {
				t.Fatal(err)
			}
			const all = 100
			clients := make([]*signedIn, all)
			for i := range clients {
				clients[i] = w.signIn(t, base, "ann", nil)
			}
			command := w.replica(t, func(c *signin.Config, _ *signin.Settings) {
				c.Store, c.Logger = db, slog.New(slog.DiscardHandler)
			})
			began := time.Now()
			n, err := command.SignOut(t.Context(), idpIssuer, "ann")
			if n != all || err != nil {
				t.Errorf("%d have ended: %v", n, err)
			}
			t.Logf("%d sign-ins have ended in %v", n, time.Since(began))
			if err := w.server.Learn(t.Context()); err != nil {
				t.Fatal(err)
			}
			v := w.verifier(t)
			for i, c := range clients {
				_, err := v.Verify(t.Context(), c.access)
				if status, _ := c.refresh(w.server, c.refreshWith); err == nil || status != http.StatusBadRequest {
					t.Fatalf("sign-in %d: token %v, refresh status %d", i, err, status)
				}
			}
			if got := told.Load(); got != all {
				t.Errorf("%d are on record, want %d", got, all)
			}
		})
	}
}

// slowly is a store whose operations take a while each, however many there are at one
// time.
type slowly struct{ store.Store }

func (s slowly) Get(ctx context.Context, kind, id string) (store.Record, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Store.Get(ctx, kind, id)
}

func (s slowly) Put(ctx context.Context, r store.Record) (int64, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Store.Put(ctx, r)
}

// TestASignOutOfManyHoldsWithinASecond ends a hundred sign-ins of a person, by the
// operator and by the provider. Another replica refuses all of them a second later, over
// a store that would take two seconds for one after the other.
func TestASignOutOfManyHoldsWithinASecond(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, end := range map[string]func(*world) error{
			"sign-out": func(w *world) error { _, err := w.server.SignOut(t.Context(), idpIssuer, "ann"); return err },
			"logout":   func(w *world) error { return w.logout(t, "sub:ann") },
		} {
			w := newWorld(t)
			clients := make([]*signedIn, 100)
			for i := range clients {
				clients[i] = w.signIn(t, base, "ann", nil)
			}
			slow := func(c *signin.Config, _ *signin.Settings) { c.Store = slowly{w.store} }
			other := w.replica(t, slow)
			w.server = w.replica(t, slow)
			ctx, cancel := contextOf(t)
			var running sync.WaitGroup
			running.Go(func() { _ = other.Run(ctx) })
			there := (&world{server: other, settings: w.settings}).verifier(t)
			time.Sleep(time.Minute)
			began := time.Now()
			if err := end(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(time.Second - time.Since(began))
			left := 0
			for _, c := range clients {
				if _, err := there.Verify(t.Context(), c.access); err == nil {
					left++
				}
			}
			if left > 0 {
				t.Errorf("%s: a second later %d of %d hold at another replica", name, left, len(clients))
			}
			cancel()
			running.Wait()
		}
	})
}

// TestAnEndHoldsWithinASecondOverASlowStore ends sign-ins at different times between two
// looks of another replica, each of which takes almost as long as the pause between them.
func TestAnEndHoldsWithinASecondOverASlowStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.replica(t, func(c *signin.Config, _ *signin.Settings) { c.Store = late{w.store} })
		ctx, cancel := contextOf(t)
		var running sync.WaitGroup
		running.Go(func() { _ = other.Run(ctx) })
		there := (&world{server: other, settings: w.settings}).verifier(t)
		for i := range 10 {
			c := w.signIn(t, base, "ann", nil)
			after := time.Minute + time.Duration(i)*97*time.Millisecond
			time.Sleep(after)
			if _, err := w.server.SignOut(t.Context(), idpIssuer, "ann"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if _, err := there.Verify(t.Context(), c.access); err == nil {
				t.Errorf("ended after %v, the sign-in holds at another replica a second later", after)
			}
		}
		cancel()
		running.Wait()
	})
}

// late is a store that lists well what there is, and takes long to say so.
type late struct{ store.Store }

func (s late) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	found, err := s.Store.List(ctx, q)
	time.Sleep(450 * time.Millisecond)
	return found, err
}

// TestLinesOfALogoutAreWrittenOneAfterTheOther has a provider end many sign-ins of a
// person in one request. What puts them on record notes in that request that it did.
func TestLinesOfALogoutAreWrittenOneAfterTheOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		const all = 40
		for range all {
			w.signIn(t, base, "ann", nil)
		}
		var writing, together, told atomic.Int64
		w.server = w.replica(t, func(c *signin.Config, _ *signin.Settings) {
			c.Store = slowly{w.store}
			c.Audit = func(context.Context, audit.Record) bool {
				if writing.Add(1) > 1 {
					together.Add(1)
				}
				for range 1000 {
					runtime.Gosched()
				}
				writing.Add(-1)
				told.Add(1)
				return true
			}
		})
		if err := w.logout(t, "sub:ann"); err != nil {
			t.Error(err)
		}
		if told.Load() != all || together.Load() > 0 {
			t.Errorf("%d lines, %d of them beside others; want %d, one after the other", told.Load(),
				together.Load(), all)
		}
	})
}

// slowStore is a store that takes as long as an operation may, and is away for some time
// after the first.
type slowStore struct {
	store.Store

	puts  int
	until time.Time // it is away
}

const operation = 4900 * time.Millisecond

func (s *slowStore) Put(ctx context.Context, r store.Record) (int64, error) {
	s.puts++
	if s.puts == 2 {
		s.until = time.Now().Add(5500 * time.Millisecond)
	}
	if time.Now().Before(s.until) {
		return 0, errUnavailable
	}
	time.Sleep(operation)
	return s.Store.Put(ctx, r)
}

// TestSlowStoreLetsNobodyAskBeside has a replica ask a provider that takes its time, over
// a store that takes its time to note that, and to keep the answer. Another replica asks
// nobody meanwhile: the provider takes its refresh token but once.
func TestSlowStoreLetsNobodyAskBeside(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		slow := w.replica(t, func(c *signin.Config, _ *signin.Settings) { c.Store = &slowStore{Store: w.store} })
		time.Sleep(time.Minute)
		hold := make(chan struct{})
		w.idp.set(func() { w.idp.hold = hold })
		var asking sync.WaitGroup
		asking.Go(func() {
			if status, got := c.refresh(slow, c.refreshWith); status != http.StatusOK {
				t.Errorf("over the slow store: got %d, %v", status, got)
			}
		})
		time.Sleep(operation + 9900*time.Millisecond)
		close(hold)
		for range 12 {
			time.Sleep(time.Second)
			if status, got := c.refresh(w.server, c.refreshWith); status != http.StatusOK &&
				status != http.StatusServiceUnavailable {
				t.Errorf("beside it: got %d, %v", status, got)
			}
		}
		asking.Wait()
		if status, got := c.refresh(w.server, c.refreshWith); status != http.StatusOK {
			t.Errorf("afterwards: got %d, %v", status, got)
		}
	})
}
