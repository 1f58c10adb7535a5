// Package wire carries messages to one MCP server and back: over Streamable HTTP in both
// eras, over HTTP+SSE of 2024-11-05, and over the standard input and output of a child
// process. It knows how messages are framed, which answer belongs to which request, how
// long to wait for a transport, and what a dying child said last. It does not know what a
// message asks for, who calls, or what a catalogue is; of the eras it knows only that in
// the legacy one a handshake opens a session.
//
//	         Exchange, Send, Tell, Begin, Follow, Close         questions, notifications, suspicions
//	                          │                                              ▲
//	Link                      ▼                                            Events
//	HTTP         each request has a stream of its own: response, stream
//	SSE, Child   all that a server says comes in one stream: duplex
//
// All that a server sends is bounded here, in bytes and in number, and what it should not
// have sent is counted.
package wire

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Link carries messages to one server, of either era. It is safe for concurrent use.
type Link interface {
	// Exchange sends a request and waits for its answer. The error is an *mcp.Error that
	// the server answered, an *UnavailableError, a *ProtocolError, a *SessionError, or
	// what ctx ended with.
	Exchange(ctx context.Context, out *Request) (mcp.Object, error)
	// Send sends a notification, or the answer to a question, and waits until the
	// transport has accepted it.
	Send(ctx context.Context, body []byte) error
	// Tell does the same in the background, without waiting. When too many messages are
	// on their way, it drops this one.
	Tell(ctx context.Context, body []byte)
	// Begin is told what a legacy handshake agreed on, and sends the notification that
	// completes it. Once the transport has accepted that, all messages belong to the
	// session, and none before: servers refuse what overtakes it. After an error,
	// messages belong to the session before, if there was one.
	Begin(ctx context.Context, sessionID, revision string, completion []byte) error
	// Follow receives what the server sends on its own, until ctx ends or the connection
	// is lost. It returns nil when the server has no way to send anything on its own.
	Follow(ctx context.Context) error
	// Streams tells whether each exchange has a stream of its own. If so, what a server
	// sends there belongs to that request, and to end the stream tells a modern server
	// that the request was given up.
	Streams() bool
	// Close ends the connection and waits for all that belongs to it. polite: the server
	// is still there, so it is told.
	Close(ctx context.Context, polite bool)
}

// Anomaly is a kind of thing that no server should send. Its text is a metric label.
type Anomaly string

// The anomalies.
const (
	Mended    Anomaly = "mended"    // bytes that are not UTF-8, or lone surrogates; replaced by U+FFFD
	Garbage   Anomaly = "garbage"   // text that is no message, or a message that has no place there
	Foreign   Anomaly = "foreign"   // an answer for which no request waits
	Oversized Anomaly = "oversized" // a message over the limit, dropped
	Paced     Anomaly = "paced"     // a pause in reading, because too much came that is no answer
	// a notification or question beyond what is kept at the same time, dropped
	Flooded Anomaly = "flooded"
)

// Events is how a transport tells whoever uses it what a server sends besides answers,
// and what became of the connection. Its methods are called from any goroutine, also from
// the one that reads the connection; so they must not block.
type Events interface {
	// Question takes a request of the server. of is the request on whose stream it came,
	// nil when it came on none. It returns the answer when there is one at once, and nil
	// when the answer follows through Send or Tell.
	Question(m *mcp.Message, of *Request) (answer []byte)
	// Notification takes a notification that does not say which request it belongs to.
	Notification(m *mcp.Message)
	// Following tells whether what the server sends on its own arrives from now on.
	// again: it arrived before, and something may have been missed in between.
	Following(open, again bool)
	// CheckAlive tells that the connection may be lost, so that a proof of life should be
	// asked for.
	CheckAlive()
	// Count counts n things that no server should send.
	Count(kind Anomaly, n int)
	// Saved calls do. A panic in it becomes its error: so it costs what do is for, and
	// not the process. It may block.
	Saved(ctx context.Context, do func() error) error
}
