// Package wire carries messages to one MCP server and back: over Streamable HTTP in both eras, over HTTP+SSE of
// 2024-11-05, and over the standard input and output of a child process. It knows how messages are framed, which answer
// belongs to which request, how long a transport is waited for and what a dying child said last. It does not know what a
// message asks for, who calls, what a catalogue is, nor more of the eras than that a handshake opens a session in one.
//
//	         Exchange, Send, Tell, Begin, Follow, Close         questions, notifications, doubts
//	                          │                                              ▲
//	Link                      ▼                                            Events
//	HTTP         each request has a stream of its own: response, stream
//	SSE, Child   all that a server says comes in one stream: duplex
//
// All that a server sends is bounded here, in bytes and in number, and what it should not have sent is counted.
package wire

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Link carries messages to one server, under either era. It is safe for concurrent use.
type Link interface {
	// Exchange sends a request and waits for its answer. Errors are *mcp.Error for an error that the server answered,
	// *UnavailableError, *ProtocolError, *SessionError or what ctx ended with.
	Exchange(ctx context.Context, out *Request) (mcp.Object, error)
	// Send sends a notification, or the answer to a question, and waits until it is accepted.
	Send(ctx context.Context, body []byte) error
	// Tell does the same in the background, or not at all when too many messages wait already.
	Tell(ctx context.Context, body []byte)
	// Begin tells what a legacy handshake agreed on; all later messages belong to it.
	Begin(sessionID, revision string)
	// Follow receives what the server sends on its own until ctx ends or the connection is lost; nil when it cannot.
	Follow(ctx context.Context) error
	// Streams tells whether each exchange has a stream of its own: then what a server sends on it belongs to that request,
	// and the end of the stream tells a modern server that the request was given up.
	Streams() bool
	// Close ends the connection and waits for all that belongs to it; polite says good-bye.
	Close(ctx context.Context, polite bool)
}

// Anomaly is a kind of thing that no server should send. Its text is a metric label.
type Anomaly string

// The anomalies.
const (
	Mended    Anomaly = "mended"    // bytes that are no UTF-8, or lone surrogates, replaced by U+FFFD
	Garbage   Anomaly = "garbage"   // a line or message that is none
	Foreign   Anomaly = "foreign"   // an answer to nothing that waits for one
	Oversized Anomaly = "oversized" // a message over the limit
	Flooded   Anomaly = "flooded"   // a notification or request beyond what is taken at once
)

// Events is what a transport tells whoever uses it: what a server sends that answers no request, and what became of the
// connection. Its methods are called from any goroutine and do not wait.
type Events interface {
	// Question takes a request of the server. It returns the answer when there is one at once, nil when it follows through
	// Send. of is the request on whose stream the question came; nil: it came on none.
	Question(m *mcp.Message, of *Request) (answer []byte)
	// Notification takes a notification that does not say which request it belongs to.
	Notification(m *mcp.Message)
	// Following tells whether what the server sends on its own arrives from now on. again: it did before, and something may
	// have been missed in between.
	Following(open, again bool)
	// Doubt tells that the connection may be lost, which a proof of life would show.
	Doubt()
	// Count counts n things that no server should send.
	Count(kind Anomaly, n int)
}
