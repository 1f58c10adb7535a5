package upstream

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestWhoSubscribesAsTheUpstreamEndsIsTold has a listener join between the last attempt
// of a watch and its end. Nobody else would tell it, and it would wait for as long as its
// client stays.
func TestWhoSubscribesAsTheUpstreamEndsIsTold(t *testing.T) {
	t.Parallel()
	user := share.User{TenantID: "t"}
	l := &listener{user: user, over: func() { t.Error("it was never subscribed") }, outcome: make(chan error, 1)}
	w := &watch{
		cancel: func() {}, done: make(chan struct{}), holder: user, waiting: []*listener{l},
		listeners: map[*listener]struct{}{l: {}},
	}
	all := watches{server: "up", slots: share.New(maxWatches), byKey: map[watchKey]*watch{w.key: w}}
	if err := all.slots.Take(user, 1); err != nil {
		t.Fatal(err)
	}
	all.remove(w)
	select {
	case err := <-l.outcome:
		if err == nil {
			t.Error("got a subscription, want an error")
		}
	default:
		t.Error("it was told nothing")
	}
}
