package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of subscriptions to resources.
const (
	maxWatches   = 1000             // resources of one upstream followed at once, shared out by package share
	confirmLimit = 10 * time.Second // for the server to confirm a subscription
	maxURI       = 8 << 10          // bytes of the URI that a notification may name
)

var errUnconfirmed = errors.New("no confirmation of the subscription in time")

// watches are the resources of one upstream whose changes are followed. They outlive
// connections: what is followed is subscribed to again on each new connection. It is safe
// for concurrent use.
type watches struct {
	server fault
	// what requests carry; nil: nothing
	credential *credential.Source
	control    func() *control // returns the present control connection, nil when there is none
	slots      *share.Budget   // one for each watch, held by one of the users for whom it is
	life       context.Context //nolint:containedctx // of all watches, which are nobody's in particular
	end        context.CancelFunc

	mu    sync.Mutex // guards the fields below and those of each watch
	byKey map[watchKey]*watch

	work sync.WaitGroup // the goroutine keep of each watch; nothing is added once life has ended
}

// watchKey says which resource is followed for which tenant. Tenants share nothing,
// except where the server has one session for all; then tenantID is "".
type watchKey struct{ tenantID, uri string }

// watch is one resource that is followed for one tenant, on behalf of all its listeners.
// Its goroutine (keep) holds the subscription open.
type watch struct {
	key    watchKey
	cancel context.CancelFunc
	// holds a signal: there is a new listener or a new connection, so the next attempt
	// should not wait for its backoff
	hurry chan struct{}
	after <-chan struct{} // done of the watch of the same key that is just ending; nil: there was none
	done  chan struct{}   // closed when this watch has ended

	holder       share.User // of the watch's slot
	ending       bool       // nobody may join any more: another watch takes its place
	listeners    map[*listener]struct{}
	waiting      []*listener // for the outcome of the present attempt
	acknowledged bool        // the server has confirmed the present subscription
	confirmed    bool        // the server has confirmed a subscription at least once
}

// listener is one client's wish to hear of changes.
type listener struct {
	user    share.User
	updated func(uri string)
	over    func()          // called if the watch ends although the listener wants to know; may last
	gone    <-chan struct{} // closed when the listener no longer wants to know
	// gets nil as soon as the subscription is live, or why it is not; has room for that
	outcome chan error
	live    bool // the outcome was nil
}

// subscribe tells of changes of a resource until ctx ends. It returns as soon as the
// server has confirmed the subscription, with nil, or with why there is none. From then
// on the subscription outlives the connection: it is opened again in the background, and
// since a change may have been missed meanwhile, one is told. It does not outlive the
// upstream, of whose end over tells.
func (t *watches) subscribe(ctx context.Context, user share.User, uri string,
	updated func(uri string), over func(),
) error {
	key := watchKey{user.TenantID, uri}
	if t.credential.Personal(user.TenantID) {
		// it is told who calls: a change that one user may know of is none of another's
		return errUnannounced
	}
	if c := t.control(); c != nil && c.isCommon() {
		key.tenantID = "" // some servers know a resource only once in a session
	}
	l := &listener{
		user: user, updated: updated, over: over, gone: ctx.Done(), outcome: make(chan error, 1),
	}
	w, err := t.join(key, l)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { t.leave(w, l) })
	select {
	case err = <-l.outcome:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && stop() {
		t.leave(w, l)
	}
	return err
}

// join adds a listener to the watch of a resource, and starts the watch if there is none.
func (t *watches) join(key watchKey, l *listener) (*watch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byKey[key]
	switch {
	case t.life.Err() != nil:
		return nil, t.server.unavailable(false, wire.ErrGone)
	case w == nil || w.ending:
		if err := t.slots.Take(l.user, 1); err != nil {
			return nil, &registry.SubscribedError{Server: string(t.server), Err: err}
		}
		// It is for all who ask later too, so it has nothing of the request of the first.
		lasting, cancel := context.WithCancel(t.life)
		next := &watch{
			key: key, cancel: cancel, hurry: make(chan struct{}, 1), done: make(chan struct{}),
			holder: l.user, listeners: map[*listener]struct{}{},
		}
		if w != nil {
			next.after = w.done
		}
		w, t.byKey[key] = next, next
		t.work.Go(func() { t.keep(lasting, w) })
	}
	w.listeners[l] = struct{}{}
	if w.acknowledged {
		l.resolveLocked(nil)
	} else {
		w.waiting = append(w.waiting, l)
		pace.Signal(w.hurry)
	}
	return w, nil
}

// leave removes a listener. The watch ends with its last listener. When its holder has
// left, one of the others holds its slot from then on, if one has room; else users could
// fill each other's shares by following the same and staying.
func (t *watches) leave(w *watch, l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(w.listeners, l)
	if len(w.listeners) == 0 {
		w.ending = true
		w.cancel()
		return
	}
	for other := range w.listeners {
		if other.user == w.holder {
			return
		}
	}
	for other := range w.listeners {
		if t.slots.Take(other.user, 1) == nil {
			t.slots.Give(w.holder, 1)
			w.holder = other.user
			return
		}
	}
}

// remove removes a watch whose goroutine is about to return, and lets the next one of the
// same resource begin. Listeners that rely on the watch are left when the upstream ends.
// From then on the watch has none: whoever leaves must not move a slot that is given
// back.
func (t *watches) remove(w *watch) {
	t.mu.Lock()
	w.cancel()
	close(w.done)
	t.slots.Give(w.holder, 1)
	if t.byKey[w.key] == w {
		delete(t.byKey, w.key)
	}
	// those who joined just as the upstream ended, behind the last attempt
	w.resolveLocked(t.server.unavailable(false, wire.ErrGone))
	var left []*listener
	for l := range w.listeners {
		if l.live { // any other has got an error
			left = append(left, l)
		}
	}
	clear(w.listeners)
	t.mu.Unlock()
	for _, l := range left {
		go l.over() // until the listener no longer wants to know, at the latest
	}
}

// close ends all watches and waits for their goroutines. No watch begins afterwards.
func (t *watches) close() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.work.Wait()
}

// keep holds the subscription of a watch open until ctx ends. A subscription that was
// never confirmed is not tried again: its listeners have got the error.
func (t *watches) keep(ctx context.Context, w *watch) {
	defer t.remove(w)
	if w.after != nil {
		// if the server saw the new subscription before the end of the old one, it would
		// end the new one
		<-w.after
	}
	for failures := 0; ; failures++ {
		began := time.Now()
		err := t.attempt(ctx, w)
		if !t.lost(ctx, w, err) {
			return
		}
		if time.Since(began) >= lasted {
			failures = 0
		}
		if !pace.WaitOr(ctx, pace.Backoff(failures), w.hurry) {
			return
		}
	}
}

// attempt subscribes once and stays until the subscription ends. Its error, never nil,
// says why.
func (t *watches) attempt(ctx context.Context, w *watch) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(confirmLimit, cancel)
	defer timer.Stop()
	err := t.server.unavailable(false, wire.ErrGone)
	if c := t.control(); c != nil {
		if (w.key.tenantID == "") != c.isCommon() { // its era is another one
			w.cancel() // its listeners subscribe again, by what the server is now
			return err
		}
		err = c.Saved(limited, func() error {
			return c.peer.watchResource(limited, w.key.tenantID, w.key.uri, func() {
				if timer.Stop() {
					t.confirm(w)
				}
			}, func(uri string) { t.tell(w, uri) })
		})
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return t.server.unavailable(true, errUnconfirmed)
	case err == nil:
		return t.server.unavailable(true, wire.ErrEnded)
	}
	return t.server.forCaller(ctx, err)
}

// confirm records that the subscription is live. After an interruption a change is told,
// because one may have been missed.
func (t *watches) confirm(w *watch) {
	t.mu.Lock()
	again := w.confirmed
	w.acknowledged, w.confirmed = true, true
	w.resolveLocked(nil)
	t.mu.Unlock()
	if again {
		t.tell(w, w.key.uri)
	}
}

// lost records that the subscription ended, and why. It returns whether to try again.
func (t *watches) lost(ctx context.Context, w *watch, err error) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.acknowledged = false
	w.resolveLocked(err)
	w.ending = !w.confirmed || ctx.Err() != nil
	return !w.ending
}

// resolveLocked tells the outcome of an attempt to all who wait for it. The mutex is that
// of watches.
func (w *watch) resolveLocked(err error) {
	for _, l := range w.waiting {
		l.resolveLocked(err)
	}
	w.waiting = nil
}

// resolveLocked tells a listener the outcome, once. The mutex is that of watches.
func (l *listener) resolveLocked(err error) {
	l.live = err == nil
	l.outcome <- err // never blocks: there is room for the one value
}

// tell tells all listeners of a watch that a resource changed: the one that is followed,
// or a part of it. It calls them without the lock.
func (t *watches) tell(w *watch, uri string) {
	if uri == "" || len(uri) > maxURI {
		return
	}
	t.mu.Lock()
	listeners := slices.Collect(maps.Keys(w.listeners))
	t.mu.Unlock()
	for _, l := range listeners {
		select {
		case <-l.gone:
		default:
			l.updated(uri)
		}
	}
}

// arrived has the watches try a new connection at once. One whose attempt goes on just
// now finds the signal when that has ended.
func (t *watches) arrived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.byKey {
		pace.Signal(w.hurry)
	}
}
