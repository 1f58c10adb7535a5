// Package metrics answers: how much does the gateway do, and how does it fare? It holds every Prometheus metric of the
// gateway: its name, its help text, its labels, and the one method that records it, so that whoever records something
// knows nothing of Prometheus. It decides nothing, and it does not know what tenants, servers or calls are: to it they
// are values of labels.
//
// Label values come from code and config only, never from a client. Each combination of label values is a series of its
// own, which costs memory here and in Prometheus until the process ends. If clients could choose one, they could make
// as many as they like.
//
// metrics.go has nearly everything. failures.go keeps the one count that is no series, failed logins by address, and
// loads.go, keys.go, memory.go and work.go the metrics that are not recorded but asked for when somebody reads them.
// replicas.go has those of several replicas.
// resolved.go makes it cheap to record what happens at each call.
package metrics

import (
	"net/http"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics records. Its methods are named after what has happened, and are safe for concurrent use. AuditWritable,
// LogLost, MemoryUse, WorkUse, UpstreamLoads, RedisState, RedisClock, Replicas, Draining and IssuerKeys take a function instead,
// which is called at every reading of the metrics: it must be quick and safe for concurrent use.
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
	upstreamLoads   *loads
	issuerKeys      *keys
	sealKeys        *prometheus.GaugeVec
	redisState      *shared
	redisCalls      *prometheus.CounterVec
	redisSeconds    *prometheus.HistogramVec
	redisOpenings   *prometheus.CounterVec
	replicas        *replicas
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

// New registers all metrics with registerer, and with them those of the Go runtime and of the process. It panics if
// registerer has one of them already, so it can be called once for each registerer.
func New(registerer prometheus.Registerer) *Metrics {
	registerer.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{failures: newFailures()}
	f := promauto.With(registerer)
	m.traffic(f)
	m.refused(f)
	m.upstreams(f)
	m.held()
	m.connections(f)
	m.redis(f)
	m.replicas = newReplicas(f)
	registerer.MustRegister(m.replicas, m.upstreamLoads, m.issuerKeys, m.memory, m.work, m.redisState)
	m.process(f)
	return m
}

// buckets returns the upper bounds, in seconds, of the buckets of durations. Half a millisecond is a call to a tool
// that runs in the gateway itself; a minute is a long call to a server elsewhere.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// traffic makes the metrics of requests, calls, streams and sessions.
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
		Name: "drawbridge_output_repairs_total", Help: "What was cleaned in outputs, and resources that were left out of them (left_out).",
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

// connections makes the metrics of connections.
func (m *Metrics) connections(f promauto.Factory) {
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_connections_open", Help: "Connections of clients that are open.",
	}, func() float64 {
		if open := m.connsOpen.Load(); open != nil {
			return float64((*open)())
		}
		return 0
	})
	m.connsLimit = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_connections_limit", Help: "Connections of clients that may be open at once.",
	})
	m.connsRefused = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_refused_total", Help: "Connections that found no place, by the bound that was reached.",
	}, []string{"bound"})
	m.connsClosed = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_closed_total", Help: "Connections of strangers, and idle ones, that gave their place to another.",
	}, []string{"bound"})
}

// refused makes the metrics of what was not let in.
func (m *Metrics) refused(f promauto.Factory) {
	m.refusals = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_refusals_total", Help: "Refused requests and calls; the tenant is empty when it is not known.",
	}, []string{"kind", "tenant", "reason"})
	m.loginFailures = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_login_failures_total", Help: "Refused tokens.",
	}, []string{"reason"})
	m.issuerKeys = newKeys(prometheus.Opts{
		Name: "drawbridge_issuer_keys_usable", Help: "Whether there are keys for the tokens of an issuer whose keys are fetched. Without any, its tokens are refused.",
	}, prometheus.Opts{
		Name: "drawbridge_issuer_keys_failing_seconds", Help: "For how long the keys of an issuer could not be fetched; 0 while they can. Keys that it has removed count meanwhile, up to keys_stale.",
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_login_failures_noisy_addresses",
		Help: "Client addresses with 10 or more refused tokens within the last 5 to 10 minutes; the log and the audit records name them.",
	}, func() float64 { return float64(m.failures.noisy()) })
}

// upstreams makes the metrics of the servers behind the gateway.
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
	m.quarantined = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_items_quarantined", Help: "Tools, prompts, resources and templates of an upstream that were left out because text is hidden in their definitions.",
	}, []string{"server"})
	m.upstreamCalls = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_calls_in_flight", Help: "Calls at an upstream that have not ended, those that wait for a human included.",
	}, []string{"server"})
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

// process makes the metrics of the gateway itself: its config, its records and its build.
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
	m.sealKeys = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_seal_keys", Help: "Keys of sessions.keys_file that are in force, by their ids: the one that seals, and those that only open what they sealed before.",
	}, []string{"key", "use"})
	m.localLimits = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_replica_local_limits_total",
		Help: "Times that this replica decided on a rate by its part of the limit, because Redis did not.",
	})
	m.auditDropped = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_audit_records_dropped_total", Help: "Audit records that are lost, those of calls refused for want of room included.",
	})
	m.valuesRefused = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_replica_values_refused_total", Help: "Values of sessions in Redis that no replica wrote there, or that are sealed under a key that this one lacks. They are not used.",
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

// held makes the metrics of the memory that requests hold, and of the slots for work.
func (m *Metrics) held() {
	m.memory = newMemory(prometheus.Opts{
		Name: "drawbridge_memory_held_bytes",
		Help: "Memory that requests hold beyond what their places cover, by the tenants that hold most; the tenant is empty for all others together.",
	}, prometheus.Opts{
		Name: "drawbridge_memory_limit_bytes", Help: "Memory that all requests together may hold beyond what their places cover.",
	})
	m.work = newWork(prometheus.Opts{
		Name: "drawbridge_work_slots", Help: "Slots for work that keeps a processor busy: parsing, checking, cleaning and encoding what is large.",
	}, prometheus.Opts{
		Name: "drawbridge_work_slots_busy", Help: "Slots that are in use.",
	}, prometheus.Opts{
		Name: "drawbridge_work_waiting", Help: "Pieces of work that wait for a slot, by tenant.",
	})
}

// redis makes the metrics of the server that replicas share. The histogram has few buckets: what takes longer than 100 ms
// is given up.
func (m *Metrics) redis(f promauto.Factory) {
	m.redisState = newShared(prometheus.Opts{
		Name: "drawbridge_redis_state", Help: "Whether Redis is in that state. There are no series where the config names no Redis.",
	}, prometheus.Opts{
		Name: "drawbridge_replicas", Help: "How many replicas are running, as far as this one knows, and how many are allowed by the setting replicas. There are no series where the config names no Redis.",
	})
	m.redisCalls = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_redis_calls_total", Help: "Round trips to Redis by what they are for and outcome; those that were skipped were not made, because Redis was not well.",
	}, []string{"kind", "outcome"})
	m.redisSeconds = f.NewHistogramVec(prometheus.HistogramOpts{
		Name: "drawbridge_redis_call_duration_seconds", Help: "Time of round trips to Redis that were answered, without those that wait for something to come.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1},
	}, []string{"kind"})
	m.redisOpenings = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_redis_breaker_openings_total", Help: "How often calls to Redis were stopped, by the state that it was in.",
	}, []string{"state"})
}

// Handler serves the metrics of gatherer in the text format of Prometheus. If one collector fails, the metrics of the
// others are served nevertheless. Of concurrent readers it serves four and refuses the rest with 503, because each
// reading costs time and memory.
func Handler(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

// BuildInfo records the version that runs, the commit that it was built from, and the version of Go. Its gauge is always 1, as
// is usual in Prometheus for a metric whose labels are what it tells.
func (m *Metrics) BuildInfo(version, revision string) {
	m.buildInfo.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// Request counts an HTTP request at the client listener. route is the pattern of the router that it matched, "none" if
// it matched none: the path itself would be the client's choice. era is "legacy", "modern", or "" if it is not known.
// For the same reason methods that HTTP does not define are counted as "other"; statuses are counted by class.
func (m *Metrics) Request(route, method string, status int, era string, took time.Duration) {
	labels := requestLabels{route, knownMethod(method), statusClass(status), era}
	series, age, ok := m.ofRequests.find(labels)
	if !ok {
		series = counted{m.requests.WithLabelValues(route, labels.method, labels.class, era), m.requestSeconds.WithLabelValues(route, era)}
		m.ofRequests.keep(labels, series, age)
	}
	series.total.Inc()
	series.seconds.Observe(took.Seconds())
}

// knownMethod returns the method if HTTP defines it. Any other one is a text of the client's choice, which must not
// become a label.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

// statusClass returns the class of an HTTP status, such as "4xx".
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

// Call counts one call that has passed through the chain of stages. item is the name of a tool, or "prompt:" and the
// name of a prompt. Where the names have no bound, as those of resources have not, it is only the kind of use. It is ""
// if the catalogue does not know the item, since then its name is the client's choice.
func (m *Metrics) Call(tenant, server, item, outcome string, took time.Duration) {
	labels := callLabels{tenant, server, item, outcome}
	series, age, ok := m.ofCalls.find(labels)
	if !ok {
		series = counted{m.calls.WithLabelValues(tenant, server, item, outcome), m.callSeconds.WithLabelValues(server, item)}
	}
	series.total.Inc()
	series.seconds.Observe(took.Seconds())
	if !ok && m.tidy(tenant) {
		m.ofCalls.keep(labels, series, age)
	}
}

// CallStarted adds a call to the gauge of calls in flight. done takes it off again and must be called once.
func (m *Metrics) CallStarted(tenant string) (done func()) {
	calls, age, ok := m.ofTenants.find(tenant)
	if !ok {
		calls = newInFlight(m.callsInFlight.WithLabelValues(tenant))
	}
	calls.gauge.Inc()
	if !ok && m.tidy(tenant) {
		m.ofTenants.keep(tenant, calls, age)
	}
	return calls.done
}

// ServerCall adds a call to the gauge of calls at a server. done takes it off again and must be called once.
func (m *Metrics) ServerCall(server string) (done func()) {
	calls, age, ok := m.ofServers.find(server)
	if !ok {
		calls = newInFlight(m.upstreamCalls.WithLabelValues(server))
		m.ofServers.keep(server, calls, age)
	}
	calls.gauge.Inc()
	return calls.done
}

// Refused counts a refusal. kind says what went wrong (unauthenticated, forbidden, limited, unknown, invalid_arguments,
// …) and reason is one word for the detail. tenant is "" while it is not known who calls.
func (m *Metrics) Refused(kind, tenant, reason string) {
	m.refusals.WithLabelValues(kind, tenant, reason).Inc()
	m.tidy(tenant)
}

// LoginFailed counts a refused token by reason. It also counts it for the client's address, for the gauge of noisy
// addresses; the zero address means that it is not known. An address is never a label: an attacker has as many as they
// like.
func (m *Metrics) LoginFailed(reason string, addr netip.Addr) {
	m.loginFailures.WithLabelValues(reason).Inc()
	m.failures.add(addr)
}

// Repaired counts the n changes of one kind that were made in what a server said: what output cleaning changed, and
// resources that were left out.
func (m *Metrics) Repaired(tenant, server, kind string, n int) {
	m.repairs.WithLabelValues(tenant, server, kind).Add(float64(n))
	m.tidy(tenant)
}

// StreamOpened adds an event stream to the gauge of open ones. kind is get, post, listen or sse. closed takes it off
// again and must be called once.
func (m *Metrics) StreamOpened(tenant, kind string) (closed func()) {
	gauge := m.streams.WithLabelValues(tenant, kind)
	gauge.Inc()
	m.tidy(tenant)
	return gauge.Dec
}

// SessionOpened adds a session to the gauge of open ones. ended takes it off again and must be called once.
func (m *Metrics) SessionOpened(tenant string) (ended func()) {
	gauge := m.sessions.WithLabelValues(tenant)
	gauge.Inc()
	m.tidy(tenant)
	return gauge.Dec
}

// Connections records how many connections of clients may be open, and sets the function that tells how many are. It is
// called whenever metrics are read.
func (m *Metrics) Connections(limit int, open func() int) {
	m.connsLimit.Set(float64(limit))
	m.connsOpen.Store(&open)
}

// ConnectionRefused counts a connection that found no place. bound is the bound that was reached: total or address.
func (m *Metrics) ConnectionRefused(bound string) { m.connsRefused.WithLabelValues(bound).Inc() }

// ConnectionClosed counts a connection of a stranger, or an idle one, that gave its place to another. bound is as for
// ConnectionRefused.
func (m *Metrics) ConnectionClosed(bound string) { m.connsClosed.WithLabelValues(bound).Inc() }

// SessionEvicted counts a session that was ended so that another could be opened. limit is the setting that would have
// been exceeded: sessions, user_sessions or memory.
func (m *Metrics) SessionEvicted(tenant, limit string) {
	m.evictions.WithLabelValues(tenant, limit).Inc()
	m.tidy(tenant)
}

// UpstreamUp records whether an upstream answers and how many tools it offers. The series stay until UpstreamRemoved.
func (m *Metrics) UpstreamUp(server string, up bool, tools int) {
	m.upstreamUp.WithLabelValues(server).Set(oneIf(up))
	m.upstreamTools.WithLabelValues(server).Set(float64(tools))
}

// UpstreamRestarted counts that an upstream was connected to again.
func (m *Metrics) UpstreamRestarted(server string) { m.restarts.WithLabelValues(server).Inc() }

// UpstreamMisbehaved counts n faults of one kind in what an upstream sent, which were mended or dropped.
func (m *Metrics) UpstreamMisbehaved(server, kind string, n int) {
	m.anomalies.WithLabelValues(server, kind).Add(float64(n))
}

// UpstreamLoads sets the function that returns the load of each upstream of the config, by its name. It is called
// whenever metrics are read. Until it is set, these metrics have no series.
func (m *Metrics) UpstreamLoads(read func() map[string]UpstreamLoad) {
	m.upstreamLoads.read.Store(&read)
}

// IssuerKeys sets the function that returns how it fares to fetch the keys of each issuer of the config that has an
// address for them, by its name. It is called whenever metrics are read. Until it is set, there are no such series.
func (m *Metrics) IssuerKeys(read func() map[string]IssuerKeys) { m.issuerKeys.read.Store(&read) }

// RedisState sets the function that returns all states that Redis may be in, and which it is in. It is called whenever
// metrics are read. Until it is set, there are no such series.
func (m *Metrics) RedisState(read func() map[string]bool) { m.redisState.read.Store(&read) }

// Replicas sets the function that returns how many replicas run, and how many the config allows. It is called whenever metrics
// are read. Until it is set, there are no such series.
func (m *Metrics) Replicas(count func() (running, allowed int)) { m.redisState.count.Store(&count) }

// RedisCall counts a round trip to Redis, or one that was not made. Kind says what it was for, and is one of few that are named
// in code. Took is negative for one whose time says nothing.
func (m *Metrics) RedisCall(kind, outcome string, took time.Duration) {
	m.redisCalls.WithLabelValues(kind, outcome).Inc()
	if took >= 0 {
		m.redisSeconds.WithLabelValues(kind).Observe(took.Seconds())
	}
}

// RedisStopped counts that no more calls are made to Redis, because it is in that state.
func (m *Metrics) RedisStopped(state string) { m.redisOpenings.WithLabelValues(state).Inc() }

// MemoryUse sets the function that tells how much memory is held, and by whom. It is called whenever metrics are read.
// Until it is set, these metrics have no series.
func (m *Metrics) MemoryUse(read func() MemoryUse) { m.memory.read.Store(&read) }

// WorkUse sets the function that tells who waits for a slot to work. It is called whenever metrics are read. Until it is
// set, these metrics have no series.
func (m *Metrics) WorkUse(read func() WorkUse) { m.work.read.Store(&read) }

// SealKeys records which keys are in force, by their ids: the one that seals, and those that only open. Those recorded
// before are forgotten.
func (m *Metrics) SealKeys(seals string, open []string) {
	m.sealKeys.Reset()
	m.sealKeys.WithLabelValues(seals, "seal").Set(1)
	for _, id := range open {
		m.sealKeys.WithLabelValues(id, "open").Set(1)
	}
}

// UpstreamRemoved deletes the series of a server that left the config. Otherwise they would keep their last values
// until the process ends, and an upstream that was down when it was removed would raise an alert for ever.
func (m *Metrics) UpstreamRemoved(server string) {
	label := prometheus.Labels{"server": server}
	m.upstreamUp.DeletePartialMatch(label)
	m.upstreamTools.DeletePartialMatch(label)
	m.upstreamRefused.DeletePartialMatch(label)
	m.quarantined.DeletePartialMatch(label)
	m.upstreamCalls.DeletePartialMatch(label)
	m.restarts.DeletePartialMatch(label)
	m.anomalies.DeletePartialMatch(label)
	m.calls.DeletePartialMatch(label)
	m.callSeconds.DeletePartialMatch(label)
	m.repairs.DeletePartialMatch(label)
	m.ofCalls.forget()
	m.ofServers.forget()
}

// ItemsQuarantined records how many items of a server are quarantined. The series stays, also at zero, until
// UpstreamRemoved.
func (m *Metrics) ItemsQuarantined(server string, n int) {
	m.quarantined.WithLabelValues(server).Set(float64(n))
}

// ItemsRefused records how many items of a server are left out for a reason, which is that of a registry.Refusal, or
// "collision"; those that are quarantined have a metric of their own. If there are none, the series is deleted rather
// than set to zero: it would outlive a server that is
// gone.
func (m *Metrics) ItemsRefused(server, reason string, n int) {
	if n == 0 {
		m.upstreamRefused.DeleteLabelValues(server, reason)
		return
	}
	m.upstreamRefused.WithLabelValues(server, reason).Set(float64(n))
}

// Reloaded records an attempt to load the config. The first one, at the start, counts too.
func (m *Metrics) Reloaded(ok bool) {
	m.reloadOK.Set(oneIf(ok))
	if !ok {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.reloadTime.SetToCurrentTime()
}

// ConfigWarnings records how many warnings with that code the config in use has and does not acknowledge. If there are
// none, the series is deleted.
func (m *Metrics) ConfigWarnings(code string, n int) {
	if n == 0 {
		m.configWarnings.DeleteLabelValues(code)
		return
	}
	m.configWarnings.WithLabelValues(code).Set(float64(n))
}

// LimitedLocally counts one decision on a rate by this replica's part of the limit.
func (m *Metrics) LimitedLocally() { m.localLimits.Inc() }

// ValueRefused counts a value in Redis that no replica wrote there.
func (m *Metrics) ValueRefused() { m.valuesRefused.Inc() }

// AuditDropped counts n audit records that are lost.
func (m *Metrics) AuditDropped(n int) { m.auditDropped.Add(float64(n)) }

// AuditWritable sets the function that tells whether audit records can be written. It is called whenever metrics are
// read. Until it is set, the gauge says that they can.
func (m *Metrics) AuditWritable(check func() bool) { m.auditWritable.Store(&check) }

// LogLost sets the function that tells how many log lines could not be written since the start; the number never falls.
// It is called whenever metrics are read. Until it is set, the counter is 0.
func (m *Metrics) LogLost(lost func() uint64) { m.logLost.Store(&lost) }

// Panicked counts a panic that was recovered from.
func (m *Metrics) Panicked() { m.panics.Inc() }

// oneIf returns the value of a gauge that answers a question: 1 for yes, 0 for no.
func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
