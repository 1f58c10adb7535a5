package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of sessions.
const (
	defaultChildren = 8
	maxSessions     = 64               // over HTTP
	idleLimit       = 5 * time.Minute  // until a session that nobody uses is closed
	idleCheck       = 30 * time.Second // between two looks for such sessions
)

// pool keeps the sessions that run the calls of a legacy server, so that what a server says to one caller reaches no
// other. It is safe for concurrent use.
type pool struct {
	control *legacy // lists and watches; serves calls only where that mixes nobody
	server  fault
	dial    func(context.Context, *connection, mcp.Object) error
	strays  *strays                                      // of the server
	shared  bool                                         // by the operator's word one session may serve everyone
	streams bool                                         // each call has a stream of its own
	max     int                                          // sessions at once
	opening time.Duration                                // how long one handshake may take
	lent    *pooled                                      // the control connection, which runs calls where one user is behind all; else nil
	owned   func() (context.Context, context.CancelFunc) // of a goroutine of the pool
	end     context.CancelFunc
	lagging atomic.Bool    // a stream of a session was not open in time
	work    sync.WaitGroup // all goroutines of the pool
	asked   atomic.Bool    // a question came in one of its sessions
	strict  atomic.Bool    // a caller was to be asked what it cannot be, so that OneUser is given up as far as that goes

	mu       sync.Mutex // guards the fields below
	ended    bool
	sessions map[key][]*pooled
	all      map[*pooled]struct{} // those that are being opened or closed, or take no calls, included
	closing  int                  // sessions that make room
	retiring int                  // those that will when their last call has ended
	queue    []*ticket            // those who wait for room, in the order in which they came
	parked   map[string]*dialogue
	tasks    map[string]*task
}

// key says who may share a session. It has the whole owner where the server may say or ask what is meant for one.
type key struct {
	auth.Owner

	capabilities string // in canonical form; "" are none
	alone        bool   // one call at a time, whether the server asks stray questions or not
	kept         bool   // where one user is behind all: it is lent to no other client
	solo         bool   // where one user is behind all: one call at a time, as nothing tells the windows of a program apart
}

// pooled is one session of a pool.
type pooled struct {
	key    key
	conn   *connection
	opened chan struct{} // closed when the session is there, or err is set
	err    error
	stop   context.CancelFunc // ends what follows the session

	// Guarded by the pool's mutex.
	calls, loans int
	since        time.Time // when it was opened; zero: it is not yet
	idle         time.Time // since when there are no calls
	examined     bool      // a proof of life is asked for
	needed       time.Time // until when its tasks want it; zero: there are none
	lost         bool      // it takes no more calls
	retired      bool      // so that another gets its place
	leaving      bool      // it is being closed
}

func (s *pooled) session() *legacy { return s.conn.session.Load() }

// use is what a session is wanted for.
type use int

const (
	aCall use = iota
	aLoan     // to watch resources, beside calls
)

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
	if p == nil || p.shared || p.lent != nil {
		return c, func() {}, nil
	}
	s, err := p.acquire(ctx, key{Owner: auth.Owner{User: auth.User{TenantID: tenantID}}}, aLoan)
	if err != nil {
		return nil, nil, err
	}
	return s.conn, sync.OnceFunc(func() { p.giveBack(s) }), nil
}

func newPool(
	ctx context.Context, control *legacy, cfg Config, dial func(context.Context, *connection, mcp.Object) error, seen *strays,
) *pool {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // close ends it, in its own order
	p := &pool{
		control: control, server: control.conn.server, dial: dial, strays: seen, shared: cfg.Shared,
		streams: control.link.Streams(), max: maxSessions, opening: cfg.openLimit(), end: end,
		owned:    func() (context.Context, context.CancelFunc) { return context.WithCancel(life) },
		sessions: map[key][]*pooled{}, all: map[*pooled]struct{}{}, parked: map[string]*dialogue{}, tasks: map[string]*task{},
	}
	if cfg.URL == "" {
		p.max = cmp.Or(cfg.MaxChildren, defaultChildren) - 1 // one is the control connection's
	}
	p.work.Go(func() { p.sweep(life) })
	return p
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
	case mayAsk(i.method) && (c.Capabilities.Len() > 0 || p.lent != nil): // with one user, also to refuse what cannot be asked
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
	if p.shared && k == (key{}) && (c.LogLevel == 0 || !p.control.conn.has("logging")) {
		return p.tracked(nil, c, func() (mcp.Object, error) { return p.control.call(ctx, i, c) })
	}
	s, err := p.acquire(ctx, k, aCall)
	if err != nil {
		return mcp.Object{}, err
	}
	defer p.release(s)
	return p.tracked(s, c, func() (mcp.Object, error) { return s.session().call(ctx, i, c) })
}

// keyOf says which sessions may run the call.
func (p *pool) keyOf(c *registry.Call, method string) key {
	if p.lent != nil {
		return p.lentKey(c, method)
	}
	var k key
	if c.Capabilities.Len() > 0 && mayAsk(method) {
		k.capabilities = string(c.Capabilities.JSON())
	}
	logs := c.LogLevel > 0 && !p.streams && p.control.conn.has("logging")
	k.alone = !p.streams && (k.capabilities != "" || logs)
	switch {
	case p.shared:
	case k.capabilities != "" || logs:
		k.Owner = c.Principal.Owner()
	default:
		k.TenantID = c.Principal.TenantID
	}
	return k
}

// find returns a session that may take another call. The mutex is held.
func (p *pool) find(k key) *pooled {
	if p.lent != nil {
		return p.findLent(k)
	}
	alone := k.alone || k.capabilities != "" && p.strays.expected()
	for _, s := range p.sessions[k] {
		if !alone || s.calls == 0 {
			return s
		}
	}
	return nil
}

// rivals returns which sessions may make room for another one for the key, nil when there is room. A caller who can be
// asked may keep a session for long: one user has half of them at most, and one tenant leaves a quarter to others. Then
// only their own make room. The mutex is held.
func (p *pool) rivals(k key) func(*pooled) bool {
	ofTenant := func(s *pooled) bool { return s.key.Subject != "" && s.key.TenantID == k.TenantID }
	ofUser := func(s *pooled) bool { return s.key.Subject != "" && s.key.User == k.User }
	users, tenants := 0, 0
	for s := range p.all {
		if ofTenant(s) {
			tenants++
		}
		if ofUser(s) {
			users++
		}
	}
	switch {
	case k.Subject != "" && users >= (p.max+1)/2:
		return ofUser
	case k.Subject != "" && tenants >= p.max-(p.max+1)/4:
		return ofTenant
	case len(p.all) >= p.max:
		return func(*pooled) bool { return true }
	}
	return nil
}

// begin opens a session. The mutex is held.
func (p *pool) begin(k key) *pooled {
	s := &pooled{
		key: k, conn: newConnection(string(p.server), p.control.conn.count),
		opened: make(chan struct{}), stop: func() {}, idle: time.Now(),
	}
	s.conn.control, s.conn.strays = p.control.conn, p.strays
	p.all[s] = struct{}{}
	p.sessions[k] = append(p.sessions[k], s)
	p.work.Go(func() { p.open(s) })
	return s
}

// open opens a session, for all who wait for it and not for the first alone.
func (p *pool) open(s *pooled) {
	defer close(s.opened)
	ctx, cancel := p.owned()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*p.opening) // a child may be started twice
	defer cancel()
	capabilities, _ := mcp.ObjectOf(mcp.RawJSON(s.key.capabilities))
	if err := p.dial(ctx, s.conn, capabilities); err != nil {
		s.err = p.server.unavailable(false, cause(err))
		p.mu.Lock()
		p.forget(s)
		s.leaving = true
		delete(p.all, s)
		p.serve()
		p.mu.Unlock()
		return
	}
	p.mu.Lock()
	s.since = time.Now()
	p.mu.Unlock()
	session := s.session()
	session.alone = s.key.alone
	session.attend = sync.OnceFunc(func() { p.follow(s) })
	session.attend()
	p.awaitStream(ctx, s)
}

// awaitStream waits for the stream of a session: on it come questions, and news of lists, which the server may send
// nowhere else. Without questions, a server whose streams open late is waited for once and no more.
func (p *pool) awaitStream(ctx context.Context, s *pooled) {
	if s.key.capabilities == "" && p.lagging.Load() {
		return
	}
	if !s.session().awaitStream(ctx) {
		p.lagging.Store(true)
	}
}

// cause returns what an error of a handshake hides, so that nobody takes it for the answer to a call.
func cause(err error) error {
	if unavailable, ok := errors.AsType[*registry.UnavailableError](err); ok {
		return unavailable.Err
	}
	return errors.New(err.Error())
}

// follow follows what the server sends on its own in a session, until either ends.
func (p *pool) follow(s *pooled) {
	ctx, cancel := p.owned()
	p.mu.Lock()
	s.stop = cancel
	leaving := s.leaving
	p.mu.Unlock()
	session := s.session()
	watching := func() {
		defer cancel()
		if err := session.watch(ctx); err != nil && ctx.Err() == nil {
			p.discard(s)
		}
	}
	if leaving || !p.start(watching) {
		cancel()
	}
}

// ready waits until a session is open.
func (p *pool) ready(ctx context.Context, s *pooled, u use) (*pooled, error) {
	var err error
	select {
	case <-s.opened:
		err = s.err
	case <-ctx.Done():
		err = p.late(ctx)
	}
	if err == nil {
		return s, nil
	}
	if u == aLoan {
		p.giveBack(s)
	} else {
		p.release(s)
	}
	return nil, err
}

// release ends a call.
func (p *pool) release(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt(s)
	if s.calls--; s.calls > 0 {
		return
	}
	s.idle = time.Now()
	if s.lost {
		p.leave(s)
	}
	p.serve()
}

// doubt has a session examined on which a call failed so that the session may be dead, also when others go on. The mutex
// is held.
func (p *pool) doubt(s *pooled) {
	if s.lost || s.examined || p.ended {
		return
	}
	select {
	case <-s.conn.doubts:
		s.examined = true
		p.work.Go(func() { p.examine(s) })
	default:
	}
}

// examine discards a session that shows no life.
func (p *pool) examine(s *pooled) {
	ctx, cancel := p.owned()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	if err := s.session().alive(ctx); err != nil {
		p.discard(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.examined = false
}

// giveBack ends a loan.
func (p *pool) giveBack(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.loans--
	s.idle = time.Now()
	p.serve()
}

// discard takes a session that is dead out of use. It is closed when its last call has ended.
func (p *pool) discard(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(s)
	if s.calls == 0 {
		p.leave(s)
	}
}

// forget makes a session take no more calls. The mutex is held.
func (p *pool) forget(s *pooled) {
	s.lost = true
	left := slices.DeleteFunc(p.sessions[s.key], func(other *pooled) bool { return other == s })
	if p.sessions[s.key] = left; len(left) == 0 {
		delete(p.sessions, s.key)
	}
}

// leave closes a session that runs no call, and lets who watches something on it go. The mutex is held.
func (p *pool) leave(s *pooled) {
	if s.leaving || p.ended {
		return
	}
	p.forget(s)
	p.lose(s)
	s.leaving = true
	if s.retired {
		p.retiring--
	}
	p.closing++
	s.stop()
	p.work.Go(func() {
		if <-s.opened; s.err == nil {
			s.conn.end(context.Background(), true)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closing--
		delete(p.all, s)
		p.serve()
	})
}

// before tells whether s makes room before other does.
func (s *pooled) before(other *pooled) bool {
	if (s.loans == 0) != (other.loans == 0) {
		return s.loans == 0
	}
	if s.needed.IsZero() != other.needed.IsZero() {
		return s.needed.IsZero()
	}
	return s.idle.Before(other.idle)
}

// sweep closes sessions that nobody used for long.
func (p *pool) sweep(ctx context.Context) {
	for pace.Wait(ctx, idleCheck) {
		p.mu.Lock()
		p.expireTasks()
		for _, sessions := range p.sessions {
			for _, s := range slices.Clone(sessions) {
				if s.calls == 0 && s.loans == 0 && s.needed.IsZero() && time.Since(s.idle) >= idleLimit {
					p.leave(s)
				}
			}
		}
		p.mu.Unlock()
	}
}

// start runs f in a goroutine that close waits for. It returns false when close was called.
func (p *pool) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.work.Go(f)
	return true
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
	for _, t := range p.queue {
		close(t.served)
	}
	p.queue = nil
	parked := p.parked
	p.parked = map[string]*dialogue{}
	p.mu.Unlock()
	p.end()
	p.work.Wait()
	for _, d := range parked {
		d.stopExpiry() // no round begins to wait any more
	}
	var open sync.WaitGroup
	for s := range p.all { // nobody changes them any more
		open.Go(func() { s.conn.end(ctx, polite) })
	}
	open.Wait()
}
