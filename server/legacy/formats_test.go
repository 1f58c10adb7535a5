package legacy

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// TestSubscriptionsKeepTheirNames looks for a subscription where an earlier build has
// kept it. If it fails, a rollout loses the subscriptions of the replicas that it ends.
func TestSubscriptionsKeepTheirNames(t *testing.T) {
	t.Parallel()
	if got, want := sessions.WatchFact("file:///a b"), "watch-7d4b5df441507bd1ba8cd4d137e4b759"; got != want {
		t.Errorf("got %q, want %q, under which an earlier version looks", got, want)
	}
}
