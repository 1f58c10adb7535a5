package eventlog_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// scriptRuns returns how often the server has run scripts.
func scriptRuns(t *testing.T, h *house) (runs int) {
	t.Helper()
	for line := range strings.Lines(h.server.Exec(t, "INFO", "commandstats")) {
		for _, name := range []string{"evalsha", "eval"} {
			if rest, found := strings.CutPrefix(line, "cmdstat_"+name+":calls="); found {
				n := 0
				if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
					t.Fatal(err)
				}
				runs += n
			}
		}
	}
	return runs
}

// TestNoticesGoTogether tells 150 sessions of one user of ten changes. Each notice was a
// trip of its own.
func TestNoticesGoTogether(t *testing.T) {
	t.Parallel()
	const sessions, changes = 150, 10
	h := newHouse(t)
	a := h.join(t)
	for i := range sessions {
		if lasting, err := a.Begin(t.Context(), of(fmt.Sprint("s", i)), "g1"); err != nil || !lasting {
			t.Fatal(lasting, err)
		}
	}
	before := scriptRuns(t, h)
	for range changes {
		var all sync.WaitGroup
		for i := range sessions {
			all.Go(func() {
				if _, err := a.Notify(t.Context(), of(fmt.Sprint("s", i)), "g1", 5, []byte(`{}`)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	runs := scriptRuns(t, h) - before
	t.Logf("%d scripts for %d notices", runs, sessions*changes)
	if runs > sessions*changes/5 {
		t.Errorf("%d notices took %d trips, want a fifth at most", sessions*changes, runs)
	}
	for i := range sessions {
		events, _, err := a.Read(t.Context(), of(fmt.Sprint("s", i)), "g1", "")
		if err != nil || len(events) != changes {
			t.Fatalf("session %d has %d notices, %v; want %d", i, len(events), err, changes)
		}
	}
}
