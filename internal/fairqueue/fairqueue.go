// Package fairqueue answers: whose turn is it to keep a processor busy? Work that takes
// long, such as to check a large value, needs one of a few slots, fewer than there are
// processors. So however much of it there is, a processor is left for work that is short,
// which needs no slot and never waits here. The package does not know what the work is.
//
// Those that wait are served by start-time fair queueing, a form of weighted fair
// queueing: each tenant has a virtual time up to which it has been served, and the next
// slot goes to the tenant whose time is least. Within a tenant the same decides among its
// users, and the work of one user is done in the order in which it came.
//
//	slots     [ acme/ann ] [ globex/bob ]
//	            ▲ the tenant that was served least
//	tenants   acme ──────────── globex ─────── initech
//	            ▲ its user served least
//	users     ann: ■ ■ ■  al: ■   bob: ■ ■       ida: ■
//
// What counts is for how long a slot was held, not how often, and not how much work is
// waiting: a tenant with a thousand pieces of work is served in turn with one that has a
// single piece. A tenant that was idle has no claim from that time. P. Goyal, H. M. Vin,
// H. Cheng: Start-time Fair Queueing, SIGCOMM 1996, https://doi.org/10.1145/248156.248171
//
// Whoever holds a slot must not wait for anything, least of all for another slot: with
// all slots held that way, nobody would ever go on.
package fairqueue

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Small is the least estimate of work that needs a slot. Below it, waiting would cost
// more than it protects.
const Small = 250 * time.Microsecond

const (
	maxWaiting = 256              // pieces of work that wait at once, of all tenants
	maxWait    = 10 * time.Second // of one piece of work
)

// Errors of Enter. Each names who could make room by itself, as those of package share
// do.
var (
	ErrUser   = errors.New("too much work of the user waits")
	ErrTenant = errors.New("too much work of the tenant waits")
	ErrTotal  = errors.New("too much work waits")
)

// Queue is a number of slots, and who waits for one. It is safe for concurrent use.
type Queue struct {
	slots   int
	waiters *share.Budget // of those that wait
	pace    *rate.Limiter // bytes of what is large

	mu      sync.Mutex // guards the fields below
	busy    int        // slots that are held
	tenants group
}

// New returns a queue with that many slots; zero or less means one for each processor but
// one, and one at least.
func New(slots int) *Queue {
	if slots <= 0 {
		slots = max(runtime.GOMAXPROCS(0)-1, 1)
	}
	return &Queue{slots: slots, waiters: share.New(maxWaiting), pace: newPace(slots)}
}

// turn is a piece of work that waits for a slot or holds one.
type turn struct {
	tenant, user *flow
	estimate     time.Duration
	waits        bool          // it found no free slot
	ready        chan struct{} // closed when the turn has a slot
	began        time.Time     // when it got the slot; zero: it waits
}

// Enter waits until the user has a slot for work that takes about as long as estimate.
// release gives the slot back, and must be called as soon as the work is done; further
// calls do nothing. For work that is small, Enter returns at once and takes nothing. The
// estimate only bridges the time until release is called, then the time that the work
// took counts.
//
// The error is that of ctx when it ends while there is no slot, ErrUser, ErrTenant or
// ErrTotal when too much waits already, and ErrTotal when the wait lasted too long. Then
// release is nil.
func (q *Queue) Enter(ctx context.Context, u share.User, estimate time.Duration) (release func(), err error) {
	if estimate < Small {
		return nothing, nil
	}
	t, err := q.turnFor(u, estimate, q.waiters)
	if err != nil {
		return nil, full(err)
	}
	if t.waits {
		defer q.waiters.Give(u, 1)
		limited, cancel := context.WithTimeoutCause(ctx, maxWait, ErrTotal)
		defer cancel()
		ctx = limited
	}
	return q.await(ctx, t)
}

// Finish is Enter for the rest of something that has begun, of which everything else
// would be in vain if it were refused now. It takes no slot among those that wait,
// because that something has a slot of its own elsewhere, and waits as long as ctx
// lasts. With a nil Queue it never waits.
func (q *Queue) Finish(ctx context.Context, u share.User, estimate time.Duration) (release func(),
	err error,
) {
	if q == nil || estimate < Small {
		return nothing, nil
	}
	t, _ := q.turnFor(u, estimate, nil) // nothing bounds how many wait
	return q.await(ctx, t)
}

// await waits until t has a slot. When ctx ends before, t leaves the queue.
func (q *Queue) await(ctx context.Context, t *turn) (release func(), err error) {
	release = sync.OnceFunc(func() { q.finish(t) })
	if !t.waits {
		return release, nil // even if ctx has ended: there is nothing to wait for
	}
	select {
	case <-t.ready:
		return release, nil
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
}

func nothing() {}

// turnFor gives a turn to the user: with a slot if one is free, otherwise in the queue.
// There it takes one of the slots, which the caller must give back; with nil there is no
// bound on them.
func (q *Queue) turnFor(u share.User, estimate time.Duration, slots *share.Budget) (*turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waits := q.busy == q.slots
	if waits && slots != nil {
		if err := slots.Take(u, 1); err != nil {
			return nil, err
		}
	}
	tenant := q.tenants.flow(share.User{TenantID: u.TenantID})
	user := tenant.inner.flow(u)
	tenant.waiting++
	user.waiting++
	t := &turn{tenant: tenant, user: user, estimate: estimate, waits: waits, ready: make(chan struct{})}
	user.queue = append(user.queue, t)
	if !waits {
		q.serveLocked()
	}
	return t, nil
}

func full(err error) error {
	switch {
	case errors.Is(err, share.ErrUser):
		return ErrUser
	case errors.Is(err, share.ErrTenant):
		return ErrTenant
	}
	return ErrTotal
}

// serveLocked gives a free slot to whose turn it is.
func (q *Queue) serveLocked() {
	tenant := q.tenants.next()
	user := tenant.inner.next()
	t := user.queue[0]
	user.queue = user.queue[1:]
	q.tenants.serve(tenant, t.estimate)
	tenant.inner.serve(user, t.estimate)
	q.busy++
	t.began = time.Now()
	close(t.ready)
}

// finish ends a turn, whether it has a slot or still waits for one.
func (q *Queue) finish(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.began.IsZero() {
		t.tenant.waiting--
		t.user.waiting--
		t.user.queue = slices.DeleteFunc(t.user.queue, func(other *turn) bool { return other == t })
	} else {
		q.busy--
		excess := time.Since(t.began) - t.estimate
		t.tenant.finish(excess)
		t.user.finish(excess)
	}
	if q.tenants.isWaiting() && q.busy < q.slots {
		q.serveLocked()
	}
	t.tenant.inner.forget()
	q.tenants.forget()
}

// Slots returns how many slots there are.
func (q *Queue) Slots() int { return q.slots }

// Busy returns how many slots are held.
func (q *Queue) Busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy
}

// Waiting returns how many pieces of work wait, by tenant. A tenant without any is not in
// it.
func (q *Queue) Waiting() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := make(map[string]int)
	for _, tenant := range q.tenants.flows {
		if tenant.waiting > 0 {
			waiting[tenant.key.TenantID] = tenant.waiting
		}
	}
	return waiting
}
