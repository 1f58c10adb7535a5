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

func newLoads() *loads {
	return &loads{
		processes: prometheus.NewDesc("drawbridge_upstream_processes",
			"Processes that were started for an upstream and have not ended, without those that they start "+
				"themselves.",
			[]string{"server"}, nil),
		sessions: prometheus.NewDesc("drawbridge_upstream_sessions",
			"Sessions with an upstream of an older revision, the one that only lists included.",
			[]string{"server"}, nil),
	}
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
func (l *loads) UpstreamLoads(read func() map[string]UpstreamLoad) {
	l.read.Store(&read)
}
