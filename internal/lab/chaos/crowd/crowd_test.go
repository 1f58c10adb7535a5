package crowd_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// patience is for what must happen on a machine whose processors are busy.
const patience = 3 * time.Minute

// begin starts a world of two replicas with the servers that a crowd needs.
func begin(t *testing.T) (*world.World, *upstream.Server) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "drawbridge")
	// Without a bound of its own: while others compile, too, it takes minutes.
	if err := must.Try(func() { world.Build(t.Context(), program) }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	server := upstream.Start(address)
	t.Cleanup(server.Close)
	w := world.Start(ctx, world.Config{
		Dir: t.TempDir(), Program: program, Balancer: "nginx", Replicas: 2, Redis: "one",
		Upstreams: map[string]string{crowd.Modern: address + "/mcp", crowd.Legacy: address + "/legacy"},
	})
	t.Cleanup(w.Close)
	return w, server
}

// end stops a crowd and judges what it saw.
func end(t *testing.T, c *crowd.Crowd, book *ledger.Ledger, w *world.World,
	server *upstream.Server,
) ledger.Verdict {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
	v := book.Judge(server.Executions(), w.Audit())
	t.Logf("%+v\n%+v", c.Deeds(), v)
	return v
}

// eventually waits until a claim is true.
func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !claim(); {
		if time.Now().After(end) {
			t.Errorf("not within %s: %s", patience, what)
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestNothingIsLostWhereNothingBreaks(t *testing.T) {
	t.Parallel()
	w, server := begin(t)
	book := ledger.New()
	c := crowd.Start(t.Context(), crowd.Config{
		URL: w.URL, Token: w.Token, Ledger: book, Loads: []crowd.Load{{Kinds: crowd.Kinds}},
	})
	eventually(t, "each kind of client does what it is for", func() bool {
		d := c.Deeds()
		return d.Calls > 300 && d.Resumed > 5 && d.Questions > 5 && d.Cancelled > 5 && d.Repeated > 5 &&
			d.Changes > 20 &&
			d.Sessions > 5 && d.Listened > 1
	})
	v := end(t, c, book, w, server)
	if v.Lost() != 0 || v.BrokenUnaudited != 0 || v.Uncancelled != 0 || v.Unstreamed != 0 {
		t.Errorf("something was lost: %q %q", v.Samples, v.Notes)
	}
	if d := c.Deeds(); d.Reconnects != 0 {
		t.Errorf("%d sessions were lost", d.Reconnects)
	}
}

// TestLibrariesSeeWhatBreaks has the clients of SDKs alone, and ends a replica at once.
func TestLibrariesSeeWhatBreaks(t *testing.T) {
	t.Parallel()
	w, server := begin(t)
	book := ledger.New()
	c := crowd.Start(t.Context(), crowd.Config{
		URL: w.URL, Token: w.Token, Ledger: book,
		Loads: []crowd.Load{{Kinds: crowd.Libraries}},
	})
	answered := func(least int64) {
		t.Helper()
		eventually(t, "the client of each SDK has answers of both servers", func() bool {
			answers := c.Answers()
			return len(answers) == 8 && slices.Min(slices.Collect(maps.Values(answers))) > least
		})
	}
	answered(10)
	if d := c.Deeds(); d.Reconnects != 0 {
		t.Errorf("%d sessions were lost before anything broke", d.Reconnects)
	}
	w.Replicas[0].Kill()
	answered(50)
	if v := end(t, c, book, w, server); v.Lost() != 0 {
		t.Errorf("something was lost: %q", v.Samples)
	}
}

// TestAKilledReplicaIsSeen ends a replica at once, twice. What was in flight there is
// broken, and every client knows.
func TestAKilledReplicaIsSeen(t *testing.T) {
	t.Parallel()
	w, server := begin(t)
	book := ledger.New()
	// A client of 2025 whose subscription was there is told again only after some
	// heartbeats, for which this does not wait.
	kinds := slices.DeleteFunc(slices.Clone(crowd.Kinds), func(kind string) bool { return kind == "2025 listen" })
	c := crowd.Start(t.Context(), crowd.Config{
		URL: w.URL, Token: w.Token, Ledger: book, Loads: []crowd.Load{{Kinds: kinds, Size: 2}},
	})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for _, r := range w.Replicas {
		calls := c.Deeds().Calls
		eventually(t, "the crowd is at work", func() bool { return c.Deeds().Calls > calls+200 })
		r.Kill()
		calls = c.Deeds().Calls
		eventually(t, "the crowd works without that replica",
			func() bool { return c.Deeds().Calls > calls+200 })
		r.Start(ctx)
		w.Ready(ctx)
	}
	v := end(t, c, book, w, server)
	if v.Lost() != 0 {
		t.Errorf("something was lost: %q", v.Samples)
	}
	if v.Broken == 0 {
		t.Error("nobody saw that a replica was killed")
	}
}
