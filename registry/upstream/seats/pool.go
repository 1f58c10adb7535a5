// Package seats shares a bounded number of sessions out among callers. It decides who may
// use the same session, who waits while all slots are taken, and whose session is closed
// to make room. It knows no protocol: a session is whatever can be opened, can prove that
// it lives, and can be closed.
//
// A seat is one slot in a Pool, with the session in it. Its life:
//
//	             Open fails
//	Opening ───────────────────────────────────────────────▶ Gone
//	   │ Open succeeds                                         ▲
//	   ▼      a call on it failed                              │ closed
//	 Open ◀─────────────────────▶ Examined                     │
//	   │       it shows life         │                         │
//	   ├─────────────────────────────┤                         │
//	   │ idle, and its time is over or another takes its slot │
//	   ├─────────────────────────────────────────────────▶ Closing
//	   │ never idle, others wait, and it had its turn          ▲
//	   ├────────────────▶ Retiring ─── its last call ends ─────┤
//	   │ shows no life, or says so itself                      │
//	   └────────────────▶ Dead ─────── its last call ends ─────┘
//
// A seat that is Opening can be given up like an open one; it is then closed as soon as
// it is open. Only seats that are Opening, Open or Examined take calls. All seats but
// those that are Gone have a slot.
//
// Who gets a slot: a call joins a seat of its key if one takes it. Otherwise it opens a
// new seat if there is room, and if there is none, it queues. There is no room when all
// slots are taken, and also in two cases where free slots are kept for others: one user
// has at most half of all slots, and the users of one tenant together leave a quarter
// free. Only seats that are for one user count there. A user or tenant at that limit gets
// another slot only when one of their own seats is closed. For each call in the queue
// one seat is closed, in the order in which the calls came, and the first in the queue
// gets the next slot, whatever its key. Otherwise a caller with many calls could keep
// all others waiting.
//
// In a pool that lends (Lend), a seat does not belong to one owner for good: a call that
// wants a seat with the same traits gets any such seat that runs no call, and leaves it
// for the next one in the same way. One user stands behind all calls there, so no slots
// are kept for others.
package seats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// Limits of seats.
const (
	idleGrace  = time.Second      // how long a seat is idle before it is closed for a key that has seats
	aliveLimit = 10 * time.Second // for one proof of life
)

// Errors of Take. Otherwise its error is that of Open, or the one that the context ended
// with.
var (
	ErrNone  = errors.New("there are no seats at all")
	ErrLate  = errors.New("no session in time") // until the context's deadline passed
	ErrEnded = errors.New("the pool is closed")
)

// Why a session was not there in time. Both are ErrLate.
var (
	errBusy = fmt.Errorf("%w: all are busy", ErrLate)
	errSlow = fmt.Errorf("%w: it is still being opened", ErrLate)
)

// Config of a Pool.
type Config[S Session] struct {
	Max     int           // seats at the same time; below one there are none
	Opening time.Duration // how long Open may take
	// New makes the session of a seat for a key, without opening it. lost may be called
	// at any time, from any goroutine, to say that the session is dead. New is called
	// with the pool's lock held: it must not block, and must not call lost itself.
	New func(k Key, lost func()) S
	// Alone tells whether, for now, a patient call gets a seat to itself although its key
	// does not say so. It is called with the pool's lock held and must not block.
	Alone func() bool
	// Lendable tells whether a session that runs no call may be lent to another owner. It
	// is called only in a pool that lends, with the pool's lock held, and must not block.
	Lendable func(s S, to auth.Owner) bool
}

// Pool has the seats of one server. It is safe for concurrent use. Close must be called
// in the end.
type Pool[S Session] struct {
	cfg  Config[S]
	life context.Context    //nolint:containedctx // of all goroutines of the pool; none begins after its end
	end  context.CancelFunc // ends it; called with the lock held
	work sync.WaitGroup     // all goroutines of the pool; Close waits for them

	// guards the fields below and those of each seat; never held during I/O of a session
	mu    sync.Mutex
	seats []*Seat[S]   // those that have a slot, the oldest first
	queue []*waiter[S] // the calls and loans that wait for room, in the order in which they came
	// the seat that Lend added, which takes no slot; nil: the pool does not lend
	lent *Seat[S]
}

// waiter is one call or loan in the queue.
type waiter[S Session] struct {
	key    Key
	use    Use
	served chan struct{} // closed when seat is set, or when the pool is closed and seat stays nil
	seat   *Seat[S]
}

// New returns an empty pool. The contexts of its sessions have the values of ctx but do
// not end with it: Close ends them.
func New[S Session](ctx context.Context, cfg Config[S]) *Pool[S] {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Close calls end
	return &Pool[S]{cfg: cfg, life: life, end: end}
}

// Go runs f in a goroutine that may use seats: Close waits for it before it closes any.
// The context of f ends when the pool is closed or cancel is called. When the pool is
// closed already, ok is false and f does not run.
func (r *Pool[S]) Go(f func(ctx context.Context)) (cancel func(), ok bool) {
	ctx, cancel := context.WithCancel(r.life)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		cancel()
		return cancel, false
	}
	r.work.Go(func() {
		defer cancel()
		f(ctx)
	})
	return cancel, true
}

// Size returns how many slots are taken, seats that are being opened or closed included.
func (r *Pool[S]) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seats)
}

// Lend adds a seat with a session that is open already, and that somebody else examines
// and closes. The seat takes no slot. From then on the pool lends: its seats change
// their owners. Lend is called at most once, before the first Take.
func (r *Pool[S]) Lend(session S, k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lent = &Seat[S]{
		Session: session, key: k, opened: make(chan struct{}), state: Open, since: time.Now(),
		idle: time.Now(),
	}
	close(r.lent.opened)
}

// Waits are for how long a use waited for its seat.
type Waits struct {
	Queue   time.Duration // for room
	Opening time.Duration // until the session was open
}

// Take returns a seat for the key with its session open. When there is no room it waits
// in the queue, as long as ctx lets it. Release gives the seat back; after an error there
// is nothing to give back. waits are how long that took, also after an error.
func (r *Pool[S]) Take(ctx context.Context, k Key, u Use) (taken *Seat[S], waits Waits, err error) {
	taken, err = r.take(ctx, k, u, &waits)
	return taken, waits, err
}

func (r *Pool[S]) take(ctx context.Context, k Key, u Use, waits *Waits) (*Seat[S], error) {
	if r.cfg.Max < 1 {
		return nil, ErrNone
	}
	r.mu.Lock()
	if r.life.Err() != nil {
		r.mu.Unlock()
		return nil, ErrEnded
	}
	if s := r.admitLocked(k, u); s != nil {
		r.mu.Unlock()
		return r.ready(ctx, s, u, waits)
	}
	t := &waiter[S]{key: k, use: u, served: make(chan struct{})}
	r.queue = append(r.queue, t)
	r.serveLocked()
	r.mu.Unlock()
	return r.wait(ctx, t, waits)
}

// Rejoin adds a call to a seat that was taken before, without any wait, and even if the
// key says Alone. It returns false when the seat takes no more calls. Release ends that
// call, too.
func (r *Pool[S]) Rejoin(s *Seat[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil || !s.state.taking() {
		return false
	}
	s.addLocked(Call)
	return true
}

// Need keeps an idle seat from being swept or retired before a time. It is closed all the
// same when its slot is wanted and no better one is idle. An earlier time than one that
// was given before changes nothing.
func (r *Pool[S]) Need(s *Seat[S], until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.needed.Before(until) {
		s.needed = until
	}
}

// Release ends one use of a seat, the same as it was taken for. If the use was a call, it
// must have ended: after its last call a seat may serve somebody else.
func (r *Pool[S]) Release(s *Seat[S], u Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u == Loan {
		s.loans--
		s.idle = time.Now()
		r.serveLocked()
		return
	}
	r.examineSuspectedLocked(s)
	if s.calls--; s.calls > 0 {
		return
	}
	s.idle = time.Now()
	if s.state == Retiring || s.state == Dead {
		r.closeLocked(s)
	}
	r.serveLocked()
}

// Sweep closes the seats that have been idle for idleLimit. The owner of the pool calls
// it from time to time.
func (r *Pool[S]) Sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seats {
		if !time.Now().Before(s.needed) {
			s.needed = time.Time{}
		}
		if s.state.taking() && s.unusedLocked() {
			r.closeLocked(s)
		}
	}
}

// Close refuses everybody in the queue, ends all goroutines of the pool and then closes
// all seats. It waits for all of it. polite and ctx go to Session.Close. It is called
// once.
func (r *Pool[S]) Close(ctx context.Context, polite bool) {
	r.mu.Lock()
	r.end()
	for _, t := range r.queue {
		close(t.served)
	}
	r.queue = nil
	r.mu.Unlock()
	r.work.Wait()
	var open sync.WaitGroup
	// needs no lock: all goroutines have ended, and nothing changes it any more
	for _, s := range r.seats {
		open.Go(func() { s.Session.Close(ctx, polite) })
	}
	open.Wait()
}

// wait waits until the waiter is served or ctx ends. Nothing tells when idleGrace is over
// for some seat, so it looks again from time to time.
func (r *Pool[S]) wait(ctx context.Context, t *waiter[S], waits *Waits) (*Seat[S], error) {
	began := time.Now()
	again := time.NewTicker(idleGrace)
	defer again.Stop()
	for {
		select {
		case <-t.served:
			waits.Queue = time.Since(began)
			if t.seat == nil {
				return nil, ErrEnded
			}
			return r.ready(ctx, t.seat, t.use, waits)
		case <-again.C:
			r.check(t)
		case <-ctx.Done():
			waits.Queue = time.Since(began)
			if s := r.quit(t); s != nil {
				return r.ready(ctx, s, t.use, waits)
			}
			return nil, late(ctx, errBusy)
		}
	}
}

// ready waits until the session of a seat can be used. When that fails, it leaves the
// seat.
func (r *Pool[S]) ready(ctx context.Context, s *Seat[S], u Use, waits *Waits) (*Seat[S], error) {
	var err error
	select {
	case <-s.opened: // usually; to wait for ctx costs something
		err = s.err
	default:
		began := time.Now()
		select {
		case <-s.opened:
			err = s.err
		case <-ctx.Done():
			err = late(ctx, errSlow)
		}
		waits.Opening = time.Since(began)
	}
	if err != nil {
		r.Release(s, u)
		return nil, err
	}
	return s, nil
}

// late returns the error for a use whose context ended before it had a session: why after
// a deadline, otherwise the context's own, because a caller who has gone is owed no
// other.
func late(ctx context.Context, why error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return why
	}
	return ctx.Err()
}

// check serves the queue again, because seats may have been idle for long enough by now.
// Only the first in the queue does it, on behalf of all.
func (r *Pool[S]) check(t *waiter[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 && r.queue[0] == t {
		r.serveLocked()
	}
}

// quit takes a waiter out of the queue. If the waiter was served at the same moment, it
// returns the seat, which would otherwise stay taken for ever; nil: it was not served.
func (r *Pool[S]) quit(t *waiter[S]) *Seat[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(other *waiter[S]) bool { return other == t })
	return t.seat
}

// serveLocked goes through the queue in order. Who can be served gets a seat. For each
// other one, a seat is closed to make room, or retired when none is idle. Seats that are
// already Closing or Retiring count for the first ones, so that no more seats are closed
// than uses wait.
func (r *Pool[S]) serveLocked() {
	left := 0
	r.queue = slices.DeleteFunc(r.queue, func(t *waiter[S]) bool {
		if t.seat = r.admitLocked(t.key, t.use); t.seat != nil {
			close(t.served)
			return true
		}
		if left++; left > r.countLocked(Closing) && !r.closeIdleLocked(t.key) &&
			left > r.countLocked(Closing, Retiring) {
			r.retireLocked(t.key)
		}
		return false
	})
}

// countLocked returns how many seats are in one of these states.
func (r *Pool[S]) countLocked(states ...State) (n int) {
	for _, s := range r.seats {
		if slices.Contains(states, s.state) {
			n++
		}
	}
	return n
}

// admitLocked returns a seat for one more use: one that is there, or a new one if there
// is room; nil when there is neither. Take may call it before the queue is looked at and
// yet overtakes nobody, because every slot that became free was offered to the queue
// first.
func (r *Pool[S]) admitLocked(k Key, u Use) *Seat[S] {
	s := r.findLocked(k)
	if s == nil && r.rivalsLocked(k) == nil {
		s = r.beginLocked(k)
	}
	if s != nil {
		s.addLocked(u)
	}
	return s
}

func (s *Seat[S]) addLocked(u Use) {
	if u == Loan {
		s.loans++
		return
	}
	s.calls++
}

// findLocked returns a seat that takes another call of the key, nil when there is none.
func (r *Pool[S]) findLocked(k Key) *Seat[S] {
	if r.lent != nil {
		return r.borrowLocked(k)
	}
	alone := k.Alone || k.Patient && r.cfg.Alone()
	for _, s := range r.seats {
		if s.takesLocked(k) && (!alone || s.calls == 0) {
			return s
		}
	}
	return nil
}

// borrowLocked is findLocked in a pool that lends. It returns a seat on which calls of
// the same key run, or one that runs no call and may change to this owner; nil when there
// is neither. Of the idle ones it prefers the seat that Lend added, so that the others
// stay idle and are closed.
func (r *Pool[S]) borrowLocked(k Key) *Seat[S] {
	var free *Seat[S]
	for _, s := range append([]*Seat[S]{r.lent}, r.seats...) {
		switch {
		case !s.state.taking(), s.key != k && (s.key.Dedicated || k.Dedicated || s.key.Traits != k.Traits ||
			s.key.Alone != k.Alone):
		case s.key == k && s.calls > 0 && !k.Alone && !k.Solo:
			return s
		case free == nil && r.lendableLocked(s, k.Owner):
			free = s
		}
	}
	if free != nil {
		free.key = k
	}
	return free
}

// lendableLocked tells whether a session is open, runs no call, and may be lent to this
// owner.
func (r *Pool[S]) lendableLocked(s *Seat[S], to auth.Owner) bool {
	select {
	case <-s.opened:
		return s.err == nil && s.calls == 0 && r.cfg.Lendable(s.Session, to)
	default:
		return false
	}
}

// rivalsLocked tells whether there is room for another seat of the key: nil means that
// there is. Otherwise it returns which seats would have to make room: the user's own when
// the user has half of all slots, the tenant's when its users have three quarters, any
// seat when all slots are taken. In a pool that lends, the last case alone counts.
func (r *Pool[S]) rivalsLocked(k Key) func(*Seat[S]) bool {
	ofTenant := func(s *Seat[S]) bool { return s.key.ofOne() && s.key.TenantID == k.TenantID }
	ofUser := func(s *Seat[S]) bool { return s.key.ofOne() && s.key.User == k.User }
	users, tenants := 0, 0
	for _, s := range r.seats {
		if ofTenant(s) {
			tenants++
		}
		if ofUser(s) {
			users++
		}
	}
	shares := k.ofOne() && r.lent == nil
	switch {
	case shares && users >= (r.cfg.Max+1)/2:
		return ofUser
	case shares && tenants >= r.cfg.Max-(r.cfg.Max+1)/4:
		return ofTenant
	case len(r.seats) >= r.cfg.Max:
		return func(*Seat[S]) bool { return true }
	}
	return nil
}

// closeIdleLocked closes one idle rival, chosen by beforeLocked. It returns false when no
// rival may be closed. A key that has seats already, all of them busy, does not get a
// seat closed that was used within idleGrace: otherwise seats would change hands faster
// than they are of use. It is called only when there is no room for the key.
func (r *Pool[S]) closeIdleLocked(k Key) bool {
	var grace time.Duration
	if r.hasLocked(k) {
		grace = idleGrace
	}
	first := r.firstLocked(k, func(s *Seat[S]) bool { return s.calls == 0 && time.Since(s.idle) >= grace },
		(*Seat[S]).beforeLocked)
	if first == nil {
		return false
	}
	r.closeLocked(first)
	return true
}

// retireLocked retires the rival that was opened first, so that a key without any seat
// gets its turn even though no rival is ever idle. It is called only when there is no
// room for the key.
func (r *Pool[S]) retireLocked(k Key) {
	if r.hasLocked(k) {
		return
	}
	opened := func(s, other *Seat[S]) bool { return s.since.Before(other.since) }
	if first := r.firstLocked(k, (*Seat[S]).hadTurnLocked, opened); first != nil {
		first.state = Retiring
	}
}

// hasLocked tells whether a seat takes calls of the key.
func (r *Pool[S]) hasLocked(k Key) bool {
	return r.lent != nil && r.lent.key == k ||
		slices.ContainsFunc(r.seats, func(s *Seat[S]) bool { return s.takesLocked(k) })
}

// firstLocked returns, of the key's rivals that take calls and meet the condition, the
// one before all others; nil when there is none. It is called only when there is no room
// for the key.
func (r *Pool[S]) firstLocked(k Key, meets func(*Seat[S]) bool,
	before func(s, other *Seat[S]) bool,
) (first *Seat[S]) {
	rivals := r.rivalsLocked(k)
	for _, s := range r.seats {
		if s.state.taking() && meets(s) && rivals(s) && (first == nil || before(s, first)) {
			first = s
		}
	}
	return first
}

// beginLocked opens a new seat in a goroutine of the pool. The opening does not end with
// the caller that wanted the seat, because others may wait for it by then.
func (r *Pool[S]) beginLocked(k Key) *Seat[S] {
	s := &Seat[S]{key: k, opened: make(chan struct{}), idle: time.Now()}
	s.Session = r.cfg.New(k, func() { r.discard(s) })
	s.suspected = s.Session.Suspected()
	r.seats = append(r.seats, s)
	r.work.Go(func() { r.open(s) })
	return s
}

// open opens the session of a seat. When that fails, the slot is free again.
func (r *Pool[S]) open(s *Seat[S]) {
	defer close(s.opened)
	ctx, cancel := context.WithTimeout(r.life, r.cfg.Opening)
	defer cancel()
	s.err = s.Session.Open(ctx, func() { r.opened(s) })
	if s.err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state == Closing {
		return // closeLocked's goroutine waits for opened and frees the slot
	}
	r.freeLocked(s)
}

// freeLocked gives the slot of a seat to the queue.
func (r *Pool[S]) freeLocked(s *Seat[S]) {
	s.state = Gone
	r.seats = slices.DeleteFunc(r.seats, func(other *Seat[S]) bool { return other == s })
	r.serveLocked()
}

// opened is called by Session.Open when there is a session. The seat may be Closing by
// then, and stays so.
func (r *Pool[S]) opened(s *Seat[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.since = time.Now()
	if s.state == Opening {
		s.state = Open
	}
}

// examineSuspectedLocked has a seat examined if a call on it failed in such a way that
// its session may be dead. Other calls on it go on meanwhile.
func (r *Pool[S]) examineSuspectedLocked(s *Seat[S]) {
	if s.state != Open || r.life.Err() != nil {
		return
	}
	select {
	case <-s.suspected:
		s.state = Examined
		r.work.Go(func() { r.examine(s) })
	default:
	}
}

// examine asks the session of a seat for a proof of life, and discards the seat when it
// gives none.
func (r *Pool[S]) examine(s *Seat[S]) {
	ctx, cancel := context.WithTimeout(r.life, aliveLimit)
	defer cancel()
	if err := s.Session.Alive(ctx); err != nil {
		r.discard(s)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state == Examined {
		s.state = Open
	}
}

// discard takes a seat out of use whose session is dead. The seat is closed when its last
// call has ended. It may be called again for the same seat.
func (r *Pool[S]) discard(s *Seat[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state.taking() {
		s.state = Dead
	}
	if s.state == Dead && s.calls == 0 {
		r.closeLocked(s)
	}
}

// closeLocked closes a seat that runs no call, in a goroutine of the pool; when that is
// done, its slot goes to the queue. Loans on the seat learn of it through their session,
// which ends. It does nothing when the seat is being closed already, or when the pool is,
// because Close then closes all seats.
func (r *Pool[S]) closeLocked(s *Seat[S]) {
	if s.state == Closing || s.state == Gone || r.life.Err() != nil {
		return
	}
	s.state = Closing
	r.work.Go(func() {
		if <-s.opened; s.err == nil {
			s.Session.Close(context.Background(), true)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.freeLocked(s)
	})
}
