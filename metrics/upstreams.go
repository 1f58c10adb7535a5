package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// upstreams are the metrics of the servers behind the gateway.
type upstreams struct {
	traffic         *traffic // has series of servers, too
	upstreamUp      *prometheus.GaugeVec
	upstreamTools   *prometheus.GaugeVec
	upstreamRefused *prometheus.GaugeVec
	quarantined     *prometheus.GaugeVec
	upstreamCalls   *prometheus.GaugeVec
	reconnects      *prometheus.CounterVec
	anomalies       *prometheus.CounterVec
	credentials     *prometheus.CounterVec
	ofServers       resolved[string, inFlight]
}

func newUpstreams(f promauto.Factory, t *traffic) *upstreams {
	return &upstreams{
		traffic: t,
		upstreamUp: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_upstream_up", Help: "Whether an upstream answers.",
		}, []string{"server"}),
		upstreamTools: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_upstream_tools", Help: "Tools that an upstream offers.",
		}, []string{"server"}),
		upstreamRefused: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_upstream_items_refused",
			Help: "Tools, prompts, resources and templates of an upstream that were left out, and whole " +
				"lists that could not be read.",
		}, []string{"server", "reason"}),
		quarantined: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_upstream_items_quarantined",
			Help: "Tools, prompts, resources and templates of an upstream that were left out because text " +
				"is hidden in their definitions, or their server is pinned and they are not released.",
		}, []string{"server"}),
		upstreamCalls: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_upstream_calls_in_flight",
			Help: "Calls at an upstream that have not ended, those that wait for a human included.",
		}, []string{"server"}),
		reconnects: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_upstream_reconnects_total", Help: "Times an upstream was connected to again.",
		}, []string{"server"}),
		credentials: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_credentials_total",
			Help: "Credentials for a server: made, or why there is none.",
		}, []string{"server", "result"}),
		anomalies: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_upstream_anomalies_total",
			Help: "What was mended or dropped of what an upstream sent.",
		}, []string{"server", "kind"}),
	}
}

// ServerCall adds a call to the gauge of calls at a server. done takes it off again and
// must be called once.
func (u *upstreams) ServerCall(server string) (done func()) {
	return u.ofServers.get(server, func() inFlight {
		return newInFlight(u.upstreamCalls.WithLabelValues(server))
	}).begin()
}

// UpstreamUp records whether an upstream answers and how many tools it offers. The series
// stay until UpstreamRemoved. A server that was removed has series again from then on.
func (u *upstreams) UpstreamUp(server string, up bool, tools int) {
	u.traffic.removed.Delete(server)
	u.upstreamUp.WithLabelValues(server).Set(OneIf(up))
	u.upstreamTools.WithLabelValues(server).Set(float64(tools))
}

// UpstreamReconnected counts that an upstream was connected to again.
func (u *upstreams) UpstreamReconnected(server string) { u.reconnects.WithLabelValues(server).Inc() }

// UpstreamMisbehaved counts n faults of one kind in what an upstream sent, which were
// mended or dropped.
func (u *upstreams) UpstreamMisbehaved(server, kind string, n int) {
	u.anomalies.WithLabelValues(server, kind).Add(float64(n))
}

// CredentialMade counts what became of a credential for a server, as credential.Config
// has it.
func (u *upstreams) CredentialMade(server, result string) {
	u.credentials.WithLabelValues(server, result).Inc()
}

// ItemsQuarantined records how many items of a server are quarantined. The series stays,
// also at zero, until UpstreamRemoved.
func (u *upstreams) ItemsQuarantined(server string, n int) {
	u.quarantined.WithLabelValues(server).Set(float64(n))
}

// ItemsRefused records how many items of a server are left out for a reason, which is
// that of a registry.Refusal, or "collision"; those that are quarantined have a metric of
// their own. If there are none, the series is deleted rather than set to zero: it would
// outlive a server that is gone.
func (u *upstreams) ItemsRefused(server, reason string, n int) {
	setOrDelete(u.upstreamRefused, n, server, reason)
}

// UpstreamRemoved deletes the series of a server that left the config. Otherwise they
// would keep their last values until the process ends, and an upstream that was down when
// it was removed would raise an alert for ever. Its calls that end later leave no series
// either.
func (u *upstreams) UpstreamRemoved(server string) {
	drop("server", server, u.upstreamUp, u.upstreamTools, u.upstreamRefused, u.quarantined, u.upstreamCalls,
		u.reconnects, u.anomalies, u.credentials)
	u.ofServers.forget()
	u.traffic.removed.Store(server, true)
	u.traffic.tidyServer(server)
}
