package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// MemoryUse is how much of the budget of memory is held at one moment, in bytes.
type MemoryUse struct {
	Limit   int64            // the size of the budget
	InUse   int64            // by all together
	Tenants map[string]int64 // by those tenants that hold most; their number must have a bound
}

// memory collects who holds how much memory. Like loads it asks whenever metrics are
// read, so that a tenant which holds nothing has no series.
type memory struct {
	inUse, limit *prometheus.Desc
	read         atomic.Pointer[func() MemoryUse] // nil: nobody has set it yet
}

var _ prometheus.Collector = (*memory)(nil)

func newMemory() *memory {
	return &memory{
		inUse: prometheus.NewDesc("drawbridge_memory_held_bytes",
			"Memory that requests hold beyond what their slots cover, by the tenants that hold most; the "+
				"tenant is empty for all others together.",
			[]string{"tenant"}, nil),
		limit: prometheus.NewDesc("drawbridge_memory_limit_bytes",
			"Memory that all requests together may hold beyond what their slots cover.",
			nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *memory) Describe(out chan<- *prometheus.Desc) {
	out <- m.inUse
	out <- m.limit
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (m *memory) Collect(out chan<- prometheus.Metric) {
	read := m.read.Load()
	if read == nil {
		return
	}
	use := (*read)()
	others := use.InUse
	for tenant, bytes := range use.Tenants {
		if tenant == "" {
			continue
		}
		others -= bytes
		out <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(bytes), tenant)
	}
	out <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(max(others, 0)), "")
	out <- prometheus.MustNewConstMetric(m.limit, prometheus.GaugeValue, float64(use.Limit))
}

// MemoryUse sets the function that tells how much memory is held, and by whom. It is
// called whenever metrics are read. Until it is set, these metrics have no series.
func (m *memory) MemoryUse(read func() MemoryUse) { m.read.Store(&read) }
