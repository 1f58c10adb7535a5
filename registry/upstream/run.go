package upstream

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of supervision.
const (
	handshakeLimit = 10 * time.Second // from the first byte to a known era, over HTTP
	startLimit     = time.Minute      // the same of a child, with its start
	listLimit      = 30 * time.Second // for all pages
	aliveLimit     = 10 * time.Second // for the answer that proves life
	streamLimit    = time.Second      // until a stream is open that a legacy server sends on by itself
	closeLimit     = 2 * time.Second  // for saying good-bye over HTTP

	stable     = time.Minute // a connection that lasted so long was good
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second

	checkEvery = 30 * time.Second       // between proofs of life over HTTP
	gapMin     = 20 * time.Millisecond  // after each list and each proof of life
	listGap    = 5 * time.Second        // from one list to the next, when changes never end
	doubtGap   = 400 * time.Millisecond // from one proof of life to the next, when calls never cease to fail
	gapsFree   = 10                     // of both in a row that are not spaced out
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
	defer u.lose() // first, because the end of a child takes its time
	defer u.attach(ctx, c)()
	l := newLists(c)
	if err := u.list(ctx, l, everyTopic, 0); err != nil {
		return err
	}
	u.arrived()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.peer.watch(ctx) })
	group.Go(func() error { return u.follow(ctx, l) })
	group.Go(func() error { return u.reprobe(ctx, c) })
	err = group.Wait()
	c.gone.Store(true) // before the catalogue knows, so that no call begins on a dead connection
	return err
}

// follow lists again whatever may have changed, and asks for a proof of life when calls fail or time has passed.
func (u *Upstream) follow(ctx context.Context, l *lists) error {
	c := l.conn
	ofLists, ofDoubts := pacer{gap: listGap}, pacer{gap: doubtGap}
	check := time.NewTimer(l.checkAfter())
	defer check.Stop()
	for {
		var err error
		rest := gapMin
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.changes:
			news := topics(c.news.Swap(0))
			err = u.list(ctx, l, news&everyTopic, news>>announcedBy)
			rest = ofLists.next()
		case <-c.doubts:
			err = u.alive(ctx, c)
			rest = ofDoubts.next()
		case <-c.refusals:
			u.advise(ctx)
		case <-check.C:
			if err = u.check(ctx, l); err == nil {
				check.Reset(l.checkAfter())
			}
		}
		if err != nil {
			return err
		}
		if !wait(ctx, rest) {
			return ctx.Err()
		}
	}
}

// check proves life: by the lists that are due, else by a small request. A child's death is seen by its pipes, and one
// that is busy may be silent.
func (u *Upstream) check(ctx context.Context, l *lists) error {
	if due := l.due(); due != 0 && !l.conn.pool.lentOut() {
		return u.list(ctx, l, due, 0)
	}
	return u.alive(ctx, l.conn)
}

func (u *Upstream) alive(ctx context.Context, c *connection) error {
	if u.cfg.URL == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	return c.peer.alive(limited)
}

// list reads the lists of the topics and puts what there is into the catalogue. announced are those of which the server
// said that they changed: who sees the items is told so even when they are the same.
func (u *Upstream) list(ctx context.Context, l *lists, asked, announced topics) error {
	changed := topics(0)
	err := u.read(ctx, l, asked, func() {
		if !l.stale {
			return
		}
		left := u.reg.Replace(u.source(l))
		u.up(l.status(left))
		changed |= l.changed
		l.changed, l.stale = 0, false
	})
	if err != nil {
		return err
	}
	for kind := range (announced &^ changed).kinds {
		u.reg.Announce(u.cfg.Name, kind)
	}
	return nil
}

// pacer spaces out what may be asked for without end: some in a row are served at once, an endless row once in a gap.
// Otherwise a server, or whoever can call a tool that changes its lists, could keep the gateway listing.
type pacer struct {
	gap  time.Duration
	debt time.Duration // a gap for each that was served, less the time that has passed
	last time.Time
}

// next returns how long to pause after one was served.
func (p *pacer) next() time.Duration {
	now := time.Now()
	p.debt = max(p.debt-now.Sub(p.last), 0) + p.gap
	p.last = now
	return max(p.debt-gapsFree*p.gap, gapMin)
}
