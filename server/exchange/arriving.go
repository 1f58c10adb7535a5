package exchange

import (
	"io"
	"net/http"
	"time"
)

// arriving is a body that is being read, with a deadline that moves on with what comes.
type arriving struct {
	io.Reader
	control  *http.ResponseController
	begun    time.Time
	last     time.Time // by then all of it must have come
	deadline time.Time // that the connection has
	came     int       // bytes
}

// Read implements io.Reader. The error is os.ErrDeadlineExceeded if the body comes too
// slowly.
func (a *arriving) Read(p []byte) (int, error) {
	if next := a.patience(); !next.Equal(a.deadline) {
		a.deadline = next
		_ = a.control.SetReadDeadline(next) // a recorder has no deadlines
	}
	n, err := a.Reader.Read(p)
	a.came += n
	return n, err
}

// patience returns until when the next bytes must have come.
func (a *arriving) patience() time.Time {
	atRate := a.begun.Add(bodyGrace + time.Duration(a.came)*time.Second/bodyRate)
	if a.last.Before(atRate) {
		return a.last
	}
	return atRate
}
