package upstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// A server that is ill must not cost every call its whole time, and a server that is well
// must not be taken away because some of its calls fail. So failures of calls never
// decide that a server is down; they only ask for a proof of life (a ping, or discovery
// with a modern server), and that decides.
//
//	how a request ended                        what follows
//	answered: also with an error, isError,     nothing
//	  or questions, or with more than its
//	  caller has room for
//	cancelled by its caller                    nothing
//	HTTP status 429                            nothing: the server is well, and has much to do
//	an older server's error with 400, 404      a proof of life of the session that the request was of
//	  or 500
//	400 without an answer, in a pooled         a proof of life before the caller is told: if there is
//	  session over HTTP                        none, the call is made once in another session
//	any other status, connection refused or    a proof of life is asked for at once, also in the
//	  reset, no MCP, stream without answer     pooled session over HTTP that the request was of
//	no answer until its time was over          a proof of life, after patience such requests in a row
//
//	the proof of life                          what follows
//	answered: also by an error of JSON-RPC     the server is up
//	  with 200, or that ping is not known
//	  to it, or 429
//	404: the session is not known              another session is opened in its place
//	anything else, or nothing in aliveLimit    on the control connection: the server is down.
//	                                           In a pooled session: this session is given up,
//	                                           and the next call opens another
//
// While the server is down, calls are refused at once, and say when to come back
// (registry.DownError). The attempts to connect again, with backoff and jitter, are the
// trial requests of a circuit breaker: the first that succeeds ends the outage. A server
// whose every POST is answered with 405 or another status below 500 gives no proof of
// life either: it may have become one of another transport, which only a new connection
// finds out.
//
// A slow tool of a server that does one thing at a time delays the proof of life too.
// That is why one request without an answer asks for none: patience of them, and
// aliveLimit, pass without any answer before a server is given up that is busy but well.
// A list that a child leaves without an answer beside a call counts for nothing, since
// the call counts for itself; the list is asked for again later, as one that cannot be
// read.

// patience is how many requests in a row may stay without an answer on one connection.
const patience = 3

// conclude draws conclusions from how a request of the connection ended: an answer shows
// that the server lives, and too many requests without one ask for a proof of life.
func (c *connection) conclude(ctx context.Context, method string, err error) {
	_, full := errors.AsType[*registry.MemoryError](err)
	switch {
	case err == nil, full, isAnswer(err):
		c.unanswered.Store(0)
	case c.busy() && mcp.MethodOf(method).Lists:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.waitedInVain()
	}
}

// judge draws conclusions from how a call failed on the connection, or could not be made.
// A broken answer, or the answer that the revision is unknown, asks for a proof of life.
// A header mismatch means that the definition has changed since it was listed, so the
// lists are read again. A caller who left, who has no room for an answer, or of whom the
// server did not believe who it is, says nothing about the server; one whose time was
// over is counted by conclude.
func (c *connection) judge(err error) {
	var (
		answered *mcp.Error
		full     *registry.MemoryError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), throttled(err),
		errors.As(err, &full), credential.FaultOf(err) != "":
	case !errors.As(err, &answered), answered.Code == mcp.CodeUnsupportedVersion:
		c.CheckAlive()
	case answered.Code == mcp.CodeHeaderMismatch:
		c.changed()
	}
}

// countCall counts a request of that method if it is a call that shares one stream with
// all else, and returns by how much calls is to be lowered at its end.
func (c *connection) countCall(l wire.Link, method string) (counted int32) {
	if l.Streams() || mcp.MethodOf(method).Lists {
		return 0
	}
	c.calls.Add(1)
	return 1
}

// busy tells whether a call runs on the connection, of a server that says everything in
// one stream. Such a server may do one thing at a time.
func (c *connection) busy() bool { return c.calls.Load() > 0 }

// waitedInVain notes that a request had no answer until its time was over. Where the
// connection is a pooled session, the server as a whole is asked too, since a new session
// may have none better.
func (c *connection) waitedInVain() {
	if c.unanswered.Add(1) < patience {
		return
	}
	c.CheckAlive()
	if c.control != nil {
		c.control.CheckAlive()
	}
}

// isStuck tells whether so many requests in a row had no answer that even a child is
// asked for a proof of life.
func (c *connection) isStuck() bool { return c.unanswered.Load() >= patience }

// throttled tells whether the server refused a request because there were too many (429).
// Such a server is well.
func throttled(err error) bool {
	status, ok := errors.AsType[*wire.StatusError](err)
	return ok && status.Status == http.StatusTooManyRequests
}

// saysNothingOfEras tells whether a status would be the same whatever the server speaks:
// it wants another credential, has too much to do, or cannot be asked at the moment.
func saysNothingOfEras(status *wire.StatusError) bool {
	return status.SignIn || status.Status == http.StatusForbidden ||
		status.Status == http.StatusTooManyRequests || status.Status >= http.StatusInternalServerError
}
