package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections are the metrics of connections of clients.
type connections struct {
	connsRefused *prometheus.CounterVec
	connsClosed  *prometheus.CounterVec
	connsLimit   prometheus.Gauge
	connsOpen    *Asked[func() int]
}

func newConnections(r prometheus.Registerer, f promauto.Factory) *connections {
	open := prometheus.NewDesc("drawbridge_connections_open", "Connections of clients that are "+
		"open.", nil, nil)
	return &connections{
		connsOpen: ask(r, func(read func() int, set gaugeSetter) { set(open, float64(read())) }, open),
		connsLimit: f.NewGauge(prometheus.GaugeOpts{
			Name: "drawbridge_connections_limit", Help: "Connections of clients that may be open at once.",
		}),
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

// Connections records how many connections of clients may be open, and sets the function
// that tells how many are. It is called whenever metrics are read.
func (c *connections) Connections(limit int, open func() int) {
	c.connsLimit.Set(float64(limit))
	c.connsOpen.Of(open)
}

// ConnectionRefused counts a connection that found no slot. bound is the bound that was
// reached: total or address.
func (c *connections) ConnectionRefused(bound string) { c.connsRefused.WithLabelValues(bound).Inc() }

// ConnectionClosed counts an unauthenticated connection, or an idle one, that gave its
// slot to another. bound is as for ConnectionRefused.
func (c *connections) ConnectionClosed(bound string) { c.connsClosed.WithLabelValues(bound).Inc() }
