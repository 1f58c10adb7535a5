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
type record struct {
	state  byte
	at     time.Time // when the request began or, if it is over, when it ended, by the clock of its replica
	body   [32]byte
	home   replica.ID // that runs it
	answer Answer     // of one that is answered
	text   string     // as it stands in Redis; set by who has read it
}

// head is what stands in a sealed record before the message, field after field.
type head struct {
	State  byte
	Millis int64 // since 1970
	Body   [32]byte
	Home   [16]byte
	Status uint16
}

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
	h := head{State: p.state, Millis: p.at.UnixMilli(), Body: p.body, Status: uint16(p.answer.Status)} //nolint:gosec // a status has three digits
	copy(h.Home[:], p.home)
	plain, _ := binary.Append(nil, binary.BigEndian, &h) // a head has a size
	return string(ring.SealBytes(purpose(r), append(plain, p.answer.Message...)))
}

// openRecord reads what seal returned. It is false for anything else.
func openRecord(ring *seal.Ring, r *Request, text string) (p record, ok bool) {
	var h head
	plain, err := ring.OpenBytes(purpose(r), []byte(text))
	size, short := binary.Decode(plain, binary.BigEndian, &h)
	if err != nil || short != nil {
		return record{}, false
	}
	return record{
		state: h.State, at: time.UnixMilli(h.Millis), body: h.Body, home: replica.ID(h.Home[:]),
		answer: Answer{Status: int(h.Status), Message: plain[size:]},
	}, true
}
