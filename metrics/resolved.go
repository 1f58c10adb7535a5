package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxResolved bounds how many keys one resolved remembers. It is more than most gateways
// have in use at a time, and one or two MiB.
const maxResolved = 8192

// resolved remembers which series the values of labels lead to, because each call would
// otherwise find its series anew, label by label. It is safe for concurrent use.
//
// The hazard is a series that is deleted: whoever goes on with it counts what nobody
// reads. So whoever deletes series calls forget afterwards, and what was found before
// forget is not remembered after it:
//
//	one goroutine                      another
//	get: not known, of age 1
//	make the series
//	                                   delete the series
//	                                   forget: all of age 1 is gone
//	remember it, of age 1: too late
type resolved[K comparable, V any] struct {
	mu    sync.RWMutex // guards the fields below
	known map[K]V
	age   int // how often all was forgotten
}

// get returns what is remembered of key, or else what makes returns. When too many are
// known, it begins anew.
func (r *resolved[K, V]) get(key K, makes func() V) V {
	r.mu.RLock()
	value, ok := r.known[key]
	age := r.age
	r.mu.RUnlock()
	if ok {
		return value
	}
	value = makes()
	r.mu.Lock()
	defer r.mu.Unlock()
	if age != r.age {
		return value
	}
	if r.known == nil || len(r.known) >= maxResolved {
		r.known = make(map[K]V)
	}
	r.known[key] = value
	return value
}

// forget forgets all.
func (r *resolved[K, V]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = nil
	r.age++
}

// requestLabels lead to the series of a request. Their number is bounded: routes, methods
// and eras are ours, and statuses are counted by class.
type requestLabels struct{ route, method, class, era string }

// callLabels lead to the series of a call.
type callLabels struct{ tenant, server, item, outcome string }

// counted is a number of events and the time that they took.
type counted struct {
	total   prometheus.Counter
	seconds prometheus.Observer
}

// inFlight is a gauge of what has begun and not ended.
type inFlight struct {
	gauge prometheus.Gauge
	done  func() // takes one off the gauge
}

func newInFlight(gauge prometheus.Gauge) inFlight { return inFlight{gauge, gauge.Dec} }

// begin adds one to the gauge. done takes it off again.
func (i inFlight) begin() (done func()) {
	i.gauge.Inc()
	return i.done
}
