// Package seats shares a bounded number of sessions out among callers: who may use the same one, who waits while all places
// are taken, and whose session makes room. It knows no protocol: a session is whatever opens, shows life and closes.
//
// A seat is one place in a Room, with the session in it. Its life:
//
//	             Open fails
//	Opening ───────────────────────────────────────────────▶ Gone
//	   │ Open succeeds                                         ▲
//	   ▼      a call on it failed                              │ closed
//	 Open ◀─────────────────────▶ Examined                     │
//	   │       it shows life         │                         │
//	   ├─────────────────────────────┤                         │
//	   │ idle, and its time is over or another takes its place │
//	   ├─────────────────────────────────────────────────▶ Closing
//	   │ never idle, others wait, and it had its turn          ▲
//	   ├────────────────▶ Retiring ─── its last call ends ─────┤
//	   │ shows no life, or says so itself                      │
//	   └────────────────▶ Dead ─────── its last call ends ─────┘
//
// A seat that is Opening can be given up like an open one: it is then closed as soon as it is open. Only seats that are
// Opening, Open or Examined take calls. All but those that are Gone have a place.
//
// Who gets a place: a call joins a seat of its key. Where there is none it opens one, if there is room; otherwise it queues.
// One user has at most half of all places, and the users of one tenant leave a quarter to others, counted over the seats
// that are for one user alone; beyond that only seats of their own make room. Each in the queue has one place made free, in
// the order in which they came, so that who came first gets the next place, whatever its key.
//
// In a room with a session that is lent (Lend), a seat does not belong to one owner for good: whoever wants a seat for the
// same traits gets one that runs no call, and gives it on in the same way. One user is behind all calls there, so nothing is
// left to others.
package seats

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// Limits of seats.
const (
	idleGrace  = time.Second      // before a seat makes room for who has one already
	aliveLimit = 10 * time.Second // for a proof of life
)

// Why there is no seat. Otherwise the error is that of Open, or what the context ended with.
var (
	ErrNone  = errors.New("there are no seats at all")
	ErrBusy  = errors.New("all seats are busy") // until the deadline came
	ErrEnded = errors.New("the room is closed")
)

// Config of a Room.
type Config[S Session] struct {
	Max     int           // seats at once; below one there are none
	Opening time.Duration // that Open may take
	// New makes the session of a seat for a key. lost may be called at any time to say that the session is dead. New does
	// not wait, and does not call lost itself.
	New func(k Key, lost func()) S
	// Alone tells whether patient calls must not share a seat for now, though their key does not say so. It does not wait.
	Alone func() bool
	// Lendable tells whether a session that runs no call may be lent to another owner. It is asked where sessions are lent
	// alone, and does not wait.
	Lendable func(s S, to auth.Owner) bool
}

// Room has the seats of one server. It is safe for concurrent use.
type Room[S Session] struct {
	cfg   Config[S]
	owned func() (context.Context, context.CancelFunc) // the context of what belongs to the room
	end   context.CancelFunc                           // ends all these
	work  sync.WaitGroup                               // all goroutines of the room

	mu       sync.Mutex // guards the fields below and those of the seats; never held while a session does something
	ended    bool
	taking   map[Key][]*Seat[S]    // those that take calls, in the order in which they began
	all      map[*Seat[S]]struct{} // those that have a place
	closing  int                   // seats that make room
	retiring int                   // those that will when their last call has ended
	queue    []*ticket[S]          // those who wait for room, in the order in which they came
	lent     *Seat[S]              // has no place, because its session belongs to somebody else; nil: nothing is lent
}

// ticket is a place in the queue of those who want a seat.
type ticket[S Session] struct {
	key    Key
	use    Use
	served chan struct{} // closed when seat is set, or the room has ended
	seat   *Seat[S]
}

// New returns an empty room. It has the values of ctx and outlives it: Close ends it.
func New[S Session](ctx context.Context, cfg Config[S]) *Room[S] {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Close calls it
	return &Room[S]{
		cfg: cfg, end: end, taking: map[Key][]*Seat[S]{}, all: map[*Seat[S]]struct{}{},
		owned: func() (context.Context, context.CancelFunc) { return context.WithCancel(life) },
	}
}

// Go runs f, which uses seats, in a goroutine that Close waits for before it closes any. f ends with its context: when the
// room is closed, or cancel called. ok is false when the room is closed already, and f is not run.
func (r *Room[S]) Go(f func(ctx context.Context)) (cancel func(), ok bool) {
	ctx, cancel := r.owned()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		cancel()
		return cancel, false
	}
	r.work.Go(func() {
		defer cancel()
		f(ctx)
	})
	return cancel, true
}

// Size returns how many places are taken.
func (r *Room[S]) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// Lend adds a seat with a session that is open, and that somebody else closes and examines. It takes no place. It is called
// before the first Take, and lets seats change their owners.
func (r *Room[S]) Lend(session S, k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lent = &Seat[S]{Session: session, key: k, opened: make(chan struct{}), state: Open, since: time.Now(), idle: time.Now()}
	close(r.lent.opened)
	r.taking[k] = append(r.taking[k], r.lent)
}

// LentOut tells whether a call runs on the session that is lent.
func (r *Room[S]) LentOut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lent != nil && r.lent.calls > 0
}

// Take returns a seat for the key. Where there is no room it waits, first come, first served. Leave gives the seat back.
func (r *Room[S]) Take(ctx context.Context, k Key, u Use) (*Seat[S], error) {
	if r.cfg.Max < 1 {
		return nil, ErrNone
	}
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil, ErrEnded
	}
	if s := r.admitLocked(k, u); s != nil {
		r.mu.Unlock()
		return r.ready(ctx, s, u)
	}
	t := &ticket[S]{key: k, use: u, served: make(chan struct{})}
	r.queue = append(r.queue, t)
	r.serveLocked()
	r.mu.Unlock()
	return r.wait(ctx, t)
}

// Rejoin adds a call to a seat that was taken before. It returns false when the seat takes no more calls.
func (r *Room[S]) Rejoin(s *Seat[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !s.state.taking() {
		return false
	}
	s.addLocked(Call)
	return true
}

// Need keeps a seat that nobody uses until a time at least, unless the room needs its place more. A later time counts.
func (r *Room[S]) Need(s *Seat[S], until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.needed.Before(until) {
		s.needed = until
	}
}

// Leave ends one use of a seat.
func (r *Room[S]) Leave(s *Seat[S], u Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u == Loan {
		s.loans--
		s.idle = time.Now()
		r.serveLocked()
		return
	}
	r.doubtLocked(s)
	if s.calls--; s.calls > 0 {
		return
	}
	s.idle = time.Now()
	if s.state == Retiring || s.state == Dead {
		r.closeLocked(s)
	}
	r.serveLocked()
}

// Sweep closes the seats that nobody used for long. It is called from time to time.
func (r *Room[S]) Sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.all {
		if !time.Now().Before(s.needed) {
			s.needed = time.Time{}
		}
		if s.state.taking() && s.unusedLocked() {
			r.closeLocked(s)
		}
	}
}

// Close ends all that goes on by itself, then closes all seats. It waits for all of it.
func (r *Room[S]) Close(ctx context.Context, polite bool) {
	r.mu.Lock()
	r.ended = true
	for _, t := range r.queue {
		close(t.served)
	}
	r.queue = nil
	r.mu.Unlock()
	r.end()
	r.work.Wait()
	var open sync.WaitGroup
	for s := range r.all { // nobody changes them any more
		open.Go(func() { s.Session.Close(ctx, polite) })
	}
	open.Wait()
}

// wait waits for the ticket's turn, as long as ctx lets it.
func (r *Room[S]) wait(ctx context.Context, t *ticket[S]) (*Seat[S], error) {
	again := time.NewTicker(idleGrace)
	defer again.Stop()
	for {
		select {
		case <-t.served:
			if t.seat == nil {
				return nil, ErrEnded
			}
			return r.ready(ctx, t.seat, t.use)
		case <-again.C:
			r.look(t)
		case <-ctx.Done():
			if s := r.quit(t); s != nil {
				return r.ready(ctx, s, t.use)
			}
			return nil, late(ctx)
		}
	}
}

// ready waits until a seat can be used.
func (r *Room[S]) ready(ctx context.Context, s *Seat[S], u Use) (*Seat[S], error) {
	var err error
	select {
	case <-s.opened:
		err = s.err
	case <-ctx.Done():
		err = late(ctx)
	}
	if err != nil {
		r.Leave(s, u)
		return nil, err
	}
	return s, nil
}

// late returns the error of a call whose time ended before it had a seat. One whose caller has gone is owed none.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrBusy
	}
	return ctx.Err()
}

// look looks for seats that may make room by now. The first in the queue does so for all.
func (r *Room[S]) look(t *ticket[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 && r.queue[0] == t {
		r.serveLocked()
	}
}

// quit takes a ticket out of the queue. It returns the seat that it got just now, nil when it has none.
func (r *Room[S]) quit(t *ticket[S]) *Seat[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(other *ticket[S]) bool { return other == t })
	return t.seat
}

// serveLocked gives seats to those in the queue, or makes room for them: one seat for each, in their order.
func (r *Room[S]) serveLocked() {
	left := 0
	r.queue = slices.DeleteFunc(r.queue, func(t *ticket[S]) bool {
		if t.seat = r.admitLocked(t.key, t.use); t.seat != nil {
			close(t.served)
			return true
		}
		if left++; left > r.closing && !r.makeRoomLocked(t.key) && left > r.closing+r.retiring {
			r.retireLocked(t.key)
		}
		return false
	})
}

// admitLocked returns a seat for one more use: one that is there, or another where there is room. It is nil when there is
// neither. Whoever comes overtakes nobody by it: a place that is free has been offered to the queue.
func (r *Room[S]) admitLocked(k Key, u Use) *Seat[S] {
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

// findLocked returns a seat that may take another call, nil when there is none.
func (r *Room[S]) findLocked(k Key) *Seat[S] {
	if r.lent != nil {
		return r.borrowLocked(k)
	}
	alone := k.Alone || k.Patient && r.cfg.Alone()
	for _, s := range r.taking[k] {
		if !alone || s.calls == 0 {
			return s
		}
	}
	return nil
}

// borrowLocked returns a seat on which calls of the key run, or one that no other owner uses: best the one that is lent, so
// that the others become idle and end. It is nil when there is none.
func (r *Room[S]) borrowLocked(k Key) *Seat[S] {
	var free *Seat[S]
	for other, seats := range r.taking { // one user has a few
		if other != k && (other.Kept || k.Kept || other.Traits != k.Traits || other.Alone != k.Alone) {
			continue
		}
		for _, s := range seats {
			switch {
			case other == k && s.calls > 0 && !k.Alone && !k.Solo:
				return s
			case r.lendableLocked(s, k.Owner) && (free == nil || s == r.lent):
				free = s
			}
		}
	}
	if free != nil {
		r.unlistLocked(free)
		free.key = k
		r.taking[k] = append(r.taking[k], free)
	}
	return free
}

// lendableLocked tells whether no call of another owner runs on a session, nor may still run.
func (r *Room[S]) lendableLocked(s *Seat[S], to auth.Owner) bool {
	select {
	case <-s.opened:
		return s.err == nil && s.calls == 0 && r.cfg.Lendable(s.Session, to)
	default:
		return false
	}
}

// rivalsLocked returns which seats may make room for another one for the key, nil when there is room.
func (r *Room[S]) rivalsLocked(k Key) func(*Seat[S]) bool {
	ofTenant := func(s *Seat[S]) bool { return s.key.ofOne() && s.key.TenantID == k.TenantID }
	ofUser := func(s *Seat[S]) bool { return s.key.ofOne() && s.key.sameUser(k) }
	users, tenants := 0, 0
	for s := range r.all {
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
	case len(r.all) >= r.cfg.Max:
		return func(*Seat[S]) bool { return true }
	}
	return nil
}

// makeRoomLocked closes the rival that makes room before all others. A caller that has seats already, whose calls keep them
// busy, does not evict one used within idleGrace: the seats would change hands faster than they are of use. It returns false
// when no rival is idle. There is no room for the key.
func (r *Room[S]) makeRoomLocked(k Key) bool {
	var grace time.Duration
	if len(r.taking[k]) > 0 {
		grace = idleGrace
	}
	first := r.firstLocked(k, func(s *Seat[S]) bool { return s.calls == 0 && time.Since(s.idle) >= grace }, (*Seat[S]).beforeLocked)
	if first == nil {
		return false
	}
	r.closeLocked(first)
	return true
}

// retireLocked ends the turn of the rival that was opened first, for a key without seats, when none is ever idle. There is
// no room for the key.
func (r *Room[S]) retireLocked(k Key) {
	if len(r.taking[k]) > 0 {
		return
	}
	opened := func(s, other *Seat[S]) bool { return s.since.Before(other.since) }
	if first := r.firstLocked(k, (*Seat[S]).hadTurnLocked, opened); first != nil {
		r.stopLocked(first, Retiring)
		r.retiring++
	}
}

// firstLocked returns the first of the key's rivals that take calls and meet the condition, nil when there is none.
func (r *Room[S]) firstLocked(k Key, meets func(*Seat[S]) bool, before func(s, other *Seat[S]) bool) (first *Seat[S]) {
	rivals := r.rivalsLocked(k)
	for _, seats := range r.taking {
		for _, s := range seats {
			if s != r.lent && meets(s) && rivals(s) && (first == nil || before(s, first)) {
				first = s
			}
		}
	}
	return first
}

// beginLocked opens another seat, for all who come to wait for it and not for the first alone.
func (r *Room[S]) beginLocked(k Key) *Seat[S] {
	s := &Seat[S]{key: k, opened: make(chan struct{}), idle: time.Now()}
	s.Session = r.cfg.New(k, func() { r.discard(s) })
	s.doubts = s.Session.Doubts()
	r.all[s] = struct{}{}
	r.taking[k] = append(r.taking[k], s)
	r.work.Go(func() { r.open(s) })
	return s
}

// open opens a seat.
func (r *Room[S]) open(s *Seat[S]) {
	defer close(s.opened)
	ctx, cancel := r.owned()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, r.cfg.Opening)
	defer cancel()
	s.err = s.Session.Open(ctx, func() { r.opened(s) })
	if s.err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state == Closing {
		return // whoever closes it waits for this
	}
	r.stopLocked(s, Gone)
	delete(r.all, s)
	r.serveLocked()
}

// opened records that there is a session. The seat may have been given up before.
func (r *Room[S]) opened(s *Seat[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.since = time.Now()
	if s.state == Opening {
		s.state = Open
	}
}

// doubtLocked has a seat examined on which a call failed so that its session may be dead, also when other calls go on.
func (r *Room[S]) doubtLocked(s *Seat[S]) {
	if s.state != Open || r.ended {
		return
	}
	select {
	case <-s.doubts:
		s.state = Examined
		r.work.Go(func() { r.examine(s) })
	default:
	}
}

// examine discards a seat whose session shows no life.
func (r *Room[S]) examine(s *Seat[S]) {
	ctx, cancel := r.owned()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, aliveLimit)
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

// discard takes a seat out of use whose session is dead. It is closed when its last call has ended.
func (r *Room[S]) discard(s *Seat[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state.taking() {
		r.stopLocked(s, Dead)
	}
	if s.state == Dead && s.calls == 0 {
		r.closeLocked(s)
	}
}

// stopLocked makes a seat take no more calls.
func (r *Room[S]) stopLocked(s *Seat[S], to State) {
	if s.state == Retiring {
		r.retiring--
	}
	s.state = to
	r.unlistLocked(s)
}

func (r *Room[S]) unlistLocked(s *Seat[S]) {
	left := slices.DeleteFunc(r.taking[s.key], func(other *Seat[S]) bool { return other == s })
	if r.taking[s.key] = left; len(left) == 0 {
		delete(r.taking, s.key)
	}
}

// closeLocked closes a seat that runs no call. Loans on it notice, and find another seat.
func (r *Room[S]) closeLocked(s *Seat[S]) {
	if s.state == Closing || s.state == Gone || r.ended {
		return
	}
	r.stopLocked(s, Closing)
	r.closing++
	r.work.Go(func() {
		if <-s.opened; s.err == nil {
			s.Session.Close(context.Background(), true)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closing--
		s.state = Gone
		delete(r.all, s)
		r.serveLocked()
	})
}
