package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/metrics"
)

func newMetrics() (*metrics.Metrics, http.Handler) {
	registry := prometheus.NewRegistry()
	return metrics.New(registry), metrics.Handler(registry)
}

// scrape returns the lines of our own metrics.
func scrape(t *testing.T, handler http.Handler) []string {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
		http.NoBody))
	if recorder.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", recorder.Code, recorder.Body)
	}
	var lines []string
	for line := range strings.Lines(recorder.Body.String()) {
		if strings.Contains(line, "drawbridge_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// says returns what tells these values.
func says(label string, values ...float64) func(tell metrics.Tell) {
	return func(tell metrics.Tell) { tell(label, values...) }
}

// record uses every method once.
func record(m *metrics.Metrics) {
	m.BuildInfo("1.2.3", "c0ffee")
	m.LogLost(func() uint64 { return 6 })
	m.Request("/mcp", http.MethodPost, http.StatusOK, "modern", time.Millisecond)
	m.Call("acme", "files", "files__read", "ok", 3*time.Millisecond)
	m.CallStarted("acme")
	m.ServerCall("files")
	m.Refused("limited", "acme", "tenant")
	m.LoginFailed("expired", netip.MustParseAddr("192.0.2.1"))
	m.SignedIn("corp", "ok")
	m.SignInRefused("token", "invalid_grant")
	m.ClientRegistered()
	m.TokenIssued("refresh_token")
	m.FamilyEnded("token_replay")
	m.Families(map[string]int{"gone": 1})
	m.Families(map[string]int{"acme": 2})
	m.Providers(map[string]bool{"gone": true})
	m.Providers(map[string]bool{"corp": true})
	m.Repaired("acme", "files", "ansi", 3)
	m.StreamOpened("acme", "get")
	m.SessionOpened("acme")
	m.SessionEvicted("acme", "user_sessions")
	m.UpstreamUp("files", true, 12)
	m.UpstreamReconnected("files")
	m.ItemsRefused("files", "schema", 2)
	m.Connections.Of(says("", 40, 7))
	m.ConnectionRefused("total")
	m.ConnectionClosed("address")
	m.MemoryHeld.Of(func(tell metrics.Tell) {
		tell("acme", 30)
		tell("", 20)
	})
	m.MemoryLimit.Of(says("", 100))
	m.ItemsQuarantined("files", 1)
	m.WorkSlots.Of(says("", 3, 2))
	m.WorkWaiting.Of(says("acme", 4))
	m.UpstreamLoads.Of(says("files", 3, 2))
	m.IssuerKeys.Of(func(tell metrics.Tell) {
		tell("https://login.example/", 1, 0)
		tell("robots", 0, 3600)
	})
	m.SealKeys("c0ffee", nil)
	m.SealKeys("f1d296", []string{"c0ffee"})
	m.Replicas.Of(says("reached", 1))
	m.StoreUp.Of(says("", 1))
	m.StoreRecords.Of(says("family", 3))
	m.Store.Call("put", "ok", time.Millisecond)
	m.RedisState.Of(func(tell metrics.Tell) {
		tell("up", metrics.OneIf(true))
		tell("slow", metrics.OneIf(false))
	})
	m.RedisCall("rate", "done", 2*time.Millisecond)
	m.RedisCall("mail", "skipped", -1)
	m.RedisLost()
	m.RedisClock.Of(says("", -1.5))
	m.SessionTakenOver()
	m.MessageSent("news 1", "sent")
	m.MessageReceived("end 1")
	m.TakenForGone()
	m.ConfigInForce("aaaaaaaa")
	m.ConfigInForce("c0ffee00")
	m.Draining.Of(says("", 1))
	m.AuditWritable.Of(says("", 1))
	m.RedisStopped("slow")
	m.Reloaded(true)
	m.ConfigWarnings("no-match", 5)
	m.ConfigWarnings("no-command", 1)
	m.ConfigWarnings("no-command", 0)
	m.AuditDropped(4)
	m.LimitedLocally()
	m.ValueRefused()
	m.Panicked()
}

func TestEveryMetric(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	record(m)
	got := strings.Join(scrape(t, handler), "\n")
	for _, want := range []string{
		`drawbridge_sign_ins_total{outcome="ok",provider="corp"} 1`,
		`drawbridge_sign_in_refusals_total{endpoint="token",reason="invalid_grant"} 1`,
		`drawbridge_clients_registered_total 1`,
		`drawbridge_access_tokens_issued_total{grant="refresh_token"} 1`,
		`drawbridge_token_families_ended_total{reason="token_replay"} 1`,
		`drawbridge_token_families{tenant="acme"} 2`,
		`drawbridge_http_requests_total{era="modern",method="POST",route="/mcp",status="2xx"} 1`,
		`drawbridge_http_request_duration_seconds_bucket{era="modern",route="/mcp",le="0.001"} 1`,
		`drawbridge_upstream_calls_in_flight{server="files"} 1`,
		`drawbridge_issuer_keys_usable{issuer="https://login.example/"} 1`,
		`drawbridge_issuer_keys_usable{issuer="robots"} 0`,
		`drawbridge_issuer_keys_failing_seconds{issuer="https://login.example/"} 0`,
		`drawbridge_issuer_keys_failing_seconds{issuer="robots"} 3600`,
		`drawbridge_calls_total{item="files__read",outcome="ok",server="files",tenant="acme"} 1`,
		`drawbridge_call_duration_seconds_bucket{item="files__read",server="files",le="0.0025"} 0`,
		`drawbridge_call_duration_seconds_bucket{item="files__read",server="files",le="0.005"} 1`,
		`drawbridge_calls_in_flight{tenant="acme"} 1`,
		`drawbridge_refusals_total{kind="limited",reason="tenant",tenant="acme"} 1`,
		`drawbridge_login_failures_total{reason="expired"} 1`,
		`drawbridge_login_failures_noisy_addresses 0`,
		`drawbridge_output_repairs_total{kind="ansi",server="files",tenant="acme"} 3`,
		`drawbridge_streams_open{kind="get",tenant="acme"} 1`,
		`drawbridge_sessions_open{tenant="acme"} 1`,
		`drawbridge_sessions_evicted_total{limit="user_sessions",tenant="acme"} 1`,
		`drawbridge_upstream_up{server="files"} 1`,
		`drawbridge_upstream_tools{server="files"} 12`,
		`drawbridge_upstream_items_refused{reason="schema",server="files"} 2`,
		`drawbridge_upstream_items_quarantined{server="files"} 1`,
		`drawbridge_upstream_reconnects_total{server="files"} 1`,
		`drawbridge_upstream_processes{server="files"} 3`,
		`drawbridge_upstream_sessions{server="files"} 2`,
		`drawbridge_connections_open 7`,
		`drawbridge_connections_limit 40`,
		`drawbridge_connections_refused_total{bound="total"} 1`,
		`drawbridge_connections_closed_total{bound="address"} 1`,
		`drawbridge_memory_held_bytes{tenant="acme"} 30`,
		`drawbridge_memory_held_bytes{tenant=""} 20`,
		`drawbridge_memory_limit_bytes 100`,
		`drawbridge_work_slots 3`,
		`drawbridge_work_slots_busy 2`,
		`drawbridge_work_waiting{tenant="acme"} 4`,
		`drawbridge_seal_keys{key="f1d296",use="seal"} 1`,
		`drawbridge_seal_keys{key="c0ffee",use="open"} 1`,
		`drawbridge_store_up 1`,
		`drawbridge_store_records{kind="family"} 3`,
		`drawbridge_store_calls_total{call="put",outcome="ok"} 1`,
		`drawbridge_store_call_duration_seconds_count{call="put"} 1`,
		`drawbridge_replicas{kind="reached"} 1`,
		`drawbridge_audit_writable 1`,
		`drawbridge_redis_state{state="up"} 1`,
		`drawbridge_redis_state{state="slow"} 0`,
		`drawbridge_redis_calls_total{kind="rate",outcome="done"} 1`,
		`drawbridge_redis_calls_total{kind="mail",outcome="skipped"} 1`,
		`drawbridge_redis_call_duration_seconds_bucket{kind="rate",le="0.0025"} 1`,
		`drawbridge_redis_call_duration_seconds_count{kind="rate"} 1`,
		`drawbridge_redis_losses_total 1`,
		`drawbridge_redis_clock_offset_seconds -1.5`,
		`drawbridge_sessions_taken_over_total 1`,
		`drawbridge_replica_messages_sent_total{kind="news 1",outcome="sent"} 1`,
		`drawbridge_replica_messages_received_total{kind="end 1"} 1`,
		`drawbridge_replica_taken_for_gone_total 1`,
		`drawbridge_config_info{digest="c0ffee00"} 1`,
		`drawbridge_draining 1`,
		`drawbridge_redis_breaker_openings_total{state="slow"} 1`,
		`drawbridge_config_reloads_total{result="ok"} 1`,
		`drawbridge_config_last_reload_successful 1`,
		`drawbridge_config_warnings{code="no-match"} 5`,
		`drawbridge_audit_records_dropped_total 4`,
		`drawbridge_replica_local_limits_total 1`,
		`drawbridge_replica_values_refused_total 1`,
		`drawbridge_panics_total 1`,
		`drawbridge_log_lines_dropped_total 6`,
		`version="1.2.3"} 1`,
	} {
		if !strings.Contains(got, want+"\n") && !strings.HasSuffix(got, want) {
			t.Errorf("no line %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestItemsRefusedOfNoneLeavesNoSeries guards against servers that were removed and come
// back as a zero.
func TestItemsRefusedOfNoneLeavesNoSeries(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	m.ItemsRefused("files", "collision", 2)
	m.ItemsRefused("files", "collision", 0)
	m.ItemsRefused("gone", "collision", 0)
	if got := strings.Join(scrape(t, handler), "\n"); strings.Contains(got,
		"drawbridge_upstream_items_refused{") {
		t.Errorf("got a series of none:\n%s", got)
	}
}

// TestNames holds every name to the conventions: our prefix, a unit or what is counted,
// _total for counters only.
func TestNames(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	record(m)
	typed := regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	seen := 0
	for _, line := range scrape(t, handler) {
		match := typed.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		seen++
		name, kind := match[1], match[2]
		if strings.HasSuffix(name, "_total") != (kind == "counter") ||
			!regexp.MustCompile(`^drawbridge_[a-z]+(_[a-z]+)*$`).MatchString(name) {
			t.Errorf("%s is no good name of a %s", name, kind)
		}
		if kind == "histogram" && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s has no unit", name)
		}
	}
	if seen < 21 {
		t.Errorf("%d metrics seen, want all", seen)
	}
}

func TestGaugesGoDown(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	m.CallStarted("acme")()
	m.StreamOpened("acme", "get")()
	m.SessionOpened("acme")()
	m.UpstreamUp("files", true, 12)
	m.UpstreamUp("files", false, 0)
	m.Reloaded(true)
	m.Reloaded(false)
	got := strings.Join(scrape(t, handler), "\n")
	for _, want := range []string{
		`drawbridge_calls_in_flight{tenant="acme"} 0`, `drawbridge_streams_open{kind="get",tenant="acme"} 0`,
		`drawbridge_sessions_open{tenant="acme"} 0`, `drawbridge_upstream_up{server="files"} 0`,
		`drawbridge_config_last_reload_successful 0`, `drawbridge_config_reloads_total{result="refused"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

// TestATenantThatLeftHasNoSeries lets a tenant leave while it still has a call, which
// ends later.
func TestATenantThatLeftHasNoSeries(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	m.ServeTenants([]string{"acme", "globex"})
	for _, tenant := range []string{"acme", "globex", ""} {
		m.Refused("limited", tenant, "tenant")
		m.StreamOpened(tenant, "get")
		m.SessionOpened(tenant)
		m.SessionEvicted(tenant, "sessions")
		m.Repaired(tenant, "files", "ansi", 1)
	}
	ended := m.CallStarted("acme")
	m.ServeTenants([]string{"globex"})
	ended()
	m.Call("acme", "files", "read", "cancelled", time.Second)
	got := strings.Join(scrape(t, handler), "\n")
	if strings.Contains(got, `tenant="acme"`) {
		t.Errorf("a tenant that left has series:\n%s", got)
	}
	if strings.Count(got, `tenant="globex"`) != 5 ||
		!strings.Contains(got, `drawbridge_refusals_total{kind="limited",reason="tenant",tenant=""} 1`) {
		t.Errorf("others lost series:\n%s", got)
	}
	m.ServeTenants([]string{"acme"})
	m.Call("acme", "files", "read", "ok", time.Second)
	if got := strings.Join(scrape(t, handler), "\n"); !strings.Contains(got,
		`drawbridge_calls_total{item="read",outcome="ok",server="files",tenant="acme"} 1`) {
		t.Errorf("a tenant that came back has no series:\n%s", got)
	}
}

func TestUpstreamRemoved(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	record(m)
	m.UpstreamUp("other", true, 1)
	m.UpstreamRemoved("files")
	m.Call("acme", "files", "read", "cancelled", time.Second) // which was in work
	m.Repaired("acme", "files", "ansi", 1)
	m.UpstreamLoads.Of(func(metrics.Tell) {}) // only servers that are there are told of
	for _, line := range scrape(t, handler) {
		if strings.Contains(line, `server="files"`) {
			t.Errorf("left behind: %s", line)
		}
	}
	if got := strings.Join(scrape(t, handler), "\n"); !strings.Contains(got,
		`drawbridge_upstream_up{server="other"} 1`) {
		t.Error("another server's series went too")
	}
	m.UpstreamUp("files", true, 1)
	m.Call("acme", "files", "read", "ok", time.Second)
	if got := strings.Join(scrape(t, handler), "\n"); !strings.Contains(got,
		`drawbridge_calls_total{item="read",outcome="ok",server="files",tenant="acme"} 1`) {
		t.Errorf("a server that came back has no series:\n%s", got)
	}
}

// TestT51SeriesDoNotGrow shows that what a client chooses of a request makes no series.
func TestT51SeriesDoNotGrow(t *testing.T) {
	t.Parallel()
	m, handler := newMetrics()
	for i := range 1000 {
		m.Request("/mcp", fmt.Sprintf("METHOD%d", i), i, "", 0)
		m.LoginFailed("expired", netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
	}
	before := len(scrape(t, handler))
	for i := range 10_000 {
		m.Request("/mcp", fmt.Sprintf("OTHER%d", i), i, "", 0)
		m.LoginFailed("expired", netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}))
	}
	if after := len(scrape(t, handler)); after != before {
		t.Errorf("%d lines became %d", before, after)
	}
}

func TestNoisyAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, handler := newMetrics()
		noisy := func(want int) {
			t.Helper()
			line := fmt.Sprintf("drawbridge_login_failures_noisy_addresses %d", want)
			if got := strings.Join(scrape(t, handler), "\n"); !strings.Contains(got, line+"\n") {
				t.Errorf("no line %q in\n%s", line, got)
			}
		}
		fail := func(n int, addrs ...string) {
			for i := range n {
				m.LoginFailed("expired", netip.MustParseAddr(addrs[i%len(addrs)]))
			}
		}
		fail(9, "192.0.2.1")
		fail(20, "2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3%eth0") // one network
		noisy(1)
		fail(1, "::ffff:192.0.2.1")
		noisy(2)
		for range 20 { // of nobody known, without a token, and with one that nobody could check
			m.LoginFailed("expired", netip.Addr{})
			m.LoginFailed("missing", netip.MustParseAddr("192.0.2.4"))
			m.LoginFailed("unavailable", netip.MustParseAddr("192.0.2.4"))
		}
		time.Sleep(6 * time.Minute)
		noisy(2)
		fail(5, "192.0.2.2")
		time.Sleep(5 * time.Minute)
		noisy(0)
		fail(5, "192.0.2.2")
		noisy(1) // over two windows
		time.Sleep(time.Hour)
		noisy(0)
		fail(100, "192.0.2.3")
		for i := range 20_000 { // a flood of addresses hides no noisy one
			m.LoginFailed("expired", netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		}
		noisy(1)
	})
}

func BenchmarkCall(b *testing.B) {
	m, _ := newMetrics()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			done := m.CallStarted("acme")
			m.Call("acme", "github", "github__search_code", "ok", time.Millisecond)
			done()
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	m, _ := newMetrics()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Request("/mcp", http.MethodPost, http.StatusOK, "modern", time.Millisecond)
		}
	})
}
