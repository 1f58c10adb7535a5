package client

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Line is a connection that is opened when it is needed, and again after it was closed.
// It is for one goroutine.
type Line struct {
	Dial func() *Conn
	Conn *Conn // nil while it is closed
}

// LineTo returns a line to an address, which is closed when ctx ends.
func LineTo(ctx context.Context, addr string) *Line {
	return &Line{Dial: func() *Conn { return Dial(ctx, addr, "") }}
}

// Open opens a connection if there is none.
func (l *Line) Open() {
	if l.Conn == nil {
		l.Conn = l.Dial()
	}
}

// Exchange is that of Conn. It closes what is of no more use.
func (l *Line) Exchange(request []byte, keep int64) *Answer {
	defer must.Else(l.Close)
	l.Open()
	a := l.Conn.Exchange(request, keep)
	if a.Closing {
		l.Close()
	}
	return a
}

// Close closes the connection if there is one.
func (l *Line) Close() {
	if l.Conn != nil {
		l.Conn.Close()
		l.Conn = nil
	}
}

// Once sends a request on a connection of its own.
func Once(ctx context.Context, r Request, keep int64) *Answer {
	line := LineTo(ctx, r.Addr)
	defer line.Close()
	return line.Exchange(r.Bytes(), keep)
}
