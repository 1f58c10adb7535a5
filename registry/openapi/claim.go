package openapi

import (
	"errors"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// hold makes claim hold that many bytes of an answer. The error is a *registry.MemoryError.
func (c *caller) hold(claim *share.Reservation, bytes int) error {
	if err := claim.Resize(int64(bytes)); err != nil {
		return &registry.MemoryError{Server: c.server, Err: err}
	}
	return nil
}

// read reads to the end, but at most limit bytes. claim holds what has come, or the error
// is a *registry.MemoryError.
func (c *caller) read(from io.Reader, limit int, claim *share.Reservation) ([]byte, error) {
	data := make([]byte, 0, min(limit, 4<<10))
	for len(data) < limit {
		if len(data) == cap(data) {
			size := min(cap(data)*3/2, limit)
			if err := c.hold(claim, size); err != nil {
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

// resultSize returns about how many bytes are in memory at most while data is made a
// result: data itself, its compact form, and a text of it with and without its quotation
// marks and escapes.
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
