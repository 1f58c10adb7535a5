// Package link answers: how does one replica reach another? It carries messages of
// replicas, and requests of clients that one replica forwards to another, over
// connections that carry nothing else. It knows who the others are only through a
// Directory, and deliberately not what a message says or what a request asks for.
//
//	Send ─────▶ the message ────────────────────────▶ the handler of that kind ──▶ what that says
//	Forward ──▶ the request of a client, as it came ──▶ the handler of clients ────▶ its answer, as it comes
//
// A connection carries one exchange at a time (frame.go). HTTP would do, and did:
// net/http waits in a second goroutine for a client that leaves, and writes and reads
// headers by rules that only foreign peers need, which was a third of what a forwarded
// request costs.
//
// Both ends are authenticated, and nothing is readable on the way: each replica makes a
// certificate at its start, the Directory has its digest, and no certificate with another
// digest is talked to. So an address that belongs to another process by now gets nothing.
// Whatever waits for another replica ends when the Directory says that it is gone.
//
// An error tells whether anything can have happened there: ErrUnreached means that
// nothing was sent, ErrLost that it may have had its effect.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// What Send and Forward return besides the errors of a handler.
var (
	// ErrUnreached says that the other replica is not there, or cannot be reached:
	// nothing was sent.
	ErrUnreached = errors.New("that replica is not there")
	// ErrLost says that the other replica may have got what was sent, and has not
	// answered.
	ErrLost = errors.New("that replica has not answered")
	// ErrRefused says that the other replica got a message, and did not take it.
	ErrRefused = errors.New("that replica did not take it")
)

// Bounds of the link.
const (
	restTime    = 2 * time.Second // for what is left of a request whose answer is made
	maxMessage  = 24 << 20        // bytes of a message, and of what is said to it
	maxMessages = 4096            // that are handled at once; those beyond are refused

	pollInterval = 10 * time.Millisecond // whether all is answered
)

// Peer is another replica.
type Peer struct {
	ID      string
	Address string          // host and port of its listener
	Digest  Digest          // of its certificate
	Life    context.Context //nolint:containedctx // ends when the replica is gone
}

// Directory says who the other replicas are. It is safe for concurrent use.
type Directory interface {
	// Peer returns the replica of that id. It is false if none lives that is known.
	Peer(id string) (Peer, bool)
	// Named returns the id of the replica that has the certificate of that digest. It may
	// ask whoever knows.
	Named(ctx context.Context, digest Digest) (id string, ok bool)
}

// Message is what one replica says to another.
type Message struct {
	Kind   string // which handler it is for; names the form of Parts, too
	Tenant string // whose it is
	Parts  []string
}

// Handler takes a message of a kind, and returns what it says to that. It may be called
// for several at once. An error says that the message was not taken.
type Handler func(ctx context.Context, from string, m Message) (answer []byte, err error)

// Config is what a Link needs. Every field but Away is required.
type Config struct {
	Identity  *Identity
	Directory Directory
	// tells that this replica does not reach what the Directory knows from; nil: it does
	Away   func() bool
	Logger *slog.Logger
}

// Link is one replica's end of all connections to others. It is safe for concurrent use.
type Link struct {
	config    Config
	peers     *dial.Peers
	handlers  map[string]Handler
	clients   http.Handler // serves what others forward; nil: nothing
	handling  atomic.Int64 // messages
	answering atomic.Int64 // all that others have asked
	leaving   atomic.Bool  // nothing is begun any more
}

// New returns a Link that sends. Serve makes it receive.
func New(cfg Config) *Link {
	l := &Link{config: cfg, handlers: make(map[string]Handler)}
	l.peers = dial.NewPeers(l.find)
	return l
}

// Handle sets who takes messages of a kind. It is called before Serve.
func (l *Link) Handle(kind string, h Handler) { l.handlers[kind] = h }

// ServeClients sets who answers the requests that others forward. OriginOf tells it who
// has sent one. It is called before Serve.
func (l *Link) ServeClients(h http.Handler) { l.clients = h }

// find tells where the replica is whose id is the host, and makes sure that it is that
// one.
func (l *Link) find(id string) (address string, secure *tls.Config, err error) {
	peer, ok := l.config.Directory.Peer(id)
	if !ok {
		return "", nil, ErrUnreached
	}
	is := func(digest Digest) bool { return digest == peer.Digest }
	return peer.Address, l.config.Identity.config(is), nil
}

// anybody accepts each certificate. Who has none of a replica is answered so by serve,
// which heeds nothing of the request: were the connection refused, a replica that is not
// known yet could not tell that from one that was lost in the middle.
func anybody(Digest) bool { return true }

// Leave begins the end of Serve. Whatever is asked from now on is answered with
// ErrUnreached: on a connection that was closed, who asks could not tell whether anything
// has happened. Leave returns when all that was asked before is answered, or ctx has
// ended.
func (l *Link) Leave(ctx context.Context) {
	l.leaving.Store(true)
	for l.answering.Load() > 0 && pace.Wait(ctx, pollInterval) {
	}
}

// Serve answers other replicas on a listener until ctx ends, and cuts off what is being
// answered then: Leave waits for that before.
func (l *Link) Serve(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var serving sync.WaitGroup
	defer serving.Wait()
	open, end := context.WithCancel(ctx)
	defer end()
	for {
		conn, err := listener.Accept()
		var passing interface{ Temporary() bool }
		switch {
		case err == nil:
			serving.Go(func() { l.serveConnection(open, conn) })
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &passing) && passing.Temporary(): // such as too many open files
			<-time.After(pollInterval)
		default:
			return errors.Join(err, listener.Close())
		}
	}
}
