package wire

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Bounds of lines that are skipped, in bytes.
const (
	// maxSkip is how much of one line is skipped. After that the child is given up,
	// because the line may never end.
	maxSkip = 256 << 20
	// maxEdge is how much is kept of the beginning and of the end of such a line.
	maxEdge = 256
)

var errEndless = errors.New("a line without end")

// lostError says why a message was not kept, and what it began and ended with.
type lostError struct {
	err        error // ErrTooLarge, or a *MemoryError
	head, tail []byte
}

func (e *lostError) Error() string { return e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// readLine returns the next line, with its line feed, in memory of its own, which room
// holds. A line of more than limit bytes, or for which there is no room, is skipped and
// reported as a *lostError; reading may go on behind it. Any other error ends the
// reading.
func readLine(in *bufio.Reader, limit int, reserved *share.Reservation) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		more := errors.Is(err, bufio.ErrBufferFull)
		var lost error
		if line, lost = appended(line, part, limit, reserved); lost != nil {
			skipped := &lostError{lost, edge(line, part), lastBytes(line, part)}
			if more {
				err = skipped.skipLine(in)
			}
			if errors.Is(err, errEndless) {
				return nil, err
			}
			return nil, skipped // an end of the file comes again at the next read
		}
		if !more {
			return line, err
		}
	}
}

// appended returns line with part behind it. If there is no room for that, it returns
// line and an error.
func appended(line, part []byte, limit int, reserved *share.Reservation) ([]byte, error) {
	size := len(line) + len(part)
	if size > limit {
		return line, ErrTooLarge
	}
	if size > cap(line) {
		larger := max(size, cap(line)*3/2)
		if err := (*holder)(reserved).Hold(larger); err != nil {
			return line, err
		}
		line = append(make([]byte, 0, larger), line...)
	}
	return append(line, part...), nil
}

// skipLine skips the rest of a line.
func (e *lostError) skipLine(in *bufio.Reader) error {
	for skipped := 0; skipped < maxSkip; {
		part, err := in.ReadSlice('\n')
		skipped += len(part)
		e.tail = lastBytes(e.tail, part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return errEndless
}

// edge returns a copy of the first bytes of a and b together.
func edge(a, b []byte) []byte {
	if len(a) == 0 {
		a = b
	}
	return bytes.Clone(a[:min(len(a), maxEdge)])
}

// lastBytes returns a copy of the last bytes of a and b together.
func lastBytes(a, b []byte) []byte {
	b = b[max(0, len(b)-maxEdge):]
	a = a[max(0, len(a)+len(b)-maxEdge):]
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

// An answer says whom it answers at its beginning or at its end, in front of the result
// or behind it.
var (
	idInFront = regexp.MustCompile(
		`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?[0-9]+|"[^"\\]*")\s*,\s*` +
			`(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:`)
	idBehind = regexp.MustCompile(
		`,\s*"id"\s*:\s*(-?[0-9]+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
	isAnswer = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:`)
)

// answers returns the id of the request that the lost message answers, "" if its edges do
// not show it.
func (e *lostError) answers() mcp.ID {
	if found := idInFront.FindSubmatch(e.head); found != nil {
		return mcp.ID(found[1])
	}
	if found := idBehind.FindSubmatch(e.tail); found != nil && isAnswer.Match(e.head) {
		return mcp.ID(found[1])
	}
	return ""
}
