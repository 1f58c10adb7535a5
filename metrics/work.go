package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// WorkUse is how many slots there are for work that keeps a processor busy, and who waits
// for one, at one moment.
type WorkUse struct {
	Slots, Busy int
	Waiting     map[string]int // by tenant; one with nothing that waits need not be there
}

// work collects who waits for a slot. Like memory it asks whenever metrics are read, so
// that a tenant with nothing that waits has no series.
type work struct {
	slots, busy, waiting *prometheus.Desc
	read                 atomic.Pointer[func() WorkUse] // nil: nobody has set it yet
}

var _ prometheus.Collector = (*work)(nil)

func newWork() *work {
	return &work{
		slots: prometheus.NewDesc("drawbridge_work_slots",
			"Slots for work that keeps a processor busy: parsing, checking, cleaning and encoding what is "+
				"large.",
			nil, nil),
		busy: prometheus.NewDesc("drawbridge_work_slots_busy", "Slots that are in use.", nil, nil),
		waiting: prometheus.NewDesc("drawbridge_work_waiting",
			"Pieces of work that wait for a slot, by tenant.",
			[]string{"tenant"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (w *work) Describe(out chan<- *prometheus.Desc) {
	out <- w.slots
	out <- w.busy
	out <- w.waiting
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (w *work) Collect(out chan<- prometheus.Metric) {
	read := w.read.Load()
	if read == nil {
		return
	}
	use := (*read)()
	out <- prometheus.MustNewConstMetric(w.slots, prometheus.GaugeValue, float64(use.Slots))
	out <- prometheus.MustNewConstMetric(w.busy, prometheus.GaugeValue, float64(use.Busy))
	for tenant, n := range use.Waiting {
		out <- prometheus.MustNewConstMetric(w.waiting, prometheus.GaugeValue, float64(n), tenant)
	}
}

// WorkUse sets the function that tells who waits for a slot to work. It is called
// whenever metrics are read. Until it is set, these metrics have no series.
func (w *work) WorkUse(read func() WorkUse) { w.read.Store(&read) }
