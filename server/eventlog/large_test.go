package eventlog_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// TestLargeEventsAreReadElsewhere reads streams of large events at another replica, from
// their beginning and after an event, forty at once. One whose first event did not fit
// into a page looked as if it had none.
func TestLargeEventsAreReadElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.join(t, func(cfg *eventlog.RedisConfig) {
		cfg.Memory, cfg.Quota = share.New(1<<30), share.New(1<<30)
	})
	b := h.join(t)
	small, large := []byte(`{}`), bytes.Repeat([]byte("x"), 850_000)
	first := make(map[string]string)
	for i := range 40 {
		key := of(fmt.Sprint("session", i))
		if _, err := a.Begin(t.Context(), key, "p1"); err != nil {
			t.Fatal(err)
		}
		for j, data := range [][]byte{large, small, large} {
			id, err := a.Append(t.Context(), key, "p1", data, j == 2)
			if err != nil {
				t.Fatal(err)
			}
			if j == 0 {
				first[key.Name] = id
			}
		}
	}
	var all sync.WaitGroup
	for i := range 40 {
		key := of(fmt.Sprint("session", i))
		all.Go(func() {
			for after, want := range map[string]int{"": 3, eventlog.FirstID("p1"): 3, first[key.Name]: 2} {
				events, more, err := b.Read(t.Context(), key, "p1", after)
				if err != nil || len(events) != want || more || !bytes.Equal(events[len(events)-1].Data, large) {
					t.Errorf("after %q: %d events, %v, %v; want %d and no more", after, len(events), more, err, want)
				}
			}
		})
	}
	all.Wait()
}
