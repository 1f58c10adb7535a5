package auth

import (
	"cmp"
	"fmt"
	"time"
)

// MinRefresh is the least that Issuer.KeysRefresh may be.
const MinRefresh = 10 * time.Second

const (
	maxStale       = 24 * time.Hour // a token lives no longer, see MaxLifetime
	defaultRefresh = 5 * time.Minute
	defaultStale   = time.Hour
)

// CheckKeyTimes returns what is wrong with a KeysRefresh and a KeysStale of an Issuer. A
// zero one is replaced by its default first.
func CheckKeyTimes(refresh, stale time.Duration) error {
	refresh, stale = keyTimes(refresh, stale)
	if refresh < MinRefresh || refresh > maxStale {
		return fmt.Errorf("keys are fetched every 10s to 24h, not every %s", refresh)
	}
	if stale > maxStale {
		return fmt.Errorf("keys serve for at most 24h, not for %s", stale)
	}
	if stale < refresh {
		return fmt.Errorf(
			"keys serve for at least as long as the time between two fetches, here %s, not for %s", refresh,
			stale)
	}
	return nil
}

// keyTimes returns how often a key set is fetched at least, and how long the last one
// serves, where zeros stand for the defaults.
func keyTimes(refresh, stale time.Duration) (every, serves time.Duration) {
	every = cmp.Or(refresh, defaultRefresh)
	return every, cmp.Or(stale, max(defaultStale, every))
}

// KeySet is how it fares to fetch the key set of one issuer.
type KeySet struct {
	Issuer  string
	Fetched time.Time // when the set in use was asked for; zero: there is none
	Until   time.Time // when it is used no longer, unless another is fetched; zero: there is none
	// since when all fetches have failed; zero: the last one succeeded, or none has ended
	// yet
	Failing time.Time
	Problem error    // of the last fetch; nil if Failing is zero
	Refused []string // which keys of the set in use are refused, and why; shared: do not modify
}

// state returns how it fares to fetch the set.
func (r *remote) state(now time.Time) KeySet {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := KeySet{Issuer: r.issuer, Failing: r.failing}
	if !r.failing.IsZero() {
		status.Problem = r.failure
	}
	if set := r.current(now); set != nil {
		status.Fetched, status.Until, status.Refused = set.fetched, set.until, set.refused
	}
	return status
}

// adopt takes over the set that another source has fetched from the same address, and
// since when it could not be fetched. It is called before run, and nobody else has r yet.
func (r *remote) adopt(from *remote) {
	from.mu.Lock()
	defer from.mu.Unlock()
	if !from.failing.IsZero() {
		r.failing, r.failure = from.failing, from.failure
	}
	if set := from.set.Load(); set != nil {
		adopted := *set
		r.publishLocked(&adopted, set.fetched)
	}
}
