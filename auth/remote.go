package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	// minPause is the least time between two fetches that callers cause, and after one
	// that failed while a set serves.
	minPause     = 30 * time.Second
	retryPause   = 2 * time.Second  // after one that failed while none does
	fetchTimeout = 5 * time.Second  // of one fetch; less than MinRefresh
	waitTimeout  = 10 * time.Second // how long a request waits for a fetch

	// maxWaiting is how many requests may wait for one set at the same time. It needs no
	// good token to make a request wait: an unknown key id does. Without a bound a flood
	// of them would fill the gateway with requests that wait.
	maxWaiting = 32
)

var (
	errStopped = errors.New("key sets are fetched no more")
	errNoRun   = errors.New("the key set was not fetched in time")
	errCrowded = errors.New("too many wait for the key set")
)

// remote is a source whose key set is at an address. Its goroutine, run, makes all
// fetches, so there is never more than one at a time; requests ask for a fetch and wait
// for it. A fetch that is wanted or under way is a flight:
//
//	         request: join, if minPause has passed
//	         timer or operator: begin                    land, stop
//	no flight ───────────────────────▶ flight ─────────────────────▶ no flight
//	                                     │  run fetches              set or failure is new,
//	                                     └─ further requests join    all who wait go on
//
// A set that was asked for at some time serves until that time and stale. The next fetch
// begins so early that it has ended, well or not, before that time and refresh. So a key
// that the provider removes is gone here after refresh while the provider answers, and
// after stale while it does not. Where a fetch fails and no set serves, the one that was
// saved last does, by this process or another, until its own time and stale.
//
// Anybody can send a token with an unknown key id, so everything that such a token can
// cause is bounded: fetches by minPause, and those who wait by maxWaiting.
type remote struct {
	issuer  string
	url     string
	place   string                                    // as Issuer.Place
	get     func(ctx context.Context) ([]byte, error) // as Issuer.Fetch
	refresh time.Duration                             // as Issuer.KeysRefresh, never zero
	stale   time.Duration                             // as Issuer.KeysStale, never zero
	now     func() time.Time
	logger  *slog.Logger
	store   KeySetStore            // as Config.Store; may be nil
	change  func()                 // as Config.Changed
	wake    chan struct{}          // holds one request for a fetch, of callers or of the operator
	places  *semaphore.Weighted    // of those who wait for a flight, maxWaiting
	set     atomic.Pointer[keySet] // the last one that was fetched; nil: none yet

	// Only run uses these two.
	warned  time.Time // when the log was told last of a fetch that failed
	unsaved *unsaved  // what is to be saved; nil: nothing, or everything was

	mu      sync.Mutex // guards the fields below; not held while fetching
	flight  *flight    // that is wanted or under way; nil: none is
	tried   time.Time  // when the last flight began; zero: none has
	failure error      // of the last fetch; nil: it succeeded, or there was none
	// failing is when the first of the fetches that have failed in a row ended. It is
	// zero if the last one succeeded.
	failing time.Time
	// end fires when the set becomes too old to be used. It is nil if there is no set.
	end     *time.Timer
	stopped bool // run has ended, so nothing is fetched any more
}

var _ source = (*remote)(nil)

// flight is a fetch for all who wait for it.
type flight struct {
	done chan struct{} // closed when it has ended
	err  error         // of the fetch; read when done is closed
}

// newRemote returns a source of the key set at the address of cfg. It fetches nothing
// before run runs.
func newRemote(cfg *Issuer, all *Config) *remote {
	refresh, stale := keyTimes(cfg.KeysRefresh, cfg.KeysStale)
	return &remote{
		issuer:  cfg.Issuer,
		url:     cfg.JWKSURL,
		place:   cfg.Place,
		get:     cfg.Fetch,
		refresh: refresh,
		stale:   stale,
		now:     all.Now,
		logger:  all.Logger,
		store:   all.Store,
		change:  all.Changed,
		wake:    make(chan struct{}, 1),
		places:  semaphore.NewWeighted(maxWaiting),
	}
}

// current implements source.
func (r *remote) current(now time.Time) *keySet {
	set := r.set.Load()
	if set == nil || !now.Before(set.until) {
		return nil
	}
	return set
}

// isAwaited implements source.
func (r *remote) isAwaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set.Load() == nil && r.failing.IsZero() && !r.stopped
}

// fetchAgain implements source. It asks for a fetch, or joins the one under way, and
// waits for it. It returns at once if the last fetch is too recent, if it failed and an
// older set serves, or if too many wait already.
func (r *remote) fetchAgain(ctx context.Context) error {
	joined, err := r.join()
	if joined == nil {
		return err
	}
	defer r.places.Release(1)
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, errNoRun)
	defer cancel()
	if err := pace.Await(ctx, joined.done); err != nil {
		return err
	}
	return joined.err
}

// join returns the flight to wait for, for which the caller has taken one of the places.
// If it returns no flight, there is nothing to wait for, and no place was taken. The
// error then is that of the last fetch, nil if that succeeded, or says that too many
// wait.
func (r *remote) join() (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flight == nil {
		if !r.dueLocked() {
			return nil, r.failure
		}
		r.openLocked()
		pace.Signal(r.wake)
	}
	switch {
	case r.failure != nil && r.current(r.now()) != nil:
		// An issuer that could not be reached is asked in the background, and nobody
		// waits for it.
		return nil, r.failure
	case !r.places.TryAcquire(1):
		return nil, errCrowded
	}
	return r.flight, nil
}

// dueLocked tells whether a caller may cause a fetch now.
func (r *remote) dueLocked() bool {
	return !r.stopped && (r.tried.IsZero() || r.now().Sub(r.tried) >= minPause)
}

// openLocked begins a flight.
func (r *remote) openLocked() {
	r.flight = &flight{done: make(chan struct{})}
	r.tried = r.now()
}

// run is the goroutine of the source. It fetches the set at once, whenever a request asks
// for it, and every now and then, until ctx ends.
func (r *remote) run(ctx context.Context) {
	defer r.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var again <-chan time.Time // nil: nothing waits to be saved
		if r.unsaved != nil {
			again = time.After(retryPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			r.save(ctx)
			continue
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(r.renew(ctx))
	}
}

// renew fetches the set. It returns how long to wait before the next time.
func (r *remote) renew(ctx context.Context) time.Duration {
	begun, before := r.begin(), r.set.Load()
	asked := begun
	set, text, err := r.fetch(ctx)
	if err != nil && r.current(r.now()) == nil {
		set, asked = r.restore(ctx)
	}
	if r.land(set, err, asked) {
		r.change()
	}
	if set != nil {
		r.tellRefused(ctx, before, set)
	}
	if err != nil {
		r.tellFailure(ctx, err)
		if set = r.current(r.now()); set == nil {
			return retryPause - jitter(retryPause)
		}
		return min(min(minPause, r.refresh-fetchTimeout)+jitter(minPause), set.until.Sub(r.now()))
	}
	r.warned = time.Time{}
	if r.store != nil {
		r.unsaved = newUnsaved(text, begun)
		r.save(ctx)
	}
	return begun.Add(r.refresh - fetchTimeout - jitter(r.refresh)).Sub(r.now())
}

// begin begins a flight if none is wanted yet, and returns the time. All requests that
// came until now are served by this one fetch.
func (r *remote) begin() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.wake:
	default:
	}
	if r.flight == nil {
		r.openLocked()
	}
	return r.now()
}

// tellFailure logs that a fetch has failed, now and then while that lasts.
func (r *remote) tellFailure(ctx context.Context, err error) {
	if ctx.Err() != nil || r.now().Sub(r.warned) < minPause {
		return
	}
	r.warned = r.now()
	r.logger.WarnContext(ctx, "key set not fetched", "issuer", r.issuer, "error", err)
}

// tellRefused logs which keys of a set were refused, unless the set before had the same
// text: then it was told already.
func (r *remote) tellRefused(ctx context.Context, before, set *keySet) {
	if before != nil && before.digest == set.digest {
		return
	}
	for _, key := range set.refused {
		r.logger.WarnContext(ctx, "key refused", "issuer", r.issuer, "key", key)
	}
}

// land ends a flight: it publishes the set that was asked for at that time, which may
// have been saved before if there was an error, or keeps the old one if set is nil, and
// lets all who wait go on. Keys that are not in a new set are no longer used from then
// on. It tells whether other keys are in use than before, or none although they were
// awaited.
func (r *remote) land(set *keySet, err error, asked time.Time) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
	switch {
	case err == nil:
		r.failing = time.Time{}
	case r.failing.IsZero():
		r.failing = r.now()
		changed = r.set.Load() == nil // they are awaited no more
	}
	if set != nil {
		changed = r.publishLocked(set, asked)
	}
	r.closeLocked()
	return changed
}

// publishLocked replaces the set, and tells whether other keys are in use than before.
// The generation changes only if the text has, so that verified tokens are not forgotten
// at every fetch.
func (r *remote) publishLocked(set *keySet, asked time.Time) (changed bool) {
	set.fetched, set.until = asked, asked.Add(r.stale)
	set.generation = 1
	changed = r.current(r.now()) == nil
	if old := r.set.Load(); old != nil {
		set.generation = old.generation
		if old.digest != set.digest {
			set.generation++
			changed = true
		}
	}
	r.set.Store(set)
	if r.end != nil {
		r.end.Stop()
	}
	// It is not left to run, which may be waiting for the provider when the set is too
	// old.
	r.end = time.AfterFunc(set.until.Sub(r.now()), r.change)
	return changed
}

// closeLocked ends the flight if there is one.
func (r *remote) closeLocked() {
	if r.flight != nil {
		r.flight.err = r.failure
		close(r.flight.done)
		r.flight = nil
	}
}

// stop ends the flight if there is one, and lets nobody begin another.
func (r *remote) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.failure = errStopped
	if r.end != nil {
		r.end.Stop()
	}
	r.closeLocked()
}

// fetch gets the set from its address, and returns it with its text.
func (r *remote) fetch(ctx context.Context) (set *keySet, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if text, err = r.get(ctx); err == nil {
		set, err = parseSet(text, false)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("fetch key set: %w", err)
	}
	return set, text, nil
}

// FetchKeySet gets the text of a key set from its address, and no more of it than is too
// long for one. Errors do not repeat the address: the operator knows it, and others need
// not.
func FetchKeySet(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	answer, err := fetch.Do(ctx, client, fetch.Request{
		Address: address, Header: http.Header{"Accept": {"application/jwk-set+json, application/json"}},
		Most: maxSet,
	})
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.Status)
	}
	return answer.Body, nil
}

// jitter returns up to a fifth of d, at random, by which a fetch is moved, so that
// replicas which started together do not fetch together.
func jitter(d time.Duration) time.Duration {
	return rand.N(d / 5) //nolint:gosec // spreading needs no secrecy
}
