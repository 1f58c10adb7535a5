package ticket

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestTicketIsReadAsItWasWritten reads a ticket as this version writes it, and as a later
// one may that adds something at the end.
func TestTicketIsReadAsItWasWritten(t *testing.T) {
	want := Ticket{
		Opened: time.Unix(1_790_000_000, 0), Revision: mcp.Revision2511, Capabilities: 5,
		Extensions: mcp.ExtensionsNamed(mcp.ExtensionApps),
	}
	want.Opener[0], want.Key[0], want.Owner[0] = 1, 2, 3
	for _, added := range []string{"", "later"} {
		got, ok := Decode(append(want.Encode(), added...))
		if diff := cmp.Diff(want, got, cmp.Comparer(sameExtensions)); !ok || diff != "" {
			t.Errorf("with %q added: %v %s", added, ok, diff)
		}
	}
}

func sameExtensions(a, b mcp.Extensions) bool { return string(a.JSON()) == string(b.JSON()) }
