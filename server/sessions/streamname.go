package sessions

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// NextStream returns a new name for a stream of the log. kind is its first byte: g for a
// stream opened by GET, p for the answer to a POST. It names the request that it answers,
// if there is one: see HomeOfStream.
func (l *Session) NextStream(kind byte, answers mcp.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams.opened++
	name := string(kind) + strconv.Itoa(int(l.streams.opened)) + l.suffix
	if l.Shared && answers != "" && len(answers) <= maxNamedID {
		name += requestMark + hex.EncodeToString([]byte(answers))
	}
	return name
}

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

// HomeOfStream returns the replica that answers on a stream, and the id of the request
// that it answers if the name says so. It is false for streams that answer no request,
// and for those of sessions that are not shared.
func HomeOfStream(stream string) (home replica.ID, answers mcp.ID, ok bool) {
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
