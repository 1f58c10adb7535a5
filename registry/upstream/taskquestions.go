package upstream

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// askWait is how long a task that waits for input is given to say what it asks.
const askWait = time.Second

// A server of 2025-11-25 asks during a task on the stream of a tasks/result. A client of
// 2026-07-28 has no such request: it reads what is asked in the state of the task, and
// answers by tasks/update. So tasks/result is read for it, by a parked call without
// rounds:
//
//	tasks/update without answers ──▶ begins it unless it goes on ──▶ the questions that are open
//	tasks/update with answers    ──▶ they go to the server
//	tasks/get, tasks/cancel      ──▶ the task is at its end ──▶ it is cancelled, if it still goes on
//
// It begins when the task first waits for input, goes on while the task works again,
// since a question that comes meanwhile would be lost, and ends with the task or the time
// of the task. It counts as one call that is parked. Its result is dropped: who wants it
// reads tasks/result once more.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#input-required-status

// update sends the answers in a tasks/update to the server, or returns the questions that
// the task asks now. Nothing is asked in the session of the lists.
func (p *parking) update(ctx context.Context, who auth.Owner, one task, i *item,
	c *registry.Call,
) (mcp.Object, error) {
	if c.Params.Has("inputResponses") {
		return mcp.Object{}, p.answerTask(ctx, who, c)
	}
	if one.seat == nil || c.Capabilities.Len() == 0 {
		return mcp.Object{}, nil
	}
	d, err := p.reader(who, one, i, c)
	if err != nil || d.owner != who {
		return mcp.Object{}, err
	}
	d.attach(c)
	select {
	case <-d.asked:
	case <-d.done:
	case <-time.After(askWait):
	case <-ctx.Done():
	}
	if requests := d.requests(); requests.Len() > 0 {
		return mcp.NewObject(mcp.Member{Name: "inputRequests", Value: requests.JSON()}), nil
	}
	return mcp.Object{}, nil
}

// answerTask sends answers to the server. Those to no open question are ignored.
// https://modelcontextprotocol.io/extensions/tasks
func (p *parking) answerTask(ctx context.Context, who auth.Owner, c *registry.Call) error {
	d := p.find(c.Task)
	if d == nil || d.owner != who {
		return nil
	}
	err := d.answer(ctx, c)
	if err != nil {
		d.cancel() // or the server would wait for an answer that nobody can give any more
	}
	return err
}

// reader returns the call that reads the result of a task, which it begins if there is
// none.
func (p *parking) reader(who auth.Owner, one task, i *item, c *registry.Call) (*parkedCall, error) {
	d, began, err := p.beginReader(who, one, i, c)
	if began && c.Hold != nil {
		if release := c.Hold(d.cancel); !d.holds(release) {
			release()
		}
	}
	return d, err
}

func (p *parking) beginReader(who auth.Owner, one task, i *item,
	c *registry.Call,
) (d *parkedCall, began bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.waiting[c.Task]; d != nil {
		return d, false, nil
	}
	own := *i
	own.method, own.asks = mcp.MethodTasksResult, true
	// nothing else of the request that happens to be the first one is kept
	read := &registry.Call{
		Method: own.method, Principal: c.Principal, Trace: c.Trace, Capabilities: c.Capabilities,
		Extensions: c.Extensions, Tasks: c.Tasks, Task: c.Task, Memory: c.Memory,
	}
	d = p.newCall(who, one.seat, &own, read)
	d.until, d.notes, d.cost = one.until, nil, parkedCost
	d.prefix = rand.Text() + "-" // a later reader has keys of its own
	switch {
	case p.waiting == nil, !p.seats.Rejoin(one.seat):
		err = p.server.unavailable(false, wire.ErrGone)
	case p.slots.Take(d.user(), 1) != nil:
		p.seats.Release(one.seat, seats.Call)
		err = p.server.unavailable(false, errCrowded)
	default:
		p.waiting[c.Task] = d
		ended := func() { p.claim(c.Task, d); d.release() }
		if err = d.start(one.seat, &own, read, ended); err != nil {
			delete(p.waiting, c.Task)
			p.slots.Give(d.user(), 1)
		}
	}
	if err != nil {
		d.release()
		return nil, false, err
	}
	return d, true, nil
}

// endIfOver ends the call that reads the result of a task, because a request told that
// the task is at its end.
func (p *parking) endIfOver(id, status string) {
	if d := p.find(id); d != nil && !mcp.TaskGoesOn(status) {
		d.cancel()
	}
}
