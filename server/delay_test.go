package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// TestRefusedCallsAreSlow makes more calls than a user may, in each era. The refusals
// come late, so that who ignores them makes few.
func TestRefusedCallsAreSlow(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				h, m := w.Handler(), modernCall("echo")
				if era == "legacy" {
					m = legacyCall(w.open(t, "usual", mcp.Revision2511), "echo")
				}
				m.token = "usual"
				refused, began := 0, time.Now()
				for range 30 { // the usual burst of calls is 20
					got := record(h, m.request(t.Context(), ""))
					if got.Code == http.StatusTooManyRequests && stable(t, got.Body) == "DB-LIMIT-USER" {
						refused++
					}
				}
				if took := time.Since(began) / time.Duration(max(refused, 1)); took < 100*time.Millisecond ||
					took > 150*time.Millisecond {
					t.Errorf("%d refused calls took %v each, want 100 to 150 ms", refused, took)
				}
			})
		})
	}
}

// TestRefusedBatchesAreSlow sends more requests in batches than a user may.
func TestRefusedBatchesAreSlow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id, refused := w.open(t, "usual", mcp.Revision2503), 0
		pings := make([]string, 32)
		for i := range pings {
			pings[i] = strings.Replace(pingBody, `"id":1`, `"id":`+strconv.Itoa(i+1), 1)
		}
		batch := inSession("POST", id, "["+strings.Join(pings, ",")+"]").as("usual")
		for range 10 { // one user of the tenant may send 100 requests at once
			began := time.Now()
			if w.do(t, batch).Code != http.StatusTooManyRequests {
				continue
			}
			refused++
			if took := time.Since(began); took < 100*time.Millisecond || took > 150*time.Millisecond {
				t.Errorf("a refused batch took %v, want 100 to 150 ms", took)
			}
		}
		if refused == 0 {
			t.Error("no batch was refused")
		}
	})
}

// TestFloodsOfRefusalsAreSlow sends more requests than a tenant may. The refusals come
// late, so that who ignores them sends few; meanwhile they keep no place from others; and
// no more of them wait than may.
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
		for n := range 1100 {
			if n == 550 {
				synctest.Wait() // so that not all of them take a place before the first waits
			}
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
		if got := record(h, other.request(t.Context(), "")); got.Code != http.StatusOK ||
			time.Since(began) != 0 {
			t.Errorf("another tenant beside them: got %d after %v", got.Code, time.Since(began))
		}
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if got := answered.Load(); got != 1100 {
			t.Errorf("%d are answered after 150 ms, want all", got)
		}
	}, func(w *world) {
		many := ratelimit.Limit{Rate: 1e6, Burst: 1e6}
		w.config.MaxRequests, w.tenants[2].Limits.Calls, w.tenants[2].Limits.UserCalls = 600, &many, &many
	})
}

// TestRefusedLoginsBeyondAHundredAreSlow tries more tokens that are none than anybody has
// from one address. The refusals beyond the first hundred come late; callers with a
// token, from the same address too, and strangers elsewhere do not wait for them.
func TestRefusedLoginsBeyondAHundredAreSlow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		began := time.Now()
		knock(t, h, "192.0.2.1:1", 100)
		if got := time.Since(began); got != 0 {
			t.Fatalf("the first hundred took %v", got)
		}
		var refused atomic.Int64
		for range 64 {
			go func() {
				knock(t, h, "192.0.2.1:1", 3)
				refused.Add(3)
			}()
		}
		synctest.Wait()
		knock(t, h, "192.0.2.2:1", 1)
		if got := record(h, modernCall("echo").request(t.Context(), "")); got.Code != http.StatusOK ||
			time.Since(began) != 0 {
			t.Errorf("a caller with a token: got %d after %v", got.Code, time.Since(began))
		}
		if got := refused.Load(); got != 0 {
			t.Errorf("%d were refused three times without waiting", got)
		}
		time.Sleep(450 * time.Millisecond)
		synctest.Wait()
		if got := refused.Load(); got != 64*3 {
			t.Errorf("%d refusals after three times 150 ms, want %d", got, 64*3)
		}
	})
}

// TestStrangersBeyondThoseThatWaitLoseTheirConnection has more strangers refused at once
// than may wait: those beyond are told that their connection ends with the answer.
func TestStrangersBeyondThoseThatWaitLoseTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		knock(t, h, "192.0.2.1:1", 100)
		var open, closing atomic.Int64
		for range 1100 {
			go func() {
				r := modernCall("echo").as("forged").request(t.Context(), "")
				r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1"
				if record(h, r).Header().Get("Connection") == "close" {
					closing.Add(1)
				} else {
					open.Add(1)
				}
			}()
		}
		synctest.Wait()
		if closing.Load() != 1100-1024 || open.Load() != 0 {
			t.Errorf("at once %d answers close the connection and %d leave it open, want %d and none",
				closing.Load(), open.Load(), 1100-1024)
		}
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if closing.Load() != 1100-1024 || open.Load() != 1024 {
			t.Errorf("then %d close it and %d leave it open, want %d and 1024", closing.Load(), open.Load(),
				1100-1024)
		}
	}, func(w *world) { w.config.MaxRequests = 2000 })
}

// TestAFloodOfRefusalsIsNoBurst has 64 clients that ask again as soon as they are
// refused. They began together, and do not come together for long.
func TestAFloodOfRefusalsIsNoBurst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		knock(t, h, "192.0.2.1:1", 100)
		began := time.Now()
		var mu sync.Mutex // guards came
		came := map[int64]int{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for time.Since(began) < 4*time.Second {
					knock(t, h, "192.0.2.1:1", 1)
					mu.Lock()
					came[time.Since(began).Milliseconds()/5]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		most := 0
		for at, n := range came {
			if at > 400 { // two seconds after they began
				most = max(most, n)
			}
		}
		if most == 0 || most > 16 {
			t.Errorf("within 5 ms come %d of 64, want a quarter at most", most)
		}
	})
}
