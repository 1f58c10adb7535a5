package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// signIns are part of Metrics: the metrics of people who sign in, and of the tokens that
// their clients get. Without sign-in in the config all stay zero.
type signIns struct {
	outcomes   *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	registered prometheus.Counter
	issued     *prometheus.CounterVec
	ended      *prometheus.CounterVec
	families   *prometheus.GaugeVec
	providers  *prometheus.GaugeVec
}

// newSignIns makes them.
func newSignIns(f promauto.Factory) *signIns {
	s := &signIns{
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_sign_ins_total",
			Help: "Ways of people through a provider by outcome: ok, denied, no_access or failed.",
		}, []string{"provider", "outcome"}),
		refusals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_sign_in_refusals_total",
			Help: "Refused requests of a sign-in by endpoint and reason.",
		}, []string{"endpoint", "reason"}),
		registered: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_clients_registered_total",
			Help: "Clients that have registered themselves, whether or not anybody used them.",
		}),
		issued: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_access_tokens_issued_total",
			Help: "Access tokens that were given out, by grant.",
		}, []string{"grant"}),
		ended: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_token_families_ended_total",
			Help: "Sign-ins of clients that ended before their time, by reason.",
		}, []string{"reason"}),
		families: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_token_families",
			Help: "Sign-ins of clients that the store has, by tenant; without one, the person has yet to " +
				"choose.",
		}, []string{"tenant"}),
		providers: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_sign_in_provider_up",
			Help: "1 if the provider where people sign in answered when it was asked last, and takes the " +
				"gateway for its client, else 0.",
		}, []string{"provider"}),
	}
	for _, reason := range [...]string{"token_replay", "other_client", "code_replay", "code_of_another"} {
		s.ended.WithLabelValues(reason) // from zero, or an alert would not see the first
	}
	return s
}

// SignedIn counts a way through a provider. outcome is ok, denied, no_access or failed.
func (s *signIns) SignedIn(provider, outcome string) {
	s.outcomes.WithLabelValues(provider, outcome).Inc()
}

// SignInRefused counts a refused request of a sign-in.
func (s *signIns) SignInRefused(endpoint, reason string) {
	s.refusals.WithLabelValues(endpoint, reason).Inc()
}

// ClientRegistered counts a client that has registered itself.
func (s *signIns) ClientRegistered() { s.registered.Inc() }

// TokenIssued counts an access token, by the grant for which it was given out.
func (s *signIns) TokenIssued(grant string) { s.issued.WithLabelValues(grant).Inc() }

// FamilyEnded counts a family of tokens that has ended before its time.
func (s *signIns) FamilyEnded(reason string) { s.ended.WithLabelValues(reason).Inc() }

// Families says how many families of tokens there are, by tenant. A tenant that is not
// among them has none.
func (s *signIns) Families(byTenant map[string]int) {
	s.families.Reset()
	for tenant, n := range byTenant {
		s.families.WithLabelValues(tenant).Set(float64(n))
	}
}

// Providers says which providers answer, by name. One that is not among them is none of
// the config any more.
func (s *signIns) Providers(up map[string]bool) {
	s.providers.Reset()
	for name, is := range up {
		s.providers.WithLabelValues(name).Set(OneIf(is))
	}
}
