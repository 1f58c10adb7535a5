package metrics

import (
	"net/netip"
)

// Refused counts a refusal. kind says what went wrong (unauthenticated, forbidden,
// limited, unknown, invalid_arguments, …) and reason is a code, or one word for the
// detail. tenant is "" while it is not known who calls.
func (t *traffic) Refused(kind, tenant, reason string) {
	t.refusals.WithLabelValues(kind, tenant, reason).Inc()
	t.tidy(tenant)
}

// LoginFailed counts a refused token, or a request without one, by reason. It also counts
// a refused token for the client's address, for the gauge of noisy addresses; the zero
// address means that it is not known. An address is never a label: an attacker has as
// many as they like. Not counted for an address is what good clients do: many begin
// without a token (missing) to learn where to get one, and a token that cannot be checked
// (unavailable) may be a good one.
func (t *traffic) LoginFailed(reason string, addr netip.Addr) {
	t.loginFailures.WithLabelValues(reason).Inc()
	if reason != "missing" && reason != "unavailable" {
		t.failures.add(addr)
	}
}
