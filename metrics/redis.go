package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// shared collects in which state the server is that replicas share: one series a state, of which one is 1. And it collects
// how many replicas there are.
type shared struct {
	state, replicas *prometheus.Desc
	read            atomic.Pointer[func() map[string]bool]        // nil: there are no other replicas
	count           atomic.Pointer[func() (running, allowed int)] // nil: likewise
}

var _ prometheus.Collector = (*shared)(nil)

func newShared(state, replicas prometheus.Opts) *shared {
	return &shared{
		state:    prometheus.NewDesc(state.Name, state.Help, []string{"state"}, nil),
		replicas: prometheus.NewDesc(replicas.Name, replicas.Help, []string{"kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (s *shared) Describe(out chan<- *prometheus.Desc) {
	out <- s.state
	out <- s.replicas
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines at once.
func (s *shared) Collect(out chan<- prometheus.Metric) {
	if read := s.read.Load(); read != nil {
		for state, is := range (*read)() {
			out <- prometheus.MustNewConstMetric(s.state, prometheus.GaugeValue, oneIf(is), state)
		}
	}
	if count := s.count.Load(); count != nil {
		running, allowed := (*count)()
		out <- prometheus.MustNewConstMetric(s.replicas, prometheus.GaugeValue, float64(running), "running")
		out <- prometheus.MustNewConstMetric(s.replicas, prometheus.GaugeValue, float64(allowed), "allowed")
	}
}
