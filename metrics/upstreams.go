package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// upstreams makes the metrics of the servers behind the gateway.
func (m *Metrics) upstreams(f promauto.Factory) {
	m.upstreamUp = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_up", Help: "Whether an upstream answers.",
	}, []string{"server"})
	m.upstreamTools = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_tools", Help: "Tools that an upstream offers.",
	}, []string{"server"})
	m.upstreamRefused = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_items_refused",
		Help: "Tools, prompts, resources and templates of an upstream that were left out, and whole lists that could not be read.",
	}, []string{"server", "reason"})
	m.quarantined = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_items_quarantined",
		Help: "Tools, prompts, resources and templates of an upstream that were left out because text is hidden in their definitions.",
	}, []string{"server"})
	m.upstreamCalls = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_upstream_calls_in_flight",
		Help: "Calls at an upstream that have not ended, those that wait for a human included.",
	}, []string{"server"})
	m.restarts = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_upstream_restarts_total", Help: "Times an upstream was connected to again.",
	}, []string{"server"})
	m.credentials = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_credentials_total",
		Help: "Credentials for a server: made, or why there is none.",
	}, []string{"server", "result"})
	m.anomalies = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_upstream_anomalies_total",
		Help: "What was mended or dropped of what an upstream sent.",
	}, []string{"server", "kind"})
	m.upstreamLoads = newLoads(prometheus.Opts{
		Name: "drawbridge_upstream_processes",
		Help: "Processes that were started for an upstream and have not ended, without those that they start themselves.",
	}, prometheus.Opts{
		Name: "drawbridge_upstream_sessions",
		Help: "Sessions with an upstream of an older revision, the one that only lists included.",
	})
}

// ServerCall adds a call to the gauge of calls at a server. done takes it off again and
// must be called once.
func (m *Metrics) ServerCall(server string) (done func()) {
	calls, age, ok := m.ofServers.find(server)
	if !ok {
		calls = newInFlight(m.upstreamCalls.WithLabelValues(server))
		m.ofServers.keep(server, calls, age)
	}
	calls.gauge.Inc()
	return calls.done
}

// UpstreamUp records whether an upstream answers and how many tools it offers. The series
// stay until UpstreamRemoved.
func (m *Metrics) UpstreamUp(server string, up bool, tools int) {
	m.upstreamUp.WithLabelValues(server).Set(oneIf(up))
	m.upstreamTools.WithLabelValues(server).Set(float64(tools))
}

// UpstreamRestarted counts that an upstream was connected to again.
func (m *Metrics) UpstreamRestarted(server string) { m.restarts.WithLabelValues(server).Inc() }

// UpstreamMisbehaved counts n faults of one kind in what an upstream sent, which were
// mended or dropped.
func (m *Metrics) UpstreamMisbehaved(server, kind string, n int) {
	m.anomalies.WithLabelValues(server, kind).Add(float64(n))
}

// CredentialMade counts what became of a credential for a server, as credential.Config
// has it.
func (m *Metrics) CredentialMade(server, result string) {
	m.credentials.WithLabelValues(server, result).Inc()
}

// ItemsQuarantined records how many items of a server are quarantined. The series stays,
// also at zero, until UpstreamRemoved.
func (m *Metrics) ItemsQuarantined(server string, n int) {
	m.quarantined.WithLabelValues(server).Set(float64(n))
}

// ItemsRefused records how many items of a server are left out for a reason, which is
// that of a registry.Refusal, or "collision"; those that are quarantined have a metric of
// their own. If there are none, the series is deleted rather than set to zero: it would
// outlive a server that is gone.
func (m *Metrics) ItemsRefused(server, reason string, n int) {
	if n == 0 {
		m.upstreamRefused.DeleteLabelValues(server, reason)
		return
	}
	m.upstreamRefused.WithLabelValues(server, reason).Set(float64(n))
}

// UpstreamRemoved deletes the series of a server that left the config. Otherwise they
// would keep their last values until the process ends, and an upstream that was down when
// it was removed would raise an alert for ever.
func (m *Metrics) UpstreamRemoved(server string) {
	label := prometheus.Labels{"server": server}
	m.upstreamUp.DeletePartialMatch(label)
	m.upstreamTools.DeletePartialMatch(label)
	m.upstreamRefused.DeletePartialMatch(label)
	m.quarantined.DeletePartialMatch(label)
	m.upstreamCalls.DeletePartialMatch(label)
	m.restarts.DeletePartialMatch(label)
	m.anomalies.DeletePartialMatch(label)
	m.credentials.DeletePartialMatch(label)
	m.calls.DeletePartialMatch(label)
	m.callSeconds.DeletePartialMatch(label)
	m.repairs.DeletePartialMatch(label)
	m.ofCalls.forget()
	m.ofServers.forget()
}
