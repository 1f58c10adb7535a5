package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of sessions.
const (
	defaultChildren = 8
	maxSessions     = 64               // over HTTP
	sweepEvery      = 30 * time.Second // between two looks for sessions and tasks whose time is over
)

// older is a server of the legacy era: one session lists and watches, those of a pool run the calls.
type older struct {
	*legacy
	pool *pool
}

var _ peer = (*older)(nil)

func newOlder(ctx context.Context, control *legacy, cfg *Config, dial opener, seen *strays) *older {
	p := newPool(ctx, control.conn, control.link.Streams(), cfg, dial, seen)
	if cfg.Shared {
		p.control = control
	} else if cfg.OneUser && cfg.URL == "" {
		p.lend(control)
	}
	return &older{control, p}
}

func (o *older) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	return o.pool.call(ctx, i, c)
}

// watchResource watches in a session of the tenant.
func (o *older) watchResource(ctx context.Context, tenantID, uri string, live func(), updated func(uri string)) error {
	if o.pool.shared || o.pool.lends {
		return o.legacy.watchResource(ctx, tenantID, uri, live, updated)
	}
	s, err := o.pool.take(ctx, seats.Key{Owner: auth.Owner{User: auth.User{TenantID: tenantID}}}, seats.Loan)
	if err != nil {
		return err
	}
	defer o.pool.room.Leave(s, seats.Loan)
	return s.Session.session.watchResource(ctx, tenantID, uri, live, updated)
}

// busy tells whether a call runs on the session that lists.
func (o *older) busy() bool { return o.pool.room.LentOut() }

func (o *older) sessions() int { return 1 + o.pool.room.Size() }

func (o *older) close(ctx context.Context, polite bool) {
	o.pool.close(ctx, polite)
	o.legacy.close(ctx, polite)
}

// pool keeps the sessions that run the calls of a legacy server, so that what a server says to one caller reaches no
// other. It is safe for concurrent use.
type pool struct {
	control *legacy // serves calls only where that mixes nobody; nil: it serves none
	conn    *connection
	server  fault
	shared  bool                 // by the operator's word one session may serve everyone
	streams bool                 // each call has a stream of its own
	lends   bool                 // the control connection runs calls, because one user is behind all
	room    *seats.Room[*pooled] // the sessions
	parking *parking             // the calls whose callers can be asked
	tasks   *tasks
}

// newPool returns a pool that opens its sessions with dial. seen are the stray questions of the server.
func newPool(ctx context.Context, c *connection, streams bool, cfg *Config, dial opener, seen *strays) *pool {
	p := &pool{conn: c, server: c.server, shared: cfg.Shared, streams: streams}
	most := maxSessions
	if cfg.URL == "" {
		most = cmp.Or(cfg.MaxChildren, defaultChildren) - 1 // one is the control connection's
	}
	p.tasks = &tasks{server: c.server, byID: map[string]*task{}}
	lagging := &atomic.Bool{}
	p.room = seats.New(ctx, seats.Config[*pooled]{
		Max: most, Opening: 2 * cfg.openLimit(), // a child may be started twice
		New: func(k seats.Key, lost func()) *pooled {
			return &pooled{
				key: k, conn: newSessionConnection(c), calls: &calls{strays: seen}, dial: dial, room: p.room, lagging: lagging,
				lost: lost, closed: p.tasks.forget,
			}
		},
		Alone:    seen.expected,
		Lendable: func(s *pooled, to auth.Owner) bool { return !s.calls.abandonedByOther(to) },
	})
	p.tasks.room = p.room
	p.parking = &parking{server: c.server, room: p.room, tasks: p.tasks, count: c.count, waiting: map[string]*dialogue{}}
	p.room.Go(p.sweep)
	return p
}

// take returns a seat for a call or a loan. A call that does not find any has not left.
func (p *pool) take(ctx context.Context, k seats.Key, u seats.Use) (*seat, error) {
	s, err := p.room.Take(ctx, k, u)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, seats.ErrNone):
		return nil, p.server.unavailable(false, errNoChild)
	case errors.Is(err, seats.ErrEnded):
		return nil, p.server.unavailable(false, wire.ErrGone)
	case errors.Is(err, seats.ErrBusy):
		return nil, p.server.unavailable(false, errBusy)
	}
	return nil, err
}

// call runs one call on a session for its caller.
func (p *pool) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	state := c.Params.Text("requestState")
	if state == stateAgain {
		accepted, err := again(c)
		switch {
		case err != nil:
			return mcp.Object{}, err
		case !accepted:
			const text = "The user did not open the address that the server asked for"
			return failed(i, text, mcp.Errorf(mcp.CodeInvalidParams, text))
		}
		state = ""
	}
	if c.Tasks == mcp.TasksAsked && !p.streams { // nothing would tie a question of a task to it, so nobody is there to be asked
		mute := *c
		mute.Capabilities, mute.LogLevel, c = mcp.Object{}, 0, &mute
	}
	var (
		result mcp.Object
		err    error
	)
	switch {
	case state != "":
		result, err = p.parking.resume(ctx, p.ownerOf(c), c, state)
	case c.Task != "":
		result, err = p.useTask(ctx, i, c)
	case i.asks && (c.Capabilities.Len() > 0 || p.lends): // with one user, also to refuse what cannot be asked
		result, err = p.converse(ctx, i, c)
	default:
		result, err = p.plain(ctx, i, c)
	}
	if err != nil {
		return opened(i, c, err)
	}
	return result, nil
}

// plain runs a call whose caller cannot be asked anything.
func (p *pool) plain(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	k := p.keyOf(c, i)
	if p.shared && k == (seats.Key{}) && (c.LogLevel == 0 || !p.conn.has("logging")) {
		return p.run(ctx, nil, p.control, i, c)
	}
	s, err := p.take(ctx, k, seats.Call)
	if err != nil {
		return mcp.Object{}, err
	}
	defer p.room.Leave(s, seats.Call)
	return p.run(ctx, s, s.Session.session, i, c)
}

// run runs a call on the session of a seat, which is nil for the control connection's.
func (p *pool) run(ctx context.Context, s *seat, session *legacy, i *item, c *registry.Call) (mcp.Object, error) {
	if c.Tasks != mcp.TasksAsked {
		return session.call(ctx, i, c)
	}
	return p.tasks.tracked(s, c, func() (mcp.Object, error) { return session.call(ctx, i, c) })
}

// keyOf says which sessions may run the call. It has the whole caller where the server may say or ask what is meant for one.
func (p *pool) keyOf(c *registry.Call, i *item) seats.Key {
	if p.lends {
		return p.lentKey(c, i)
	}
	var k seats.Key
	if c.Capabilities.Len() > 0 && i.asks {
		k.Traits, k.Patient = string(c.Capabilities.JSON()), true
	}
	logs := c.LogLevel > 0 && !p.streams && p.conn.has("logging")
	k.Alone = !p.streams && (k.Patient || logs)
	switch {
	case p.shared:
	case k.Patient || logs:
		k.Owner = c.Principal.Owner()
	default:
		k.TenantID = c.Principal.TenantID
	}
	return k
}

// sweep closes sessions that nobody used for long, and forgets tasks whose time is over.
func (p *pool) sweep(ctx context.Context) {
	for pace.Wait(ctx, sweepEvery) {
		p.tasks.expire()
		p.room.Sweep()
	}
}

// converse runs a call whose caller can be asked.
func (p *pool) converse(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	s, err := p.take(ctx, p.keyOf(c, i), seats.Call)
	if err != nil {
		return mcp.Object{}, err
	}
	return p.parking.begin(ctx, p.ownerOf(c), s, i, c)
}

// useTask passes a request about a task on to the session that has it.
func (p *pool) useTask(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	s, id, ok := p.tasks.rejoin(c.Task)
	if !ok {
		return mcp.Object{}, errTaskLost
	}
	own := *i
	own.name, own.quoted = id, mcp.String(id)
	session := p.control
	if s != nil {
		session = s.Session.session
		if i.method == mcp.MethodTasksResult && c.Capabilities.Len() > 0 {
			return p.parking.begin(ctx, p.ownerOf(c), s, &own, c)
		}
		defer p.room.Leave(s, seats.Call)
	}
	result, err := session.call(ctx, &own, c)
	if result.Text("taskId") == id {
		result = result.With("taskId", mcp.String(c.Task))
	}
	return result, err
}

// close ends all calls that go on by themselves and closes all sessions. It waits for all of it.
func (p *pool) close(ctx context.Context, polite bool) {
	finish := p.parking.shut()
	p.tasks.shut()
	p.room.Close(ctx, polite)
	finish()
}

// Where one user stands behind all calls (Config.OneUser), a child of the legacy era is not started once for the lists and
// once for each client: the control connection is a session of the pool, too, and serves the calls of all clients, one
// client at a time.
//
//	no call is open                 the session is lent to whichever client calls
//	calls of the same client        run beside each other: a question is for that client, whichever call it came from
//	those of one without a session  run one by one if it can be asked: it is but a name, which each of its windows has
//	a call of another client        another child is started; it ends when it was idle for long
//	who wants log lines, or a task  has a session for that, as without OneUser
//	who has roots                   has a session of its own, if the server asks for roots when it starts: they hold for all calls
//
// So what the server keeps in memory is the same for all clients, and lists change with what a call does, as when a client
// is connected directly. The hazard is a question that reaches the client that did not call: nothing ties one to a call
// over stdio, and the user of the wrong window would answer it. So a session never has open calls of two clients, and is
// lent to nobody else while its server may still run a call that it did not answer (abandonedFor).
//
// The price: what the server is told that its client can be asked is what any client could be, since its lists may depend
// on that and one session has one such declaration. The caller that cannot be asked a question is not asked, and the
// server gets an error where it might have done without the question, had it known. When that happens once, the pool is
// strict until the server is connected to again: each set of what a client can be asked has sessions that declare it.

// lend makes the control connection a session that calls run on. It is called before the pool has calls.
func (p *pool) lend(control *legacy) {
	k := seats.Key{Traits: string(everything().JSON()), Patient: true}
	p.lends = true
	p.room.Lend(&pooled{key: k, conn: control.conn, calls: control.calls, room: p.room, session: control}, k)
}

// lentKey says which sessions may run the call of one user's client.
func (p *pool) lentKey(c *registry.Call, i *item) seats.Key {
	logs := c.LogLevel > 0 && p.conn.has("logging")
	roots := p.conn.rooted.Load() && c.Capabilities.Has("roots")
	solo := !c.InSession && c.Capabilities.Len() > 0 && i.asks
	k := seats.Key{Owner: p.ownerOf(c), Alone: logs, Kept: roots, Solo: solo}
	switch {
	case !logs && !roots && c.Tasks != mcp.TasksAsked && !p.parking.strict.Load():
		k.Traits = string(everything().JSON())
	case c.Capabilities.Len() > 0 && i.asks:
		k.Traits = string(c.Capabilities.JSON())
	}
	k.Patient = k.Traits != ""
	return k
}

// ownerOf returns whose the call is: where there is one user, also in which client.
func (p *pool) ownerOf(c *registry.Call) auth.Owner {
	who := c.Principal.Owner()
	if p.lends {
		who.ClientID += " " + c.Client
	}
	return who
}
