package server

import (
	"errors"
	"io"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// How slowly a body may come. Every request that is being read has one of the places for
// requests in work, so whoever sends a few bytes and waits would keep others out for the
// whole of ReadTimeout.
const (
	bodyGrace = 2 * time.Second
	bodyRate  = 1 << 10 // bytes a second, beyond bodyGrace
)

// errNoRoom is the error for a body that one user could not hold even if nobody held
// anything.
var errNoRoom = errors.New("the body never fits into the share of a user")

// receive reads a body to its end, length being what its header declares, negative if it
// does not. Memory is allocated for what has arrived and not for what was announced, and
// leased before it is allocated: a client that announces much and sends little holds
// little. An error may be one of package share, errNoRoom, or os.ErrDeadlineExceeded if
// the body comes too slowly.
func (x *exchange) receive(from io.Reader, length int64) ([]byte, error) {
	first := int64(share.Covered)
	if length >= 0 {
		first = min(first, length+1)
	}
	data := make([]byte, 0, first)
	begun, deadline := time.Now(), time.Time{}
	for {
		if next := x.patience(begun, len(data)); !next.Equal(deadline) {
			deadline = next
			_ = x.control.SetReadDeadline(deadline) // a recorder has no deadlines
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			if data, err = x.enlarge(data, length); err != nil {
				return nil, err
			}
		}
	}
}

// patience returns until when the next bytes of a body must have come, when so many have
// come since begun. It is never later than ReadTimeout allows for the whole body.
func (x *exchange) patience(begun time.Time, came int) time.Time {
	atRate := begun.Add(bodyGrace + time.Duration(came)*time.Second/bodyRate)
	if last := x.started.Add(x.service.config.ReadTimeout); last.Before(atRate) {
		return last
	}
	return atRate
}

// enlarge returns data with room for half as much again, or for twice as much if the
// header declared a length, so that less is copied; or for the whole body or all that a
// user can hold if that is less.
func (x *exchange) enlarge(data []byte, length int64) ([]byte, error) {
	most := x.service.roomForBody
	if int64(cap(data)) >= most {
		return nil, errNoRoom
	}
	grown := int64(cap(data)) * 3 / 2
	if length >= 0 {
		grown = int64(cap(data)) * 2
	}
	room := min(max(grown, share.Step), most)
	if length > int64(len(data)) {
		room = min(room, length+1) // the last byte is for the end to be seen
	}
	if err := x.held.body.Resize(room); err != nil {
		return nil, err
	}
	larger := make([]byte, len(data), room)
	copy(larger, data)
	return larger, nil
}
