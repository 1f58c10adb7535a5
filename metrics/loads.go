package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// UpstreamLoad is what an upstream costs at one moment.
type UpstreamLoad struct {
	Processes int // that the gateway started and that have not ended; their own children are not counted
	Sessions  int // with a server of the legacy era, including the one that only fetches its lists
}

// loads collects what upstreams cost. It keeps no numbers of its own but asks for them
// whenever metrics are read. So a server that left the config has no series from then on,
// and nobody has to delete them.
type loads struct {
	processes, sessions *prometheus.Desc
	// by server; nil: nobody has set it yet
	read atomic.Pointer[func() map[string]UpstreamLoad]
}

var _ prometheus.Collector = (*loads)(nil)

// newLoads returns a collector of two gauges with these names and help texts, each by
// server.
func newLoads(processes, sessions prometheus.Opts) *loads {
	describe := func(o prometheus.Opts) *prometheus.Desc {
		return prometheus.NewDesc(o.Name, o.Help, []string{"server"}, nil)
	}
	return &loads{processes: describe(processes), sessions: describe(sessions)}
}

// Describe implements prometheus.Collector.
func (l *loads) Describe(out chan<- *prometheus.Desc) {
	out <- l.processes
	out <- l.sessions
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (l *loads) Collect(out chan<- prometheus.Metric) {
	read := l.read.Load()
	if read == nil {
		return
	}
	for server, load := range (*read)() {
		out <- prometheus.MustNewConstMetric(l.processes, prometheus.GaugeValue, float64(load.Processes),
			server)
		out <- prometheus.MustNewConstMetric(l.sessions, prometheus.GaugeValue, float64(load.Sessions),
			server)
	}
}

// UpstreamLoads sets the function that returns the load of each upstream of the config,
// by its name. It is called whenever metrics are read. Until it is set, these metrics
// have no series.
func (m *Metrics) UpstreamLoads(read func() map[string]UpstreamLoad) {
	m.upstreamLoads.read.Store(&read)
}
