package credential

import (
	"context"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// cell keeps one credential that is had from elsewhere, and asks for the next one shortly
// before its end. However many want it, it is asked for once at a time:
//
//	empty ──▶ asked for ──▶ good ──▶ asked for beside ──▶ good …
//	  ▲          │ fails              │ fails: again after a pause; what is good goes on to its end
//	  └──────────┘ again after a pause: until then those who want it get the error
//
// It is safe for concurrent use.
type cell struct {
	life   *life
	common *common // what replicas share of it; nil: nothing
	traced bool    // a Trace goes with it

	mu      sync.Mutex // guards the fields below
	spurned string     // what the server refused last of what replicas share; "": nothing
	headers *Headers   // nil: there was none yet
	made    time.Time  // when it came
	renew   time.Time  // from then on the next is asked for
	until   time.Time  // its end
	flight  *flight    // the asking under way; nil: none is
	failed  int        // attempts in a row
	pause   time.Time  // no attempt before that
	err     error      // of the last attempt; nil: it was good
}

// flight is one asking, for which all wait who want its outcome.
type flight struct {
	done    chan struct{} // closed when the fields below are set
	headers *Headers
	err     error
}

// issued is what an endpoint gave, and for how long it is good.
type issued struct {
	headers *Headers
	life    time.Duration
}

// get returns what is good now. ask is called, on a goroutine of its own, if it must be
// asked for; its context does not end with ctx, since others wait for the same.
func (c *cell) get(ctx context.Context, ask func(context.Context) (issued, error)) (*Headers, error) {
	now := c.life.cfg.Now()
	c.mu.Lock()
	good := c.headers != nil && now.Before(c.until)
	if good && now.Before(c.renew) {
		defer c.mu.Unlock()
		return c.headers, nil
	}
	if c.flight == nil && !now.Before(c.pause) && c.life.ctx.Err() == nil {
		c.flight = &flight{done: make(chan struct{})}
		spurned := c.spurned
		c.life.work.Go(func() { c.ask(spurned, ask) })
	}
	headers, under, err := c.headers, c.flight, c.err
	c.mu.Unlock()
	switch {
	case good:
		return headers, nil
	case under == nil && err == nil:
		return nil, failed(FaultAway, "the gateway is stopping")
	case under == nil:
		return nil, err
	}
	select {
	case <-under.done:
		return under.headers, under.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask is the goroutine of one flight.
func (c *cell) ask(spurned string, ask func(context.Context) (issued, error)) {
	ctx, cancel := context.WithTimeout(c.life.ctx, askLimit)
	defer cancel()
	got, err := c.fetch(ctx, spurned, ask)
	now := c.life.cfg.Now()
	c.mu.Lock()
	under := c.flight
	c.flight, c.err = nil, err
	if err != nil {
		c.pause = now.Add(pauseAfter(c.failed))
		c.failed++
	} else {
		got.headers.origin, got.headers.traced = c, c.traced
		c.headers, c.failed, c.pause, c.made = got.headers, 0, time.Time{}, now
		c.until, c.renew = now.Add(got.life), now.Add(got.life-margin(got.life))
	}
	c.mu.Unlock()
	if fault, ok := err.(*Error); ok { //nolint:errorlint // ask makes it, and wraps nothing around it
		c.life.tell(fault)
	} else {
		c.life.cfg.Count(Made)
	}
	under.headers, under.err = got.headers, err
	close(under.done)
}

// fetch is that of common. A panic in it becomes its error: nobody else recovers from one
// on this goroutine, and it would end the process.
func (c *cell) fetch(ctx context.Context, spurned string, ask func(context.Context) (issued, error)) (
	got issued, err error,
) {
	defer func() {
		if problem := recover(); problem != nil {
			got, err = issued{}, c.life.panicked(problem)
		}
	}()
	return c.common.fetch(ctx, spurned, ask)
}

// pauseAfter is how long nobody is asked after so many failures in a row, from zero: one
// second at first, as long as half a minute at most.
func pauseAfter(failures int) time.Duration { return max(time.Second, pace.Backoff(failures+4)) }

// margin is how long before its end a credential of that life is replaced.
func margin(life time.Duration) time.Duration { return min(life/5, time.Minute) }

// peek returns what is good now without asking anybody, nil if nothing is.
func (c *cell) peek() *Headers {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.cfg.Now().Before(c.until) {
		return c.headers
	}
	return nil
}

// refused gives up what the server refused, unless it came only just now.
func (c *cell) refused(g *Headers) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := c.life.cfg.Now(); {
	case c.headers != g:
		return true // there is another already
	case now.Sub(c.made) < refusedGap:
		return false
	}
	if c.common != nil {
		c.spurned = g.values[0]
	}
	c.headers, c.until = nil, time.Time{}
	return true
}
