package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// replicas are the metrics of what several replicas have to do with each other. Without
// Redis in the config all counts stay zero.
type replicas struct {
	losses       prometheus.Counter
	takenOver    prometheus.Counter
	sent         *prometheus.CounterVec
	received     *prometheus.CounterVec
	takenForGone prometheus.Counter
	config       *prometheus.GaugeVec

	// of sent, by kind and outcome: each forwarded request counts as a message
	ofMessages resolved[[2]string, prometheus.Counter]
}

// newReplicas makes them. Messages have few kinds, which are named in the code of those
// who send them.
func newReplicas(f promauto.Factory) *replicas {
	return &replicas{
		losses: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_redis_losses_total",
			Help: "Times that Redis had lost what replicas share. Sessions go on.",
		}),
		takenOver: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_sessions_taken_over_total",
			Help: "Sessions that this replica has taken over from one that was gone or drained.",
		}),
		sent: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_replica_messages_sent_total",
			Help: "Messages to other replicas by kind and outcome: sent, gone (it cannot be reached) " +
				"or failed.",
		}, []string{"kind", "outcome"}),
		received: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_replica_messages_received_total",
			Help: "Messages of other replicas that were handled, by kind.",
		}, []string{"kind"}),
		takenForGone: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_replica_taken_for_gone_total",
			Help: "Times that others may have taken this replica for gone, so that it looked again at all " +
				"that it holds.",
		}),
		config: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_config_info", Help: "The digest of all files of the config in use.",
		}, []string{"digest"}),
	}
}

// RedisLost counts that Redis had lost what replicas share.
func (r *replicas) RedisLost() { r.losses.Inc() }

// SessionTakenOver counts a session that another replica opened, or that this one had let
// go of.
func (r *replicas) SessionTakenOver() { r.takenOver.Inc() }

// MessageSent counts a message to another replica. The outcome is one of those that the
// help text of the metric lists.
func (r *replicas) MessageSent(kind, outcome string) {
	labels := [2]string{kind, outcome}
	r.ofMessages.get(labels, func() prometheus.Counter {
		return r.sent.WithLabelValues(kind, outcome)
	}).Inc()
}

// MessageReceived counts a message of another replica.
func (r *replicas) MessageReceived(kind string) { r.received.WithLabelValues(kind).Inc() }

// TakenForGone counts that others may have taken this replica for gone.
func (r *replicas) TakenForGone() { r.takenForGone.Inc() }

// ConfigInForce records the digest of the config in use. The one before is forgotten. A
// config without files has none, "".
func (r *replicas) ConfigInForce(digest string) {
	r.config.Reset()
	if digest != "" {
		r.config.WithLabelValues(digest).Set(1)
	}
}
