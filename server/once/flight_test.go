package once_test

import (
	"context"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/once"
)

func (l *lab) flights(t *testing.T) *once.Flights {
	t.Helper()
	f := once.NewFlights(l.server.Store(t))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return f
}

func TestAnIdIsInFlightOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.flights(t), l.flights(t)
	first := a.Begin(t.Context(), "acme", "s", "1")
	if first.Taken() {
		t.Fatal("the first of its id: taken")
	}
	second := b.Begin(t.Context(), "acme", "s", "1")
	if !second.Taken() {
		t.Error("the second of its id at another replica: not taken")
	}
	second.Land(t.Context())
	for _, other := range []*once.Flight{b.Begin(t.Context(), "acme", "s", `"1"`), b.Begin(t.Context(), "acme", "s2", "1"), b.Begin(t.Context(), "globex", "s", "1")} {
		if other.Taken() {
			t.Error("another id, session or tenant: taken")
		}
		other.Land(t.Context())
	}
	if third := b.Begin(t.Context(), "acme", "s", "1"); !third.Taken() {
		t.Error("a duplicate that was refused freed the id")
	}
	first.Land(t.Context())
	eventually(t, "the id is free again", func() bool {
		again := b.Begin(t.Context(), "acme", "s", "1")
		defer again.Land(t.Context())
		return !again.Taken()
	})
}

// TestRequestsRunWithoutRedis stops Redis: ids cannot be compared then, and calls go on.
// TestAnIdUsedAgainAtOnceWasInUse gives every request the same id, as some clients do, each at the next replica.
func TestAnIdUsedAgainAtOnceWasInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	replicas := []*once.Flights{l.flights(t), l.flights(t)}
	for i := range 300 {
		flight := replicas[i%2].Begin(t.Context(), "acme", "s", "1")
		if flight.Taken() {
			t.Fatalf("request %d was refused", i)
		}
		flight.Land(t.Context())
	}
}

func TestRequestsRunWithoutRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.flights(t)
	l.server.Stop()
	one := a.Begin(t.Context(), "acme", "s", "1")
	if one.Taken() {
		t.Error("taken, although nobody can know")
	}
	one.Land(t.Context())
	var none *once.Flight
	if none.Taken() {
		t.Error("no flight at all is taken")
	}
	none.Land(t.Context())
}
