package eventlog

import (
	"math"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// A stream is an entry of the server each: a head, and then its events. The ids of the
// entries are made of sequences:
//
//	base-0      base+1-0      base+2-0      …      18446744073709551615-sequence
//	 head         event         event                    the last event
//
// Sequences of a stream are without gaps, so whoever reads sees when one is missing:
// because it was dropped, or the server has lost it, or somebody took it out. The base is
// the time at which the stream began, in milliseconds, so that a stream that begins again
// under its name does not use an id twice. After the last event the server itself accepts
// no other, because there is no higher id.

// sharedStream is what a replica knows of a stream that others may read. The mutex of the
// Memory guards it.
type sharedStream struct {
	turn chan struct{} // whoever appends takes its one token: events are written one after the other
	// own tells that Begin was called, and this replica knows of no other that appends:
	// what it holds in memory is all there is after joined.
	own bool
	// lost tells that the stream goes on in memory only, from the event after top on.
	lost bool
	over bool // it was forgotten here
	// sequence of the newest event when this replica began to append to a stream that
	// another one has begun; zero: none has
	joined uint64
	base   uint64 // sequence before that of the first event; zero: not known
	top    uint64 // sequence of the newest event that is known to be in the server
	quota  int64  // bytes in the server that the owner of the session holds for it; see quota.go
}

func newSharedStream(base uint64) *sharedStream {
	s := &sharedStream{turn: make(chan struct{}, 1), base: base, top: base}
	s.turn <- struct{}{}
	return s
}

// isLocalOnly tells whether the event with that sequence is in memory only. s may be nil:
// then nobody shares the stream.
func (s *sharedStream) isLocalOnly(sequence uint64) bool {
	return s != nil && s.lost && sequence > s.top
}

// entryID returns the id of the entry of an event, or of the head, whose sequence is the
// base.
func entryID(sequence uint64, last bool) string {
	n := strconv.FormatUint(sequence, 10)
	if last {
		return strconv.FormatUint(math.MaxUint64, 10) + "-" + n
	}
	return n + "-0"
}

// parseEntryID is the inverse of entryID. It is false for ids that somebody else has
// given.
func parseEntryID(id string) (sequence uint64, last, ok bool) {
	left, right, found := strings.Cut(id, "-")
	high, err1 := strconv.ParseUint(left, 10, 64)
	low, err2 := strconv.ParseUint(right, 10, 64)
	switch {
	case !found || err1 != nil || err2 != nil:
		return 0, false, false
	case high == math.MaxUint64:
		return low, true, true
	}
	return high, false, low == 0
}

// streamKey is where a stream of a session is kept.
type streamKey struct {
	session Key
	stream  string
}

// keys returns the keys that scripts use.
func (p streamKey) keys() []string {
	tenant, name := p.session.Owner.TenantID, p.session.Name
	return []string{
		redis.Key(tenant, "session", name), redis.Key(tenant, "stream", p.stream, name),
		redis.Key(tenant, "readers", p.stream, name),
	}
}

// Purposes for which values are sealed: none is taken for another one. Only the last part
// may hold a NUL.
func (p streamKey) headPurpose(base uint64) string {
	return "head 1\x00" + p.session.Owner.TenantID + "\x00" + strconv.FormatUint(base, 10) + "\x00" +
		p.stream + "\x00" + p.session.Name
}

func (p streamKey) eventPurpose(entry string) string {
	return "event 1\x00" + p.session.Owner.TenantID + "\x00" + entry + "\x00" + p.stream + "\x00" +
		p.session.Name
}
