package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of sessions.
const (
	defaultChildren = 8
	maxSessions     = 64               // of one server over HTTP
	sweepEvery      = 30 * time.Second // how often sessions and tasks are looked for whose time is over
)

// withPool is a peer on the control connection, with a pool of sessions beside it.
type withPool struct {
	peer
	pool *pool
}

func (w *withPool) sessions() int { return w.peer.sessions() + w.pool.seats.Size() }

func (w *withPool) close(ctx context.Context, polite bool) {
	w.pool.close(ctx, polite)
	w.peer.close(ctx, polite)
}

// older is a server of the legacy era: one session, the control connection, reads the
// lists and follows their changes; sessions of a pool run the calls.
type older struct{ withPool }

var _ peer = (*older)(nil)

// newOlder adds a pool to a control connection. dial opens the sessions of the pool; seen
// are the stray questions of the server.
func newOlder(ctx context.Context, control *legacy, dial opener, seen *strays) *older {
	p := newPool(ctx, control.conn, control.link.Streams(), dial, seen)
	if control.conn.cfg.Shared {
		p.control = control
		heard := func(state mcp.Object) { p.tasks.heard(nil, state) }
		control.tasks.Store(&heard)
	} else if control.conn.cfg.OneUser && control.conn.cfg.URL == "" {
		p.lend(control)
	}
	return &older{withPool{control, p}}
}

func (o *older) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	return o.pool.call(ctx, i, c)
}

// as asks on a pooled session that declares this, for each page as a loan, which calls
// may displace. It asks for one page at a time: a pool that lends would open a session
// for each that is asked for before the first is open.
func (o *older) as(declared mcp.Object) pager {
	if o.pool.most < 1 {
		return nil
	}
	k, asking := seats.Key{Traits: string(declared.JSON())}, semaphore.NewWeighted(1)
	return func(ctx context.Context, method string, params mcp.Object) (mcp.Object, error) {
		if err := asking.Acquire(ctx, 1); err != nil {
			return mcp.Object{}, err
		}
		defer asking.Release(1)
		s, _, err := o.pool.take(ctx, k, seats.Loan)
		if err != nil {
			return mcp.Object{}, err
		}
		defer o.pool.seats.Release(s, seats.Loan)
		return s.Session.session.page(ctx, method, params)
	}
}

// watchResource watches on a pooled session of the tenant, because a subscription at the
// server belongs to a session. It takes that session as a loan, which calls may displace;
// then it ends, and the watch is tried again.
func (o *older) watchResource(ctx context.Context, tenantID, uri string, onConfirmed func(),
	updated func(uri string),
) error {
	if o.pool.cfg.Shared || o.pool.lends {
		return o.peer.watchResource(ctx, tenantID, uri, onConfirmed, updated)
	}
	s, _, err := o.pool.take(ctx, seats.Key{Owner: auth.Owner{User: auth.User{TenantID: tenantID}}},
		seats.Loan)
	if err != nil {
		return err
	}
	defer o.pool.seats.Release(s, seats.Loan)
	return s.Session.session.watchResource(ctx, tenantID, uri, onConfirmed, updated)
}

// pool runs the calls of a legacy server on sessions that keep callers apart: what the
// server says to one caller must not reach another. Which calls may share a session is
// said by keyOf, which session a call gets by the pool of seats. It is safe for
// concurrent use.
type pool struct {
	control *legacy // with Config.Shared: runs calls whose callers cannot be asked; nil otherwise
	cfg     *Config
	conn    *connection
	streams bool // the transport gives each call a stream of its own
	most    int  // sessions at the same time, beside the control connection
	// Config.OneUser: the control connection is lent to one client after the other
	lends   bool
	seats   *seats.Pool[*pooled] // the sessions
	parking *parking             // the calls whose callers can be asked
	tasks   *tasks

	everything string // what the control connection declares where it is lent, as JSON
}

// newPool returns a pool without sessions. c is the control connection, dial opens the
// sessions, seen are the stray questions of the server. The pool has the values of ctx
// and outlives it: close ends it.
func newPool(ctx context.Context, c *connection, streams bool, dial opener, seen *strays) *pool {
	p := &pool{
		cfg: c.cfg, conn: c, streams: streams, most: maxSessions,
		everything: string(c.cfg.everything().JSON()),
	}
	if c.cfg.URL == "" {
		p.most = cmp.Or(c.cfg.MaxChildren, defaultChildren) - 1 // one is the control connection's
	}
	p.tasks = &tasks{server: c.server, slots: share.New(tasksMax), byID: map[string]*task{}}
	lagging := &atomic.Bool{}
	p.seats = seats.New(ctx, seats.Config[*pooled]{
		Max: p.most, Opening: 2 * c.cfg.openLimit(), // a child may be started twice
		New: func(k seats.Key, lost func()) *pooled {
			conn := newSessionConnection(c)
			if k.Owner != (auth.Owner{}) {
				conn.owner = &k.Owner
			}
			return &pooled{
				key: k, conn: conn, calls: &calls{strays: seen}, dial: dial, seats: p.seats,
				lagging: lagging,
				lost:    lost, closed: p.tasks.closed, heard: p.tasks.heard,
			}
		},
		Alone:    seen.expected,
		Lendable: func(s *pooled, to auth.Owner) bool { return !s.calls.abandonedByOther(to) },
	})
	p.tasks.seats = p.seats
	p.parking = &parking{
		server: c.server, seats: p.seats, tasks: p.tasks, count: c.cfg.Count, saved: c.cfg.saved,
		slots: share.New(parkedMax), waiting: map[string]*parkedCall{},
	}
	p.seats.Go(p.sweep)
	return p
}

// take returns a seat for a call or a loan, and puts the errors of the seats into those
// of the catalogue. An error means that nothing of the call has left.
func (p *pool) take(ctx context.Context, k seats.Key, u seats.Use) (*seat, seats.Waits, error) {
	s, waits, err := p.seats.Take(ctx, k, u)
	switch {
	case errors.Is(err, seats.ErrNone):
		err = p.conn.server.unavailable(false, errNoChild)
	case errors.Is(err, seats.ErrEnded):
		err = p.conn.server.unavailable(false, wire.ErrGone)
	case errors.Is(err, seats.ErrLate):
		p.conn.waitedInVain() // perhaps because the server hangs, and opens no session
		err = p.conn.server.unavailable(false, err)
	}
	return s, waits, err
}

// call runs one call, of whichever sort: the repeat of a parked call, a request about a
// task, a call whose caller can be asked, or a plain one.
func (p *pool) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	// What the caller has is made first, so that a session opens with it, and a fault of
	// it is the call's own. Who has left needs none to end a call that is parked.
	if _, err := p.cfg.Credential.For(ctx, &c.Principal); err != nil && ctx.Err() == nil {
		return mcp.Object{}, p.conn.server.unavailable(false, err)
	}
	state, tries := c.Params.Text("requestState"), 1
	if state == stateAgain {
		if !again(c) {
			const text = "The user did not open the address that the server asked for"
			return failed(i, text, mcp.Errorf(mcp.CodeInvalidParams, text))
		}
		state, tries = "", openTries
	}
	// nothing would tie a task's questions to it, and each user would need a child of its
	// own for as long as a task runs, so nobody is asked
	if c.Tasks == mcp.TasksAsked && !p.streams {
		mute := *c
		mute.Capabilities, mute.LogLevel, c = mcp.Object{}, 0, &mute
	}
	if c.LogLevel > 0 && p.most < 1 { // there is no session for them, and the call is worth more
		mute := *c
		mute.LogLevel, c = 0, &mute
	}
	result, err := untilOpened(ctx, tries, func() (mcp.Object, error) { return p.callAs(ctx, i, c, state) })
	if i.method == mcp.MethodTasksResult && (isAnswer(err) || err == nil && !result.Has("inputRequests")) {
		p.tasks.setRead(c.Task)
	}
	if err != nil {
		return opened(i, c, err)
	}
	return result, nil
}

// callAs runs a call of the sort that it is; state is that of a parked call, "" for any
// other.
func (p *pool) callAs(ctx context.Context, i *item, c *registry.Call, state string) (mcp.Object, error) {
	switch {
	case state != "":
		return p.parking.resume(ctx, p.ownerOf(c), c, state)
	case c.Task != "":
		return p.useTask(ctx, i, c)
	case i.asks && (c.Capabilities.Len() > 0 || p.lends): // lent: it declares all, so refuse here
		return p.converse(ctx, i, c)
	}
	return p.plain(ctx, i, c)
}

// plain runs a call whose caller cannot be asked anything.
func (p *pool) plain(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	k := p.keyOf(c, i)
	if p.cfg.Shared && k == (seats.Key{}) && (c.LogLevel == 0 || !p.conn.has("logging")) {
		return p.run(ctx, nil, p.control, i, c)
	}
	return p.seated(ctx, i, c, func(s *seat) (mcp.Object, error) {
		defer p.seats.Release(s, seats.Call)
		return p.run(ctx, s, s.Session.session, i, c)
	})
}

// seated runs a call on a seat, which use leaves. The pool learns no sooner than a call
// that a child has ended, or that the server has forgotten the session. Where nothing of
// the call was run for that reason, it is made on another seat, once: otherwise the call
// after one that crashed its child could fail with it.
func (p *pool) seated(ctx context.Context, i *item, c *registry.Call,
	use func(*seat) (mcp.Object, error),
) (mcp.Object, error) {
	for again := false; ; again = true {
		s, waits, err := p.take(ctx, p.keyOf(c, i), seats.Call)
		if c.Waited != nil {
			c.Waited.Slot += waits.Queue
			c.Waited.Process += waits.Opening
		}
		if err != nil {
			return mcp.Object{}, err
		}
		result, err := use(s)
		lost, unavailable := errors.AsType[*registry.UnavailableError](err)
		if again || !unavailable || lost.Sent || !s.Session.discardLost(ctx, err) {
			return result, err
		}
	}
}

// run runs a call on a session. s is the seat of that session, nil for the control
// connection's.
func (p *pool) run(ctx context.Context, s *seat, session *legacy, i *item,
	c *registry.Call,
) (mcp.Object, error) {
	return p.tasks.tracked(s, c, func() (mcp.Object, error) { return session.call(ctx, i, c) })
}

// keyOf says which sessions may run the call: calls with the same key may share one. The
// key has the whole owner where the server may ask or tell something that is meant for
// one caller: where the caller can be asked, or wants log lines, which no stream ties to
// a call, or which come, as with mcp-go, on that of any call in the session. It also has
// the owner where the server is told who calls, since it may tie that to the session.
// Otherwise it has the tenant alone, and with Config.Shared nobody.
func (p *pool) keyOf(c *registry.Call, i *item) seats.Key {
	if p.lends {
		return p.lentKey(c, i)
	}
	var k seats.Key
	k.Traits, k.Patient = traits(i, c)
	logs := c.LogLevel > 0 // many servers send them that do not declare logging
	k.Alone = !p.streams && (k.Patient || logs)
	switch {
	case p.cfg.Shared:
	case k.Patient || logs || p.cfg.Credential.Personal(c.Principal.TenantID):
		k.Owner = c.Principal.Owner()
	default:
		k.TenantID = c.Principal.TenantID
	}
	return k
}

// traits returns what a session declares on which the call runs: what its client can be
// asked if the method may ask, and its extensions. patient tells whether the call may
// wait for a human.
func traits(i *item, c *registry.Call) (declared string, patient bool) {
	var asked mcp.Object
	if i.asks {
		asked = c.Capabilities
	}
	if asked.Len() == 0 && !c.Extensions.Any() {
		return "", false
	}
	return string(c.Extensions.Adding(asked).JSON()), asked.Len() > 0
}

// sweep closes sessions that were idle for long, and forgets tasks whose time is over,
// until ctx ends.
func (p *pool) sweep(ctx context.Context) {
	for pace.Wait(ctx, sweepEvery) {
		p.tasks.expire()
		p.seats.Sweep()
	}
}

// converse runs a call whose caller can be asked.
func (p *pool) converse(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	return p.seated(ctx, i, c, func(s *seat) (mcp.Object, error) {
		return p.parking.begin(ctx, p.ownerOf(c), s, i, c)
	})
}

// useTask passes a request about a task on to the session that made the task: the server
// may know it in that session alone. The ids of the task are translated on the way.
func (p *pool) useTask(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	one, ok := p.tasks.rejoin(c.Task)
	if !ok {
		return mcp.Object{}, errTaskLost
	}
	own := *i
	own.name, own.quoted = one.own, mcp.String(one.own)
	session, s := p.control, one.seat
	if s != nil {
		session = s.Session.session
		if c.LogLevel > 0 && !p.cfg.Shared && !p.lends && s.Session.key.Owner != c.Principal.Owner() {
			// its client wants them only since the task began, in a session of several
			// users
			mute := *c
			mute.LogLevel, c = 0, &mute
		}
		if i.method == mcp.MethodTasksResult && c.Capabilities.Len() > 0 {
			return p.parking.begin(ctx, p.ownerOf(c), s, &own, c)
		}
		defer p.seats.Release(s, seats.Call)
	}
	if i.method == mcp.MethodTasksUpdate {
		return p.parking.update(ctx, p.ownerOf(c), one, &own, c)
	}
	result, err := session.call(ctx, &own, c)
	if result.Text("taskId") == one.own {
		result = result.With("taskId", mcp.String(c.Task))
		p.parking.endIfOver(c.Task, result.Text("status"))
		if result.Text("status") == "cancelled" {
			p.tasks.setRead(c.Task)
		}
	}
	return result, err
}

// close ends all calls, including those that go on without a caller, and closes all
// sessions. It waits for all of it.
func (p *pool) close(ctx context.Context, polite bool) {
	finish := p.parking.shut()
	p.seats.Close(ctx, polite)
	finish()
}

// Where one user stands behind all calls (Config.OneUser), a child of the legacy era is
// not started once for the lists and once more for each client. Instead the control
// connection is itself a session of the pool, and serves the calls of all clients, one
// client at a time.
//
//	no call is open                the session is lent to whichever client calls
//	calls of the same client       run beside each other: a question is for that client,
//	                               whichever call it came from
//	a client without a session,    its calls run one by one: such clients are told apart by a name alone,
//	  which can be asked           and all windows of one program have the same
//	a call of another client       another child is started; it ends when it has been idle for long
//	a call that wants log lines,   gets a session for that, as without OneUser
//	  or to become a task
//	a client with roots            gets a session of its own if the server asked for roots when it started,
//	                               because the answer holds for all calls of the session
//
// So what the server keeps in memory is the same for all clients, and its lists change
// with what a call does, as for a client that is connected to it directly. The hazard is
// a question that reaches a client that did not call: over stdio nothing ties a question
// to a call, and the user of the wrong window would answer it. Therefore a session never
// has open calls of two clients, and it is lent to nobody else while its server may still
// run a call that it did not answer (abandonedFor).
//
// This has a price. The server is told that its client can be asked everything, whatever
// the calling client can be asked, since its lists may depend on that and a session has
// one such declaration. When it asks a caller what this caller cannot be asked, it gets
// an error, although it might have done without the question had it known. After one such
// error the pool is strict until the server is connected to again: each set of things
// that clients can be asked then has sessions which declare exactly that set. So it is,
// too, as soon as the server lists other items to clients that declare other extensions:
// a call must find what its client was shown.

// lend makes the control connection a session on which calls run. It is called before the
// pool has calls.
func (p *pool) lend(control *legacy) {
	k := seats.Key{Traits: p.everything, Patient: true}
	p.lends = true
	p.seats.Lend(&pooled{key: k, conn: control.conn, calls: control.calls, seats: p.seats, session: control},
		k)
}

// lentKey is keyOf where the control connection is lent: it says which sessions may run a
// call of one user's client.
func (p *pool) lentKey(c *registry.Call, i *item) seats.Key {
	logs := c.LogLevel > 0 && p.conn.has("logging") // else the client's one open call gets them
	roots := p.conn.rooted.Load() && c.Capabilities.Has("roots")
	solo := !c.InSession && c.Capabilities.Len() > 0 && i.asks
	k := seats.Key{Owner: p.ownerOf(c), Alone: logs, Dedicated: roots, Solo: solo}
	switch {
	case !logs && !roots && c.Tasks != mcp.TasksAsked && !p.parking.strict.Load() && !p.conn.varies.Load():
		k.Traits, k.Patient = p.everything, true
	default:
		k.Traits, k.Patient = traits(i, c)
	}
	return k
}

// ownerOf returns whose the call is. Where there is one user, the client's own name is
// part of it, to keep clients apart.
func (p *pool) ownerOf(c *registry.Call) auth.Owner {
	who := c.Principal.Owner()
	if p.lends {
		who.ClientID += " " + c.Client
	}
	return who
}
