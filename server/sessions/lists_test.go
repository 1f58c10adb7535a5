package sessions

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestNoticesOfTasksAreHeld has notices of tasks wait for a stream: their user holds
// them, until a stream takes them or the session ends.
func TestNoticesOfTasksAreHeld(t *testing.T) {
	user := auth.User{TenantID: "acme", Subject: "ann"}
	memory := share.New(16 << 20)
	l := &Session{roster: &Roster{memory: memory}, User: user}
	notice := []byte(strings.Repeat("x", 4<<10))
	for _, id := range []string{"one", "two", "two"} { // the second state of a task replaces the first
		if !l.NoteOnce(id, mcp.NotifyTasksStatus, notice) {
			t.Fatalf("the notice of %q was not taken", id)
		}
	}
	if held := memory.InUse(); held < 8<<10 || held > 9<<10 {
		t.Errorf("%d bytes are held for two notices of 4 KiB", held)
	}
	if taken := l.TakeOnce(); len(taken) != 2 {
		t.Errorf("took %d notices, want two", len(taken))
	}
	if held := memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held after a stream took the notices", held)
	}
	l.NoteOnce("one", mcp.NotifyTasksStatus, notice)
	l.Discard()
	if held := memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held after the end of the session", held)
	}
	full := &Session{roster: &Roster{memory: share.New(1 << 10)}, User: user}
	if full.NoteOnce("one", mcp.NotifyTasksStatus, notice) {
		t.Error("a notice was taken for which its user has no memory")
	}
}
