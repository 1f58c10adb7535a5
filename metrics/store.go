package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Store has the metrics of the store of what outlives a restart.
type Store struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newStore makes the metrics. What takes longer than the last bucket is given up.
func newStore(f promauto.Factory) *Store {
	return &Store{
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

// Call counts a call to the store. Both names are among few that are named in code.
func (s *Store) Call(call, outcome string, took time.Duration) {
	s.calls.WithLabelValues(call, outcome).Inc()
	s.seconds.WithLabelValues(call).Observe(took.Seconds())
}
