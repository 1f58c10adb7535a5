package metrics

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// refused makes the metrics of what was not let in.
func (t *traffic) refused(f promauto.Factory) {
	t.refusals = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_refusals_total",
		Help: "Refused requests and calls, and calls that were lost with a replica or by its stop; the " +
			"tenant is empty when it is not known.",
	}, []string{"kind", "tenant", "reason"})
	t.loginFailures = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_login_failures_total", Help: "Refused tokens.",
	}, []string{"reason"})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_login_failures_noisy_addresses",
		Help: "Client addresses with 10 or more refused tokens within the last 5 to 10 minutes; the log " +
			"and the audit records name them.",
	}, func() float64 { return float64(t.failures.noisy()) })
}

// Refused counts a refusal. kind says what went wrong (unauthenticated, forbidden,
// limited, unknown, invalid_arguments, …) and reason is a code, or one word for the
// detail. tenant is "" while it is not known who calls.
func (t *traffic) Refused(kind, tenant, reason string) {
	t.refusals.WithLabelValues(kind, tenant, reason).Inc()
	t.tidy(tenant)
}

// LoginFailed counts a refused token by reason. It also counts it for the client's
// address, for the gauge of noisy addresses; the zero address means that it is not known.
// An address is never a label: an attacker has as many as they like.
func (t *traffic) LoginFailed(reason string, addr netip.Addr) {
	t.loginFailures.WithLabelValues(reason).Inc()
	t.failures.add(addr)
}
