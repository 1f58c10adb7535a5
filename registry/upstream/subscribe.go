package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of subscriptions to resources.
const (
	maxWatches = 1000             // of one upstream at once, one tenant half of them
	liveLimit  = 10 * time.Second // until the server has confirmed one
	maxURI     = 8 << 10          // bytes of the URI in a notification
	lasted     = 10 * time.Second // after which the end of one is no failure
)

var (
	errWatches     = errors.New("too many resources are followed at once")
	errUnconfirmed = errors.New("no confirmation of the subscription in time")
)

// watches are the resources whose changes are followed. It is safe for concurrent use.
type watches struct {
	server  fault
	child   bool            // the server is a child
	control func() *control // returns the present connection, nil when there is none

	mu    sync.Mutex // guards the fields below and those of the watches
	byKey map[watchKey]*watch
	next  chan struct{} // closed when there is another connection
	ended bool

	work sync.WaitGroup // one for each watch; nothing is added once ended is set
}

// watchKey says what is followed for whom. Tenants share nothing.
type watchKey struct{ tenantID, uri string }

// watch is one resource that is followed for one tenant, for all of it who asked.
type watch struct {
	key    watchKey
	cancel context.CancelFunc
	hurry  chan struct{}   // somebody waits for the next attempt
	after  <-chan struct{} // closed when the watch before it of the same resource has ended; nil: there was none
	done   chan struct{}   // closed when this one has ended

	ending    bool // nobody may join
	listeners map[*listener]struct{}
	waiting   []chan<- error // for the end of the attempt
	live      bool           // now
	confirmed bool           // at least once
}

type listener struct {
	updated func(uri string)
	gone    <-chan struct{} // closed when the listener no longer wants to know
}

// subscribe tells of changes of a resource until ctx ends. It returns when the server has confirmed that it will tell,
// or with why it will not. From then on the subscription outlives the connection: it is opened again in the background,
// and what may have been missed is told as a change.
func (t *watches) subscribe(ctx context.Context, tenantID, uri string, updated func(uri string)) error {
	if c := t.control(); c != nil && c.version == mcp.LatestModern && t.child {
		tenantID = "" // there is one session for all, in which some servers know each resource but once
	}
	l := &listener{updated: updated, gone: ctx.Done()}
	w, outcome, err := t.join(ctx, watchKey{tenantID, uri}, l)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { t.leave(w, l) })
	select {
	case err = <-outcome:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && stop() {
		t.leave(w, l)
	}
	return err
}

// join adds a listener to what is followed. outcome gets nil as soon as the subscription is live, or why it is not.
func (t *watches) join(ctx context.Context, key watchKey, l *listener) (w *watch, outcome <-chan error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w = t.byKey[key]
	switch {
	case t.ended:
		return nil, nil, t.server.unavailable(false, wire.ErrGone)
	case w == nil && !t.roomLocked(key.tenantID):
		return nil, nil, t.server.unavailable(false, errWatches)
	case w == nil || w.ending:
		// It is for all who ask later too, so it ends with the last of them and not with the first.
		lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		next := &watch{
			key: key, cancel: cancel, hurry: make(chan struct{}, 1), done: make(chan struct{}), listeners: map[*listener]struct{}{},
		}
		if w != nil {
			next.after = w.done
		}
		if w = next; t.byKey == nil {
			t.byKey = map[watchKey]*watch{}
		}
		t.byKey[key] = w
		t.work.Go(func() { t.keep(lasting, w) })
	}
	w.listeners[l] = struct{}{}
	done := make(chan error, 1)
	if w.live {
		done <- nil
	} else {
		w.waiting = append(w.waiting, done)
		signal(w.hurry)
	}
	return w, done, nil
}

// roomLocked tells whether a tenant may follow one more resource.
func (t *watches) roomLocked(tenantID string) bool {
	of := 0
	for key := range t.byKey {
		if key.tenantID == tenantID {
			of++
		}
	}
	return len(t.byKey) < maxWatches && (tenantID == "" || of < maxWatches/2)
}

// leave takes a listener out. The last one ends the watch.
func (t *watches) leave(w *watch, l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(w.listeners, l)
	if len(w.listeners) == 0 {
		w.ending = true
		w.cancel()
	}
}

// end records that a watch has ended.
func (t *watches) end(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.cancel()
	close(w.done)
	if t.byKey[w.key] == w {
		delete(t.byKey, w.key)
	}
}

// close ends all watches and waits for them. None begins afterwards.
func (t *watches) close() {
	t.mu.Lock()
	t.ended = true
	for _, w := range t.byKey {
		w.cancel()
	}
	t.mu.Unlock()
	t.work.Wait()
}

// keep holds the subscription open until ctx ends. One that was never confirmed is not tried again.
func (t *watches) keep(ctx context.Context, w *watch) {
	defer t.end(w)
	if w.after != nil {
		<-w.after // which is being ended; a server that hears of both in the wrong order would end this one
	}
	for failures := 0; ; failures++ {
		arrival, began := t.arrival(), time.Now()
		err := t.attempt(ctx, w)
		if !t.lost(ctx, w, err) {
			return
		}
		if time.Since(began) >= lasted {
			failures = 0
		}
		if !pause(ctx, pace.Backoff(failures), arrival, w.hurry) {
			return
		}
	}
}

// pause waits for some time, or until one of the signals comes. It returns false when ctx ended.
func pause(ctx context.Context, d time.Duration, arrival, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-arrival:
	case <-hurry:
	case <-ctx.Done():
		return false
	}
	return true
}

// attempt subscribes once and stays until the subscription ends, for which the error is the reason.
func (t *watches) attempt(ctx context.Context, w *watch) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(liveLimit, cancel)
	defer timer.Stop()
	err := t.server.unavailable(false, wire.ErrGone)
	if c := t.control(); c != nil {
		err = c.peer.watchResource(limited, w.key.tenantID, w.key.uri, func() {
			if timer.Stop() {
				t.confirm(w)
			}
		}, func(uri string) { t.tell(w, uri) })
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

// confirm records that the subscription is live. What changed while it was not is told as one change.
func (t *watches) confirm(w *watch) {
	t.mu.Lock()
	again := w.confirmed
	w.live, w.confirmed = true, true
	w.resolveLocked(nil)
	t.mu.Unlock()
	if again {
		t.tell(w, w.key.uri)
	}
}

// lost records that the subscription ended, and why. It returns false when that is for good.
func (t *watches) lost(ctx context.Context, w *watch, err error) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.live = false
	w.resolveLocked(err)
	w.ending = !w.confirmed || ctx.Err() != nil
	return !w.ending
}

// resolveLocked tells all who wait how the attempt went. The mutex of watches guards them.
func (w *watch) resolveLocked(err error) {
	for _, waiting := range w.waiting {
		waiting <- err // has room: each is told once
	}
	w.waiting = nil
}

// tell tells all listeners that a resource changed, which may be a part of the one that is followed.
func (t *watches) tell(w *watch, uri string) {
	if uri == "" || len(uri) > maxURI {
		return
	}
	t.mu.Lock()
	listeners := make([]*listener, 0, len(w.listeners))
	for l := range w.listeners {
		listeners = append(listeners, l)
	}
	t.mu.Unlock()
	for _, l := range listeners {
		select {
		case <-l.gone:
		default:
			l.updated(uri)
		}
	}
}

// arrived tells that there is another connection.
func (t *watches) arrived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.next)
	t.next = make(chan struct{})
}

// arrival returns a channel that is closed when the next connection is there.
func (t *watches) arrival() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}
