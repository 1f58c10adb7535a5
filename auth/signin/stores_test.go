package signin_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
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
