package replica

import (
	"log/slog"
	"sync/atomic"
	"testing"

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
