package openapi

import (
	"errors"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// noRoomError says that an answer cannot be held in memory.
type noRoomError struct{ err error } // of package share

func (e *noRoomError) Error() string { return "no room for the answer: " + e.err.Error() }

// holds makes room hold that many bytes, unless they are few. The error is a *noRoomError.
func holds(room *share.Claim, bytes int) error {
	if bytes <= share.Covered {
		return nil
	}
	if err := room.Resize(int64(bytes)); err != nil {
		return &noRoomError{err}
	}
	return nil
}

// read reads to the end, but at most limit bytes. room holds what has come, or the error is a *noRoomError.
func read(from io.Reader, limit int, room *share.Claim) ([]byte, error) {
	data := make([]byte, 0, min(limit, 4<<10))
	for len(data) < limit {
		if len(data) == cap(data) {
			size := min(cap(data)*2, limit)
			if cap(data) > share.Step {
				size = min(cap(data)*3/2, limit)
			}
			if err := holds(room, size); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// resultSize returns about how many bytes are in memory at most while data is made a result: data itself, its compact
// form, and a text of it with and without its quotation marks and escapes.
func resultSize(data []byte) int {
	quoted := len(data)
	for _, c := range data {
		switch {
		case c == '"' || c == '\\':
			quoted++
		case c < 0x20:
			quoted += 5
		}
	}
	return 3*len(data) + quoted
}
