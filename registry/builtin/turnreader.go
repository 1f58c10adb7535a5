package builtin

import (
	"io"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
)

const (
	// csvTime is about how long it takes to read one byte of a file and to add it up.
	csvTime = 25 * time.Nanosecond
	// csvPiece is how many bytes are read in one turn: a large file takes seconds.
	csvPiece = 128 << 10
	// swiftCSV is how many bytes need no turn.
	swiftCSV = int(fairqueue.Small / csvTime)
)

// turnReader stands between a file and whoever reads it, which keeps a processor busy. It
// reads the file in pieces, and between two of them the slot goes to whose turn it is. It
// is for one goroutine.
type turnReader struct {
	io.Reader

	next func() (give func(), err error) // waits for the next slot
	give func()                          // gives the slot back
	left int                             // bytes of the piece
}

// Read implements io.Reader.
func (t *turnReader) Read(p []byte) (int, error) {
	if t.left <= 0 {
		t.give()
		give, err := t.next()
		if err != nil {
			return 0, err
		}
		t.give, t.left = give, csvPiece
	}
	n, err := t.Reader.Read(p)
	t.left -= n
	return n, err
}
