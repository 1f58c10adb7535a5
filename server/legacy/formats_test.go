package legacy

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// TestWordOfALaterVersion takes word apart that has one part more than this version
// knows, and one less.
func TestWordOfALaterVersion(t *testing.T) {
	t.Parallel()
	word := packed([]byte("a"), nil, []byte("b"), []byte("later"))
	if parts, ok := unpacked(word, 3); !ok || string(parts[0]) != "a" || len(parts[1]) != 0 ||
		string(parts[2]) != "b" {
		t.Errorf("with an addition: got %q, %v", parts, ok)
	}
	if parts, ok := unpacked(word, 5); ok {
		t.Errorf("with a part too few: got %q", parts)
	}
}

// TestSubscriptionsKeepTheirNames looks for a subscription where an earlier build has
// kept it. If it fails, a rollout loses the subscriptions of the replicas that it ends.
func TestSubscriptionsKeepTheirNames(t *testing.T) {
	t.Parallel()
	if got, want := sessions.WatchFact("file:///a b"), "watch-7d4b5df441507bd1ba8cd4d137e4b759"; got != want {
		t.Errorf("got %q, want %q, under which an earlier version looks", got, want)
	}
}
