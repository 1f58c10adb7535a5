package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections are the metrics of connections of clients.
type connections struct {
	connsRefused *prometheus.CounterVec
	connsClosed  *prometheus.CounterVec
}

func newConnections(f promauto.Factory) *connections {
	return &connections{
		connsRefused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_connections_refused_total",
			Help: "Connections that found no slot, by the bound that was reached.",
		}, []string{"bound"}),
		connsClosed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_connections_closed_total",
			Help: "Unauthenticated connections, and idle ones, that gave their slot to another.",
		}, []string{"bound"}),
	}
}

// ConnectionRefused counts a connection that found no slot. bound is the bound that was
// reached: total or address.
func (c *connections) ConnectionRefused(bound string) { c.connsRefused.WithLabelValues(bound).Inc() }

// ConnectionClosed counts an unauthenticated connection, or an idle one, that gave its
// slot to another. bound is as for ConnectionRefused.
func (c *connections) ConnectionClosed(bound string) { c.connsClosed.WithLabelValues(bound).Inc() }
