package replica

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// counter counts messages that were missed.
type counter struct{ missed atomic.Int64 }

func (*counter) MessageSent(_, _ string) {}

func (*counter) MessageReceived(string) {}

func (c *counter) TakenForGone() { c.missed.Add(1) }

// TestBeatWhoseAnswerIsLostCounts has the server take a beat whose answer does not come,
// so the next one finds this replica known: the first of all, and the first after a time
// in which the others have taken it for gone.
func TestBeatWhoseAnswerIsLostCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g, err := NewGroup(GroupConfig{
		Store: server.Store(t), Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler), Listen: ":0",
	})
	if err != nil {
		t.Fatal(err)
	}
	var count counter
	g.config.Count = &count
	var returned atomic.Int64
	g.OnReturn(func() { returned.Add(1) })
	address := "127.0.0.1:1"
	g.address.Store(&address)
	lost := func() {
		t.Helper()
		redistest.Wait(t, func() error {
			_, err := beating.Run(t.Context(), g.config.Store, []string{livingKey}, g.says(&address))
			return err
		})
	}
	look := func() {
		t.Helper()
		if err := g.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lost()
	look()
	if returned.Load() != 1 || g.joined.Load() == nil {
		t.Fatal("a replica whose first beat was not answered has not joined")
	}
	look()
	if returned.Load() != 1 {
		t.Error("a replica that was there all the time has returned")
	}
	before := *g.clock.Load()
	before.answered = before.answered.Add(-life)
	g.clock.Store(&before)
	lost()
	look()
	if returned.Load() != 2 {
		t.Error("a replica whose first beat after a gap was not answered has not returned")
	}
	if missed := count.missed.Load(); missed != 1 {
		t.Errorf("messages were missed %d times, want once: at first there were none", missed)
	}
}

// TestWhoHasLeftIsNotBroughtBack has a beat arrive after its sender has said that it has
// left, and one that lies in the future, as if the clock of the server had been set back.
// Others would take for alive who has ended.
func TestWhoHasLeftIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g, err := NewGroup(GroupConfig{
		Store: server.Store(t), Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler), Listen: ":0",
		Count: &counter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:1"
	g.address.Store(&address)
	late := g.says(&address)
	says := func(args []string) {
		t.Helper()
		redistest.Wait(t, func() error {
			_, err := beating.Run(t.Context(), g.config.Store, []string{livingKey}, args)
			return err
		})
	}
	got := func() string { return server.Exec(t, "HGET", livingKey, string(g.id)) }
	says(late)
	if !strings.Contains(got(), " "+stateLives+" ") {
		t.Fatalf("redis has %q, want that it lives", got())
	}
	g.left.Store(true)
	says(g.says(&address))
	says(late)
	if !strings.Contains(got(), " "+stateLeft+" ") {
		t.Errorf("after a late beat redis has %q, want that it has left", got())
	}
	future := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	server.Exec(t, "HSET", livingKey, string(NewID()), future+" 1 "+stateLives+" somewhere")
	says(late)
	if n := server.Exec(t, "HLEN", livingKey); n != "1" {
		t.Errorf("redis has %s replicas, want none that lived in the future", n)
	}
}

// TestStrangersDoNotHoldUpBeats has many show certificates at once that are not known, as
// whoever reaches the listener can. Redis was asked for each of them, one after the
// other, and a beat came behind all of them.
func TestStrangersDoNotHoldUpBeats(t *testing.T) {
	t.Parallel()
	cfg, asked := redistest.Start(t).Config(), atomic.Int64{}
	cfg.Called = func(kind string, _ redis.Outcome, _ time.Duration) {
		if kind == "replicas" {
			asked.Add(1)
		}
	}
	g, err := NewGroup(GroupConfig{
		Store: redistest.Run(t, redis.New(cfg)), Seal: seal.RandomRing(),
		Logger: slog.New(slog.DiscardHandler), Listen: ":0", Count: &counter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	const strangers = 500
	var all sync.WaitGroup
	for n := range strangers {
		all.Go(func() {
			if _, known := g.Named(t.Context(), link.Digest{byte(n), byte(n >> 8)}); known {
				t.Error("a stranger is known")
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n > strangers/2 {
		t.Errorf("redis was asked %d times for %d strangers at once", n, strangers)
	}
}

// TestWhoHasJustBegunIsNoStranger has a replica show its certificate while it is looked
// for a stranger, which began before the replica was there.
func TestWhoHasJustBegunIsNoStranger(t *testing.T) {
	t.Parallel()
	store, ring := redistest.Start(t).Store(t), seal.RandomRing()
	join := func() *Group {
		g, err := NewGroup(GroupConfig{
			Store: store, Seal: ring, Logger: slog.New(slog.DiscardHandler), Listen: ":0", Count: &counter{},
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g, other, address := join(), join(), "127.0.0.1:1"
	other.address.Store(&address)
	g.looking.Lock() // as who looks for a stranger
	g.looked = time.Now()
	redistest.Wait(t, func() error { return other.check(t.Context()) })
	time.AfterFunc(time.Second/5, g.looking.Unlock) // by when Named waits for it
	if _, known := g.Named(t.Context(), other.identity.Digest()); !known {
		t.Error("a replica that is there is not known")
	}
}
