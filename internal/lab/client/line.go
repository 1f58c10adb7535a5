package client

import "context"

// Line is a connection that is opened when it is needed, and again after it was closed. It
// is for one goroutine.
type Line struct {
	Dial func(ctx context.Context) (*Conn, error)
	Conn *Conn // nil while it is closed
}

// LineTo returns a line to an address.
func LineTo(addr string) Line {
	return Line{Dial: func(ctx context.Context) (*Conn, error) { return Dial(ctx, addr, "") }}
}

// Open opens a connection if there is none.
func (l *Line) Open(ctx context.Context) (err error) {
	if l.Conn == nil {
		l.Conn, err = l.Dial(ctx)
	}
	return err
}

// Exchange is that of Conn. It closes what is of no more use.
func (l *Line) Exchange(ctx context.Context, request []byte, keep int64) (*Answer, error) {
	if err := l.Open(ctx); err != nil {
		return nil, err
	}
	a, err := l.Conn.Exchange(request, keep)
	if err != nil || a.Closing {
		l.Close()
	}
	return a, err
}

// Close closes the connection if there is one.
func (l *Line) Close() {
	if l.Conn != nil {
		l.Conn.Close()
		l.Conn = nil
	}
}

// Once sends a request on a connection of its own.
func Once(ctx context.Context, r Request, keep int64) (*Answer, error) {
	line := LineTo(r.Addr)
	defer line.Close()
	return line.Exchange(ctx, r.Bytes(), keep)
}
