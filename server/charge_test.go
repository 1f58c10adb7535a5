package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// unread is a body that fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a refused request was read")
	return 0, io.EOF
}

func (unread) Close() error { return nil }

// TestLargeBodiesCostAsMuchAsTheyAre: a body costs a request token for each 64 KiB. One
// that says how long it is, is refused before it is read.
func TestLargeBodiesCostAsMuchAsTheyAre(t *testing.T) {
	for name, announced := range map[string]bool{"announced": true, "chunked": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				h := w.Handler()
				send := func(size int) *httptest.ResponseRecorder {
					r := large("echo", "usual", size).request(t.Context(), "")
					if !announced {
						r.ContentLength = -1
					}
					return record(h, r)
				}
				// One user of the tenant may send 100 requests at once, which is three of
				// 31 tokens.
				const size = 31<<16 - 1000
				for n := range 3 {
					if got := send(size); got.Code != http.StatusOK {
						t.Fatalf("body %d: got %d %s", n, got.Code, got.Body)
					}
				}
				began := time.Now()
				if got := send(size); got.Code != http.StatusTooManyRequests ||
					stable(t, got.Body) != "DB-LIMIT-USER" {
					t.Errorf("the fourth: got %d %s, want 429 DB-LIMIT-USER", got.Code, got.Body)
				}
				// So that who tries again and again tries seldom. What is read first, is
				// read at the pace of what is large.
				if got := time.Since(began); got < 100*time.Millisecond || got > 110*time.Millisecond {
					t.Errorf("the fourth was refused after %v, want 100 ms", got)
				}
				if announced {
					r := large("echo", "usual", 10).request(t.Context(), "")
					r.ContentLength, r.Body = size, unread{t}
					record(h, r)
				}
				if got := send(10); got.Code != http.StatusOK {
					t.Errorf("a small one: got %d %s", got.Code, got.Body)
				}
			})
		})
	}
}

// TestALargeBodyCanAlwaysBeSent: however few requests a tenant may send at once, one body
// of any size is not too dear.
func TestALargeBodyCanAlwaysBeSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		got := record(w.Handler(), large("echo", "alice", 3<<20).request(t.Context(), ""))
		if got.Code == http.StatusTooManyRequests || strings.Contains(got.Body.String(), "DB-LIMIT") {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
	}, func(w *world) {
		for i := range w.tenants {
			w.tenants[i].Limits.Requests = &ratelimit.Limit{Rate: 1, Burst: 2}
		}
	})
}
