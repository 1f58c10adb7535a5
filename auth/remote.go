package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	minPause     = 30 * time.Second // between two fetches of one set
	freshFor     = 10 * time.Minute // then it is fetched in the background
	staleFor     = 24 * time.Hour   // how long the last set serves when no other can be had
	absentFor    = 60 * time.Second // how long a key that was not in the set is not looked for again
	maxAbsent    = 1024             // key names remembered as absent
	fetchTimeout = 5 * time.Second
	waitTimeout  = 10 * time.Second // for a fetch that somebody else makes
	maxWaiting   = 32               // who may wait for one set at once: anybody can, without a good token
)

var (
	errStopped = errors.New("key sets are fetched no more")
	errNoRun   = errors.New("the key set was not fetched in time")
	errCrowded = errors.New("too many wait for the key set")
)

// remote is a key set at an address. Its goroutine, run, makes all fetches; others ask for one and wait.
type remote struct {
	issuer string
	url    string
	client *http.Client
	now    func() time.Time
	logger *slog.Logger
	wake   chan struct{} // holds one request for a fetch
	set    atomic.Pointer[keySet]

	mu      sync.Mutex           // guards the fields below; not held while fetching
	flight  chan struct{}        // closed when the fetch that is wanted or under way has ended; nil: none is
	tried   time.Time            // when a fetch was last wanted
	failure error                // of the last fetch
	waiting int                  // how many wait for the flight
	absent  map[string]time.Time // names of keys that the set did not have, and when
	stopped bool
}

var _ source = (*remote)(nil)

func newRemote(cfg *Issuer, all *Config) *remote {
	client := *all.Client
	client.Jar = nil
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{
		issuer: cfg.Issuer,
		url:    cfg.JWKSURL,
		client: &client,
		now:    all.Now,
		logger: all.Logger,
		wake:   make(chan struct{}, 1),
		absent: make(map[string]time.Time),
	}
}

func (r *remote) current(now time.Time) *keySet {
	set := r.set.Load()
	if set == nil || now.After(set.until) {
		return nil
	}
	return set
}

// refresh asks for a fetch, or joins the one under way, and waits for it. It returns at once when the key was missing a
// moment ago, when the last fetch is too recent, when it failed and an older set serves, and when too many wait.
func (r *remote) refresh(ctx context.Context, keyID string) error {
	flight, err := r.join(keyID)
	if flight == nil {
		return err
	}
	defer r.leave()
	limit := time.NewTimer(waitTimeout)
	defer limit.Stop()
	select {
	case <-flight:
		return r.outcome(keyID)
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return errNoRun
	}
}

// join returns the fetch to wait for, until leave. Without one, the error says why, and is that of the last fetch if it
// had one.
func (r *remote) join(keyID string) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if missed, ok := r.absent[keyID]; ok && r.now().Sub(missed) < absentFor {
		return nil, r.failure
	}
	if r.flight == nil {
		if !r.due() {
			return nil, r.failure
		}
		r.open()
		select {
		case r.wake <- struct{}{}:
		default: // asked for already
		}
	}
	switch {
	case r.failure != nil && r.current(r.now()) != nil:
		return nil, r.failure // whoever cannot be reached is not waited for
	case r.waiting >= maxWaiting:
		return nil, errCrowded
	}
	r.waiting++
	return r.flight, nil
}

func (r *remote) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

// due reports whether the set may be fetched now. The caller holds mu.
func (r *remote) due() bool {
	return !r.stopped && (r.tried.IsZero() || r.now().Sub(r.tried) >= minPause)
}

// open marks a fetch as wanted. The caller holds mu.
func (r *remote) open() {
	r.flight = make(chan struct{})
	r.tried = r.now()
}

// outcome returns the error of the fetch that has just ended, and remembers a key that it did not bring.
func (r *remote) outcome(keyID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	if _, known := r.set.Load().find(keyID, ""); !known {
		if len(r.absent) >= maxAbsent {
			clear(r.absent)
		}
		r.absent[keyID] = r.now()
	}
	return nil
}

// run fetches the set now, when asked, and every now and then, until ctx ends.
func (r *remote) run(ctx context.Context) {
	defer r.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(r.renew(ctx))
	}
}

// renew fetches the set if it is wanted or due, and returns when to do so again.
func (r *remote) renew(ctx context.Context) time.Duration {
	if !r.begin() {
		return jittered(minPause)
	}
	set, err := r.fetch(ctx)
	r.land(set, err)
	if err != nil {
		if ctx.Err() == nil {
			r.logger.WarnContext(ctx, "key set not fetched", "issuer", r.issuer, "error", err)
		}
		return jittered(minPause)
	}
	return jittered(freshFor)
}

// begin reports whether to fetch. The fetch serves whoever asked for one until now.
func (r *remote) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.wake:
	default:
	}
	if r.flight == nil {
		if !r.due() {
			return false
		}
		r.open()
	}
	return true
}

// land publishes what was fetched and lets those go who wait for it. Keys that are not in the new set are gone.
func (r *remote) land(set *keySet, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
	if err == nil {
		r.publish(set)
	}
	r.close()
}

// publish replaces the set. The caller holds mu.
func (r *remote) publish(set *keySet) {
	set.until = r.now().Add(staleFor)
	set.generation = 1
	if old := r.set.Load(); old != nil {
		set.generation = old.generation
		if old.digest != set.digest {
			set.generation++
		}
	}
	r.set.Store(set)
}

// close ends the flight. The caller holds mu.
func (r *remote) close() {
	if r.flight != nil {
		close(r.flight)
		r.flight = nil
	}
}

func (r *remote) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.failure = errStopped
	r.close()
}

// fetch gets the set from its address. Errors do not repeat the address, which the operator knows and others need not.
func (r *remote) fetch(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, errors.New("the key set's address is no URL")
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := r.client.Do(request)
	if err != nil {
		if about, ok := errors.AsType[*url.Error](err); ok {
			err = about.Err
		}
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read as far as we want
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch key set: status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxSet+1))
	if err != nil {
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	set, err := parseSet(body, false)
	if err != nil {
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	return set, nil
}

// jittered returns d and up to a fifth more, so that replicas do not fetch at once.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/5) //nolint:gosec // spreading needs no secrecy
}
