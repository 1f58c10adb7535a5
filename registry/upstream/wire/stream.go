package wire

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// progress is how far an event stream was read, so that it can be resumed.
type progress struct {
	id string // the last event id; "": no event had one, so the stream cannot be resumed
	// how long the server wants clients to wait before they reconnect; zero: it did not
	// say
	retry  time.Duration
	fresh  bool // an event came since news was last cleared
	opened bool // there was a stream, even if no event came
}

// stream reads the messages of an event stream until take returns true, and keeps in at
// how far it came. The error is nil when take had enough, or the stream just ended. room
// holds what was read of the message that comes or was taken. ctx only ends pauses;
// whoever ends it ends the body too.
func (r reader) stream(
	ctx context.Context, body io.Reader, at *progress, reserved *share.Reservation,
	take func(*mcp.Message) (enough bool),
) error {
	idle := padding{read: r, hurry: ctx.Done()}
	for event, err := range sse.ReadWithin(body, maxMessage, (*holder)(reserved).Hold, idle.add) {
		if errors.Is(err, sse.ErrTooLong) {
			r.count(Oversized, 1)
			return protocol("%w", ErrTooLarge)
		}
		if event.Lost != nil {
			return event.Lost
		}
		if err != nil {
			return err
		}
		at.fresh = true
		if event.HasID {
			at.id = event.ID
		}
		if event.Retry > 0 {
			at.retry = event.Retry
		}
		if len(event.Data) == 0 || event.Type != "" && event.Type != "message" {
			idle.add(len(event.Data))
			continue
		}
		messages, err := r.inTurn(ctx, reserved.User(), owned(event.Data), nil)
		if err != nil {
			return protocol("read event: %w", err)
		}
		if !holdAnswer(messages) {
			r.pace(ctx.Done(), len(event.Data))
		}
		if slices.ContainsFunc(messages, take) {
			return nil
		}
	}
	return nil
}

// owned returns the data of an event for keeps.
func owned(data []byte) []byte {
	if len(data) > sse.MaxRetained {
		return data
	}
	return append([]byte(nil), data...)
}
