package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// TestSessionsTakeMemoryOfTheirUser opens far more sessions than there is memory for.
// Those of one user stay within its share, the one idle for longest gives way, and others
// find room. Only a number for each tenant bounded sessions once, so that all tenants
// together had no bound.
func TestSessionsTakeMemoryOfTheirUser(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.open(t, "alice", mcp.Revision2511)
		var newest string
		for range 200 {
			time.Sleep(2 * server.OpeningTime)
			newest = w.open(t, "alice", mcp.Revision2511)
		}
		if open := w.sessionsOpen(t); open < 50 || open > 150 {
			t.Errorf("%d sessions of one user are open in 512 KiB, want what its share has room for", open)
		}
		if held, most := w.config.Memory.InUse(), w.config.Memory.Most(); held > most || held < most/2 {
			t.Errorf("%d are held, want nearly %d, which one user may", held, most)
		}
		if w.alive(t, "alice", first) || !w.alive(t, "alice", newest) {
			t.Error("want the session idle for longest to have ended, and the newest to be alive")
		}
		w.open(t, "bob", mcp.Revision2511)
		other := w.open(t, "alice-globex", mcp.Revision2511)
		if !w.alive(t, "alice-globex", other) {
			t.Error("another tenant has no session")
		}
		wait(t)
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		if held := w.config.Memory.InUse(); held != 0 {
			t.Errorf("%d are held after all sessions have ended", held)
		}
	}, memory(512<<10))
}

// TestOneSessionGivesWayWhereOthersHoldTheMemory: when others leave no memory, a user
// that opens a session loses the one idle for longest, and no other, although its share
// has become less than what it holds already.
func TestOneSessionGivesWayWhereOthersHoldTheMemory(t *testing.T) {
	const sessions = 40
	for name, limit := range map[string]int{"below the limit of sessions": 1000, "at the limit": sessions} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				for range sessions {
					w.open(t, "alice", mcp.Revision2511)
					time.Sleep(2 * server.OpeningTime)
				}
				for other := range 20 {
					for w.config.Memory.Take(share.User{TenantID: fmt.Sprint(other)}, 512) == nil {
					}
				}
				for range 3 {
					w.open(t, "alice", mcp.Revision2511)
					time.Sleep(2 * server.OpeningTime)
				}
				if open := w.sessionsOpen(t); open != sessions {
					t.Errorf("%d sessions are open, want %d", open, sessions)
				}
				for _, tenant := range w.config.Memory.Top(50) {
					if tenant.TenantID == "acme" && tenant.InUse != sessions<<10 {
						t.Errorf("%d bytes are held for %d sessions", tenant.InUse, sessions)
					}
				}
			}, memory(1<<20), bounded(1000, limit))
		})
	}
}

// TestNoSessionBesideWhatFillsTheShare: a user whose bodies hold all that it may is
// refused a session, unless one of its own can give way.
func TestNoSessionBesideWhatFillsTheShare(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		id := w.open(t, "alice", mcp.Revision2511)
		time.Sleep(2 * server.OpeningTime)
		for range 30 {
			go record(h, large("slow", "alice", 60_000).request(t.Context(), ""))
		}
		synctest.Wait()
		alice := principals()["alice"]
		for w.config.Memory.Take(share.User(alice.User()), 512) == nil {
		}
		got := w.do(t, initialize(mcp.Revision2511).as("alice"))
		if got.Code != http.StatusOK || w.alive(t, "alice", id) {
			t.Errorf("got %d %s, want the idle session to give way", got.Code, got.Body)
		}
		got = w.do(t, initialize(mcp.Revision2511).as("alice")) // while the other one begins
		if got.Code != http.StatusTooManyRequests || stable(t, got.Body) != "DB-LIMIT-MEMORY" {
			t.Errorf("one more: got %d %s, want 429 DB-LIMIT-MEMORY", got.Code, got.Body)
		}
		w.letGo()
		synctest.Wait()
	}, memory(1<<20), busy)
}

// TestChangedPartsTakeMemoryOfTheirUser lets a server name a great many changed parts
// with long URIs to clients that are not told. Each remembers 1024 of them at most, which
// nothing counted: 8 MiB for each session and each stream.
func TestChangedPartsTakeMemoryOfTheirUser(t *testing.T) {
	part := func(n int) string { return fmt.Sprintf("file:///a/%d%s", n, strings.Repeat("x", 8000)) }
	bubble(t, func(t *testing.T, w *world) {
		_, files := w.asking()
		const subscribe = `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`
		id := w.open(t, "alice", mcp.Revision2511)
		w.do(t, inSession("POST", id, subscribe))
		before := w.config.Memory.InUse()
		for n := range 400 {
			files.change("file:///a", part(n))
		}
		held, most := w.config.Memory.InUse(), w.config.Memory.Most()
		if held-before < most/2 || held > most {
			t.Errorf("%d are held for parts of 3 MB, want nearly the share of one user, %d", held-before,
				most)
		}
		stream := w.follow(t, inSession("GET", id, "").as("alice"))
		wait(t)
		w.do(t, inSession("DELETE", id, ""))
		got := <-stream
		if told := strings.Count(got, mcp.NotifyResourceUpdated); told < 50 || told > 399 ||
			!strings.Contains(got, `"uri":"file:///a"}`) {
			t.Errorf("told of %d changes, want of the parts for which there was room, and of the whole", told)
		}
		if held := w.config.Memory.InUse(); held > before {
			t.Errorf("%d are held when all was told, %d before", held, before)
		}
	}, memory(4<<20))
}
