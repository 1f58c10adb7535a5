package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// shared collects in which state the server is that replicas share: one series a state, of which one is 1.
type shared struct {
	state *prometheus.Desc
	read  atomic.Pointer[func() map[string]bool] // nil: there are no other replicas
}

var _ prometheus.Collector = (*shared)(nil)

func newShared(state prometheus.Opts) *shared {
	return &shared{state: prometheus.NewDesc(state.Name, state.Help, []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (s *shared) Describe(out chan<- *prometheus.Desc) { out <- s.state }

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines at once.
func (s *shared) Collect(out chan<- prometheus.Metric) {
	read := s.read.Load()
	if read == nil {
		return
	}
	for state, is := range (*read)() {
		out <- prometheus.MustNewConstMetric(s.state, prometheus.GaugeValue, oneIf(is), state)
	}
}
