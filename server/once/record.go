package once

import (
	"encoding/binary"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// States of a record.
const (
	running  = 'r' // its replica is at it
	answered = 'd'
	unkept   = 'n' // it ran, and its answer is not here
)

// record is what is kept under a key. In Redis it is sealed, so that nobody but a replica
// makes one: an answer that somebody else wrote would be taken for that of a tool.
//
//	state 1 │ time in milliseconds 8 │ digest of the body 32 │ id of the replica 16 │ HTTP status 2 │ message
type record struct {
	state  byte
	at     time.Time // when the request began or, if it is over, when it ended, by the clock of its replica
	body   [32]byte
	home   replica.ID // that runs it
	answer Answer     // of one that is answered
	text   string     // as it stands in Redis; set by who has read it
}

const (
	homeSize   = 16
	recordSize = 1 + 8 + 32 + homeSize + 2
)

// clocksDiffer is by how much the clocks of two replicas may differ without consequences.
const clocksDiffer = time.Minute

// isStale tells whether a record of a request that is over has outlived its time, so that
// somebody must have kept a copy and put it back. One that runs has no end: whoever
// claims it has to know it, see store.Begin.
func (p *record) isStale(now time.Time) bool {
	return p.state != running && now.Sub(p.at).Abs() > Retention+clocksDiffer
}

// problem returns why a request gets nothing of the record under its key; nil: it gets
// the answer, or waits for that.
func (p *record) problem(r *Request, now time.Time) error {
	switch {
	case p.isStale(now):
		return ErrUnknown
	case p.body != r.Body:
		return ErrBody
	case p.state == unkept:
		return ErrUnkept
	case p.state != running && p.state != answered: // of a later version
		return ErrUnknown
	}
	return nil
}

// purpose binds a record to its key. Its number changes with the form of a record.
func purpose(r *Request) string { return "once 2\x00" + r.User.TenantID + "\x00" + r.name() }

// seal returns the record as it stands in Redis. Each call returns another text, so a
// text names one claim.
func (p *record) seal(ring *seal.Ring, r *Request) string {
	plain := make([]byte, 0, recordSize+len(p.answer.Message))
	plain = append(plain, p.state)
	plain = binary.BigEndian.AppendUint64(plain, uint64(p.at.UnixMilli()))
	plain = append(plain, p.body[:]...)
	plain = append(plain, p.home...)
	plain = binary.BigEndian.AppendUint16(plain, uint16(p.answer.Status)) //nolint:gosec // a status has three digits
	plain = append(plain, p.answer.Message...)
	return string(ring.SealBytes(purpose(r), plain))
}

// openRecord reads what seal returned. It is false for anything else.
func openRecord(ring *seal.Ring, r *Request, text string) (p record, ok bool) {
	plain, err := ring.OpenBytes(purpose(r), []byte(text))
	if err != nil || len(plain) < recordSize {
		return record{}, false
	}
	p.state = plain[0]
	p.at = time.UnixMilli(int64(binary.BigEndian.Uint64(plain[1:]))) //nolint:gosec // see seal
	rest := plain[9:]
	rest = rest[copy(p.body[:], rest):]
	p.home, rest = replica.ID(rest[:homeSize]), rest[homeSize:]
	p.answer = Answer{Status: int(binary.BigEndian.Uint16(rest)), Message: rest[2:]}
	return p, true
}
