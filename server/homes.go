package server

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// The name of a stream of a shared session says where the call runs that it answers, and
// which request that is, so that whichever replica has the connection can tell the client
// when that replica is gone:
//
//	p3 r 0123456789abcdef 89abcdef i 3137
//	│    │                │          └ the id of the request, in hexadecimal; left out if it is long, or for a batch
//	│    │                └ random, because a replica may forget the session and have it again
//	│    └ the replica
//	└ the kind, and a number
const (
	homeMark    = "r"
	requestMark = "i"
	maxNamedID  = 8 // bytes; names of events have a bound
)

// homeOfStream returns the replica that answers on a stream, and the id of the request
// that it answers if the name says so. It is false for streams that answer no request,
// and for those of sessions that are not shared.
func homeOfStream(stream string) (home replica.ID, answers mcp.ID, ok bool) {
	const idSize, randomSize = 2 * ticket.OpenerSize, 8
	if stream[0] != 'p' {
		return "", "", false
	}
	_, rest, found := strings.Cut(stream, homeMark)
	if !found || len(rest) < idSize+randomSize {
		return "", "", false
	}
	home, rest = replica.ID(rest[:idSize]), rest[idSize+randomSize:]
	if text, named := strings.CutPrefix(rest, requestMark); named {
		if id, err := hex.DecodeString(text); err == nil {
			answers = mcp.ID(id)
		}
	}
	return home, answers, true
}

// isOrphaned tells whether the stream waits for an answer of a replica that is gone. It
// is asked whenever the flow is driven, which is when a replica ends, and at each
// heartbeat at least.
func (f *feed) isOrphaned() bool {
	home, _, ok := homeOfStream(f.stream)
	return ok && !f.server.config.Others.IsThere(home) && !f.server.forwarder.IsUnsure()
}

// bury ends a stream whose home is gone with an error for the request, or without a
// message if nobody knows its id. If the home has only lost touch, its answer may come
// first: then the stream ends with that, and otherwise the log takes the answer no more.
func (f *feed) bury(ctx context.Context) {
	var message []byte
	if _, id, _ := homeOfStream(f.stream); id != "" {
		message = mcp.AppendError(nil, id, exchange.ErrHomeGone)
	}
	if _, err := f.server.config.Log.Append(ctx, f.session.inLog(), f.stream, message, true); err != nil {
		return // at the next heartbeat again
	}
	f.server.config.Metrics.Refused("unavailable", f.session.user.TenantID, exchange.ErrHomeGone.StableCode())
}
