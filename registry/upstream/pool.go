package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
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

// pool keeps the sessions that run the calls of a legacy server, so that what a server says to one caller reaches no
// other. It is safe for concurrent use.
type pool struct {
	control *legacy // lists and watches; serves calls only where that mixes nobody
	server  fault
	dial    func(context.Context, *connection, mcp.Object) error
	strays  *strays              // of the server
	shared  bool                 // by the operator's word one session may serve everyone
	streams bool                 // each call has a stream of its own
	room    *seats.Room[*pooled] // the sessions
	lagging atomic.Bool          // a stream of a session was not open in time
	asked   atomic.Bool          // a question came in one of its sessions
	lends   bool                 // the control connection runs calls, because one user is behind all
	strict  atomic.Bool          // a caller was to be asked what it cannot be, so that OneUser is given up as far as that goes

	mu     sync.Mutex // guards the fields below
	ended  bool
	parked map[string]*dialogue
	tasks  map[string]*task
}

// seat is the place of one session of a pool.
type seat = seats.Seat[*pooled]

// pooled is one session of a pool.
type pooled struct {
	pool *pool
	key  seats.Key
	conn *connection
	lost func()             // says that the session is dead
	stop context.CancelFunc // ends what follows the session; nil before it was opened
}

func (s *pooled) session() *legacy { return s.conn.session.Load() }

// attach makes the connection the one that calls go to. The function it returns ends that.
func (u *Upstream) attach(ctx context.Context, c *connection) (detach func()) {
	switch peer := c.peer.(type) {
	case *legacy:
		c.pool = newPool(ctx, peer, u.cfg, u.open, &u.strays)
		if u.cfg.OneUser && u.cfg.URL == "" && !u.cfg.Shared {
			c.pool.lend()
		}
	case *modern:
		c.older = u.newSide(ctx, c, peer)
	}
	u.control.Store(c)
	return func() { u.control.Store(nil) }
}

// borrow returns the connection on which a tenant's resources are watched; release gives it back.
func (u *Upstream) borrow(ctx context.Context, tenantID string) (c *connection, release func(), err error) {
	if c = u.control.Load(); c == nil {
		return nil, nil, fault(u.cfg.Name).unavailable(false, wire.ErrGone)
	}
	p := c.pool
	if p == nil || p.shared || p.lends {
		return c, func() {}, nil
	}
	s, err := p.take(ctx, seats.Key{Owner: auth.Owner{User: auth.User{TenantID: tenantID}}}, seats.Loan)
	if err != nil {
		return nil, nil, err
	}
	return s.Session.conn, sync.OnceFunc(func() { p.room.Leave(s, seats.Loan) }), nil
}

func newPool(
	ctx context.Context, control *legacy, cfg Config, dial func(context.Context, *connection, mcp.Object) error, seen *strays,
) *pool {
	p := &pool{
		control: control, server: control.conn.server, dial: dial, strays: seen, shared: cfg.Shared,
		streams: control.link.Streams(), parked: map[string]*dialogue{}, tasks: map[string]*task{},
	}
	most := maxSessions
	if cfg.URL == "" {
		most = cmp.Or(cfg.MaxChildren, defaultChildren) - 1 // one is the control connection's
	}
	p.room = seats.New(ctx, seats.Config[*pooled]{
		Max: most, Opening: 2 * cfg.openLimit(), // a child may be started twice
		New:      p.newPooled,
		Alone:    func(k seats.Key) bool { return k.Traits != "" && p.strays.expected() },
		Lendable: func(s *pooled, to auth.Owner) bool { return !s.session().abandonedByOther(to) },
	})
	swept, end := p.room.Owned()
	p.room.Go(func() {
		defer end()
		p.sweep(swept)
	})
	return p
}

func (p *pool) newPooled(k seats.Key, lost func()) *pooled {
	s := &pooled{pool: p, key: k, conn: newConnection(string(p.server), p.control.conn.count), lost: lost}
	s.conn.control, s.conn.strays = p.control.conn, p.strays
	return s
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
		result, err = p.resume(ctx, c, state)
	case c.Task != "":
		result, err = p.useTask(ctx, i, c)
	case mayAsk(i.method) && (c.Capabilities.Len() > 0 || p.lends): // with one user, also to refuse what cannot be asked
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
	k := p.keyOf(c, i.method)
	if p.shared && k == (seats.Key{}) && (c.LogLevel == 0 || !p.control.conn.has("logging")) {
		return p.tracked(nil, c, func() (mcp.Object, error) { return p.control.call(ctx, i, c) })
	}
	s, err := p.take(ctx, k, seats.Call)
	if err != nil {
		return mcp.Object{}, err
	}
	defer p.room.Leave(s, seats.Call)
	return p.tracked(s, c, func() (mcp.Object, error) { return s.Session.session().call(ctx, i, c) })
}

// keyOf says which sessions may run the call. It has the whole caller where the server may say or ask what is meant for one.
func (p *pool) keyOf(c *registry.Call, method string) seats.Key {
	if p.lends {
		return p.lentKey(c, method)
	}
	var k seats.Key
	if c.Capabilities.Len() > 0 && mayAsk(method) {
		k.Traits, k.Patient = string(c.Capabilities.JSON()), true
	}
	logs := c.LogLevel > 0 && !p.streams && p.control.conn.has("logging")
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

// Open opens a session. It waits for its stream: on it come questions, and news of lists, which the server may send nowhere
// else. Without questions, a server whose streams open late is waited for once and no more.
func (s *pooled) Open(ctx context.Context, opened func()) error {
	capabilities, _ := mcp.ObjectOf(mcp.RawJSON(s.key.Traits))
	if err := s.pool.dial(ctx, s.conn, capabilities); err != nil {
		return s.pool.server.unavailable(false, cause(err))
	}
	opened()
	session := s.session()
	session.alone = s.key.Alone
	session.attend = sync.OnceFunc(s.follow)
	session.attend()
	if !s.key.Patient && s.pool.lagging.Load() {
		return nil
	}
	if !session.awaitStream(ctx) {
		s.pool.lagging.Store(true)
	}
	return nil
}

// cause returns what an error of a handshake hides, so that nobody takes it for the answer to a call.
func cause(err error) error {
	if unavailable, ok := errors.AsType[*registry.UnavailableError](err); ok {
		return unavailable.Err
	}
	return errors.New(err.Error())
}

// follow follows what the server sends on its own in a session, until either ends.
func (s *pooled) follow() {
	ctx, cancel := s.pool.room.Owned()
	s.stop = cancel
	session := s.session()
	followed := s.pool.room.Go(func() {
		defer cancel()
		if err := session.watch(ctx); err != nil && ctx.Err() == nil {
			s.lost()
		}
	})
	if !followed {
		cancel()
	}
}

// Doubted tells whether a call on the session failed so that it may be dead.
func (s *pooled) Doubted() bool {
	select {
	case <-s.conn.doubts:
		return true
	default:
		return false
	}
}

// Alive asks the server for a proof of life.
func (s *pooled) Alive(ctx context.Context) error { return s.session().alive(ctx) }

// Close ends the session, and with it its tasks.
func (s *pooled) Close(ctx context.Context, polite bool) {
	s.pool.loseTasks(s)
	s.stop()
	s.conn.end(ctx, polite)
}

// sweep closes sessions that nobody used for long, and forgets tasks whose time is over.
func (p *pool) sweep(ctx context.Context) {
	for pace.Wait(ctx, sweepEvery) {
		p.expireTasks()
		p.room.Sweep()
	}
}

// park keeps a call whose round has ended until its repeat claims it. It returns false when there are too many.
func (p *pool) park(state string, d *dialogue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.parked) >= parkedMax {
		return false
	}
	p.parked[state] = d
	p.asked.Store(true)
	return true
}

// waiting returns the call that waits with that state, nil when there is none.
func (p *pool) waiting(state string) *dialogue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked[state]
}

// claim tells whether the caller is the one who goes on with the call, which is the first who asks.
func (p *pool) claim(state string, d *dialogue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parked[state] != d {
		return false
	}
	delete(p.parked, state)
	return true
}

// close ends all calls that go on by themselves and closes all sessions. It waits for all of it.
func (p *pool) close(ctx context.Context, polite bool) {
	p.mu.Lock()
	p.ended = true
	parked := p.parked
	p.parked = map[string]*dialogue{}
	p.mu.Unlock()
	p.room.Close(ctx, polite)
	for _, d := range parked {
		d.stopExpiry() // no round begins to wait any more
	}
}
