package exchange

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestNamesOfExtensionsKeepNoMessage overwrites the message that declared an unknown
// extension: its name, which stays for good, must not be a part of it.
func TestNamesOfExtensionsKeepNoMessage(t *testing.T) {
	t.Parallel()
	declared := mcp.RawJSON(`{"com.example/thing":{}}`)
	var table *mcp.ExtensionTable
	_, unknown := table.OfClient(declared)
	u := unknownExtensions{logged: map[string]bool{}}
	if len(unknown) != 1 || !u.first(unknown[0]) {
		t.Fatalf("got %q, want one that is new", unknown)
	}
	clear(declared)
	if !u.logged["com.example/thing"] {
		t.Errorf("got %v, want a copy", u.logged)
	}
}
