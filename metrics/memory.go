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

// memory collects who holds how much memory. Like loads it asks whenever metrics are
// read, so that a tenant which holds nothing has no series.
type memory struct {
	held, limit *prometheus.Desc
	read        atomic.Pointer[func() MemoryUse] // nil: nobody has set it yet
}

var _ prometheus.Collector = (*memory)(nil)

// newMemory returns a collector of two gauges with these names and help texts, the first
// by tenant.
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

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
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

// held makes the metrics of the memory that requests hold, and of the slots for work.
func (m *Metrics) held() {
	m.memory = newMemory(prometheus.Opts{
		Name: "drawbridge_memory_held_bytes",
		Help: "Memory that requests hold beyond what their places cover, by the tenants that hold most; the tenant is empty for all others together.",
	}, prometheus.Opts{
		Name: "drawbridge_memory_limit_bytes",
		Help: "Memory that all requests together may hold beyond what their places cover.",
	})
	m.work = newWork(prometheus.Opts{
		Name: "drawbridge_work_slots",
		Help: "Slots for work that keeps a processor busy: parsing, checking, cleaning and encoding what is large.",
	}, prometheus.Opts{
		Name: "drawbridge_work_slots_busy", Help: "Slots that are in use.",
	}, prometheus.Opts{
		Name: "drawbridge_work_waiting", Help: "Pieces of work that wait for a slot, by tenant.",
	})
}

// MemoryUse sets the function that tells how much memory is held, and by whom. It is
// called whenever metrics are read. Until it is set, these metrics have no series.
func (m *Metrics) MemoryUse(read func() MemoryUse) { m.memory.read.Store(&read) }
