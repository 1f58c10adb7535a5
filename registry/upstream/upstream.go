// Package upstream is the back door: it keeps connections to other MCP servers, of either era and over stdio,
// Streamable HTTP or HTTP+SSE, and puts what they offer into the catalogue. A call in the middle of which its server asks
// something waits here for the answers. It carries results as raw JSON and does not know who may call what, nor how
// clients are served.
//
// Each server has one control connection, for its lists and for proofs of life. A modern server's serves all calls but
// those of older clients that can be asked, where the server has an older side too. These, and the calls of a legacy
// server, run on sessions beside it, in a pool that keeps callers apart, because a session may ask or tell its client
// something; Config.Shared gives that up. The pool lives and dies with the control connection. When that
// is lost, the server is taken as lost: all sessions are closed, calls on them end with an error that says that they may
// have taken effect, and the repeats of parked ones are refused. The price is that sessions which still answer are given
// up; the gain is that no call goes on at a server that nobody supervises.
//
// To read it, begin at the top. A file uses only what stands below it:
//
//	the life of a server      upstream: open, list, follow, lose, again         subscribe: resources that are watched
//	what it offers            lists, list: read and judged                      shelf: its place in the catalogue
//	how it is spoken to       probe: which era; dial: the way to it
//	one call                  control: from the catalogue to the peer
//	the peers                 both, modern, pool (for a legacy server)
//	  behind the pool         openurl, parking: calls that ask; tasks; pooled: a session in its seat
//	  a session               legacy; calls, questions: who may be asked what; watchers
//	what all of them use      peer, connection, topics, compose, header, item, result, config, errors
//	what operators are told   status
//	the packages below        seats: who gets a session; wire: transports; pace: when to try again
//
// Each of the types that are shared between goroutines has a lock of its own. Where two are held at once, that of tasks
// is taken before that of the seats; no other lock of this package is taken while one is held, but for those of strays
// and calls, which are asked by the seats and call nothing.
package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
)

// Limits of supervision.
const (
	stable   = time.Minute            // a connection that lasted so long was good
	listGap  = 5 * time.Second        // from one list to the next, when changes never end
	doubtGap = 400 * time.Millisecond // from one proof of life to the next, when calls never cease to fail
)

// Upstream is one supervised server.
type Upstream struct {
	cfg      Config
	shelf    shelf
	standing standing
	dialer   dialer
	watches  watches
	control  atomic.Pointer[control] // the present one; nil while there is none
}

// New returns an upstream that puts what it offers into reg when run.
func New(cfg Config, reg *registry.Registry) *Upstream {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Count == nil {
		cfg.Count = func(Anomaly, int) {}
	}
	if cfg.Status == nil {
		cfg.Status = func(Status) {}
	}
	cfg.Logger = cfg.Logger.With("server", cfg.Name)
	u := &Upstream{cfg: cfg}
	u.shelf = shelf{cfg: &u.cfg, reg: reg}
	u.standing = standing{tell: cfg.Status, logger: cfg.Logger, status: Status{Server: cfg.Name}}
	u.dialer = dialer{cfg: &u.cfg}
	u.watches = watches{server: fault(cfg.Name), child: cfg.URL == "", control: u.control.Load, next: make(chan struct{})}
	return u
}

// Run connects, lists, follows changes and reconnects with backoff and jitter until ctx ends; then it ends the
// connection or child. Before, between connections and afterwards the server is lost for the catalogue; whoever gives up
// the server removes it there. Its error is always nil. It is called once.
func (u *Upstream) Run(ctx context.Context) error {
	u.shelf.lose()
	defer u.shelf.stopFading()
	defer u.watches.close()
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := u.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= stable {
			attempt = 0
		}
		u.standing.down(err, u.dialer.lastSaid(), u.shelf.lostSince())
		if !pace.Wait(ctx, pace.Backoff(attempt)) {
			return nil
		}
	}
}

// Probe connects once, reads all lists into the catalogue and disconnects, for `validate -online`: what is in the
// catalogue then can be named, not used.
func (u *Upstream) Probe(ctx context.Context) (Status, error) {
	c, err := u.dialer.connect(ctx)
	if err != nil {
		return Status{Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.dialer.lastSaid()}, err
	}
	defer c.end(ctx, true)
	l := newLists(c, &u.cfg)
	if err := l.read(ctx, everyTopic, func() {}); err != nil {
		return Status{Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.dialer.lastSaid()}, err
	}
	status := l.status(u.shelf.reg.Replace(l.source(u.watches.subscribe)))
	status.Server, status.Up, status.Tried = u.cfg.Name, true, true
	return status, nil
}

// Load returns what the upstream costs now. It waits for nothing that the server does.
func (u *Upstream) Load() Load {
	load := Load{Processes: int(u.dialer.children.Load())}
	if c := u.control.Load(); c != nil {
		load.Sessions = c.peer.sessions()
	}
	return load
}

// serve keeps one connection from its start to its loss. The error says why it was lost.
func (u *Upstream) serve(ctx context.Context) error {
	c, err := u.dialer.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { c.end(ctx, ctx.Err() != nil) }()
	defer u.shelf.lose() // first, because the end of a child takes its time
	u.dialer.serve(ctx, c)
	u.control.Store(c)
	defer u.control.Store(nil)
	l := newLists(c, &u.cfg)
	if err := u.list(ctx, l, everyTopic, 0); err != nil {
		return err
	}
	u.watches.arrived()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.peer.watch(ctx) })
	group.Go(func() error { return u.follow(ctx, l) })
	group.Go(func() error { return u.dialer.reprobe(ctx, c) })
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
			u.standing.advise(ctx)
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
	err := l.read(ctx, asked, func() {
		if !l.stale {
			return
		}
		left := u.shelf.reg.Replace(l.source(u.watches.subscribe))
		u.standing.up(l.status(left))
		changed |= l.changed
		l.changed, l.stale = 0, false
	})
	if err != nil {
		return err
	}
	for kind := range (announced &^ changed).kinds {
		u.shelf.reg.Announce(u.cfg.Name, kind)
	}
	return nil
}
