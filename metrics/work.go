package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// WorkUse is how many slots there are for work that keeps a processor busy, and who waits
// for one, at one moment.
type WorkUse struct {
	Slots, Busy int
	Waiting     map[string]int // by tenant; one with nothing that waits need not be there
}

// work are the metrics of who waits for a slot.
type work struct {
	WorkUse *Asked[func() WorkUse] // tells who waits for a slot to work
}

func newWork(r prometheus.Registerer) *work {
	slots := prometheus.NewDesc("drawbridge_work_slots",
		"Slots for work that keeps a processor busy: parsing, checking, cleaning and encoding what is "+
			"large.",
		nil, nil)
	busy := prometheus.NewDesc("drawbridge_work_slots_busy", "Slots that are in use.", nil, nil)
	waiting := prometheus.NewDesc("drawbridge_work_waiting",
		"Pieces of work that wait for a slot, by tenant.",
		[]string{"tenant"}, nil)
	return &work{ask(r, func(read func() WorkUse, set gaugeSetter) {
		use := read()
		set(slots, float64(use.Slots))
		set(busy, float64(use.Busy))
		for tenant, n := range use.Waiting {
			set(waiting, float64(n), tenant)
		}
	}, slots, busy, waiting)}
}
