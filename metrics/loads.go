package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// UpstreamLoad is what an upstream costs at the moment.
type UpstreamLoad struct {
	Processes int // children of the gateway
	Sessions  int // of the legacy era
}

// loads collects what upstreams cost. It asks when metrics are read, so that a server that is gone has no series.
type loads struct {
	processes, sessions *prometheus.Desc
	read                atomic.Pointer[func() map[string]UpstreamLoad] // nil: nobody tells yet
}

var _ prometheus.Collector = (*loads)(nil)

func newLoads(processes, sessions prometheus.Opts) *loads {
	describe := func(o prometheus.Opts) *prometheus.Desc {
		return prometheus.NewDesc(o.Name, o.Help, []string{"server"}, nil)
	}
	return &loads{processes: describe(processes), sessions: describe(sessions)}
}

// Describe sends what is collected.
func (l *loads) Describe(out chan<- *prometheus.Desc) {
	out <- l.processes
	out <- l.sessions
}

// Collect sends the loads as they are now.
func (l *loads) Collect(out chan<- prometheus.Metric) {
	read := l.read.Load()
	if read == nil {
		return
	}
	for server, load := range (*read)() {
		out <- prometheus.MustNewConstMetric(l.processes, prometheus.GaugeValue, float64(load.Processes), server)
		out <- prometheus.MustNewConstMetric(l.sessions, prometheus.GaugeValue, float64(load.Sessions), server)
	}
}
