package ratelimit

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	refusalSlots = 4096             // a power of two
	refusalAge   = 10 * time.Second // after which the server is asked again, however long the refusal holds
)

// refusals is what is known to be refused for some time: a bucket that has too few tokens regains them at its rate, so
// that until then nobody needs to ask again. It remembers one refusal for each hash of a key, the last one. What it
// forgets is only asked again. A bucket whose limit was changed by another replica, or that somebody has deleted, is asked
// again after refusalAge. The zero refusals is not usable; see newRefusals. It is safe for concurrent use.
type refusals struct {
	seed  maphash.Seed
	slots [refusalSlots]atomic.Pointer[refusal]
}

// refusal says that a bucket has too few tokens for one of its sharers. The others may have to wait for longer or not at
// all, so that they ask for themselves. It is immutable.
type refusal struct {
	key, sharer, group string
	limit              Limit
	tokens             int       // wanted: fewer may be there
	share              bool      // as in ExceededError
	noted, until       time.Time // until is the time at which there are as many
}

func newRefusals() *refusals { return &refusals{seed: maphash.MakeSeed()} }

func (r *refusals) slot(key, sharer string) *atomic.Pointer[refusal] {
	hash := maphash.String(r.seed, key)
	if sharer != "" {
		hash ^= maphash.String(r.seed, sharer) * 31
	}
	return &r.slots[hash%refusalSlots]
}

// note remembers that a bucket has too few tokens for so long from now on.
func (r *refusals) note(w *want, share bool, wait time.Duration, now time.Time) {
	r.slot(w.Key, w.Sharer).Store(&refusal{w.Key, w.Sharer, w.Group, w.Limit, w.tokens, share, now, now.Add(wait)})
}

// known returns the refusal that is known to come, of the bucket that takes longest; nil if the server must be asked.
func (r *refusals) known(wants []want, now time.Time) *ExceededError {
	var longest *ExceededError
	for i := range wants {
		w := &wants[i]
		found := r.slot(w.Key, w.Sharer).Load()
		if found == nil || !found.holds(w, now) {
			continue
		}
		if wait := found.until.Sub(now); longest == nil || wait > longest.RetryAfter {
			longest = &ExceededError{Bucket: w.index, Share: found.share, RetryAfter: max(wait, minRetry)}
		}
	}
	return longest
}

// holds tells whether the refusal is one of what is wanted.
func (f *refusal) holds(w *want, now time.Time) bool {
	return now.Before(f.until) && now.Sub(f.noted) < refusalAge && w.tokens >= f.tokens && w.Limit == f.limit &&
		f.key == w.Key && f.sharer == w.Sharer && f.group == w.Group
}
