package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// errStopping is the cause of a call's end when the process stops.
var errStopping = errors.New("the gateway is stopping")

// job is one request that is being answered.
type job struct {
	id        mcp.ID
	principal auth.Principal
	life      lifetime.Context // of what answers it; begun by begin
	answered  bool             // its id is free again; guarded by the mutex of its session
	answer    share.Claim      // holds its answer; released when the client has it
}

// jobs holds all requests that are being answered, so that a shutdown can wait for them: some outlive the connection
// that they came on.
type jobs struct {
	mu      sync.Mutex // guards the fields below
	running map[*job]struct{}
	closing bool
	empty   chan struct{} // closed when closing and none is running
}

func newJobs() *jobs {
	return &jobs{running: make(map[*job]struct{}), empty: make(chan struct{})}
}

// begin adds a job, of which id and principal are set. It is false once a shutdown has begun.
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

// beginJob makes j, which is new, a job for a request of a caller who is still accepted. The context that it returns
// ends with ctx, and when that caller is not accepted any more, or the process stops.
func (s *Server) beginJob(ctx context.Context, x *exchange, j *job, id mcp.ID) (context.Context, *refusal) {
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
	if js.closing && len(js.running) == 0 {
		close(js.empty)
	}
}

func (js *jobs) closed() bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.closing
}

// close lets no further job begin, and returns how many are running.
func (js *jobs) close() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	if !js.closing {
		js.closing = true
		if len(js.running) == 0 {
			close(js.empty)
		}
	}
	return len(js.running)
}

// wait returns when no job is left. If ctx ends first, wait cancels those that are left and returns how many they are.
// It is called after close.
func (js *jobs) wait(ctx context.Context) int {
	select {
	case <-js.empty:
		return 0
	case <-ctx.Done():
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	for j := range js.running {
		j.life.End(errStopping)
	}
	return len(js.running)
}
