// Package metrics answers: how much does the gateway do, and how does it fare? It holds
// every Prometheus metric of the gateway: its name, its help text, its labels, and the
// one method that records it, so that whoever records something knows nothing of
// Prometheus. It decides nothing, and it does not know what tenants, servers or calls
// are: to it they are values of labels.
//
// Label values come from code and config only, never from a client. Each combination of
// label values is a series of its own, which costs memory here and in Prometheus until
// the process ends. If clients could choose one, they could make as many as they like.
//
// Each file has the metrics of one subject, and the methods that record them. Some are
// not recorded but asked for when somebody reads them: their method sets the function
// that is asked. failures.go keeps the one count that is no series, failed logins by
// address, and resolved.go makes it cheap to record what happens at each call.
package metrics

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics records. Its methods are named after what has happened, and are safe for
// concurrent use. AuditWritable, LogLost, MemoryUse, WorkUse, UpstreamLoads, RedisState,
// RedisClock, Replicas, ReplicaPlaces, LeasedTokens, Draining and IssuerKeys take a
// function instead, which is called at every reading of the metrics: it must be quick and
// safe for concurrent use.
type Metrics struct {
	*signIns

	Store *Store // of what outlives a restart

	requests        *prometheus.CounterVec
	requestSeconds  *prometheus.HistogramVec
	calls           *prometheus.CounterVec
	callSeconds     *prometheus.HistogramVec
	callsInFlight   *prometheus.GaugeVec
	refusals        *prometheus.CounterVec
	loginFailures   *prometheus.CounterVec
	repairs         *prometheus.CounterVec
	deprecated      *prometheus.CounterVec
	streams         *prometheus.GaugeVec
	sessions        *prometheus.GaugeVec
	evictions       *prometheus.CounterVec
	connsRefused    *prometheus.CounterVec
	connsClosed     *prometheus.CounterVec
	connsLimit      prometheus.Gauge
	connsOpen       atomic.Pointer[func() int] // nil: nobody has set it yet
	upstreamUp      *prometheus.GaugeVec
	upstreamTools   *prometheus.GaugeVec
	upstreamRefused *prometheus.GaugeVec
	quarantined     *prometheus.GaugeVec
	upstreamCalls   *prometheus.GaugeVec
	restarts        *prometheus.CounterVec
	anomalies       *prometheus.CounterVec
	credentials     *prometheus.CounterVec
	upstreamLoads   *loads
	issuerKeys      *keys
	sealKeys        *prometheus.GaugeVec
	redisState      *shared
	redisCalls      *prometheus.CounterVec
	redisSeconds    *prometheus.HistogramVec
	redisOpenings   *prometheus.CounterVec
	replicas        *replicas
	ahead           *ahead
	memory          *memory
	work            *work
	reloads         *prometheus.CounterVec
	reloadOK        prometheus.Gauge
	reloadTime      prometheus.Gauge
	configWarnings  *prometheus.GaugeVec
	valuesRefused   prometheus.Counter
	auditDropped    prometheus.Counter
	localLimits     prometheus.Counter
	auditWritable   atomic.Pointer[func() bool]   // nil: nobody has set it yet
	logLost         atomic.Pointer[func() uint64] // nil: nobody has set it yet
	panics          prometheus.Counter
	buildInfo       *prometheus.GaugeVec

	failures *failures

	tenants atomic.Pointer[map[string]bool] // that have series; nil: all

	// The series of what happens at each call.
	ofRequests resolved[requestLabels, counted]
	ofCalls    resolved[callLabels, counted]
	ofTenants  resolved[string, inFlight]
	ofServers  resolved[string, inFlight]
}

// New registers all metrics with registerer, and with them those of the Go runtime and of
// the process. It panics if registerer has one of them already, so it can be called once
// for each registerer.
func New(registerer prometheus.Registerer) *Metrics {
	registerer.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registerer)
	m := &Metrics{Store: newStore(f), failures: newFailures()}
	m.traffic(f)
	m.refused(f)
	m.upstreams(f)
	m.held()
	m.connections(f)
	m.redis(f)
	m.replicas, m.ahead, m.signIns = newReplicas(f), newAhead(), newSignIns(f)
	registerer.MustRegister(m.replicas, m.ahead, m.upstreamLoads, m.issuerKeys, m.memory, m.work,
		m.redisState, m.Store)
	m.process(f)
	return m
}

// buckets returns the upper bounds, in seconds, of the buckets of durations. Half a
// millisecond is a call to a tool that runs in the gateway itself; a minute is a long
// call to a server elsewhere.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// Handler serves the metrics of gatherer in the text format of Prometheus. If one
// collector fails, the metrics of the others are served nevertheless. Of concurrent
// readers it serves four and refuses the rest with 503, because each reading costs time
// and memory.
func Handler(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
	})
}

// oneIf returns the value of a gauge that answers a question: 1 for yes, 0 for no.
func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
