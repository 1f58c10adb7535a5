package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// progress is how far an event stream was read, so that it can be resumed.
type progress struct {
	id    string        // the last event id; "": no event had one, so the stream cannot be resumed
	retry time.Duration // how long the server wants clients to wait before they reconnect; zero: it did not say
	news  bool          // an event came since news was last cleared
}

// stream reads the messages of an event stream until take returns true, and keeps in at how far it came. The error is
// nil when take had enough, or the stream just ended. ctx only ends pauses; whoever ends it ends the body too.
func (r reader) stream(ctx context.Context, body io.Reader, at *progress, take func(*mcp.Message) (enough bool)) error {
	for event, err := range sse.Read(body, maxMessage) {
		if errors.Is(err, sse.ErrTooLong) {
			r.count(Oversized, 1)
			return protocol("%w", ErrTooLarge)
		}
		if err != nil {
			return err
		}
		at.news = true
		if event.HasID {
			at.id = event.ID
		}
		if event.Retry > 0 {
			at.retry = event.Retry
		}
		if len(event.Data) == 0 || event.Type != "" && event.Type != "message" {
			continue
		}
		messages, err := r.messages(bytes.Clone(event.Data))
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
