package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Asked are gauges that keep no numbers: a function is asked for them whenever metrics
// are read. So what is gone, such as a server that left the config, has no series from
// then on, and nobody has to delete them. F is the type of the function. Until it is set,
// there are no series.
type Asked[F any] struct {
	gauges []*prometheus.Desc
	read   atomic.Pointer[F] // nil: nobody has set it yet
	show   func(read F, set gaugeSetter)
}

// gaugeSetter gives the series of a gauge that has those labels its value.
type gaugeSetter func(gauge *prometheus.Desc, value float64, labels ...string)

// ask registers gauges that show sets, from what it reads.
func ask[F any](r prometheus.Registerer, show func(read F, set gaugeSetter),
	gauges ...*prometheus.Desc,
) *Asked[F] {
	a := &Asked[F]{gauges: gauges, show: show}
	r.MustRegister(a)
	return a
}

// Of sets the function that is asked.
func (a *Asked[F]) Of(read F) { a.read.Store(&read) }

// Describe implements prometheus.Collector.
func (a *Asked[F]) Describe(out chan<- *prometheus.Desc) {
	for _, gauge := range a.gauges {
		out <- gauge
	}
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (a *Asked[F]) Collect(out chan<- prometheus.Metric) {
	if read := a.read.Load(); read != nil {
		a.show(*read, func(gauge *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(gauge, prometheus.GaugeValue, value, labels...)
		})
	}
}
