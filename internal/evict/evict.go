// Package evict makes room in maps whose size has a bound.
package evict

import "math"

// One looks at a random sample of a map. It drops what is worth nothing or, if there is
// none, what is worth least. A sample keeps it fast however large the map is. It is false
// if it could drop nothing: worth says of all that it may not.
func One[K comparable, V any](from map[K]V, sample int, worth func(K, V) (worth float64, may bool)) bool {
	var victim K
	least, looked, dropped := math.Inf(1), 0, false
	for key, value := range from { // Go goes through maps in random order, which makes this a sample
		is, may := worth(key, value)
		if may && is <= 0 {
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
		dropped = true
	}
	return dropped
}
