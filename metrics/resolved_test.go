package metrics

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestADeletedSeriesIsNotRemembered makes a series, and has all deleted before it is
// kept.
func TestADeletedSeriesIsNotRemembered(t *testing.T) {
	t.Parallel()
	var r resolved[string, int]
	made := 0
	makes := func() int {
		if made++; made == 1 {
			r.forget() // somebody deletes series meanwhile
		}
		return made
	}
	for _, want := range []int{1, 2, 2} {
		if got := r.get("a", makes); got != want {
			t.Errorf("got %d, want %d: what was made before all was forgotten is not remembered", got, want)
		}
	}
}

// TestFewSeriesAreRemembered finds more series than are remembered, again and again.
func TestFewSeriesAreRemembered(t *testing.T) {
	t.Parallel()
	var r resolved[int, int]
	for key := range 3 * maxResolved {
		r.get(key, func() int { return key })
		if len(r.known) > maxResolved {
			t.Fatalf("%d are remembered", len(r.known))
		}
	}
	if got, ok := r.known[3*maxResolved-1]; !ok || got != 3*maxResolved-1 {
		t.Errorf("the last is not remembered: got %d, %t", got, ok)
	}
}

// series returns the lines of the metrics that have a label with that value, but for
// those of buckets.
func series(t *testing.T, registry *prometheus.Registry, value string) (lines []string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	Handler(registry).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"/metrics", http.NoBody))
	for line := range strings.Lines(recorder.Body.String()) {
		if strings.Contains(line, `"`+value+`"`) && !strings.Contains(line, "_bucket") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// use makes two calls, of which one does not end.
func use(m *Metrics) {
	for i := range 2 {
		ended, served := m.CallStarted("acme"), m.ServerCall("files")
		if i > 0 {
			break
		}
		m.Call("acme", "files", "files__read", "ok", time.Second)
		ended()
		served()
	}
}

// TestASeriesThatComesBackCounts takes a tenant and a server away and brings them back,
// and looks whether what was remembered of them counts where nobody reads.
func TestASeriesThatComesBackCounts(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := New(registry)
	m.ServeTenants([]string{"acme"})
	use(m)
	use(m)
	m.ServeTenants(nil)
	m.UpstreamRemoved("files")
	if got := append(series(t, registry, "acme"), series(t, registry, "files")...); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
	m.ServeTenants([]string{"acme"})
	m.UpstreamUp("files", true, 1)
	use(m)
	want := []string{
		`drawbridge_calls_in_flight{tenant="acme"} 1`,
		`drawbridge_calls_total{item="files__read",outcome="ok",server="files",tenant="acme"} 1`,
		`drawbridge_call_duration_seconds_count{item="files__read",server="files"} 1`,
		`drawbridge_upstream_calls_in_flight{server="files"} 1`,
	}
	got := append(series(t, registry, "acme"), series(t, registry, "files")...)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no line %s in %q", line, got)
		}
	}
}

// TestReloadsWhileCallsAreCounted takes a tenant and a server away again and again while
// calls are counted. In the end they are not there, or they are and count all.
func TestReloadsWhileCallsAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := New(registry)
	for _, last := range [][]string{{"globex"}, {"acme"}} {
		var calls sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			calls.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						use(m)
					}
				}
			})
		}
		for range 200 {
			m.ServeTenants([]string{"acme"})
			m.ServeTenants([]string{"globex"})
		}
		m.ServeTenants(last)
		close(stop)
		calls.Wait()
		if got := series(t, registry, "acme"); last[0] == "globex" && len(got) > 0 {
			t.Errorf("a tenant that is gone has %q", got)
		}
	}
	m.UpstreamRemoved("files") // with it the calls of acme, and what is remembered of them
	m.UpstreamUp("files", true, 1)
	use(m)
	want := `drawbridge_calls_total{item="files__read",outcome="ok",server="files",tenant="acme"} 1`
	if got := series(t, registry, "acme"); !slices.Contains(got, want) {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestCountingACallTakesNoMemory counts what is allocated once the series are known.
func TestCountingACallTakesNoMemory(t *testing.T) {
	m := New(prometheus.NewRegistry())
	if n := testing.AllocsPerRun(100, func() {
		ended, served := m.CallStarted("acme"), m.ServerCall("files")
		m.Call("acme", "files", "files__read", "ok", time.Millisecond)
		m.Request("/mcp", "POST", 200, "modern", time.Millisecond)
		ended()
		served()
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
