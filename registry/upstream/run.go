package upstream

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
)

// Limits of supervision.
const (
	handshakeLimit = 10 * time.Second // from the first byte to a known era, over HTTP
	startLimit     = time.Minute      // the same of a child, with its start
	listLimit      = 30 * time.Second // for all pages
	aliveLimit     = 10 * time.Second // for the answer that proves life
	streamLimit    = time.Second      // until a stream is open that a legacy server sends on by itself
	closeLimit     = 2 * time.Second  // for saying good-bye over HTTP

	stable = time.Minute // a connection that lasted so long was good

	checkEvery = 30 * time.Second       // between proofs of life over HTTP
	listGap    = 5 * time.Second        // from one list to the next, when changes never end
	doubtGap   = 400 * time.Millisecond // from one proof of life to the next, when calls never cease to fail
)

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
	ofLists, ofDoubts := pace.Pacer{Gap: listGap}, pace.Pacer{Gap: doubtGap}
	check := time.NewTimer(l.checkAfter())
	defer check.Stop()
	for {
		var err error
		rest := pace.MinGap
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.changes:
			news := topics(c.news.Swap(0))
			err = u.list(ctx, l, news&everyTopic, news>>announcedBy)
			rest = ofLists.Next()
		case <-c.doubts:
			err = u.alive(ctx, c)
			rest = ofDoubts.Next()
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
		if !pace.Wait(ctx, rest) {
			return ctx.Err()
		}
	}
}

// check proves life: by the lists that are due, else by a small request. A child's death is seen by its pipes, and one
// that is busy may be silent.
func (u *Upstream) check(ctx context.Context, l *lists) error {
	if due := l.due(); due != 0 && !l.conn.peer.busy() {
		return u.list(ctx, l, due, 0)
	}
	return u.alive(ctx, l.conn)
}

func (u *Upstream) alive(ctx context.Context, c *control) error {
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

// advice is what an operator reads when a modern server refused a question of its own tool.
const advice = "it refused a call with -32600, as a server does whose tool asks its user in the middle of a call, for which " +
	mcp.LatestModern + " has no way; if it also serves an older revision in sessions, say revision: " + mcp.LatestLegacy

// advise tells the operator what mends such refusals: in the status as long as this connection lasts, in the log once.
func (u *Upstream) advise(ctx context.Context) {
	u.mu.Lock()
	told, logged := u.status.Advice != "", u.advised
	u.advised, u.status.Advice = true, advice
	status := u.status
	u.mu.Unlock()
	if !told {
		u.cfg.Status(status)
	}
	if !logged {
		u.cfg.Logger.WarnContext(ctx, "server cannot ask", slog.String("advice", advice))
	}
}
