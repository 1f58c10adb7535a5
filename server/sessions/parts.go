package sessions

import (
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// Client is what a session knows of its client. The mutex of the session guards it, like
// the other parts of a session.
type Client struct {
	ticket.Terms                // that the handshake agreed on
	Level        mcp.Level      // of log messages that the client wants; zero: none
	Principal    auth.Principal // of the token that was last used; always one of the owner
}

// Stage is how far a session has come. It only ever grows.
type Stage int8

// The stages.
const (
	opened Stage = iota // the client has sent no message since
	Heard               // the client has sent a message
	Ready               // the client has confirmed the handshake, or another replica says so
	Over
)

// life is whether a session may still be used, and since when it is idle.
type life struct {
	stage    Stage
	unqueued bool // the roster took it out of its queues, because it was in use
	used     time.Time
}

func (f *life) isOver() bool { return f.stage == Over }

// reach notes that the session has come that far.
func (f *life) reach(s Stage) { f.stage = max(f.stage, s) }

func (f *life) idleSince() time.Time {
	if f.stage == opened {
		return f.used.Add(OpeningTime)
	}
	return f.used
}

// work is the requests of a session that are in flight.
type work struct {
	jobs      map[mcp.ID]*exchange.Job // of which the answer is not on its way to the client yet
	answering int32                    // how many others, of which it is
	// no further one is taken, because the stream of the session is about to end
	closed    bool
	awaited   bool     // streams wait until none is in flight, and are to be woken then
	afterJobs []func() // called when none is in flight any more
}

func (w *work) inFlight() int { return len(w.jobs) + int(w.answering) }

// connections are the streams of a session.
type connections struct {
	opened  int32                    // how many there have been
	opening map[string]chan struct{} // those about to be opened; closed when they are; nil: none
	// of those that are open here, and at other replicas in the order in which they came;
	// few, so a map would be no faster
	here      []*Holder
	elsewhere []*Listener
}

// hasAny tells whether one is open anywhere, as far as is known here.
func (c *connections) hasAny() bool { return len(c.here)+len(c.elsewhere) > 0 }

// Leader is what a replica knows of who leads a session.
type Leader struct {
	Here      bool       // this replica; that is so of a session that is not shared
	At        replica.ID // the other replica that leads; "": not known
	Epoch     uint64
	Former    replica.ID      // that led before this one, and has calls still; "": none
	Running   map[mcp.ID]bool // the requests that it answers; do not modify
	Unwritten bool            // the entry lacks something
	Rewritten bool            // the entry was written whole again, maybe after DELETE removed it

	confirmed time.Time         // when this replica was last sure who leads
	forgotten map[string]string // facts that the entry is to forget, by name, each ""; nil: none
}

// put sets an element of a map, which it makes if there is none: most sessions are idle,
// and a map takes room.
func put[K comparable, V any](in *map[K]V, key K, value V) {
	if *in == nil {
		*in = make(map[K]V)
	}
	(*in)[key] = value
}

// Listener is where a stream is held that is at another replica.
type Listener struct {
	Stream    string
	At        replica.ID
	Principal auth.Principal // whose stream it is
	receipts  []receipt      // what it was told within provenTime, the oldest first
}

// receipt is a notice that a replica has taken.
type receipt struct {
	at     time.Time
	method string
	uri    string // of the resource, or part of one, that has changed; "": a list has
	watch  string // the URI of the subscription to that
}

// isProven tells whether its replica has lived with the notice for long enough.
func (r receipt) isProven(now time.Time) bool { return now.Sub(r.at) > provenTime }

// Holder is a connection here that sends a stream of the log.
type Holder struct {
	Stream  string
	flow    *streams.Flow
	Lost    atomic.Bool   // another connection takes over
	Untaken atomic.Bool   // Lost, but none has come yet: the primary may believe that this one is there
	gone    chan struct{} // closed when this one sends nothing more
}

// Question is one request from the server to the client, in a round of a request of the
// client. It waits in the session, at the replica that asks: its home.
type Question struct {
	Key, Method string
	ID          string
	Asked       bool
	Memory      *share.Reservation // holds its answer, and those to the other questions of the request
	Done        chan struct{}      // closed when the answer has come
	Answer      []byte             // guarded by the mutex of the session until Done is closed
}

// pendingNotices is what the client of a session has yet to be told: changed lists,
// changed resources. A notice is put into the log of one stream, which carries it to the
// client. If no connection sends that stream any more before the notice went out, another
// stream takes over.
type pendingNotices struct {
	lists [3]struct {
		notified string // digest of what the client was last told of; "": not known here
		content  string // digest of what that holds
		carrier  string // the stream that has the notice and has not sent it yet; "" for none
	}
	stored  string          // what the entry has of the lists
	updates notices.Pending // changed resources
	// pacedUntil is up to when the client has used up its pace of changed resources;
	// paced tells that its streams are woken when it may be told of others.
	pacedUntil time.Time
	paced      bool
	once       notices.Pending          // what is told once and no stream has yet
	watched    map[string]*Subscription // subscriptions, by URI
	// those of the primary before that are to be made again; true: that was tried
	lost          map[string]bool
	resubscribing bool // somebody makes them
}

// Subscription is the subscription of a session to one resource.
type Subscription struct {
	stored       bool          // the entry is to have it
	Opened       chan struct{} // closed when the fields below are set
	Err          *mcp.Error    // why it could not be opened; nil: it was
	Subscription gateway.Subscription
}

// isOpen tells whether the subscription was opened, or could not be; otherwise it is
// being opened.
func (w *Subscription) isOpen() bool {
	select {
	case <-w.Opened:
		return true
	default:
		return false
	}
}

// stop stops a subscription that is open. One that is still being opened is stopped by
// whoever opens it.
func (w *Subscription) stop() {
	if w.isOpen() && w.Err == nil {
		w.Subscription.Stop()
	}
}

// RPCID returns the id of the question as JSON-RPC has it.
func (q *Question) RPCID() mcp.ID { return mcp.ID(mcp.String(q.ID)) }
