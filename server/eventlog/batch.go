package eventlog

import (
	"context"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// A change is told in all sessions that follow it at the same time, so their notices go
// together: one trip for a tenant is under way, and whatever comes meanwhile goes with
// the next one. A notice that is alone waits for nothing.
//
//	Notify, Notify, Notify ──▶ waiting, by tenant ──▶ one script for all of them

// maxBatch is how many notices go in one trip: the server does nothing else meanwhile.
const maxBatch = 64

// appendNotices makes one trip for notices of a tenant, each of which somebody waits for.
func (l *Redis) appendNotices(ctx context.Context, _ string, some []*writing) {
	l.appendAll(ctx, some)
	for _, one := range some {
		close(one.done)
	}
}

// appendAll writes events of one tenant to the server in one trip.
func (l *Redis) appendAll(ctx context.Context, all []*writing) {
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
		a.said, a.readers, a.err = l.heardOf(ctx, a.streamKey, each[i], nil)
	}
}
