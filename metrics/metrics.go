// Package metrics holds every metric: its name, help, labels, and the method that records it. Label values come from
// code and config only, never from a client, so that no client can make series.
package metrics

import (
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics records. Its methods are safe for concurrent use.
type Metrics struct {
	requests        *prometheus.CounterVec
	requestSeconds  *prometheus.HistogramVec
	calls           *prometheus.CounterVec
	callSeconds     *prometheus.HistogramVec
	callsInFlight   *prometheus.GaugeVec
	refusals        *prometheus.CounterVec
	loginFailures   *prometheus.CounterVec
	repairs         *prometheus.CounterVec
	streams         *prometheus.GaugeVec
	sessions        *prometheus.GaugeVec
	evictions       *prometheus.CounterVec
	upstreamUp      *prometheus.GaugeVec
	upstreamTools   *prometheus.GaugeVec
	upstreamRefused *prometheus.GaugeVec
	restarts        *prometheus.CounterVec
	anomalies       *prometheus.CounterVec
	upstreamLoads   *loads
	reloads         *prometheus.CounterVec
	reloadOK        prometheus.Gauge
	reloadTime      prometheus.Gauge
	configWarnings  *prometheus.GaugeVec
	auditDropped    prometheus.Counter
	auditWritable   atomic.Pointer[func() bool]
	logLost         atomic.Pointer[func() uint64]
	panics          prometheus.Counter
	buildInfo       *prometheus.GaugeVec

	failures *failures
}

// New registers all metrics with registerer, those of the Go runtime and of the process included. It panics when
// registerer has them already.
func New(registerer prometheus.Registerer) *Metrics {
	registerer.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{failures: newFailures()}
	f := promauto.With(registerer)
	m.traffic(f)
	m.refused(f)
	m.upstreams(f)
	registerer.MustRegister(m.upstreamLoads)
	m.process(f)
	return m
}

// buckets are of durations: half a millisecond is a call to a tool that runs here, a minute a long one elsewhere.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func (m *Metrics) traffic(f promauto.Factory) {
	m.requests = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_http_requests_total", Help: "HTTP requests at the client listener.",
	}, []string{"route", "method", "status", "era"})
	m.requestSeconds = f.NewHistogramVec(prometheus.HistogramOpts{
		Name: "drawbridge_http_request_duration_seconds", Help: "Time from an HTTP request's header to the end of its answer.", Buckets: buckets(),
	}, []string{"route", "era"})
	m.calls = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_calls_total", Help: "Calls by outcome; the item is empty when the catalogue does not know it.",
	}, []string{"tenant", "server", "item", "outcome"})
	m.callSeconds = f.NewHistogramVec(prometheus.HistogramOpts{
		Name: "drawbridge_call_duration_seconds", Help: "Time that calls took.", Buckets: buckets(),
	}, []string{"server", "item"})
	m.callsInFlight = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_calls_in_flight", Help: "Calls that have not ended.",
	}, []string{"tenant"})
	m.repairs = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_output_repairs_total", Help: "What output cleaning changed.",
	}, []string{"tenant", "server", "kind"})
	m.streams = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_streams_open", Help: "Event streams that are open.",
	}, []string{"tenant", "kind"})
	m.sessions = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_sessions_open", Help: "Sessions of clients that have not ended.",
	}, []string{"tenant"})
	m.evictions = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_sessions_evicted_total", Help: "Idle sessions that ended so that another could be opened, and the limit that they were too many for.",
	}, []string{"tenant", "limit"})
}

func (m *Metrics) refused(f promauto.Factory) {
	m.refusals = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_refusals_total", Help: "Refused requests and calls; the tenant is empty when it is not known.",
	}, []string{"kind", "tenant", "reason"})
	m.loginFailures = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_login_failures_total", Help: "Refused tokens.",
	}, []string{"reason"})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_login_failures_noisy_addresses",
		Help: "Client addresses with 10 or more refused tokens within the last 5 to 10 minutes; the log and the audit records name them.",
	}, func() float64 { return float64(m.failures.noisy()) })
}

func (m *Metrics) upstreams(f promauto.Factory) {
	m.upstreamUp = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_up", Help: "Whether an upstream answers.",
	}, []string{"server"})
	m.upstreamTools = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_tools", Help: "Tools that an upstream offers.",
	}, []string{"server"})
	m.upstreamRefused = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_items_refused", Help: "Tools, prompts, resources and templates of an upstream that were left out, and whole lists that could not be read.",
	}, []string{"server", "reason"})
	m.restarts = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_upstream_restarts_total", Help: "Times an upstream was connected to again.",
	}, []string{"server"})
	m.anomalies = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_upstream_anomalies_total", Help: "What was mended or dropped of what an upstream sent.",
	}, []string{"server", "kind"})
	m.upstreamLoads = newLoads(prometheus.Opts{
		Name: "drawbridge_upstream_processes", Help: "Processes that were started for an upstream and have not ended, without those that they start themselves.",
	}, prometheus.Opts{
		Name: "drawbridge_upstream_sessions", Help: "Sessions with an upstream of an older revision, the one that only lists included.",
	})
}

func (m *Metrics) process(f promauto.Factory) {
	m.reloads = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_config_reloads_total", Help: "Attempts to load the config.",
	}, []string{"result"})
	m.reloadOK = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_config_last_reload_successful", Help: "Whether the last attempt to load the config succeeded.",
	})
	m.reloadTime = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_config_last_reload_success_timestamp_seconds", Help: "When the config in use was loaded.",
	})
	m.configWarnings = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_config_warnings", Help: "Warnings of the config in use, and of what its rules match now, that it does not acknowledge.",
	}, []string{"code"})
	m.auditDropped = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_audit_records_dropped_total", Help: "Audit records that are lost, those of calls refused for want of room included.",
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_audit_writable", Help: "Whether audit records can be written. While they cannot, calls are refused; with when_full=drop they go on, and records that memory does not hold are lost.",
	}, func() float64 {
		check := m.auditWritable.Load()
		return oneIf(check == nil || (*check)())
	})
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "drawbridge_log_lines_dropped_total", Help: "Log lines that nobody took from standard error in time.",
	}, func() float64 {
		if lost := m.logLost.Load(); lost != nil {
			return float64((*lost)())
		}
		return 0
	})
	m.panics = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_panics_total", Help: "Panics that were recovered from.",
	})
	m.buildInfo = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_build_info", Help: "The build that runs.",
	}, []string{"version", "revision", "goversion"})
}

// Handler serves the metrics of gatherer. A collector that fails takes none of the others with it.
func Handler(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

// BuildInfo tells which version runs; the rest is read from the binary.
func (m *Metrics) BuildInfo(version string) {
	revision, goVersion := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	m.buildInfo.WithLabelValues(version, revision, goVersion).Set(1)
}

// Request counts an HTTP request at the client listener: route (chi pattern, "none" for none), HTTP method, status, era
// ("legacy", "modern", ""). Methods that HTTP does not define are counted as "other", statuses by class.
func (m *Metrics) Request(route, method string, status int, era string, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), statusClass(status), era).Inc()
	m.requestSeconds.WithLabelValues(route, era).Observe(took.Seconds())
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

func statusClass(status int) string {
	switch status / 100 {
	case 1:
		return "1xx"
	case 2:
		return "2xx"
	case 3:
		return "3xx"
	case 4:
		return "4xx"
	}
	return "5xx"
}

// Call counts one call through the chain: tenant, server, item, outcome. The item is a tool's name, prompt: and a
// prompt's name, or only the kind of use where names have no bound; "" when the catalogue does not know it.
func (m *Metrics) Call(tenant, server, item, outcome string, took time.Duration) {
	m.calls.WithLabelValues(tenant, server, item, outcome).Inc()
	m.callSeconds.WithLabelValues(server, item).Observe(took.Seconds())
}

// CallStarted and the function it returns keep the gauge of calls in flight per tenant.
func (m *Metrics) CallStarted(tenant string) (done func()) {
	gauge := m.callsInFlight.WithLabelValues(tenant)
	gauge.Inc()
	return gauge.Dec
}

// Refused counts refusals by kind (unauthenticated, forbidden, limited, unknown, invalid_arguments, …), tenant ("" when
// unknown) and reason.
func (m *Metrics) Refused(kind, tenant, reason string) {
	m.refusals.WithLabelValues(kind, tenant, reason).Inc()
}

// LoginFailed counts a refused token by reason, and by the client address (zero: not known) as far as the gauge of
// noisy addresses needs it. Addresses are no labels.
func (m *Metrics) LoginFailed(reason string, addr netip.Addr) {
	m.loginFailures.WithLabelValues(reason).Inc()
	m.failures.add(addr)
}

// Repaired counts what output cleaning changed: tenant, server, kind, how many.
func (m *Metrics) Repaired(tenant, server, kind string, n int) {
	m.repairs.WithLabelValues(tenant, server, kind).Add(float64(n))
}

// StreamOpened keeps the gauge of open event streams per tenant and kind (get, post, listen, sse).
func (m *Metrics) StreamOpened(tenant, kind string) (closed func()) {
	gauge := m.streams.WithLabelValues(tenant, kind)
	gauge.Inc()
	return gauge.Dec
}

// SessionOpened keeps the gauge of sessions per tenant.
func (m *Metrics) SessionOpened(tenant string) (ended func()) {
	gauge := m.sessions.WithLabelValues(tenant)
	gauge.Inc()
	return gauge.Dec
}

// SessionEvicted counts a session that ended so that another could be opened: limit is sessions or user_sessions.
func (m *Metrics) SessionEvicted(tenant, limit string) {
	m.evictions.WithLabelValues(tenant, limit).Inc()
}

// UpstreamUp sets whether an upstream answers, and how many tools it offers; its series go with UpstreamRemoved.
func (m *Metrics) UpstreamUp(server string, up bool, tools int) {
	m.upstreamUp.WithLabelValues(server).Set(oneIf(up))
	m.upstreamTools.WithLabelValues(server).Set(float64(tools))
}

// UpstreamRestarted counts a reconnection.
func (m *Metrics) UpstreamRestarted(server string) { m.restarts.WithLabelValues(server).Inc() }

// UpstreamMisbehaved counts what was mended or dropped of what an upstream sent.
func (m *Metrics) UpstreamMisbehaved(server, kind string, n int) {
	m.anomalies.WithLabelValues(server, kind).Add(float64(n))
}

// UpstreamLoads sets what tells the load of each upstream that the config has. It is asked when metrics are read.
func (m *Metrics) UpstreamLoads(read func() map[string]UpstreamLoad) {
	m.upstreamLoads.read.Store(&read)
}

// UpstreamRemoved deletes the series of a server that left the config.
func (m *Metrics) UpstreamRemoved(server string) {
	label := prometheus.Labels{"server": server}
	m.upstreamUp.DeletePartialMatch(label)
	m.upstreamTools.DeletePartialMatch(label)
	m.upstreamRefused.DeletePartialMatch(label)
	m.restarts.DeletePartialMatch(label)
	m.anomalies.DeletePartialMatch(label)
	m.calls.DeletePartialMatch(label)
	m.callSeconds.DeletePartialMatch(label)
	m.repairs.DeletePartialMatch(label)
}

// ItemsRefused sets how many items of a server were left out, by reason: that of a registry.Refusal, or collision. Of
// none there is no series: the server may be gone.
func (m *Metrics) ItemsRefused(server, reason string, n int) {
	if n == 0 {
		m.upstreamRefused.DeleteLabelValues(server, reason)
		return
	}
	m.upstreamRefused.WithLabelValues(server, reason).Set(float64(n))
}

// Reloaded records an attempt to load the config.
func (m *Metrics) Reloaded(ok bool) {
	m.reloadOK.Set(oneIf(ok))
	if !ok {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.reloadTime.SetToCurrentTime()
}

// ConfigWarnings sets how many warnings of that code the config in use has and does not acknowledge. Of none there is no
// series.
func (m *Metrics) ConfigWarnings(code string, n int) {
	if n == 0 {
		m.configWarnings.DeleteLabelValues(code)
		return
	}
	m.configWarnings.WithLabelValues(code).Set(float64(n))
}

// AuditDropped counts audit records that are lost.
func (m *Metrics) AuditDropped(n int) { m.auditDropped.Add(float64(n)) }

// AuditWritable sets what tells whether audit records can be written. It is asked when metrics are read.
func (m *Metrics) AuditWritable(check func() bool) { m.auditWritable.Store(&check) }

// LogLost sets what tells how many log lines could not be written. It is asked when metrics are read.
func (m *Metrics) LogLost(lost func() uint64) { m.logLost.Store(&lost) }

// Panicked counts a recovered panic.
func (m *Metrics) Panicked() { m.panics.Inc() }

func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
