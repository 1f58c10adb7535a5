package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// MemoryUse is how much of the budget of memory is held at one moment, in bytes.
type MemoryUse struct {
	Limit   int64            // the size of the budget
	InUse   int64            // by all together
	Tenants map[string]int64 // by those tenants that hold most; their number must have a bound
}

// memory are the metrics of who holds how much memory.
type memory struct {
	MemoryUse *Asked[func() MemoryUse] // tells how much memory is held, and by whom
}

func newMemory(r prometheus.Registerer) *memory {
	inUse := prometheus.NewDesc("drawbridge_memory_held_bytes",
		"Memory that requests hold beyond what their slots cover, by the tenants that hold most; the "+
			"tenant is empty for all others together.",
		[]string{"tenant"}, nil)
	limit := prometheus.NewDesc("drawbridge_memory_limit_bytes",
		"Memory that all requests together may hold beyond what their slots cover.",
		nil, nil)
	return &memory{ask(r, func(read func() MemoryUse, set gaugeSetter) {
		use := read()
		others := use.InUse
		for tenant, bytes := range use.Tenants {
			if tenant != "" {
				others -= bytes
				set(inUse, float64(bytes), tenant)
			}
		}
		set(inUse, float64(max(others, 0)), "")
		set(limit, float64(use.Limit))
	}, inUse, limit)}
}
