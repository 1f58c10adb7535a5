package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// UpstreamLoad is what an upstream costs at one moment.
type UpstreamLoad struct {
	Processes int // that the gateway started and that have not ended; their own children are not counted
	Sessions  int // with a server of the legacy era, including the one that only fetches its lists
}

// loads are the metrics of what upstreams cost.
type loads struct {
	// UpstreamLoads returns the load of each upstream of the config, by its name.
	UpstreamLoads *Asked[func() map[string]UpstreamLoad]
}

func newLoads(r prometheus.Registerer) *loads {
	processes := prometheus.NewDesc("drawbridge_upstream_processes",
		"Processes that were started for an upstream and have not ended, without those that they start "+
			"themselves.",
		[]string{"server"}, nil)
	sessions := prometheus.NewDesc("drawbridge_upstream_sessions",
		"Sessions with an upstream of an older revision, the one that only lists included.",
		[]string{"server"}, nil)
	return &loads{ask(r, func(read func() map[string]UpstreamLoad, set gaugeSetter) {
		for server, load := range read() {
			set(processes, float64(load.Processes), server)
			set(sessions, float64(load.Sessions), server)
		}
	}, processes, sessions)}
}
