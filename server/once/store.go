package once

import (
	"context"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// claim is a request that runs here, or the end of which is still to be written.
type claim struct {
	store   *Redis
	request Request
	key     string // of Redis
	text    string // of the record with which it was claimed
	flight

	// Guarded by the mutex of the store.
	renewed time.Time
	end     func(context.Context) error // what is to be written in the end; nil: it runs
	ended   time.Time
}

var _ Claim = (*claim)(nil)

// forget takes the claim out of those that live here, once.
func (c *claim) forget() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.claims[c.request.Name] == c {
		delete(c.store.claims, c.request.Name)
		close(c.over)
	}
}

// enter claims the key. If another request has it, enter returns its record, which says
// that it runs or has its answer.
func (c *claim) enter(ctx context.Context) (*record, error) {
	reply, err := c.try(ctx)
	if err != nil {
		c.settle(context.WithoutCancel(ctx), c.drop) // it may have been claimed all the same
		return nil, err
	}
	if reply.Nil() {
		return nil, nil //nolint:nilnil // it is claimed, and there is no record of another
	}
	c.forget()
	text, err := reply.Text()
	p, ok := openRecord(c.store.config.Seal, &c.request, text)
	switch {
	case err != nil, !ok, p.isStale(c.store.config.Now()):
		return nil, ErrUnknown
	case p.body != c.request.Body:
		return nil, ErrBody
	case p.state == unkept:
		return nil, ErrUnkept
	case p.state != running && p.state != answered: // of a later version
		return nil, ErrUnknown
	}
	p.text = text
	return &p, nil
}

// try returns the record under the key, or claims it. A record that is large is read as
// such: the first look only says how large it is.
func (c *claim) try(ctx context.Context) (redis.Reply, error) {
	args := []string{c.text, retentionMillis, strconv.Itoa(smallRecord)}
	reply, err := enter.Run(ctx, c.store.config.Store, []string{c.key}, args)
	if err != nil || reply.Nil() {
		return reply, err
	}
	if size, err := reply.Int(); err == nil && size <= 2*MaxAnswer {
		args[2] = strconv.FormatInt(size, 10)
		return enter.RunFor(ctx, c.store.config.Store, int(size), []string{c.key}, args)
	}
	return reply, nil // a record, or what no replica has written
}

// Finish implements Claim.
func (c *claim) Finish(ctx context.Context, a Answer) {
	p := record{
		state: answered, at: c.store.config.Now(), body: c.request.Body,
		home: c.store.config.Others.Self(), answer: a,
	}
	size := int64(claimCost + len(a.Message))
	if len(a.Message) > MaxAnswer || c.store.budgets.take(c.request.User, int64(len(a.Message))) != nil {
		p.state, p.answer, size = unkept, Answer{}, claimCost
	}
	text := p.seal(c.store.config.Seal, &c.request)
	c.store.lapse(c.request.User, size)
	c.settle(ctx, func(ctx context.Context) error { return c.put(ctx, c.text, text) })
}

// Free implements Claim.
func (c *claim) Free(ctx context.Context) {
	c.store.budgets.give(c.request.User, claimCost)
	c.settle(ctx, c.drop)
}

// put writes another record under the key if it has that one or none; "" forgets it.
func (c *claim) put(ctx context.Context, before, text string) error {
	_, err := put.Run(ctx, c.store.config.Store, []string{c.key}, []string{before, text, retentionMillis})
	return err
}

func (c *claim) drop(ctx context.Context) error { return c.put(ctx, c.text, "") }

// settle writes how the claim ends. What cannot be written now, Run tries again until the
// claim has lapsed.
func (c *claim) settle(ctx context.Context, end func(context.Context) error) {
	if end(ctx) == nil {
		c.forget()
		return
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.end, c.ended = end, time.Now()
}

// tend renews the claim, or writes its end.
func (c *claim) tend(ctx context.Context) {
	c.store.mu.Lock()
	end, lapsed := c.end, !c.ended.IsZero() && time.Since(c.ended) > 2*Retention
	before := c.renewed
	c.renewed = time.Now() // now, so that a reclaim that comes meanwhile is not forgotten
	c.store.mu.Unlock()
	switch {
	case end != nil:
		if end(ctx) == nil || lapsed {
			c.forget()
		}
	case c.put(ctx, c.text, c.text) != nil:
		c.store.mu.Lock()
		c.renewed = before
		c.store.mu.Unlock()
	}
}
