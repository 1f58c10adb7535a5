package eventlog

import (
	"context"
	"fmt"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// A change is told in all sessions that follow it at the same time, so their notices go
// together: one trip for a tenant is under way, and whatever comes meanwhile goes with the
// next one. A notice that is alone waits for nothing.
//
//	Notify, Notify, Notify ──▶ waiting, by tenant ──▶ one script for all of them

// maxBatch is how many notices go in one trip: the server does nothing else meanwhile.
const maxBatch = 64

// batches has the notices that wait for their trip. It is safe for concurrent use.
type batches struct {
	mu      sync.Mutex              // guards the fields below
	waiting map[string][]*appending // by tenant; an entry tells that a trip is under way
}

func newBatches() *batches { return &batches{waiting: make(map[string][]*appending)} }

// appending is one event on its way to the server.
type appending struct {
	streamKey
	args []string
	done chan struct{} // closed when the server has answered; nil: nobody waits for that

	// What the server has answered, as run returns it.
	said    string
	readers []redis.Reply
	err     error
}

// notify writes a notice to the server, together with others of its tenant.
func (l *Redis) notify(ctx context.Context, one *appending) {
	tenant := one.session.Owner.TenantID
	one.done = make(chan struct{})
	if l.batches.add(tenant, one) {
		go l.runBatches(ctx, tenant) // ends when nobody waits for it
	}
	<-one.done
}

// runBatches makes trips for a tenant until no notice waits any more.
func (l *Redis) runBatches(ctx context.Context, tenant string) {
	for {
		batch := l.batches.take(tenant)
		if len(batch) == 0 {
			return
		}
		l.appendAll(ctx, batch)
		for _, a := range batch {
			close(a.done)
		}
	}
}

// add has a notice wait. It is true if no trip is under way, so that one is to
// be made.
func (r *batches) add(tenant string, one *appending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, pending := r.waiting[tenant]
	r.waiting[tenant] = append(waiting, one)
	return !pending
}

// take takes out what goes with the next trip. If that is nothing, no trip is under way
// any more.
func (r *batches) take(tenant string) []*appending {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting[tenant]
	if len(waiting) == 0 {
		delete(r.waiting, tenant)
		return nil
	}
	n := min(len(waiting), maxBatch)
	r.waiting[tenant] = waiting[n:]
	return waiting[:n]
}

// appendAll writes events of one tenant to the server in one trip.
func (l *Redis) appendAll(ctx context.Context, all []*appending) {
	var keys, args []string
	for _, a := range all {
		keys, args = append(keys, a.keys()...), append(args, a.args...)
	}
	reply, err := appendScript.Run(ctx, l.config.Store, keys, args)
	var each []redis.Reply
	if err == nil {
		if each, err = reply.List(); err == nil && len(each) != len(all) {
			err = fmt.Errorf("%w: it answered to %d of %d events", redis.ErrDown, len(each), len(all))
		}
	}
	for i, a := range all {
		if err != nil {
			a.err = err
			continue
		}
		a.said, a.readers, a.err = l.heardOf(ctx, a.streamKey, each[i])
	}
}
