package exchange

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// ErrCancelled is the cause of a call's end. Whatever gives up because of it, such as a
// question to Redis, may return it as its error, and that is then told and recorded as a
// cancelled call.
var ErrCancelled = fmt.Errorf("cancelled by the client: %w", context.Canceled)

// Job is one request that is being answered.
type Job struct {
	ID        mcp.ID
	principal auth.Principal
	Life      lifetime.Context  // of what answers it; begun by begin
	Answer    share.Reservation // holds its answer; released when the client has it
}

// jobs holds all requests that are being answered, so that a shutdown can wait for them:
// some outlive the connection that they came on.
type jobs struct {
	mu      sync.Mutex // guards the fields below
	running map[*Job]struct{}
	closing bool // none begins any more
}

// begin adds a job, of which id and principal are set. It is false after end.
func (js *jobs) begin(ctx context.Context, j *Job) (context.Context, bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closing {
		return ctx, false
	}
	j.Life.Begin(ctx)
	js.running[j] = struct{}{}
	return &j.Life, true
}

// Finish takes the job out, after its answer was given.
func (js *jobs) Finish(j *Job) {
	j.Life.Close()
	j.Answer.Release()
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.running, j)
}

func (js *jobs) Closed() bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.closing
}

// Count returns how many are running.
func (js *jobs) Count() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.running)
}

// End lets no further job begin, cancels those that are running, and returns how many
// they are. A second end finds none that is not cancelled, whether it has ended meanwhile
// or not, and returns zero.
func (js *jobs) End() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closing {
		return 0
	}
	js.closing = true
	for j := range js.running {
		j.Life.End(gateway.ErrStopped)
	}
	return len(js.running)
}

// Reauthorize cancels the requests whose callers are not accepted any more.
func (js *jobs) Reauthorize(accepts func(auth.Principal) bool) {
	js.mu.Lock()
	running := slices.Collect(maps.Keys(js.running))
	js.mu.Unlock()
	for _, j := range running {
		if !accepts(j.principal) {
			j.Life.End(gateway.ErrRevoked)
		}
	}
}
