package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// shared are the metrics of the server that replicas share, and of how many replicas
// there are. The state is one series a state, of which one is 1.
type shared struct {
	// RedisState returns all states that Redis may be in, and which it is in.
	RedisState *Asked[func() map[string]bool]
	Replicas   *Asked[func() Running]
	calls      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	openings   *prometheus.CounterVec
}

// newShared makes the metrics of the server that replicas share. The histogram has few
// buckets: what takes longer than redis.patience, 500 ms by default, is given up.
func newShared(r prometheus.Registerer, f promauto.Factory) *shared {
	state := prometheus.NewDesc("drawbridge_redis_state",
		"Whether Redis is in that state. There are no series where the config names no Redis.",
		[]string{"state"}, nil)
	replicas := prometheus.NewDesc("drawbridge_replicas",
		"How many replicas are running, as far as this one knows, how many others it reaches, and "+
			"how many are allowed by the setting replicas. There are no series where the config names no "+
			"Redis.",
		[]string{"kind"}, nil)
	return &shared{
		RedisState: ask(r, func(read func() map[string]bool, set gaugeSetter) {
			for name, is := range read() {
				set(state, oneIf(is), name)
			}
		}, state),
		Replicas: ask(r, func(count func() Running, set gaugeSetter) {
			now := count()
			set(replicas, float64(now.Running), "running")
			set(replicas, float64(now.Reached), "reached")
			set(replicas, float64(now.Allowed), "allowed")
		}, replicas),
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

// Running is how many replicas there are.
type Running struct {
	Running int // this one included
	Reached int // others that this one reaches
	Allowed int // by the config
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
