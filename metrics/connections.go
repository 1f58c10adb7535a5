package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections makes the metrics of connections.
func (m *Metrics) connections(f promauto.Factory) {
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_connections_open", Help: "Connections of clients that are open.",
	}, func() float64 {
		if open := m.connsOpen.Load(); open != nil {
			return float64((*open)())
		}
		return 0
	})
	m.connsLimit = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_connections_limit", Help: "Connections of clients that may be open at once.",
	})
	m.connsRefused = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_refused_total",
		Help: "Connections that found no place, by the bound that was reached.",
	}, []string{"bound"})
	m.connsClosed = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_connections_closed_total",
		Help: "Connections of strangers, and idle ones, that gave their place to another.",
	}, []string{"bound"})
}

// Connections records how many connections of clients may be open, and sets the function
// that tells how many are. It is called whenever metrics are read.
func (m *Metrics) Connections(limit int, open func() int) {
	m.connsLimit.Set(float64(limit))
	m.connsOpen.Store(&open)
}

// ConnectionRefused counts a connection that found no place. bound is the bound that was
// reached: total or address.
func (m *Metrics) ConnectionRefused(bound string) { m.connsRefused.WithLabelValues(bound).Inc() }

// ConnectionClosed counts a connection of a stranger, or an idle one, that gave its place
// to another. bound is as for ConnectionRefused.
func (m *Metrics) ConnectionClosed(bound string) { m.connsClosed.WithLabelValues(bound).Inc() }
