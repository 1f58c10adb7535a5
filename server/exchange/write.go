package exchange

import (
	"context"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
)

const (
	// WriteTimeout is how long a client may take to accept one write, of WriteSize bytes
	// at most.
	WriteTimeout = 10 * time.Second
	// WriteSize is how many bytes are written at once, at most.
	WriteSize = 256 << 10
)

// jsonTypes is the value of a header. It is shared: do not modify.
var jsonTypes = []string{jsonType}

// WriteJSON answers with one JSON text, which may come in parts and is not empty.
func (x *Exchange) WriteJSON(status int, body ...[]byte) {
	x.WriteAs(jsonTypes, status, body...)
}

// WriteAs is WriteJSON for JSON of a media type of its own.
func (x *Exchange) WriteAs(types []string, status int, body ...[]byte) {
	h := x.Header()
	x.measured[0] = strconv.Itoa(Payload(body).Size())
	h["Content-Type"], h["Content-Length"] = types, x.measured[:]
	x.WriteHeader(status)
	for _, part := range body {
		if x.WriteAll(part) != nil {
			return // the client is gone
		}
	}
}

// WriteAll writes data in pieces that each have a deadline, at the pace of what is large.
func (x *Exchange) WriteAll(data []byte) error {
	return InPieces(x.service.config.Turns, data, func(piece []byte) error {
		x.AllowWrite()
		_, err := x.Write(piece)
		return err
	})
}

// InPieces has data written piece by piece, at the pace of what is large.
func InPieces(turns *fairqueue.Queue, data []byte, write func(piece []byte) error) error {
	for written := 0; written < len(data); {
		n := min(len(data)-written, WriteSize)
		if err := write(data[written : written+n]); err != nil {
			return err
		}
		if written += n; written > fairqueue.Swift {
			turns.Pace(context.Background(), n)
		}
	}
	return nil
}

// AllowWrite gives the client a new deadline for accepting the next write.
func (x *Exchange) AllowWrite() {
	_ = x.Control.SetWriteDeadline(time.Now().Add(WriteTimeout)) // a recorder has no deadlines
}

// WriteStatus answers without a body.
func (x *Exchange) WriteStatus(status int) {
	x.AllowWrite()
	x.WriteHeader(status)
}

// CanTake tells that something may be sent: the goroutine of a request waits for its
// client.
func (*Exchange) CanTake(int) error { return nil }

// Flush implements outlet.
func (x *Exchange) Flush() error { return x.Control.Flush() }
