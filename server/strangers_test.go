package server_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
)

// knock sends n requests with a token that is none, from an address.
func knock(t *testing.T, handler http.Handler, address string, n int) {
	t.Helper()
	knockWith(t, handler, "forged", address, n)
}

// knockWith sends n requests with a token that is refused, from an address.
func knockWith(t *testing.T, handler http.Handler, token, address string, n int) {
	t.Helper()
	for range n {
		r := modernCall("echo").as(token).request(t.Context(), "")
		r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), address
		got := httptest.NewRecorder()
		if handler.ServeHTTP(got, r); got.Code != http.StatusUnauthorized {
			t.Fatalf("got %d, want 401", got.Code)
		}
	}
}

// refused returns how many refusals the metrics count.
func (w *world) refused(t *testing.T) float64 {
	t.Helper()
	return metricstest.Sum(t, w.metrics, "drawbridge_refusals_total")
}

// sumsOf returns who was summed up with which number, and how many lines stand for themselves.
func sumsOf(lines []audit.Record) (sums map[string]int, single int) {
	sums = make(map[string]int)
	for _, line := range lines {
		if line.Count == 0 {
			single++
			continue
		}
		sums[line.Remote+" "+line.Outcome+" "+line.Reason] += line.Count
	}
	return sums, single
}

// TestFailedLoginsAreSummedUp shows that an address cannot fill the record: its first refusals in a minute are there in
// full, then one line says how many more there were, and so on when the process ends. Metrics count each of them.
func TestFailedLoginsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		taken := w.recording()
		handler := w.Handler()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()

		knock(t, handler, "192.0.2.1:1", 100)
		knock(t, handler, "192.0.2.2:1", 2)
		knock(t, handler, "[2001:db8::1]:1", 4)
		knock(t, handler, "[2001:db8::2]:1", 4)
		foreign := modernCall("echo").with("Origin", "https://evil.example")
		for range 7 {
			w.do(t, foreign)
		}
		sums, single := sumsOf(taken())
		if single != 5+2+5+5 || len(sums) != 0 {
			t.Errorf("got %d lines and sums %v at first, want 17 and none", single, sums)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		sums, single = sumsOf(taken())
		want := map[string]int{"192.0.2.1 unauthenticated signature": 95, "2001:db8::/64 unauthenticated signature": 3, "192.0.2.1 forbidden origin": 2}
		if single != 0 || fmt.Sprint(sums) != fmt.Sprint(want) {
			t.Errorf("got %d lines and sums %v after a minute, want none and %v", single, sums, want)
		}
		if got := w.refused(t); got != 100+2+8+7 {
			t.Errorf("%v refusals counted, want each of the %d", got, 100+2+8+7)
		}

		knock(t, handler, "192.0.2.1:1", 6)
		taken()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if sums, single := sumsOf(taken()); single != 0 || sums["192.0.2.1 unauthenticated signature"] != 1 {
			t.Errorf("got %d lines and sums %v at the end, want the sum of one", single, sums)
		}
	})
}

// TestSumsHidNoOtherIssuer shows that refused tokens of one issuer do not hide those of another that come from the same
// address, as all do behind one proxy, and that a sum says whose tokens it is of.
func TestSumsHidNoOtherIssuer(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.config.Verify = func(_ context.Context, token string) (auth.Principal, error) {
			return auth.Principal{}, &auth.Error{Reason: "expired", Issuer: token}
		}
	})
	taken := w.recording()
	handler := w.Handler()
	knockWith(t, handler, "https://issuer.test", "192.0.2.1:1", 10)
	knockWith(t, handler, "https://issuer2.test", "192.0.2.1:1", 7)
	if _, single := sumsOf(taken()); single != 10 {
		t.Errorf("got %d lines at first, want 5 of each issuer", single)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	sums := make(map[string]int)
	for _, line := range taken() {
		sums[line.Issuer] += line.Count
	}
	if want := map[string]int{"https://issuer.test": 5, "https://issuer2.test": 2}; !maps.Equal(sums, want) {
		t.Errorf("got sums %v by issuer, want %v", sums, want)
	}
}

// TestManyStrangersShareASum shows that memory and record stay bounded when there are many addresses.
func TestManyStrangersShareASum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		taken := w.recording()
		handler := w.Handler()
		for i := range 1200 {
			knock(t, handler, fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), 2)
		}
		_, single := sumsOf(taken())
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		sums, _ := sumsOf(taken())
		if single != 2000 || len(sums) != 1 || sums[" unauthenticated other_addresses"] != 400 {
			t.Errorf("got %d lines and sums %v, want 2000 and one of 400", single, sums)
		}
		if text := fmt.Sprint(sums); strings.Contains(text, "10.0.") {
			t.Errorf("an address beyond the bound has a sum: %s", text)
		}
	})
}
