package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Slots is how many slots for something at once this replica may give out at one
// moment, and how many of them are taken, of all tenants together. More may be taken than
// granted: a limit was lowered, or Redis is gone and the rest is given back as calls end.
type Slots struct{ Granted, Used int }

// ahead are the metrics of what this replica holds of what tenants have at all replicas
// together: slots, and tokens that it took ahead of requests. They are sums over tenants,
// because a replica may have thousands of them, and who holds what is only asked about
// one at a time. Taking a slot costs nothing more for them.
type ahead struct {
	slots  *asked[func() map[string]Slots] // by kind
	tokens *asked[func() int]
}

func newAhead(r prometheus.Registerer) *ahead {
	slots := prometheus.NewDesc("drawbridge_replica_slots",
		"Slots for calls and for streams at once that this replica may give out now (granted), and "+
			"those that are taken here (used), of all tenants together. There are no series where the "+
			"config names no Redis.",
		[]string{"kind", "state"}, nil)
	tokens := prometheus.NewDesc("drawbridge_replica_prefetched_tokens",
		"Tokens of rates that this replica has taken ahead and not used yet, of all tenants "+
			"together. There are no series where the config names no Redis.",
		nil, nil)
	return &ahead{
		slots: ask(r, func(read func() map[string]Slots, set gaugeSetter) {
			for kind, use := range read() {
				set(slots, float64(use.Granted), kind, "granted")
				set(slots, float64(use.Used), kind, "used")
			}
		}, slots),
		tokens: ask(r, func(read func() int, set gaugeSetter) { set(tokens, float64(read())) }, tokens),
	}
}

// ReplicaSlots sets the function that returns, for each kind of slots that replicas
// share, what this one holds of them. It is called whenever metrics are read. Until it is
// set, there are no such series.
func (a *ahead) ReplicaSlots(read func() map[string]Slots) { a.slots.of(read) }

// PrefetchedTokens sets the function that returns how many tokens of requests this replica
// has taken ahead and not used yet. It is called whenever metrics are read. Until it is
// set, there is no such series.
func (a *ahead) PrefetchedTokens(count func() int) { a.tokens.of(count) }
