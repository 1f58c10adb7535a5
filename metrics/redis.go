package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// shared collects in which state the server is that replicas share: one series a state,
// of which one is 1. And it collects how many replicas there are.
type shared struct {
	state, replicas *prometheus.Desc
	read            atomic.Pointer[func() map[string]bool] // nil: there are no other replicas
	count           atomic.Pointer[func() Running]         // nil: likewise
	calls           *prometheus.CounterVec
	seconds         *prometheus.HistogramVec
	openings        *prometheus.CounterVec
}

var _ prometheus.Collector = (*shared)(nil)

// newShared makes the metrics of the server that replicas share. The histogram has few
// buckets: what takes longer than redis.patience, 500 ms by default, is given up.
func newShared(f promauto.Factory) *shared {
	state := prometheus.Opts{
		Name: "drawbridge_redis_state",
		Help: "Whether Redis is in that state. There are no series where the config names no Redis.",
	}
	replicas := prometheus.Opts{
		Name: "drawbridge_replicas",
		Help: "How many replicas are running, as far as this one knows, how many others it reaches, and " +
			"how many are allowed by the setting replicas. There are no series where the config names no " +
			"Redis.",
	}
	return &shared{
		state:    prometheus.NewDesc(state.Name, state.Help, []string{"state"}, nil),
		replicas: prometheus.NewDesc(replicas.Name, replicas.Help, []string{"kind"}, nil),
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

// Describe implements prometheus.Collector.
func (s *shared) Describe(out chan<- *prometheus.Desc) {
	out <- s.state
	out <- s.replicas
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (s *shared) Collect(out chan<- prometheus.Metric) {
	if read := s.read.Load(); read != nil {
		for state, is := range (*read)() {
			out <- prometheus.MustNewConstMetric(s.state, prometheus.GaugeValue, oneIf(is), state)
		}
	}
	if count := s.count.Load(); count != nil {
		now := (*count)()
		out <- prometheus.MustNewConstMetric(s.replicas, prometheus.GaugeValue, float64(now.Running),
			"running")
		out <- prometheus.MustNewConstMetric(s.replicas, prometheus.GaugeValue, float64(now.Reached),
			"reached")
		out <- prometheus.MustNewConstMetric(s.replicas, prometheus.GaugeValue, float64(now.Allowed),
			"allowed")
	}
}

// RedisState sets the function that returns all states that Redis may be in, and which it
// is in. It is called whenever metrics are read. Until it is set, there are no such
// series.
func (s *shared) RedisState(read func() map[string]bool) { s.read.Store(&read) }

// Running is how many replicas there are.
type Running struct {
	Running int // this one included
	Reached int // others that this one reaches
	Allowed int // by the config
}

// Replicas sets the function that returns how many replicas there are. It is called
// whenever metrics are read. Until it is set, there are no such series.
func (s *shared) Replicas(count func() Running) { s.count.Store(&count) }

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
