// Package evict makes room in maps whose size has a bound, and forgets what has stood in
// maps for a time.
package evict

import (
	"math"
	"time"
)

// One looks at a random sample of a map. It drops what is worth nothing or, if there is
// none, what is worth least of that which may go although it is worth something. A sample
// keeps it fast however large the map is.
func One[K comparable, V any](from map[K]V, sample int, worth func(K, V) (worth float64, may bool)) {
	var victim K
	least, looked, dropped := math.Inf(1), 0, false
	for key, value := range from { // Go goes through maps in random order, which makes this a sample
		is, may := worth(key, value)
		if is <= 0 {
			delete(from, key)
			dropped = true
		} else if may && is < least {
			victim, least = key, is
		}
		if looked++; looked == sample {
			break
		}
	}
	if !dropped && !math.IsInf(least, 1) {
		delete(from, victim)
	}
}

// Spans is a map of the present span of time and one of the span before. So what was
// entered is forgotten between one and two spans later, and needs no time of its own. It
// is not safe for concurrent use. The zero Spans with a Length is ready for Turn.
type Spans[K comparable, V any] struct {
	Length   time.Duration
	Now      map[K]V
	Previous map[K]V // never changed

	began time.Time // when the present span began
}

// Turn begins a new span if the present one is over at that time. It is called before the
// maps are used. If nobody came for longer than two spans, the one before this is too old
// as well.
func (s *Spans[K, V]) Turn(at time.Time) {
	past := at.Sub(s.began)
	if past < s.Length {
		return
	}
	s.Previous = s.Now
	if past >= 2*s.Length {
		s.Previous = nil
	}
	s.Now, s.began = make(map[K]V), at
}
