// Package primarytest keeps the entries of sessions for replicas that are in one process,
// for tests.
package primarytest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// ErrDown is the error of a Store that is down.
var ErrDown = errors.New("the store is down")

// Store is a primary.Store in memory. The zero Store is empty. It is safe for concurrent
// use.
type Store struct {
	mu      sync.Mutex // guards the fields below
	records map[primary.Key]primary.Entry
	trip    func() // called for each round trip; nil: nothing is
	losses  []func()

	down    atomic.Bool
	muted   atomic.Bool // what End has done is not heard of
	settles atomic.Bool // what is not there may be written again
}

var _ primary.Store = (*Store)(nil)

// SetDown lets the store fail, or work again.
func (s *Store) SetDown(down bool) { s.down.Store(down) }

// Mute lets End remove entries and say that the store is down, or work again.
func (s *Store) Mute(muted bool) { s.muted.Store(muted) }

// OnTrip sets what is called for each round trip.
func (s *Store) OnTrip(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trip = f
}

// Lose forgets all entries. Until Settle, no entry counts as ended.
func (s *Store) Lose() {
	s.mu.Lock()
	s.records = nil
	s.settles.Store(true)
	s.mu.Unlock()
	s.SuspectLoss()
}

// Put puts an entry back as it was, as a server does that fails over.
func (s *Store) Put(k primary.Key, r primary.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[k] = r
}

// SuspectLoss does what follows when entries may have been lost.
func (s *Store) SuspectLoss() {
	s.mu.Lock()
	losses := s.losses
	s.mu.Unlock()
	for _, f := range losses {
		f()
	}
}

// OnLoss implements primary.Store.
func (s *Store) OnLoss(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, f)
}

// Settle ends the time in which what was lost may be written again.
func (s *Store) Settle() { s.settles.Store(false) }

// Of returns the entry of the session of that name, whichever tenant it is of.
func (s *Store) Of(name string) (primary.Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.records {
		if k.Name == name {
			return r, true
		}
	}
	return primary.Entry{}, false
}

// Count returns how many entries there are.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// during does something in a round trip, which fails while the store is down.
func (s *Store) during(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trip != nil {
		s.trip()
	}
	if s.down.Load() {
		return ErrDown
	}
	if s.records == nil {
		s.records = make(map[primary.Key]primary.Entry)
	}
	return do()
}

// Open implements primary.Store.
func (s *Store) Open(_ context.Context, k primary.Key, r primary.Entry) error {
	return s.write(k, r, true)
}

// Keep implements primary.Store.
func (s *Store) Keep(_ context.Context, k primary.Key, r primary.Entry) error {
	return s.write(k, r, false)
}

func (s *Store) write(k primary.Key, r primary.Entry, begins bool) error {
	return s.during(func() error {
		had, found := s.records[k]
		switch {
		case !found && !begins:
			return primary.ErrNone
		case found && (had.Epoch > r.Epoch || had.Epoch == r.Epoch && had.Primary != r.Primary):
			return primary.ErrFenced
		}
		facts := make(map[string]string)
		maps.Copy(facts, had.Facts)
		maps.Copy(facts, r.Facts)
		maps.DeleteFunc(facts, func(_, text string) bool { return text == "" })
		s.records[k] = primary.Entry{Primary: r.Primary, Epoch: r.Epoch, Facts: facts}
		return nil
	})
}

// Read implements primary.Store.
func (s *Store) Read(_ context.Context, k primary.Key) (r primary.Entry, err error) {
	err = s.during(func() error {
		one, found := s.records[k]
		switch r = one; {
		case !found && s.settles.Load():
			return ErrDown
		case !found:
			return primary.ErrNone
		}
		return nil
	})
	return r, err
}

// Take implements primary.Store.
func (s *Store) Take(_ context.Context, k primary.Key, from primary.Entry,
	to replica.ID,
) (r primary.Entry, err error) {
	err = s.during(func() error {
		switch r = s.records[k]; {
		case r.Primary == "":
			return primary.ErrNone
		case r.Primary != from.Primary || r.Epoch != from.Epoch:
			return primary.ErrFenced
		}
		r.Primary, r.Epoch = to, r.Epoch+1
		s.records[k] = r
		return nil
	})
	return r, err
}

// End implements primary.Store.
func (s *Store) End(_ context.Context, k primary.Key, epoch uint64) error {
	return s.during(func() error {
		if s.records[k].Epoch > epoch {
			return primary.ErrFenced
		}
		delete(s.records, k)
		if s.muted.Load() {
			return ErrDown
		}
		return nil
	})
}

// Renew implements primary.Store.
func (s *Store) Renew(_ context.Context, keys []primary.Key) (missing []primary.Key, _ error) {
	err := s.during(func() error {
		missing = slices.DeleteFunc(slices.Clone(keys), func(k primary.Key) bool {
			_, found := s.records[k]
			return found
		})
		return nil
	})
	return missing, err
}
