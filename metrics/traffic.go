package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// traffic are the metrics of requests, calls, streams and sessions, and of what was not
// let in: all those with a series for each tenant.
type traffic struct {
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	calls          *prometheus.CounterVec
	callSeconds    *prometheus.HistogramVec
	callsInFlight  *prometheus.GaugeVec
	refusals       *prometheus.CounterVec
	loginFailures  *prometheus.CounterVec
	repairs        *prometheus.CounterVec
	deprecated     *prometheus.CounterVec
	streams        *prometheus.GaugeVec
	sessions       *prometheus.GaugeVec
	evictions      *prometheus.CounterVec

	failures *failures
	tenants  atomic.Pointer[map[string]bool] // that have series; nil: all
	removed  sync.Map                        // servers that left the config, by name: they have no series

	// The series of what happens at each call.
	ofRequests resolved[requestLabels, counted]
	ofCalls    resolved[callLabels, counted]
	ofTenants  resolved[string, inFlight]
}

func newTraffic(f promauto.Factory) *traffic {
	t := &traffic{
		failures: newFailures(),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_http_requests_total", Help: "HTTP requests at the client listener.",
		}, []string{"route", "method", "status", "era"}),
		requestSeconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drawbridge_http_request_duration_seconds",
			Help: "Time from an HTTP request's header to the end of its answer.", Buckets: buckets(),
		}, []string{"route", "era"}),
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_calls_total",
			Help: "Calls by outcome; the item is empty when the call ended before it was found.",
		}, []string{"tenant", "server", "item", "outcome"}),
		callSeconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drawbridge_call_duration_seconds", Help: "Time that calls took.", Buckets: buckets(),
		}, []string{"server", "item"}),
		callsInFlight: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_calls_in_flight", Help: "Calls that have not ended.",
		}, []string{"tenant"}),
		deprecated: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_deprecated_uses_total",
			Help: "Uses of what the protocol will remove: sessions over HTTP+SSE (sse), questions for " +
				"roots and for sampling, and calls that want log lines (logging).",
		}, []string{"tenant", "part"}),
		repairs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_output_repairs_total",
			Help: "What was cleaned in outputs, and resources that were left out of them (left_out).",
		}, []string{"tenant", "server", "kind"}),
		streams: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_streams_open", Help: "Event streams that are open.",
		}, []string{"tenant", "kind"}),
		sessions: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_sessions_open", Help: "Sessions of clients that have not ended.",
		}, []string{"tenant"}),
		evictions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_sessions_evicted_total",
			Help: "Idle sessions that ended so that another could be opened, and the limit that they were " +
				"too many for.",
		}, []string{"tenant", "limit"}),
		refusals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_refusals_total",
			Help: "Refused requests and calls, and calls that were lost with a replica or by its stop; the " +
				"tenant is empty when it is not known.",
		}, []string{"kind", "tenant", "reason"}),
		loginFailures: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_login_failures_total", Help: "Refused tokens, and requests without one.",
		}, []string{"reason"}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_login_failures_noisy_addresses",
		Help: "Client addresses with 10 or more refused tokens within the last 5 to 10 minutes; the log " +
			"and the audit records name them.",
	}, func() float64 { return float64(t.failures.noisy()) })
	return t
}

// Request counts an HTTP request at the client listener. route is the pattern of the
// router that it matched, "none" if it matched none: the path itself would be the
// client's choice. era is "legacy", "modern", or "" if it is not known. For the same
// reason methods that HTTP does not define are counted as "other"; statuses are counted
// by class.
func (t *traffic) Request(route, method string, status int, era string, took time.Duration) {
	labels := requestLabels{route, knownMethod(method), statusClass(status), era}
	series := t.ofRequests.get(labels, func() counted {
		return counted{
			t.requests.WithLabelValues(route, labels.method, labels.class, era),
			t.requestSeconds.WithLabelValues(route, era),
		}
	})
	series.total.Inc()
	series.seconds.Observe(took.Seconds())
}

// knownMethod returns the method if HTTP defines it. Any other one is a text of the
// client's choice, which must not become a label.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

// statusClass returns the class of an HTTP status, such as "4xx".
func statusClass(status int) string {
	if status < 100 || status > 499 {
		return "5xx"
	}
	return [...]string{"1xx", "2xx", "3xx", "4xx"}[status/100-1]
}

// Call counts one call that has passed through the chain of stages. item is the name of a
// tool, or "prompt:" and the name of a prompt. Where the names have no bound, as those of
// resources have not, it is only the kind of use. It is "" if the catalogue does not know
// the item, since then its name is the client's choice.
func (t *traffic) Call(tenant, server, item, outcome string, took time.Duration) {
	labels := callLabels{tenant, server, item, outcome}
	series := t.ofCalls.get(labels, func() counted {
		defer t.tidyServer(server)
		defer t.tidy(tenant)
		return counted{
			t.calls.WithLabelValues(tenant, server, item, outcome),
			t.callSeconds.WithLabelValues(server, item),
		}
	})
	series.total.Inc()
	series.seconds.Observe(took.Seconds())
}

// CallStarted adds a call to the gauge of calls in flight. done takes it off again and
// must be called once.
func (t *traffic) CallStarted(tenant string) (done func()) {
	return t.ofTenants.get(tenant, func() inFlight {
		defer t.tidy(tenant)
		return newInFlight(t.callsInFlight.WithLabelValues(tenant))
	}).begin()
}

// Repaired counts the n changes of one kind that were made in what a server said: what
// output cleaning changed, and resources that were left out.
func (t *traffic) Repaired(tenant, server, kind string, n int) {
	t.repairs.WithLabelValues(tenant, server, kind).Add(float64(n))
	t.tidy(tenant)
	t.tidyServer(server)
}

// DeprecatedUsed counts one use of a part of the protocol that is deprecated: sse,
// roots, sampling or logging.
func (t *traffic) DeprecatedUsed(tenant, part string) {
	t.deprecated.WithLabelValues(tenant, part).Inc()
	t.tidy(tenant)
}

// StreamOpened adds an event stream to the gauge of open ones. kind is get, post, listen
// or sse. closed takes it off again and must be called once.
func (t *traffic) StreamOpened(tenant, kind string) (closed func()) {
	return t.opened(tenant, t.streams.WithLabelValues(tenant, kind))
}

// SessionOpened adds a session to the gauge of open ones. ended takes it off again and
// must be called once.
func (t *traffic) SessionOpened(tenant string) (ended func()) {
	return t.opened(tenant, t.sessions.WithLabelValues(tenant))
}

// opened adds one to a gauge of a tenant. closed takes it off again.
func (t *traffic) opened(tenant string, gauge prometheus.Gauge) (closed func()) {
	gauge.Inc()
	t.tidy(tenant)
	return gauge.Dec
}

// SessionEvicted counts a session that was ended so that another could be opened. limit
// is the setting that would have been exceeded: sessions, user_sessions or memory.
func (t *traffic) SessionEvicted(tenant, limit string) {
	t.evictions.WithLabelValues(tenant, limit).Inc()
	t.tidy(tenant)
}

// buckets returns the upper bounds, in seconds, of the buckets of durations. Half a
// millisecond is a call to a tool that runs in the gateway itself; a minute is a long
// call to a server elsewhere.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}
