package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections are the metrics of connections of clients.
type connections struct {
	connsRefused *prometheus.CounterVec
	connsClosed  *prometheus.CounterVec
	connsLimit   prometheus.Gauge
	connsOpen    atomic.Pointer[func() int] // nil: nobody has set it yet
}

func newConnections(f promauto.Factory) *connections {
	c := &connections{}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_connections_open", Help: "Connections of clients that are open.",
	}, func() float64 {
		if open := c.connsOpen.Load(); open != nil {
			return float64((*open)())
		}
		return 0
	})
	c.connsLimit = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_connections_limit", Help: "Connections of clients that may be open at once.",
	})
	c.connsRefused = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_refused_total",
		Help: "Connections that found no place, by the bound that was reached.",
	}, []string{"bound"})
	c.connsClosed = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_closed_total",
		Help: "Connections of strangers, and idle ones, that gave their place to another.",
	}, []string{"bound"})
	return c
}

// Connections records how many connections of clients may be open, and sets the function
// that tells how many are. It is called whenever metrics are read.
func (c *connections) Connections(limit int, open func() int) {
	c.connsLimit.Set(float64(limit))
	c.connsOpen.Store(&open)
}

// ConnectionRefused counts a connection that found no place. bound is the bound that was
// reached: total or address.
func (c *connections) ConnectionRefused(bound string) { c.connsRefused.WithLabelValues(bound).Inc() }

// ConnectionClosed counts a connection of a stranger, or an idle one, that gave its place
// to another. bound is as for ConnectionRefused.
func (c *connections) ConnectionClosed(bound string) { c.connsClosed.WithLabelValues(bound).Inc() }
