package server

import (
	"context"
	"errors"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// errStopping is the cause of a call's end when the process stops.
var errStopping = errors.New("the gateway is stopping")

// call is one request in work.
type call struct {
	id     mcp.ID
	cancel context.CancelCauseFunc
	heeds  sync.WaitGroup // what looks whether another replica was told to cancel it
}

// calls are all requests in work, so that a shutdown can wait for them. Some outlive the connection they came on.
type calls struct {
	mu      sync.Mutex // guards the fields below
	running map[*call]struct{}
	closing bool
	empty   chan struct{} // closed when closing and none is running
}

func newCalls() *calls {
	return &calls{running: make(map[*call]struct{}), empty: make(chan struct{})}
}

// begin adds a call that ends with ctx. It returns nil when no more calls begin.
func (cs *calls) begin(ctx context.Context, id mcp.ID) (context.Context, *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closing {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{id: id, cancel: cancel}
	cs.running[c] = struct{}{}
	return ctx, c
}

// finish takes the call out, after its answer was given.
func (cs *calls) finish(c *call) {
	c.cancel(nil)
	c.heeds.Wait()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.running, c)
	if cs.closing && len(cs.running) == 0 {
		close(cs.empty)
	}
}

func (cs *calls) closed() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.closing
}

// wait lets no more calls begin and returns when none is running, or ctx ends; then it cancels them and says how many.
func (cs *calls) wait(ctx context.Context) int {
	cs.mu.Lock()
	if !cs.closing {
		cs.closing = true
		if len(cs.running) == 0 {
			close(cs.empty)
		}
	}
	cs.mu.Unlock()
	select {
	case <-cs.empty:
		return 0
	case <-ctx.Done():
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.running {
		c.cancel(errStopping)
	}
	return len(cs.running)
}

// answer is what became of a request: a result or an error, or silence when the client cancelled it.
type answer struct {
	id     mcp.ID
	result mcp.Object
	err    *mcp.Error
	silent bool
}

// message returns the response. An error names the HTTP request that it is about.
func (a *answer) message(requestID string) []byte {
	if a.err != nil {
		return mcp.AppendError(nil, a.id, a.err.OfRequest(requestID))
	}
	return mcp.AppendResult(nil, a.id, a.result)
}

// word returns the outcome for the log.
func (a *answer) word() string {
	switch {
	case a.silent:
		return "cancelled"
	case a.err != nil:
		return wordFor(a.err)
	case string(a.result.Value("isError")) == "true":
		return "tool_error"
	}
	return "ok"
}

// ask puts a request before the desk.
func (s *Server) ask(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, *mcp.Error) {
	return s.guarded(ctx, func() (mcp.Object, error) { return s.desk.Handle(ctx, c, r) })
}

// guarded calls the desk. A panic there becomes an internal error: the goroutine may be one that nobody else guards.
func (s *Server) guarded(ctx context.Context, do func() (mcp.Object, error)) (result mcp.Object, told *mcp.Error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(ctx, problem)
			result, told = mcp.Object{}, errPanic.told
		}
	}()
	result, err := do()
	if err != nil {
		return mcp.Object{}, toldOf(err)
	}
	return result, nil
}
