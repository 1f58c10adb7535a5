package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Slots is how many slots for something at once this replica may give out at one
// moment, and how many of them are taken, of all tenants together. More may be taken than
// granted: a limit was lowered, or Redis is gone and the rest is given back as calls end.
type Slots struct{ Granted, Used int }

// ahead collects what this replica holds of what tenants have at all replicas together:
// slots, and tokens that it took ahead of requests. They are sums over tenants, because
// a replica may have thousands of them, and who holds what is only asked about one at a
// time. Like loads it asks whenever metrics are read, so that taking a slot costs
// nothing more.
type ahead struct {
	slotsDesc, tokens *prometheus.Desc
	slots             atomic.Pointer[func() map[string]Slots] // by kind; nil: there are no other replicas
	prefetched        atomic.Pointer[func() int]              // nil: likewise
}

var _ prometheus.Collector = (*ahead)(nil)

func newAhead() *ahead {
	slots := prometheus.Opts{
		Name: "drawbridge_replica_slots",
		Help: "Slots for calls and for streams at once that this replica may give out now (granted), and " +
			"those that are taken here (used), of all tenants together. There are no series where the " +
			"config names no Redis.",
	}
	tokens := prometheus.Opts{
		Name: "drawbridge_replica_prefetched_tokens",
		Help: "Tokens of rates that this replica has taken ahead and not used yet, of all tenants " +
			"together. There are no series where the config names no Redis.",
	}
	return &ahead{
		slotsDesc: prometheus.NewDesc(slots.Name, slots.Help, []string{"kind", "state"}, nil),
		tokens:    prometheus.NewDesc(tokens.Name, tokens.Help, nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (a *ahead) Describe(out chan<- *prometheus.Desc) {
	out <- a.slotsDesc
	out <- a.tokens
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (a *ahead) Collect(out chan<- prometheus.Metric) {
	if bytes := a.slots.Load(); bytes != nil {
		for kind, use := range (*bytes)() {
			out <- prometheus.MustNewConstMetric(a.slotsDesc, prometheus.GaugeValue, float64(use.Granted),
				kind,
				"granted")
			out <- prometheus.MustNewConstMetric(a.slotsDesc, prometheus.GaugeValue, float64(use.Used), kind,
				"used")
		}
	}
	if prefetched := a.prefetched.Load(); prefetched != nil {
		out <- prometheus.MustNewConstMetric(a.tokens, prometheus.GaugeValue, float64((*prefetched)()))
	}
}

// ReplicaSlots sets the function that returns, for each kind of slots that replicas
// share, what this one holds of them. It is called whenever metrics are read. Until it is
// set, there are no such series.
func (a *ahead) ReplicaSlots(read func() map[string]Slots) { a.slots.Store(&read) }

// PrefetchedTokens sets the function that returns how many tokens of requests this replica
// has taken ahead and not used yet. It is called whenever metrics are read. Until it is
// set, there is no such series.
func (a *ahead) PrefetchedTokens(count func() int) { a.prefetched.Store(&count) }
