// Package upstream is the back door: it keeps connections to other MCP servers, of either
// era and over stdio, Streamable HTTP or HTTP+SSE, and puts what they offer into the
// catalogue. When a server asks its client something in the middle of a call, the call
// waits here for the answers. The package carries results as raw JSON. It does not know
// who may call what, nor how clients are served. What a server says of itself, its name
// and its instructions, is passed on to nobody: for clients, the gateway is the server.
// Of its capabilities, only those that are known here are read.
//
// Each server has one control connection, over which its lists are read and its life is
// proved. The calls of a modern server run on the control connection as well. The calls
// of a legacy server run on pooled sessions beside it, and so do, with a server of both
// eras, the calls of clients in an older session that can be asked something. The pool
// keeps callers apart, because a server may ask or tell a session something that is meant
// for its client alone; Config.Shared gives that separation up.
//
// The pool lives and dies with the control connection. When that is lost, the whole
// server is taken as lost: all sessions are closed, calls on them end with an error that
// says that they may have taken effect, and the repeats of parked calls are refused. The
// price is that sessions which would still answer are given up; the gain is that no call
// goes on at a server that nobody supervises.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	the life of a server      upstream: open, list, follow, lose, again
//	                          subscribe: resources that are watched
//	what it offers            lists, variant, list: read and judged
//	                          section: its place in the catalogue; personal: to one user alone
//	how it is spoken to       probe: which era; control: a call from the catalogue to the peer;
//	                          dial: the way to it
//	the peers                 both, modern; pool: for a legacy server
//	  behind the pool         openurl, taskquestions, parking: calls that ask; tasks;
//	                          pooled: a session in its seat
//	  a session               legacy; calls, questions, elicitations: who may be asked what; watchers
//	what all of them use      peer, connection, health, topics, compose, header, item, result, config, errors
//	what operators are told   status
//	the packages below        seats: who gets a session; wire: transports; pace: when to try again
//
// Each type that goroutines share has a lock of its own. Of the locks of this package and
// of seats, two are held at once in two cases only: that of tasks, or that of parking, is
// taken before that of the pool of seats, and the pool and parking, while they hold their
// own, ask strays, calls and questions, which take theirs and call nothing. Keep it so:
// another order could deadlock.
package upstream

import (
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of supervision.
const (
	stable   = time.Minute            // a connection that lasted this long was good: the backoff begins anew
	listGap  = 5 * time.Second        // between two readings, when the server announces changes without end
	aliveGap = 400 * time.Millisecond // between two proofs of life, when calls fail without end
)

// Upstream is one supervised server. New makes it, and then either Run or Probe is
// called, once. Load may be called at any time, from any goroutine.
type Upstream struct {
	cfg      Config
	section  section
	standing standing
	dialer   dialer
	watches  watches
	control  atomic.Pointer[control] // the present control connection; nil while the server is not connected
}

// New returns an upstream that puts what its server offers into reg once Run or Probe is
// called. It connects to nothing yet.
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
	cfg.throttle = &wire.Throttle{}
	cfg.target, _ = url.Parse(cfg.URL) // it can be: it was checked
	u := &Upstream{cfg: cfg}
	u.section = section{cfg: &u.cfg, reg: reg}
	u.standing = standing{tell: cfg.Status, logger: cfg.Logger, status: Status{Server: cfg.Name}}
	u.dialer = dialer{
		cfg: &u.cfg, said: &wire.LastLines{}, logs: rate.Sometimes{Interval: logInterval},
	}
	life, end := context.WithCancel(context.Background())
	u.watches = watches{
		life: life, end: end,
		server: fault(cfg.Name), credential: cfg.Credential, control: u.control.Load,
		slots: share.New(maxWatches), byKey: map[watchKey]*watch{},
	}
	return u
}

// Run connects, lists, follows changes and reconnects with backoff and jitter until ctx
// ends; then it closes the connection or ends the child. Before the first connection,
// between connections and after the last one, the catalogue has the server as lost;
// whoever gives the server up removes it from the catalogue. The error is always nil. Run
// is called once.
func (u *Upstream) Run(ctx context.Context) error {
	u.section.lose()
	defer u.section.stopFading()
	defer u.watches.close()
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := u.cfg.saved(ctx, func() error { return u.serve(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= stable {
			attempt = 0
		}
		u.section.reg.WantsSignIn(u.cfg.Name, wantsSignIn(err))
		u.standing.down(err, u.dialer.said.Shown(), u.section.since)
		if !pace.Wait(ctx, pace.Backoff(attempt)) {
			return nil
		}
	}
}

// Probe connects once, reads all lists into the catalogue and disconnects again.
// `validate -online` uses it. The items that it leaves in the catalogue have names but no
// connection: a call of one is refused.
func (u *Upstream) Probe(ctx context.Context) (Status, error) {
	c, err := u.dialer.connect(ctx)
	if err != nil {
		return Status{
			Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.dialer.said.Shown(),
		}, err
	}
	defer c.end(ctx, true)
	l := newLists(c, u.pager(c))
	if err := l.read(ctx, everyTopic, func() {}); err != nil {
		return Status{
			Server: u.cfg.Name, Tried: true, Problem: problem(err), Said: u.dialer.said.Shown(),
		}, err
	}
	status := u.publish(l)
	status.Server, status.Up, status.Tried = u.cfg.Name, true, true
	return status, nil
}

// Reread has all lists of the server read again, soon. It does not block.
func (u *Upstream) Reread() {
	if c := u.control.Load(); c != nil {
		c.changed()
	}
}

// Load returns what the upstream costs at this moment. It never waits for the server.
func (u *Upstream) Load() Load {
	load := Load{Processes: int(u.dialer.children.Load())}
	if c := u.control.Load(); c != nil {
		load.Sessions = c.peer.sessions()
	}
	return load
}

// serve keeps one connection from its start to its loss. Its error says why the
// connection was lost.
func (u *Upstream) serve(ctx context.Context) error {
	c, err := u.dialer.connect(ctx)
	if err != nil {
		return err
	}
	// The server is told also where it seems to be lost: one that is there would keep the
	// session for good, and one more for each attempt.
	defer c.end(ctx, true)
	// runs before c.end: the end of a child takes time, and the catalogue must not wait
	// for it
	defer u.section.lose()
	c.overhears = u.cfg.Overheard
	u.dialer.serve(ctx, c)
	u.control.Store(c)
	defer u.control.Store(nil)
	l := newLists(c, u.pager(c))
	if u.cfg.Personal {
		l.personal = newPersonal(ctx, u.section.reg, c)
		defer l.personal.close()
	}
	if err := u.list(ctx, l, everyTopic, 0); err != nil {
		return err
	}
	u.watches.arrived()
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range []func() error{
		func() error { return c.peer.watch(ctx) },
		func() error { return u.follow(ctx, l) },
		func() error { return u.dialer.reprobe(ctx, c) },
	} {
		group.Go(func() error { return c.Saved(ctx, part) })
	}
	err = group.Wait()
	c.gone.Store(true) // set before the catalogue is told, so that no call begins on a dead connection
	return err
}

// pager returns what asks the server for the lists that everybody sees, nil if there are
// none.
func (u *Upstream) pager(c *control) pager {
	if u.cfg.Personal {
		return nil
	}
	return c.peer.page
}

// follow is the supervisor's loop on one connection. It reads the lists again that may
// have changed, and asks for a proof of life when calls fail or enough time has passed.
// After each step it pauses, so that a server that announces changes or fails calls
// without end does not keep the gateway busy. It ends with ctx or with the error that
// lost the connection.
func (u *Upstream) follow(ctx context.Context, l *lists) error {
	c := l.conn
	ofLists, ofChecks := pace.Pacer{Gap: listGap}, pace.Pacer{Gap: aliveGap}
	check := time.NewTimer(l.checkAfter())
	defer check.Stop()
	for {
		var err error
		rest := pace.MinGap
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.changes:
			changed := topics(c.unread.Swap(0))
			rest = ofLists.Next()
			if err = u.list(ctx, l, changed&everyTopic, changed>>announcedBy); throttled(err) {
				c.reread(changed)
				rest = max(rest, listGap)
			}
		case <-c.suspected:
			err = u.alive(ctx, c)
			rest = ofChecks.Next()
		case <-c.refusals:
			u.standing.advise(ctx)
		case <-check.C:
			err = u.check(ctx, l)
			check.Reset(l.checkAfter())
		}
		if err != nil && !throttled(err) {
			return err
		}
		if !pace.Wait(ctx, rest) {
			return ctx.Err()
		}
	}
}

// check proves that the server lives: by reading the lists that are due, or by a small
// request when none is due.
func (u *Upstream) check(ctx context.Context, l *lists) error {
	if due := l.due(); due != 0 {
		return u.list(ctx, l, due, 0)
	}
	return u.alive(ctx, l.conn)
}

// alive asks a server for a proof of life. A child is asked only when it is stuck: its
// pipes show its death, and a child that is busy with a call may rightly stay silent for
// a while.
func (u *Upstream) alive(ctx context.Context, c *control) error {
	if u.cfg.URL == "" && !c.isStuck() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	if err := c.peer.alive(limited); err != nil && !throttled(err) {
		return err
	}
	c.unanswered.Store(0)
	return nil
}

// list reads the lists of the topics in asked and puts what there is into the catalogue.
// announced are the topics of which the server said on the same connection that they
// changed. Who sees those items is told so even when the lists read the same as before,
// because a change may have come and gone.
func (u *Upstream) list(ctx context.Context, l *lists, asked, announced topics) error {
	changed := topics(0)
	err := l.read(ctx, asked, func() {
		if !l.stale {
			return
		}
		u.standing.up(u.publish(l))
		changed |= l.changed
		l.changed, l.stale = 0, false
	})
	if err != nil {
		return err
	}
	if l.personal != nil {
		l.personal.outdated()
	}
	for kind := range (announced &^ changed).kinds {
		u.section.reg.Announce(u.cfg.Name, kind)
	}
	return nil
}

// publish puts what the server offers into the catalogue, and returns the Status that
// this makes.
func (u *Upstream) publish(l *lists) Status {
	source := l.source(u.watches.subscribe)
	var left []registry.Refusal
	if l.personal != nil {
		left = u.section.reg.ReplacePersonal(source, l.personal)
	} else {
		left = u.section.reg.Replace(source)
	}
	status := l.status(left)
	status.Offered = u.section.reg.Catalogue().Offered(u.cfg.Name)
	return status
}
