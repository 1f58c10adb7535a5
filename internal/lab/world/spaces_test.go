package world_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestPartitions cuts off a replica from Redis, then from the server, then from the
// balancer.
func TestPartitions(t *testing.T) {
	t.Parallel()
	w := startApart(t, world.Config{Balancer: "haproxy", Replicas: 2, Redis: "one", Direct: true})
	r, token := w.Replicas[1], w.Token("red", "alice")
	works(t, "http://"+r.Address, token)
	apart := func(a, b, want string) {
		t.Helper()
		w.Drop(a, b, world.AllLost)
		unready(t, w, want)
		works(t, w.URL, token)
		if w.Dropped(t.Context(), r.Name) == 0 {
			t.Errorf("no packet between %s and %s was dropped", a, b)
		}
		w.Rejoin()
		if n := w.Dropped(t.Context(), r.Name); n != 0 {
			t.Errorf("after Rejoin there are %d packets that were dropped", n)
		}
		w.Ready(within(t))
		works(t, "http://"+r.Address, token)
	}
	apart(r.Name, "redis", "replica-1 does not use Redis")
	apart("balancer", r.Name, `haproxy says "DOWN" of replica-1`)
	if err := must.Try(func() { w.Drop("echo", "balancer", world.AllLost) }); err == nil {
		t.Error("got no error where no part is in a namespace")
	}
	if err := must.Try(func() { w.Drop(r.Name, "nobody", world.AllLost) }); err == nil {
		t.Error("got no error for a part that is not there")
	}
	w.Drop(r.Name, "echo", world.AllLost)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := call(ctx, "http://"+r.Address, token); err == nil {
		t.Error("a server was called that cannot be reached")
	}
}

// startApart starts a world in network namespaces, and ends the test where there cannot
// be any.
func startApart(t *testing.T, c world.Config) *world.World {
	t.Helper()
	c.Namespaces = true
	w, err := tryStart(t, c)
	if errors.Is(err, world.ErrNoNamespaces) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}
