package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// MemoryUse is how much of the budget of memory is held at one moment, in bytes.
type MemoryUse struct {
	Limit   int64            // the size of the budget
	Held    int64            // by all together
	Tenants map[string]int64 // by those tenants that hold most; their number must have a bound
}

// memory collects who holds how much memory. Like loads it asks whenever metrics are read, so that a tenant which holds
// nothing has no series.
type memory struct {
	held, limit *prometheus.Desc
	read        atomic.Pointer[func() MemoryUse] // nil: nobody has set it yet
}

var _ prometheus.Collector = (*memory)(nil)

// newMemory returns a collector of two gauges with these names and help texts, the first by tenant.
func newMemory(held, limit prometheus.Opts) *memory {
	return &memory{
		held:  prometheus.NewDesc(held.Name, held.Help, []string{"tenant"}, nil),
		limit: prometheus.NewDesc(limit.Name, limit.Help, nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *memory) Describe(out chan<- *prometheus.Desc) {
	out <- m.held
	out <- m.limit
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines at once.
func (m *memory) Collect(out chan<- prometheus.Metric) {
	read := m.read.Load()
	if read == nil {
		return
	}
	use := (*read)()
	others := use.Held
	for tenant, held := range use.Tenants {
		if tenant == "" {
			continue
		}
		others -= held
		out <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(held), tenant)
	}
	out <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(max(others, 0)), "")
	out <- prometheus.MustNewConstMetric(m.limit, prometheus.GaugeValue, float64(use.Limit))
}
