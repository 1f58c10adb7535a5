package legacy

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// maxNotices is of how many sessions notices go in one message.
const maxNotices = 256

// outbox has what other replicas are to be told of sessions that this one leads. It is
// safe for concurrent use.
type outbox struct {
	background *background
	// tells a replica what the streams there are to be told of some sessions
	tell func(ctx context.Context, at replica.ID, some []*sessions.Session)

	mu      sync.Mutex // guards the fields below
	waiting map[replica.ID]map[*sessions.Session]bool
	running map[replica.ID]bool
}

// add has the replicas that hold streams for notices of a session look for news of it.
func (o *outbox) add(l *sessions.Session) {
	for _, at := range l.ListensAt() {
		o.mu.Lock()
		if o.waiting[at] == nil {
			o.waiting[at] = make(map[*sessions.Session]bool)
		}
		o.waiting[at][l] = true
		begins := !o.running[at]
		o.running[at] = true
		o.mu.Unlock()
		if begins {
			// one for each replica
			o.background.begin(context.Background(), func(ctx context.Context) { o.run(ctx, at) })
		}
	}
}

// run tells one replica until there is nothing more to tell it.
func (o *outbox) run(ctx context.Context, at replica.ID) {
	for {
		batch := o.take(at)
		if len(batch) == 0 {
			return
		}
		o.background.Safely(ctx, func() { o.tell(ctx, at, batch) })
	}
}

// take takes out some sessions of which a replica is to be told. If there are none,
// nobody tells it any more.
func (o *outbox) take(at replica.ID) (batch []*sessions.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := range o.waiting[at] {
		if len(batch) == maxNotices {
			break
		}
		batch = append(batch, l)
		delete(o.waiting[at], l)
	}
	if len(batch) == 0 {
		delete(o.waiting, at)
		delete(o.running, at)
	}
	return batch
}
