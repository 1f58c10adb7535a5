package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Store has the metrics of the store of what outlives a restart.
type Store struct {
	up, records *prometheus.Desc
	read        atomic.Pointer[func() (bool, map[string]int)] // nil: there is none

	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Store)(nil)

// newStore makes the metrics. What takes longer than the last bucket is given up.
func newStore(f promauto.Factory) *Store {
	up := prometheus.Opts{
		Name: "drawbridge_store_up",
		Help: "Whether the store of data can be used. There are no series where the config has no data.",
	}
	records := prometheus.Opts{
		Name: "drawbridge_store_records",
		Help: "Records in the store by kind, as counted at the last look.",
	}
	return &Store{
		up:      prometheus.NewDesc(up.Name, up.Help, nil, nil),
		records: prometheus.NewDesc(records.Name, records.Help, []string{"kind"}, nil),
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_store_calls_total",
			Help: "Calls to the store by what they do (get, put, delete, list) and outcome (ok, not_found, " +
				"conflict, full, failed).",
		}, []string{"call", "outcome"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drawbridge_store_call_duration_seconds",
			Help:    "Time of calls to the store.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"call"}),
	}
}

// Describe implements prometheus.Collector.
func (s *Store) Describe(out chan<- *prometheus.Desc) {
	out <- s.up
	out <- s.records
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (s *Store) Collect(out chan<- prometheus.Metric) {
	read := s.read.Load()
	if read == nil {
		return
	}
	up, records := (*read)()
	value := 0.0
	if up {
		value = 1
	}
	out <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, value)
	for kind, n := range records {
		out <- prometheus.MustNewConstMetric(s.records, prometheus.GaugeValue, float64(n), kind)
	}
}

// Show sets the function that tells whether the store can be used, and how many records
// it has of each kind. It is called whenever metrics are read. Until it is set, there are
// no such series.
func (s *Store) Show(read func() (up bool, records map[string]int)) { s.read.Store(&read) }

// Call counts a call to the store. Both names are among few that are named in code.
func (s *Store) Call(call, outcome string, took time.Duration) {
	s.calls.WithLabelValues(call, outcome).Inc()
	s.seconds.WithLabelValues(call).Observe(took.Seconds())
}
