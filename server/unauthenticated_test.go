package server_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
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

// sumsOf returns who was summed up with which number, and how many lines stand for
// themselves.
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

// TestFailedLoginsAreSummedUp shows that an address cannot fill the record: its first
// refusals in a minute are there in full, then one line says how many more there were,
// and so on when the process ends. Metrics count each of them.
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
		want := map[string]int{
			"192.0.2.1 unauthenticated signature":     95,
			"2001:db8::/64 unauthenticated signature": 3, "192.0.2.1 forbidden origin": 2,
		}
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

// TestSumsHideNoOtherIssuer shows that refused tokens of one issuer do not hide those of
// another that come from the same address, as all do behind one proxy, and that a sum
// says whose tokens it is of.
func TestSumsHideNoOtherIssuer(t *testing.T) {
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

// TestFloodsOfCallersThatAreNotLetInAreSummedUp shows that a caller with a good token
// cannot fill the record either, whose tenant is not served or has used up its requests.
// A sum says who it was, in the log at least of which tenant, and metrics count each
// request once.
func TestFloodsOfCallersThatAreNotLetInAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := newWorld(t, logging(&out))
		taken := w.recording()
		want := map[string]int{}
		for range 20 {
			w.do(t, modernCall("echo").as("stranger"))
		}
		for n := 0; n < 20; {
			if got := w.do(t, message{method: "GET", path: "/mcp", token: "usual"}); got.Code == http.StatusTooManyRequests {
				n++
			}
		}
		lines := map[string]int{}
		for _, line := range taken() {
			if line.Outcome == "limited" || line.Reason == "DB-TENANT" {
				lines[line.TenantID+" "+line.Subject+" "+line.Reason]++
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		sums := map[string]int{}
		for _, line := range taken() {
			sums[line.TenantID+" "+line.Subject+" "+line.Reason] += line.Count
		}
		for name := range lines {
			want[name] = 15
		}
		if len(lines) != 2 || !maps.Equal(sums, want) {
			t.Errorf("got lines %v and sums %v, want five each of two callers, and their other 15 in a sum", lines, sums)
		}
		for name, n := range lines {
			if n != 5 {
				t.Errorf("%s: got %d lines, want 5", name, n)
			}
		}
		if got := w.refused(t); got < 40 {
			t.Errorf("%v refusals counted, want each of the 40", got)
		}
		for line := range strings.Lines(out.String()) {
			if m := object(line); m.Text("msg") == "requests" && m.Text("tenant") == "" {
				t.Errorf("a sum in the log without its tenant: %s", line)
			}
		}
	})
}

// TestManyStrangersShareASum shows that memory and record stay bounded when there are
// many addresses.
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
		others := sums[" unauthenticated other_addresses"]
		delete(sums, " unauthenticated other_addresses")
		if single != 500 || len(sums) != 750 || others != 400 {
			t.Errorf("got %d lines, %d sums of addresses and %d others, want 500, 750 and 400", single,
				len(sums), others)
		}
		if text := fmt.Sprint(sums); strings.Contains(text, "10.0.4.") {
			t.Errorf("an address beyond the bound has a sum: %s", text)
		}
	})
}

// TestLogSumsUpStrangers sends what strangers may send, from one address and from many,
// for three minutes: the log has few lines however many requests come, says how many
// those are, and tells of a caller with a token at any time.
func TestLogSumsUpStrangers(t *testing.T) {
	const rounds, addresses = 40, 3000
	var out bytes.Buffer
	bubble(t, func(t *testing.T, w *world) {
		handler := w.Handler()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		strange := []message{
			modernCall("echo").as("forged"),
			{method: http.MethodGet, path: "/nowhere" + strings.Repeat("x", 1000)},
			{method: http.MethodGet, path: "/.well-known/oauth-protected-resource/mcp"},
			modernCall("echo").with("Origin", "https://evil.example"),
		}
		send := func(m message, address string) {
			r := m.request(t.Context(), "")
			r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), address
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		sent := 0
		for minute := range 3 {
			out.Reset()
			for _, m := range strange {
				for range rounds {
					send(m, "192.0.2.7:1")
					sent++
				}
				for n := range addresses * minute {
					send(m, fmt.Sprintf("10.0.%d.%d:1", n/256, n%256))
					sent++
				}
			}
			w.do(t, modernCall("echo"))
			time.Sleep(time.Minute)
			synctest.Wait()
			apart, sums, known, counted := 0, 0, 0, 0
			for line := range strings.Lines(out.String()) {
				switch m := object(line); {
				case m.Has("tenant"):
					known++
				case m.Text("msg") == "requests":
					n, _ := strconv.Atoi(string(m.Value("count")))
					counted += n
					sums++
				default:
					apart++
				}
			}
			if known != 1 || apart+counted != sent || apart > 500 || sums > 1004 {
				t.Errorf(
					"minute %d: %d requests of strangers: got %d lines, and %d sums of %d; of the known caller %d lines, want 1",
					minute, sent, apart, sums, counted, known)
			}
			if minute == 0 && (apart != 4*5 || sums != 4) {
				t.Errorf("one address: got %d lines and %d sums, want 5 lines and a sum of each of the 4",
					apart, sums)
			}
			sent = 0
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}, logging(&out))
}
