package ratelimit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	fillers    = 8           // leases that are filled at the same time
	queuedMost = 1024        // leases that wait for that
	sweepEvery = time.Minute // leases that nobody used for so long are forgotten
	giveTime   = time.Second // in which leases are given back
)

// errSeveral is of a call with several buckets, which only a Redis takes from together.
var errSeveral = errors.New("a lease is of one bucket")

// Leases is a Limiter that takes the tokens of a bucket ahead, so that hardly any call waits for a round trip. It is for
// buckets of which each call takes from one alone, such as that of the requests of a tenant. It is safe for concurrent
// use.
//
//	Take ──▶ has the sharer its share? ──▶ a token of the lease ──▶ few are left: Run fills it
//	                                                  │ none is left
//	                                                  ▼
//	                                       a round trip, for which others wait, too
//
// A lease is tokens that the bucket no longer has. The bucket remembers who has how many, and holds no more than what is
// missing to Burst then: so all replicas together allow never more than Burst at once, and Rate in the long run. What a
// replica does not use within leaseLife is lost; one that ends gives it back. A lease is as large as what was used lately,
// and the leases of all replicas together are at most an eighth of Burst. So for a tenant with a Burst below 8 × Replicas
// none is taken ahead, and each request is a trip. Nothing is taken ahead of the reserve for the quiet; see part.go.
//
// What a sharer owes is counted by each replica for itself, and what the bucket lacks is known as of the last trip. At each
// replica a sharer counts as quiet that owes 1/Replicas of what it may owe to a bucket of Memory, or two tokens: so the
// reserve is enough for as many who are quiet as there, or for Burst/(8 × Replicas) if those are fewer. One who is alone
// and spreads its requests over replicas may take somewhat more than half of Burst at once, but nothing of the reserve.
//
// While the server does not answer, the rest of a lease is used, and then each replica's share; see Redis.
type Leases struct {
	shared  *Redis
	replica string
	low     chan *lease // to be filled by Run

	mu     sync.Mutex // guards leases
	leases map[string]*lease
}

var _ Limiter = (*Leases)(nil)

// NewLeases returns a limiter of buckets on the server of shared. replica is a name that no other replica has. Buckets of
// shared itself are others, even with the same keys. Without Run, tokens are taken only when one is needed.
func NewLeases(shared *Redis, replica string) *Leases {
	return &Leases{shared: shared, replica: replica, low: make(chan *lease, queuedMost), leases: make(map[string]*lease)}
}

// Run fills leases in the background until ctx ends, and then gives back what is left of them, if the server can be reached:
// the store must serve until Run has returned.
func (l *Leases) Run(ctx context.Context) error {
	defer l.giveBack(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	for range fillers {
		group.Go(func() error {
			for {
				select {
				case lease := <-l.low:
					l.fillLow(ctx, lease)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	group.Go(func() error { return l.sweep(ctx) })
	return group.Wait()
}

// Take implements Limiter for a single bucket.
func (l *Leases) Take(ctx context.Context, buckets ...Bucket) error {
	if len(buckets) != 1 {
		return errSeveral
	}
	if never := impossible(buckets); never != nil {
		return never
	}
	w := want{&buckets[0], 0, buckets[0].tokens()}
	lease := l.of(&w)
	for ctx.Err() == nil {
		now := l.shared.now()
		lease.mu.Lock()
		taken, refused := lease.take(&w, l.shared, now)
		switch {
		case taken:
			l.tellLow(lease, now)
			lease.mu.Unlock()
			return nil
		case refused != nil:
			lease.mu.Unlock()
			return refused
		case lease.trip != nil: // of somebody else
			lease.await(ctx, w.tokens)
			lease.mu.Unlock()
		default:
			lease.trip = make(chan struct{})
			lease.mu.Unlock()
			return l.takeNow(ctx, lease, &w)
		}
	}
	return context.Cause(ctx)
}

// takeNow makes the trip of a lease for what is wanted now. A quiet sharer gets it out of the reserve, too, at once. For
// any other the trip fills the lease, as for those who wait: only then it is known for sure what the bucket lacks, and
// whether the sharer may take of it.
func (l *Leases) takeNow(ctx context.Context, lease *lease, w *want) error {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	now := l.shared.now()
	if !lease.isQuiet(w, now) {
		lease.awaited += w.tokens
		_, err := l.fillLocked(ctx, lease, &want{Bucket: w.Bucket})
		lease.awaited -= w.tokens
		if err != nil {
			return l.shared.locally(ctx, err, []Bucket{*w.Bucket})
		}
		now = l.shared.now()
		if taken, refused := lease.take(w, l.shared, now); taken {
			return nil
		} else if refused != nil {
			return refused
		}
		return lease.noteEmpty(w, l.shared, now)
	}
	got, err := l.fillLocked(ctx, lease, w)
	now = l.shared.now()
	switch {
	case err != nil:
		return l.shared.locally(ctx, err, []Bucket{*w.Bucket})
	case got < w.tokens:
		return lease.noteEmpty(w, l.shared, now)
	}
	lease.owe(w, now)
	return nil
}

// of returns the lease of a bucket, and makes an empty one if there is none.
func (l *Leases) of(w *want) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.leases[w.Key]
	if found == nil {
		found = &lease{replicas: l.shared.config.Replicas, parts: make(map[string]*part)}
		l.leases[w.Key] = found
	}
	return found
}

// tellLow has the lease filled if few tokens are left. Its lock is held.
func (l *Leases) tellLow(lease *lease, now time.Time) {
	if lease.queued || lease.trip != nil || !lease.isLow(now) || l.shared.config.Store.Up() != nil {
		return
	}
	select {
	case l.low <- lease:
		lease.queued = true
	default: // the next Take that finds none makes a trip
	}
}

// fillLow fills a lease in the background.
func (l *Leases) fillLow(ctx context.Context, lease *lease) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.queued = false
	if lease.trip != nil {
		return
	}
	lease.trip = make(chan struct{})
	_, _ = l.fillLocked(ctx, lease, &want{Bucket: lease.bucket()}) // whoever needs a token next finds out what is wrong
}

// fillLocked makes a round trip for what is needed now, w.tokens, and for what may be needed soon, which it puts into the
// lease. It returns how many it has got. The caller holds the lock, which is not held during the trip, and has set
// lease.trip, which is closed and unset afterwards.
func (l *Leases) fillLocked(ctx context.Context, lease *lease, w *want) (int, error) {
	now := l.shared.now() // before the trip, so that the server lets the lease live longer than the replica does
	held, ahead := lease.held(now), lease.ahead(now)
	lease.mu.Unlock()
	got, left, err := l.ask(ctx, w, ahead, held, 0)
	lease.mu.Lock()
	close(lease.trip)
	lease.trip = nil
	if err != nil {
		return 0, err
	}
	l.shared.answered(ctx)
	if lease.limit == w.Limit {
		lease.add(max(got-w.tokens, 0), left, now)
	}
	return got, nil
}

// ask makes the round trip for w.tokens and for those to have ahead, besides those that are held already. back is how many
// were held until now and go back into the bucket.
func (l *Leases) ask(ctx context.Context, w *want, ahead, held, back int) (got int, left float64, err error) {
	reply, err := l.shared.lease(ctx, []string{leaseKey(w)}, []string{
		number(w.Limit.Rate), strconv.Itoa(w.Limit.Burst), strconv.Itoa(w.tokens), strconv.Itoa(ahead),
		strconv.Itoa(w.Limit.Burst / reservePart), l.replica, strconv.Itoa(held), strconv.Itoa(int(leaseLife / time.Second)),
		strconv.Itoa(back),
	})
	if err != nil {
		return 0, 0, err
	}
	return leased(reply, w.tokens+ahead)
}

// Ahead returns how many tokens are taken ahead of their use now, of all buckets together, for display. It waits for no
// trip.
func (l *Leases) Ahead() int {
	l.mu.Lock()
	leases := slices.Collect(maps.Values(l.leases))
	l.mu.Unlock()
	sum, now := 0, l.shared.now()
	for _, lease := range leases {
		lease.mu.Lock()
		sum += lease.held(now)
		lease.mu.Unlock()
	}
	return sum
}

// sweep forgets leases that are not used any more, until ctx ends.
func (l *Leases) sweep(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.forget(l.shared.now())
		}
	}
}

func (l *Leases) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, lease := range l.leases {
		if lease.isIdle(now) {
			delete(l.leases, key)
		}
	}
}
