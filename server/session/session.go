// Package session keeps what legacy sessions must remember: the events of their streams, so that whoever holds a
// connection can send them, and a client whose connection broke can have them again. It knows nothing of who owns a
// session or of what the events say.
package session

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// Event is one message of a stream.
type Event struct {
	ID   string // stream and sequence; unique in the session
	Data []byte // JSON in one line; empty only when Last, for a stream that ends without a message. Shared: do not modify
	Last bool   // nothing follows on this stream
}

// ErrUnknown is the error for a session, stream or event that is not, or no longer, there.
var ErrUnknown = errors.New("unknown stream or event")

// Log keeps the events of streams, bounded in count, bytes and age. A stream's name is made of letters and digits and
// is used once in the life of a session; a session's name is used once at all. Implementations are safe for concurrent
// use.
type Log interface {
	// Append adds an event to a stream and wakes its readers. The error is ErrUnknown when the session or the stream has
	// ended: of two that append the last event, one succeeds.
	Append(ctx context.Context, session, stream string, data []byte, last bool) (id string, err error)
	// Read returns the events after the one with id after ("" = from the beginning) that are there now. more is closed
	// when there may be others; it is nil when the stream ends with these. The error is ErrUnknown when the session has
	// ended, or when events between after and the oldest one that is left are gone. Whoever reads at least once within
	// the age of events keeps the stream.
	Read(ctx context.Context, session, stream, after string) (events []Event, more <-chan struct{}, err error)
	// Find returns the stream of the event with that id, which may come from anyone. The error is ErrUnknown, also when
	// what followed the event is gone.
	Find(ctx context.Context, session, event string) (stream string, err error)
	// Keep keeps a short text of a session under a name, in place of what it had, for a day or until the session ends.
	// The error is ErrUnknown when the session has ended.
	Keep(ctx context.Context, session, name, text string) error
	// Kept returns the text of that name, "" when there is none. The error is ErrUnknown when the session has ended.
	Kept(ctx context.Context, session, name string) (text string, err error)
	// End forgets a session and wakes its readers. It stays ended for a day, which is longer than its id lives, but for
	// the oldest of very many.
	End(ctx context.Context, session string) error
}

// FirstID returns the id that stands before the first event of a stream.
func FirstID(stream string) string { return eventID(stream, 0) }

func eventID(stream string, sequence uint64) string {
	return stream + "-" + strconv.FormatUint(sequence, 10)
}

// parseID takes an event's id apart. Only the one spelling that eventID gives is an id.
func parseID(id string) (stream string, sequence uint64, ok bool) {
	stream, digits, found := strings.Cut(id, "-")
	if !found || stream == "" || len(id) > 64 {
		return "", 0, false
	}
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return stream, sequence, err == nil && eventID(stream, sequence) == id
}
