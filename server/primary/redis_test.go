package primary_test

import (
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

const a, b = replica.ID("aaaaaaaaaaaaaaaa"), replica.ID("bbbbbbbbbbbbbbbb")

var key = primary.Key{Tenant: "acme", Name: "s"}

// overRedis is a store over a real server.
type overRedis struct {
	primary.Store
	server  *redistest.Server
	admin   *redis.Store
	member  *replicatest.Member
	refused atomic.Int64
}

func newOverRedis(t *testing.T) *overRedis {
	t.Helper()
	r := &overRedis{server: redistest.Start(t), member: (&replicatest.Hub{}).Join()}
	r.admin = r.server.Admin(t)
	cfg := r.server.Config()
	cfg.Refused = func() { r.refused.Add(1) }
	store := redis.New(cfg)
	r.Store = primary.NewRedis(primary.RedisConfig{
		Store: store, Seal: seal.RandomRing(), Others: r.member, Life: time.Hour,
	})
	redistest.Run(t, store)
	return r
}

// does runs a command that no replica runs.
func (r *overRedis) does(t *testing.T, name, key string, args ...string) redis.Reply {
	t.Helper()
	reply, err := r.admin.Do(t.Context(), redis.Command{Name: name, Key: key, Args: args})
	if err != nil {
		t.Fatalf("%s %s: %v", name, key, err)
	}
	return reply
}

// TestStores is the suite for all that are a Store.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) primary.Store{
		"redis":  func(t *testing.T) primary.Store { t.Helper(); return newOverRedis(t) },
		"memory": func(*testing.T) primary.Store { return &primarytest.Store{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := open(t), t.Context()
			if _, err := s.Read(ctx, key); !errors.Is(err, primary.ErrNone) {
				t.Errorf("before it opens: got %v, want ErrNone", err)
			}
			if err := s.Keep(ctx, key, primary.Entry{Primary: a, Epoch: 1}); !errors.Is(err,
				primary.ErrNone) {
				t.Errorf("a fact before it opens: got %v, want ErrNone", err)
			}
			first := primary.Entry{Primary: a, Epoch: 1, Facts: map[string]string{
				"level": "info",
				"lists": "x",
			}}
			if err := s.Open(ctx, key, first); err != nil {
				t.Fatal(err)
			}
			if err := s.Keep(ctx, key, primary.Entry{
				Primary: a, Epoch: 1,
				Facts: map[string]string{"level": "error", "lists": ""},
			}); err != nil {
				t.Fatal(err)
			}
			found, err := s.Read(ctx, key)
			if err != nil || found.Primary != a || found.Epoch != 1 || len(found.Facts) != 1 ||
				found.Facts["level"] != "error" {
				t.Fatalf("got %+v, %v", found, err)
			}
			taken, err := s.Take(ctx, key, found, b)
			if err != nil || taken.Primary != b || taken.Epoch <= 1 || taken.Facts["level"] != "error" {
				t.Fatalf("taken: got %+v, %v", taken, err)
			}
			if _, err := s.Take(ctx, key, found, a); !errors.Is(err, primary.ErrFenced) {
				t.Errorf("taken by two: got %v, want ErrFenced", err)
			}
			late := primary.Entry{Primary: a, Epoch: 1, Facts: map[string]string{"level": "late"}}
			for what, err := range map[string]error{
				"open": s.Open(ctx, key, late), "keep": s.Keep(ctx, key, late), "end": s.End(ctx, key, 1),
				"the same epoch": s.Open(ctx, key, primary.Entry{Primary: a, Epoch: taken.Epoch}),
			} {
				if !errors.Is(err, primary.ErrFenced) {
					t.Errorf("a late write, %s: got %v, want ErrFenced", what, err)
				}
			}
			other := primary.Key{Tenant: "acme", Name: "other"}
			if missing, err := s.Renew(ctx, []primary.Key{key, other}); err != nil || len(missing) != 1 ||
				missing[0] != other {
				t.Errorf("renewed: got missing %v, %v", missing, err)
			}
			again := primary.Entry{Primary: b, Epoch: taken.Epoch, Facts: map[string]string{"again": "y"}}
			if err := s.Open(ctx, key, again); err != nil {
				t.Errorf("written again by its primary: got %v", err)
			}
			maps.Copy(again.Facts, taken.Facts)
			if found, err := s.Read(ctx, key); err != nil || !maps.Equal(found.Facts, again.Facts) {
				t.Errorf("written again: got %+v, %v, want the facts %v", found, err, again.Facts)
			}
			if err := errors.Join(s.End(ctx, key, taken.Epoch), s.End(ctx, key, taken.Epoch)); err != nil {
				t.Errorf("ended twice: got %v", err)
			}
			if _, err := s.Read(ctx, key); !errors.Is(err, primary.ErrNone) {
				t.Errorf("after its end: got %v, want ErrNone", err)
			}
		})
	}
}

// TestOneOfManyTakesASession has twenty replicas take a session over at once.
func TestOneOfManyTakesASession(t *testing.T) {
	t.Parallel()
	s := newOverRedis(t)
	if err := s.Open(t.Context(), key, primary.Entry{Primary: a, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	from, err := s.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error)
	for range 20 {
		go func() {
			_, err := s.Take(t.Context(), key, from, replica.NewID())
			results <- err
		}()
	}
	won := 0
	for range 20 {
		switch err := <-results; {
		case err == nil:
			won++
		case !errors.Is(err, primary.ErrFenced):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have taken it, want one", won)
	}
}

// TestForgedRecordsAreNotBelieved changes each field of an entry, as somebody could who
// can write to the server.
func TestForgedRecordsAreNotBelieved(t *testing.T) {
	t.Parallel()
	s := newOverRedis(t)
	for _, forge := range [][]string{
		{"primary", string(b)},
		{"epoch", "9"},
		{"seal", "x"},
		{"fact-level", "error"},
		{"fact-new", "x"},
	} {
		if err := s.Open(t.Context(), key, primary.Entry{
			Primary: a, Epoch: 1,
			Facts: map[string]string{"level": "info"},
		}); err != nil {
			t.Fatal(err)
		}
		s.does(t, "HSET", primary.KeyOf(key), forge...)
		before := s.refused.Load()
		if r, err := s.Read(t.Context(), key); !errors.Is(err, primary.ErrNone) ||
			s.refused.Load() == before {
			t.Errorf("%v: got %+v, %v, want ErrNone, and that it is counted", forge, r, err)
		}
		s.member.Outdate(true)
		if _, err := s.Read(t.Context(), key); err == nil || errors.Is(err, primary.ErrNone) {
			t.Errorf("%v, while a later version runs: got %v, want an error that says nothing of an end",
				forge, err)
		}
		s.member.Outdate(false)
		s.does(t, "DEL", primary.KeyOf(key))
	}
	for _, spoil := range [][]string{{"SET", "junk"}, {"LPUSH", "junk"}, {"XADD", "*", "d", "junk"}} {
		s.does(t, spoil[0], primary.KeyOf(key), spoil[1:]...)
		if err := s.Open(t.Context(), key, primary.Entry{Primary: a, Epoch: 1}); err != nil {
			t.Errorf("over a key of another type: %v", err)
		}
		if err := s.End(t.Context(), key, 1); err != nil {
			t.Error(err)
		}
	}
}

// TestALossEndsNoSession empties the server: what is not there may be written again, and
// is not taken for ended.
func TestALossEndsNoSession(t *testing.T) {
	t.Parallel()
	s := newOverRedis(t)
	if err := s.Open(t.Context(), key, primary.Entry{Primary: a, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	s.server.Exec(t, "FLUSHALL")
	if _, err := s.Read(t.Context(), key); err == nil || errors.Is(err, primary.ErrNone) {
		t.Errorf("at once: got %v, want an error that says nothing of an end", err)
	}
	if err := s.Open(t.Context(), key, primary.Entry{Primary: a, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Read(t.Context(), key); err != nil || r.Primary != a {
		t.Errorf("written again: got %+v, %v", r, err)
	}
	redistest.Wait(t, func() error { // the loss is known, and over
		if _, err := s.Read(t.Context(), primary.Key{Tenant: "acme", Name: "never"}); !errors.Is(err,
			primary.ErrNone) {
			return errors.New("it is not settled yet")
		}
		return nil
	})
}

// TestRecordsGoByThemselves looks at the life of an entry.
func TestRecordsGoByThemselves(t *testing.T) {
	t.Parallel()
	s := newOverRedis(t)
	if err := s.Open(t.Context(), key, primary.Entry{Primary: a, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if ms, err := s.does(t, "PTTL", primary.KeyOf(key)).Int(); err != nil || ms <= 0 ||
		ms > time.Hour.Milliseconds() {
		t.Errorf("got a life of %d ms, %v", ms, err)
	}
}
