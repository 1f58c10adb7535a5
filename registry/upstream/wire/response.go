package wire

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Limits of responses.
const (
	maxRefusal = 64 << 10              // bytes read of a refusal, and of what follows an answer
	drainLimit = 20 * time.Millisecond // how long to wait for the end of a stream after its answer
)

// Bounds of bodies that are being read.
const (
	trusted = 1 << 20 // bytes that are allocated on a server's word
	// times what has come, which are allocated on its word beyond that: so little is
	// copied
	believed = 4
)

// response is a server's answer to one HTTP request. Whoever gets it reads or discards
// it, or its connection is lost.
type response struct {
	*http.Response
	media   media
	headers *credential.Headers // what the request carried; nil: nothing
}

// media is the type of a body.
type media int

const (
	typeUnknown media = iota
	typeJSON
	typeStream
)

// mediaType returns the type of an answer's body. A compressed body is unknown, because
// nobody asked for compression.
func mediaType(header http.Header) media {
	if !isPlain(header) {
		return typeUnknown
	}
	name := header.Get("Content-Type")
	if mediaTypes[name] == typeUnknown { // the usual spelling needs no parsing
		name, _, _ = mime.ParseMediaType(name)
	}
	return mediaTypes[name]
}

// isPlain tells whether a body is not compressed. Some servers say that it is not, so
// that no proxy compresses their event streams.
func isPlain(header http.Header) bool {
	return slices.Contains([]string{"", "identity", "none"}, header.Get("Content-Encoding"))
}

var mediaTypes = map[string]media{"application/json": typeJSON, "text/event-stream": typeStream}

// read reads the body to its end, so that its connection can be used again, and closes
// it. reserved holds what has come, or the error is a *MemoryError. A body of more than
// limit bytes is ErrTooLarge, whatever length was announced.
func (r *response) read(limit int, reserved *share.Reservation) ([]byte, error) {
	defer r.discard()
	return share.Incoming{
		Length: int(r.ContentLength), Most: limit, Trusted: trusted, Ahead: believed,
		Hold: (*holder)(reserved).Hold,
	}.ReadAll(r.Body)
}

// drain reads what follows the answer, so that the connection can be used again, and
// closes the body. It returns false when the body did not end within drainLimit.
func (r *response) drain() (ended bool) {
	defer r.discard()
	late := time.AfterFunc(drainLimit, r.discard)
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxRefusal)) // only the end of the body matters
	return late.Stop()
}

// discard closes the body unread. It may be called more than once.
func (r *response) discard() {
	_ = r.Body.Close() // nothing depends on its success
}
