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

// redis makes the metrics of the server that replicas share. The histogram has few
// buckets: what takes longer than redis.patience, 500 ms by default, is given up.
func (m *Metrics) redis(f promauto.Factory) {
	m.redisState = newShared(prometheus.Opts{
		Name: "drawbridge_redis_state",
		Help: "Whether Redis is in that state. There are no series where the config names no Redis.",
	}, prometheus.Opts{
		Name: "drawbridge_replicas",
		Help: "How many replicas are running, as far as this one knows, how many others it reaches, and how many are allowed by the setting replicas. There are no series where the config names no Redis.",
	})
	m.redisCalls = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_redis_calls_total",
		Help: "Round trips to Redis by what they are for and outcome; those that were skipped were not made, because Redis was not well.",
	}, []string{"kind", "outcome"})
	m.redisSeconds = f.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "drawbridge_redis_call_duration_seconds",
		Help:    "Time of round trips to Redis that were answered, without those that wait for something to come.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5},
	}, []string{"kind"})
	m.redisOpenings = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_redis_breaker_openings_total",
		Help: "How often calls to Redis were stopped, by the state that it was in.",
	}, []string{"state"})
}

// RedisState sets the function that returns all states that Redis may be in, and which it
// is in. It is called whenever metrics are read. Until it is set, there are no such
// series.
func (m *Metrics) RedisState(read func() map[string]bool) { m.redisState.read.Store(&read) }

// Running is how many replicas there are.
type Running struct {
	Running int // this one included
	Reached int // others that this one reaches
	Allowed int // by the config
}

// Replicas sets the function that returns how many replicas there are. It is called
// whenever metrics are read. Until it is set, there are no such series.
func (m *Metrics) Replicas(count func() Running) { m.redisState.count.Store(&count) }

// RedisCall counts a round trip to Redis, or one that was not made. Kind says what it was
// for, and is one of few that are named in code. Took is negative for one whose time says
// nothing.
func (m *Metrics) RedisCall(kind, outcome string, took time.Duration) {
	m.redisCalls.WithLabelValues(kind, outcome).Inc()
	if took >= 0 {
		m.redisSeconds.WithLabelValues(kind).Observe(took.Seconds())
	}
}

// RedisStopped counts that no more calls are made to Redis, because it is in that state.
func (m *Metrics) RedisStopped(state string) { m.redisOpenings.WithLabelValues(state).Inc() }
