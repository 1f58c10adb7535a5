package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

const (
	beat     = time.Second     // how often a replica says that it lives
	life     = 5 * time.Second // after the last beat
	patience = 2 * time.Second // of Send
	most     = 1000            // replicas that are known at most
	grace    = time.Second     // for messages that are being handled when this replica ends
	probing  = 2 * time.Second // how often it is tried to reach each other replica

	isolatedTime = 10 * time.Minute // for which a replica that reaches no other is not ready, at most
)

// GroupConfig is what a Group needs. Every field but Address is required.
type GroupConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Logger *slog.Logger
	Count  Counter
	// Listen is where others reach this replica: host and port. Without a host it is the
	// address of the connection to Redis, which is in a network that all replicas are in.
	// With the port 0 it is a free one.
	Listen string
	// Address is what others are told in place of the address that is listened on, where
	// that is another one for them; "": it is not. Without a port it is that of the
	// listener.
	Address string
}

// Counter counts what goes to other replicas and comes from them. Its methods return at
// once.
type Counter interface {
	// MessageSent counts a message of a kind, or a request that was forwarded: whether it
	// was "sent", the other replica was "gone", or it "failed".
	MessageSent(kind, outcome string)
	MessageReceived(kind string)
	// TakenForGone counts that others may have taken this replica for gone.
	TakenForGone()
}

// Group is Others over Redis, which says who lives, and a link, which carries what they
// say. It is safe for concurrent use.
type Group struct {
	config   GroupConfig
	id       ID
	identity *link.Identity
	link     *link.Link
	returns  []func()
	changes  []func()
	members  atomic.Pointer[map[ID]*member] // that live, without this replica
	address  atomic.Pointer[string]         // of the listener, as others are told; nil: nobody listens yet
	older    atomic.Bool                    // a replica with lower Formats lives
	newer    atomic.Bool                    // a replica with higher Formats lives
	// others that say under another key how they are reached
	unreadable atomic.Int64
	reached    atomic.Bool // another replica was reached once
	// when others knew this replica first; nil: they do not yet
	joined     atomic.Pointer[time.Time]
	introduced atomic.Bool   // each other replica was reached after joined, so it knows this one
	tryNow     chan struct{} // holds a value when probe is to try all others at once
	// this replica has said that it ends, and never says again that it lives
	left   atomic.Bool
	drains atomic.Bool // this replica says that it is about to end
	clock  atomic.Pointer[clock]
	lease  lease

	looking sync.Mutex // held while it is noted who lives; guards the fields below
	looked  time.Time  // when that began last
	problem error      // why it failed; nil: it did not
}

var _ Others = (*Group)(nil)

// NewGroup returns a Group with a new id and a new certificate. Run makes it live.
func NewGroup(cfg GroupConfig) (*Group, error) {
	identity, err := link.NewIdentity()
	if err != nil {
		return nil, err
	}
	g := &Group{config: cfg, id: NewID(), identity: identity, tryNow: make(chan struct{}, 1)}
	g.members.Store(&map[ID]*member{})
	g.link = link.New(link.Config{
		Identity: identity, Directory: g, Away: g.isAway,
		Logger: cfg.Logger,
	})
	return g, nil
}

// Self implements Others.
func (g *Group) Self() ID { return g.id }

// Handle implements Others.
func (g *Group) Handle(kind string, h Handler) {
	g.link.Handle(kind, func(ctx context.Context, from string, m Message) ([]byte, error) {
		g.config.Count.MessageReceived(kind)
		return h(context.WithoutCancel(ctx), ID(from), m) // what it begins goes on
	})
}

// ServeClients implements Others.
func (g *Group) ServeClients(h http.Handler) { g.link.ServeClients(h) }

// OnReturn implements Others.
func (g *Group) OnReturn(f func()) { g.returns = append(g.returns, f) }

// OnChange implements Others.
func (g *Group) OnChange(f func()) { g.changes = append(g.changes, f) }

// Drain implements Others. The others know at the next beat.
func (g *Group) Drain() { g.drains.Store(true) }

// Joined tells whether others know this replica, and how to reach it. Until then it must
// serve nobody: what is told to all others would be told to all but this one, and who
// does not know it takes it for gone, and takes over what it leads. A replica that is
// reached knows who has reached it. Who is not reached has looked by the end of its
// lease, or may take nothing over. One with lower Formats, which would take for forged
// what this one gives to clients, has looked after two beats.
func (g *Group) Joined() bool {
	joined := g.joined.Load()
	switch {
	case joined == nil:
		return false
	case !g.introduced.Load():
		return time.Since(*joined) > leaseTime
	case g.older.Load():
		return time.Since(*joined) > 2*beat
	}
	return true
}

// Run lives, and hands messages to its handlers, until ctx ends. Then it says so, if the
// server can be reached: the store must serve until Run has returned.
func (g *Group) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	open, end := context.WithCancel(context.WithoutCancel(ctx))
	serving.Go(func() { g.serve(open) })
	serving.Go(func() { g.probe(ctx) })
	g.beat(ctx)
	g.shutDown(context.WithoutCancel(ctx)) // nobody serves any more when ctx has ended
	end()
	serving.Wait()
	g.forget()
	return nil
}

// shutDown lets others go without losing what they ask of this replica:
//
//	nothing is begun any more, what was asked is answered ── grace at most ──▶ who asks now knows that nothing was done
//	it is said that this replica has ended ── a beat ──▶ nobody asks, when the connections are closed
//
// Whoever is told that a replica has ended waits for no answer of it any more, and would
// take for lost what that one is about to answer. On a connection that was closed just
// then, it could not tell whether a request has arrived.
func (g *Group) shutDown(ctx context.Context) {
	answered, stop := context.WithTimeout(ctx, grace)
	defer stop()
	g.link.Leave(answered)
	others := len(*g.members.Load()) > 0
	g.leave(ctx)
	if others {
		<-time.After(beat)
	}
}

// probe finds out now and then which others can be reached, until ctx ends, and at once
// when others know this replica anew, so that each of them does. While Redis is away it
// also asks whether any of them uses it: if none does, none can take over what this
// replica leads. It asks that at each beat: a lease lasts little more than two beats
// longer than it takes to notice that Redis is away, and others may notice it a beat
// later.
func (g *Group) probe(ctx context.Context) {
	for {
		g.tryAll(ctx)
		if !pace.WaitOr(ctx, probing, g.tryNow) {
			return
		}
	}
}

// tryAll tries to reach all others at once.
func (g *Group) tryAll(ctx context.Context) {
	var all sync.WaitGroup
	var reached, use atomic.Int64
	asked, isKnown, members := time.Now(), g.joined.Load() != nil, *g.members.Load()
	limit := patience
	if g.isAway() { // or one that is gone without a word would take the rest of the lease
		limit = beat
	}
	for id, m := range members {
		all.Go(func() {
			brief, stop := context.WithTimeout(ctx, limit)
			defer stop()
			away, err := g.link.Ping(brief, string(id))
			m.reached.Store(err == nil)
			if err == nil {
				g.reached.Store(true)
				reached.Add(1)
			}
			if err == nil && !away {
				use.Add(1)
			}
		})
	}
	all.Wait()
	if isKnown && int(reached.Load()) == len(members) {
		g.introduced.Store(true)
	}
	if g.isAway() && use.Load() == 0 && (reached.Load() > 0 || len(members) == 0) {
		g.lease.extend(asked)
	}
}

// Unreached returns where those others should be reached that cannot be, as far as is
// known here, sorted.
func (g *Group) Unreached() (addresses []string) {
	for _, m := range *g.members.Load() {
		if !m.reached.Load() {
			addresses = append(addresses, m.peer.Address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// Isolated tells whether this replica knows of others and has reached none of them since
// its start. After isolatedTime it is false all the same: whatever stands between
// replicas by then, one more that serves does no harm.
func (g *Group) Isolated() bool {
	joined := g.joined.Load()
	return joined != nil && len(*g.members.Load()) > 0 && !g.reached.Load() &&
		time.Since(*joined) < isolatedTime
}

// serve listens for others until ctx ends. Whatever hinders it is tried again: the
// address is that of the connection to Redis, which may not be there yet, and may be that
// of another network later.
func (g *Group) serve(ctx context.Context) {
	for said := ""; ctx.Err() == nil; {
		err := g.listen(ctx)
		if err != nil && err.Error() != said && !errors.Is(err, redis.ErrDown) && ctx.Err() == nil {
			said = err.Error()
			g.config.Logger.ErrorContext(ctx, "other replicas cannot reach this one", slog.Any("error", err))
		}
		pace.Wait(ctx, beat/4)
	}
}

// listen listens for others until ctx ends, or that fails.
func (g *Group) listen(ctx context.Context) error {
	host, port, err := net.SplitHostPort(g.config.Listen)
	if err != nil {
		return fmt.Errorf("listen for other replicas: %w", err)
	}
	advertised := host
	if advertised == "" || net.ParseIP(advertised).IsUnspecified() {
		if advertised, err = g.config.Store.LocalHost(); err != nil {
			return err
		}
	}
	if host == "" {
		host = advertised
	}
	var one net.ListenConfig
	listener, err := one.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("listen for other replicas: %w", err)
	}
	_, port, _ = net.SplitHostPort(listener.Addr().String()) // a listener has a port
	address := net.JoinHostPort(advertised, port)
	if named := g.config.Address; named != "" {
		address = named
		if _, _, err := net.SplitHostPort(named); err != nil {
			address = net.JoinHostPort(named, port)
		}
	}
	g.address.Store(&address)
	g.config.Logger.InfoContext(ctx, "listening for other replicas", slog.String("listen", address))
	return g.link.Serve(ctx, listener)
}

// Send implements Others.
func (g *Group) Send(ctx context.Context, to ID, w Message) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	answer, err := g.link.Send(ctx, string(to), w)
	g.sent(w.Kind, err)
	return answer, err
}

// Forward implements Others.
func (g *Group) Forward(ctx context.Context, to ID, r link.Request) (*http.Response, error) {
	answer, err := g.link.Forward(ctx, string(to), r)
	g.sent("forward", err)
	return answer, err
}

// sent counts what was sent.
func (g *Group) sent(kind string, err error) {
	outcome := "sent"
	switch {
	case errors.Is(err, ErrUnreached):
		outcome = "gone"
	case err != nil:
		outcome = "failed"
	}
	g.config.Count.MessageSent(kind, outcome)
}
