package fairqueue

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// Swift is how many bytes of each message are not held up.
const Swift = 1 << 20

// How fast large messages go through the gateway, in bytes for each slot. A processor
// copies many times as many: about a tenth of one is used like this.
const (
	paceOf  = 256 << 20 // a second, of all large messages together
	burstOf = 1 << 20   // at once, after a rest
	piece   = 128 << 10 // of one wait
)

// Pace waits until so many more bytes of something large may be copied, or ctx ends.
// Without a pace, whoever reads from a peer that sends faster than it is read is ready to
// go on at any time. A few of them keep all processors busy, and the Go runtime asks the
// network who else is ready only when nobody is left who is ready already, or after 10
// ms: at each step of a small call, that is. With a nil Queue it never waits.
func (q *Queue) Pace(ctx context.Context, bytes int) {
	for q != nil && bytes > 0 {
		n := min(bytes, piece)
		if q.pace.WaitN(ctx, n) != nil {
			return // whoever copies will notice that ctx ends
		}
		bytes -= n
	}
}

// Paced returns body, of which what is large is read at the pace of the queue as long as
// ctx lasts. It is read by one goroutine at a time. With a nil Queue it is body.
func (q *Queue) Paced(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	if q == nil {
		return body
	}
	return &pacedBody{ReadCloser: body, ctx: ctx, queue: q}
}

type pacedBody struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the request whose body it is
	queue *Queue
	came  int // bytes, until they are more than Swift
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), piece)])
	if b.came > Swift {
		b.queue.Pace(b.ctx, n)
	} else {
		b.came += n
	}
	return n, err
}

func newPace(slots int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(slots*paceOf), slots*burstOf)
}
