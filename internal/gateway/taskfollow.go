package gateway

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// A client of 2026-07-28 follows tasks on a stream. The gateway asks their servers for
// their states, at the pace that each server names, and tells what is new:
//
//	FollowTask ──▶ tasks/get: may the caller follow it? ──▶ no: it is not acknowledged
//	     │ yes
//	     └──▶ wait, tasks/get, told if the state is new, … until the task is at its end
//
// So any replica can do it, also for servers that tell nothing by themselves, and each
// state is judged, cleaned and put on record as one that the client asked for.

// FollowTask calls onStatus with the state of a task of 2026-07-28, now and whenever it
// is another, until it is at its end or the subscription is stopped. onStatus is called
// by a goroutine of the gateway; it is false if the state cannot be taken yet, and is
// tried again. r is the request that follows the task, and is kept: of it counts what is
// said of the client. The error is an *mcp.Error.
func (g *Gateway) FollowTask(ctx context.Context, c Caller, r *Request, id string,
	onStatus func(state mcp.Object) bool,
) (Subscription, error) {
	if err := g.Charge(ctx, c, 1); err != nil { // as much as a tasks/get of the client's own
		return Subscription{}, err
	}
	life, stop, err := g.holdSubscription(ctx, share.User(c.Principal.User()), id)
	if err != nil {
		return Subscription{}, failureOf(err).rpcErr
	}
	f := &follower{gateway: g, caller: c, request: r, id: id, onStatus: onStatus}
	if err := f.poll(ctx); err != nil {
		stop()
		return Subscription{}, err
	}
	go func() { // it ends with life, which ends when the subscription is stopped
		defer stop()
		f.run(life)
	}()
	return Subscription{
		Stop:   stop,
		Allows: func(c Caller) bool { return g.FollowsTask(c, id) },
	}, nil
}

// follower looks at one task. It belongs to one goroutine.
type follower struct {
	gateway  *Gateway
	caller   Caller
	request  *Request // that follows it
	id       string
	onStatus func(state mcp.Object) bool

	last [sha256.Size]byte // digest of the state that was told
	wait time.Duration     // until the next look
	over bool              // its end was told, or it is gone
}

// run looks at the task until it is at its end, or ctx ends.
func (f *follower) run(ctx context.Context) {
	for !f.over {
		if !pace.Wait(ctx, f.wait) {
			return
		}
		if _, err := f.gateway.guarded(ctx, nil, f.admit); err != nil {
			return
		}
		_ = f.poll(ctx) // it is on record, and tried again unless the task is gone
	}
}

// admit looks up what the caller may do now. It may have the lists of the caller read.
func (f *follower) admit(ctx context.Context, _ *call) (_ mcp.Object, err error) {
	f.caller, err = f.gateway.Admit(ctx, f.caller.Principal, 0)
	return mcp.Object{}, err
}

// poll asks for the state, and tells it if it is new.
func (f *follower) poll(ctx context.Context) error {
	f.wait = defaultPoll
	state, gone, err := f.gateway.stateOf(ctx, f.caller, f.request, f.id)
	if err != nil {
		f.over = gone
		return err
	}
	f.wait = pollOf(state)
	state = state.Without("_meta", "resultType")
	digest := sha256.Sum256(state.JSON())
	if digest == f.last || f.onStatus(state) {
		f.last, f.over = digest, isOver(state)
	}
	return nil
}
