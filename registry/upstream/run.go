package upstream

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Limits of supervision.
const (
	handshakeLimit = 10 * time.Second // from the first byte to a known era
	listLimit      = 30 * time.Second // for all pages
	aliveLimit     = 10 * time.Second // for the answer that proves life
	closeLimit     = 2 * time.Second  // for saying good-bye over HTTP

	stable     = time.Minute // a connection that lasted so long was good
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second

	checkEvery = 30 * time.Second       // between proofs of life over HTTP
	gapMin     = 20 * time.Millisecond  // between two lists, when changes are rare
	gapMax     = 400 * time.Millisecond // between two lists, when they never end
)

// backoff returns how long to wait after that many failures in a row: doubling, with jitter of a half.
func backoff(failures int) time.Duration {
	d := backoffMax
	if failures < 9 {
		d = min(backoffMin<<failures, backoffMax)
	}
	return jitter(d)
}

// jitter returns between d/2 and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// wait tells whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve keeps one connection from its start to its loss. The error says why it was lost.
func (u *Upstream) serve(ctx context.Context) error {
	c, err := u.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { c.end(ctx, ctx.Err() != nil) }()
	if err := u.list(ctx, c); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.peer.watch(ctx) })
	group.Go(func() error { return u.follow(ctx, c) })
	err = group.Wait()
	c.gone.Store(true) // before the tools leave the catalogue, so that no call begins on a dead connection
	return err
}

// follow lists again whenever the list may have changed, and asks for a proof of life when calls fail or time has
// passed.
func (u *Upstream) follow(ctx context.Context, c *connection) error {
	pace := pacer{gap: gapMin}
	check := time.NewTimer(c.checkAfter())
	defer check.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.changes:
			err = u.list(ctx, c)
		case <-c.doubts:
			err = u.alive(ctx, c)
		case <-check.C:
			if err = u.check(ctx, c); err == nil {
				check.Reset(c.checkAfter())
			}
		}
		if err != nil {
			return err
		}
		if !wait(ctx, pace.next()) {
			return ctx.Err()
		}
	}
}

// check proves life: by a list where changes are not told, else by a small request. A child's death is seen by its
// pipes, and one that is busy may be silent.
func (u *Upstream) check(ctx context.Context, c *connection) error {
	if !c.told.Load() {
		return u.list(ctx, c)
	}
	return u.alive(ctx, c)
}

func (u *Upstream) alive(ctx context.Context, c *connection) error {
	if u.cfg.URL == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	return c.peer.alive(limited)
}

// list reads the upstream's tools and puts them into the catalogue.
func (u *Upstream) list(ctx context.Context, c *connection) error {
	said := c.said.Swap(false)
	offers, refused, err := u.offers(ctx, c)
	if err != nil {
		return err
	}
	if offers == nil {
		if said {
			u.reg.Announce(u.cfg.Name, registry.KindTool)
		}
		return nil
	}
	left := u.reg.Replace(registry.Source{Name: u.cfg.Name, Prefix: u.cfg.Prefix, Tools: offers})
	refused = append(refused, left...)
	u.up(c.version, len(offers)-len(left), refused)
	return nil
}

// pacer spaces out lists: a change is followed at once, an endless row of changes not more than some times a second.
type pacer struct {
	gap  time.Duration
	last time.Time
}

func (p *pacer) next() time.Duration {
	now := time.Now()
	if now.Sub(p.last) < 2*gapMax {
		p.gap = min(2*p.gap, gapMax)
	} else {
		p.gap = gapMin
	}
	p.last = now
	return p.gap
}
