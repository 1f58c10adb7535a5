package once

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// store is what Memory and Redis have in common: the claims of requests that run here,
// and who waits for them. What outlives a request is with its keeper.
type store struct {
	kept    keeper
	budgets budgets
	others  replica.Others
	now     func() time.Time

	mu     sync.Mutex                   // guards the fields below
	claims map[[sha256.Size]byte]*claim // by the names of their requests
}

// keeper has the answers of requests, and the claims of those that run where other
// replicas see them.
type keeper interface {
	// begin returns the text that stands for the claim of a request. The error says why
	// none can be made now.
	begin(r *Request) (text string, err error)
	// enter claims a key. If another request has it, enter returns the record of that.
	enter(ctx context.Context, c *claim) (*record, error)
	// end writes the record of a request that is over; nil: its key is free.
	end(ctx context.Context, c *claim, p *record) error
}

// claim is a request that runs here, or the end of which is still to be written.
type claim struct {
	store   *store
	request Request
	text    string        // that stands for it, see keeper.begin
	over    chan struct{} // closed when it is answered or free, or was never made
	waiting atomic.Int32  // how many wait for that; newClaim adds one before it lets go of the mutex

	// Guarded by the mutex of the store.
	renewed time.Time
	ended   time.Time // when its end could not be written first; zero: it runs
	end     *record   // that is to be written then; nil: the key is to be free
}

var _ Claim = (*claim)(nil)

const (
	missedFor     = 3 * time.Second        // for which a replica must not be there to count as gone
	missedRecheck = 250 * time.Millisecond // after which it is looked for again
)

// Begin implements Store.
func (s *store) Begin(ctx context.Context, r Request) (Claim, *Answer, error) {
	for missed := (time.Time{}); ; {
		c, found, err := s.newClaim(ctx, r)
		if c != nil {
			found, err = c.enter(ctx)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case found == nil:
			return c, nil, nil
		case found.state == answered:
			return nil, &found.answer, nil
		}
		switch home := found.home; {
		case home == s.others.Self():
			// of no request: it was written late, after whoever claimed had given up
			if err := s.kept.end(ctx, &claim{request: r, text: found.text}, nil); err != nil {
				return nil, nil, err
			}
			continue
		case s.others.IsThere(home):
			return nil, nil, &ElsewhereError{home}
		case missed.IsZero():
			missed = time.Now()
		case time.Since(missed) > missedFor:
			return nil, nil, ErrUnknown
		}
		if !pace.Wait(ctx, missedRecheck) {
			return nil, nil, context.Cause(ctx)
		}
	}
}

// newClaim notes a claim, once no other request runs here under its key. If the end of
// one is known, and has yet to be written, newClaim returns the record of that.
func (s *store) newClaim(ctx context.Context, r Request) (c *claim, _ *record, _ error) {
	for {
		text, refused := s.kept.begin(&r)
		s.mu.Lock()
		other := s.claims[r.Name]
		switch {
		case other == nil || other.end == nil && !other.ended.IsZero(): // the key is free, or is to be
			if refused == nil {
				c = &claim{store: s, request: r, text: text, over: make(chan struct{}), renewed: time.Now()}
				s.claims[r.Name] = c
			}
			s.mu.Unlock()
			return c, nil, refused
		case other.request.Body != r.Body:
			s.mu.Unlock()
			return nil, nil, ErrBody
		case other.end != nil:
			s.mu.Unlock()
			return nil, other.end, other.end.problem(&r, s.now())
		}
		other.waiting.Add(1)
		s.mu.Unlock()
		err := pace.Await(ctx, other.over)
		other.waiting.Add(-1)
		if err != nil {
			return nil, nil, err
		}
	}
}

// enter claims the key, if there is room for that. If another request has it, enter
// returns its record, which says that it runs or has its answer.
func (c *claim) enter(ctx context.Context) (*record, error) {
	found, err := c.store.kept.enter(ctx, c)
	if found != nil {
		c.forget()
		if found.state == running && found.home == c.store.others.Self() {
			return found, nil // of no request, see Begin
		}
		return found, found.problem(&c.request, c.store.now())
	}
	if err == nil {
		err = c.store.budgets.take(c.request.User, claimCost)
	}
	if err != nil {
		c.settle(context.WithoutCancel(ctx), nil) // it is claimed, or may be
	}
	return nil, err
}

// Finish implements Claim.
func (c *claim) Finish(ctx context.Context, a Answer) {
	s, user := c.store, c.request.User
	p := record{state: answered, at: s.now(), body: c.request.Body, home: s.others.Self(), answer: a}
	size := int64(claimCost + len(a.Message))
	if len(a.Message) > MaxAnswer || s.budgets.take(user, int64(len(a.Message))) != nil {
		p.state, p.answer, size = unkept, Answer{}, claimCost
	}
	time.AfterFunc(Retention, func() { s.budgets.give(user, size) })
	c.settle(ctx, &p)
}

// Free implements Claim.
func (c *claim) Free(ctx context.Context) {
	c.store.budgets.give(c.request.User, claimCost)
	c.settle(ctx, nil)
}

// Wanted implements Claim.
func (c *claim) Wanted() bool { return c.waiting.Load() > 0 }

// settle writes how the claim ends. What cannot be written now, Redis.Run tries again
// until the claim has lapsed. Who waits here knows the end meanwhile.
func (c *claim) settle(ctx context.Context, end *record) {
	if c.store.kept.end(ctx, c, end) == nil {
		c.forget()
		return
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.end, c.ended = end, time.Now()
	close(c.over)
}

// forget takes the claim out of those that live here, once.
func (c *claim) forget() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.claims[c.request.Name] == c {
		delete(c.store.claims, c.request.Name)
		if c.ended.IsZero() {
			close(c.over)
		}
	}
}
