package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// shared are the metrics of the server that replicas share.
type shared struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	openings *prometheus.CounterVec
}

// newShared makes the metrics of the server that replicas share. The histogram has few
// buckets: what takes longer than redis.patience, 500 ms by default, is given up.
func newShared(f promauto.Factory) *shared {
	return &shared{
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_redis_calls_total",
			Help: "Round trips to Redis by what they are for and outcome; those that were skipped were not " +
				"made, because Redis was not well.",
		}, []string{"kind", "outcome"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drawbridge_redis_call_duration_seconds",
			Help: "Time of round trips to Redis that were answered, without those that wait for " +
				"something to come.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5},
		}, []string{"kind"}),
		openings: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_redis_breaker_openings_total",
			Help: "How often calls to Redis were stopped, by the state that it was in.",
		}, []string{"state"}),
	}
}

// RedisCall counts a round trip to Redis, or one that was not made. Kind says what it was
// for, and is one of few that are named in code. Took is negative for one whose time says
// nothing.
func (s *shared) RedisCall(kind, outcome string, took time.Duration) {
	s.calls.WithLabelValues(kind, outcome).Inc()
	if took >= 0 {
		s.seconds.WithLabelValues(kind).Observe(took.Seconds())
	}
}

// RedisStopped counts that no more calls are made to Redis, because it is in that state.
func (s *shared) RedisStopped(state string) { s.openings.WithLabelValues(state).Inc() }
