package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestChangesOfResourcesArePaced has one user with thirty streams follow a resource that
// changes at every moment for some seconds. Each change was a write to Redis for each
// stream. After some, each stream is told once a second, and of the last change in any
// case.
func TestChangesOfResourcesArePaced(t *testing.T) {
	t.Parallel()
	const streams, window = 30, 3 * time.Second
	server := redistest.Start(t)
	c, bases := overRedis(t, server, bounded(100, 100))
	w, files, base, m := c.worlds[0], c.files[0], bases[0], watch(t, server)
	var all sync.WaitGroup
	for i := range streams {
		id := w.openAsking(t, mcp.Revision2511)
		stream := call(t.Context(), t, base, inSession("GET", id, ""))
		wantStatus(t, "a subscription", w.do(t, inSession("POST", id,
			`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)), http.StatusOK)
		all.Go(func() {
			for {
				line := stream.line(t)
				if line == "" {
					t.Errorf("stream %d ended", i)
					return
				}
				if line == fmt.Sprintf("data: %s", lastChange) {
					return
				}
			}
		})
	}
	m.since(t, "before")
	m.forget()
	began, changes := time.Now(), 0
	for ; time.Since(began) < window; changes++ {
		files.change("file:///a", "file:///a")
		<-time.After(5 * time.Millisecond)
	}
	files.change("file:///a", "file:///a#last")
	all.Wait()
	took := time.Since(began)
	trips := m.since(t, "after")["evalsha session"]
	most := streams * (int(took/time.Second) + 11)
	t.Logf("%d changes for %d streams in %v: %d trips", changes, streams, took, trips)
	if trips > most {
		t.Errorf("%d changes for %d streams took %d trips in %v, want %d at most", changes, streams, trips, took, most)
	}
}

const lastChange = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a#last"}}`

// TestTheLastOfManyChangesIsToldInTime changes a resource more often at once than its
// client is told of.
func TestTheLastOfManyChangesIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		stream := c.worlds[0].hearing(t, inSession("GET", c.id, ""))
		c.subscribe(t, 0, "subscribe")
		for n := range 20 {
			c.files[0].change("file:///a", fmt.Sprint("file:///a#", n))
			synctest.Wait()
		}
		<-time.After(2 * time.Second)
		if told := stream.text(); !strings.Contains(told, "file:///a#19") {
			t.Errorf("the client was told %q, want the last change", told)
		}
	})
}
