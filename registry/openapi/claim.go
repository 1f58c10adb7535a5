package openapi

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// hold makes claim hold that many bytes of an answer. The error is a
// *registry.MemoryError.
func (c *caller) hold(claim *share.Reservation, bytes int) error {
	if err := claim.Resize(int64(bytes)); err != nil {
		return &registry.MemoryError{Server: c.server, Err: err}
	}
	return nil
}

// read reads what an API answers to its end. claim holds what has come, or the error is a
// *registry.MemoryError; of more than maxAnswer bytes it is share.ErrTooLarge.
func (c *caller) read(response *http.Response, claim *share.Reservation) ([]byte, error) {
	return share.Incoming{
		Length: int(response.ContentLength), Most: maxAnswer, Trusted: share.Step, Ahead: 2,
		Hold: func(bytes int) error { return c.hold(claim, bytes) },
	}.ReadAll(response.Body)
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
