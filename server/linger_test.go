package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFloodsOfRefusalsAreSlow sends more requests than a tenant may. The refusals come late, so that who ignores them
// sends few; meanwhile they keep no place from others; and no more of them wait than may.
func TestFloodsOfRefusalsAreSlow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		m := modernCall("echo")
		m.token = "usual"
		began := time.Now()
		for n := range 100 { // as many as one user of the tenant may send at once
			if record(h, m.request(t.Context(), "")); time.Since(began) > 0 {
				t.Fatalf("request %d had to wait", n)
			}
		}
		var answered atomic.Int64
		for range 1100 {
			go func() {
				if got := record(h, m.request(t.Context(), "")); got.Code != http.StatusTooManyRequests {
					t.Errorf("got %d %s, want 429", got.Code, got.Body)
				}
				answered.Add(1)
			}()
		}
		synctest.Wait()
		if got := answered.Load(); got != 1100-1024 {
			t.Errorf("%d are answered at once, want %d: all but those that wait", got, 1100-1024)
		}
		other := modernCall("echo")
		other.token = "alice-globex"
		if got := record(h, other.request(t.Context(), "")); got.Code != http.StatusOK || time.Since(began) != 0 {
			t.Errorf("another tenant beside them: got %d after %v", got.Code, time.Since(began))
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := answered.Load(); got != 1100 {
			t.Errorf("%d are answered after 100 ms, want all", got)
		}
	}, func(w *world) { w.config.MaxCalls = 1024 })
}
