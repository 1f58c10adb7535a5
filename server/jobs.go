package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// job is one request that is being answered.
type job struct {
	id        mcp.ID
	principal auth.Principal
	life      lifetime.Context // of what answers it; begun by begin
	answered  bool             // its id is free again; guarded by the mutex of its session
	answer    share.Claim      // holds its answer; released when the client has it
}

// jobs holds all requests that are being answered, so that a shutdown can wait for them:
// some outlive the connection that they came on.
type jobs struct {
	mu      sync.Mutex // guards the fields below
	running map[*job]struct{}
	closing bool // none begins any more
}

func newJobs() *jobs { return &jobs{running: make(map[*job]struct{})} }

// begin adds a job, of which id and principal are set. It is false after end.
func (js *jobs) begin(ctx context.Context, j *job) (context.Context, bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closing {
		return ctx, false
	}
	j.life.Begin(ctx, time.Time{})
	js.running[j] = struct{}{}
	return &j.life, true
}

// beginJob makes j, which is new, a job for a request of a caller who is still accepted.
// The context that it returns ends with ctx, and when that caller is not accepted any
// more, or the process stops.
func (s *service) beginJob(ctx context.Context, x *exchange, j *job, id mcp.ID) (context.Context, *refusal) {
	j.id, j.principal = id, x.principal
	ctx, begun := s.jobs.begin(ctx, j)
	if !begun {
		return ctx, errDraining
	}
	j.answer.Begin(s.config.Memory, share.User(x.principal.User()))
	if x.isOutdated() {
		s.jobs.finish(j)
		return ctx, x.refuseOutdated()
	}
	return ctx, nil
}

// finish takes the job out, after its answer was given.
func (js *jobs) finish(j *job) {
	j.life.Close()
	j.answer.Release()
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.running, j)
}

func (js *jobs) closed() bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.closing
}

// count returns how many are running.
func (js *jobs) count() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.running)
}

// end lets no further job begin, cancels those that are running, and returns how many
// they are. A second end finds none that is not cancelled, whether it has ended meanwhile
// or not, and returns zero.
func (js *jobs) end() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closing {
		return 0
	}
	js.closing = true
	for j := range js.running {
		j.life.End(gateway.ErrStopped)
	}
	return len(js.running)
}

// judge cancels the requests whose callers are not accepted any more.
func (js *jobs) judge(accepts func(auth.Principal) bool) {
	js.mu.Lock()
	running := slices.Collect(maps.Keys(js.running))
	js.mu.Unlock()
	for _, j := range running {
		if !accepts(j.principal) {
			j.life.End(gateway.ErrRevoked)
		}
	}
}
