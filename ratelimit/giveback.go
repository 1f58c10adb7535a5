package ratelimit

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

// giveBack puts into their buckets what no call has used of the leases, for the other replicas: it would otherwise be lost
// for them until the rate has brought as much again. What cannot be given back within giveTime is lost like that of a
// replica that was killed.
func (l *Leases) giveBack(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, giveTime)
	defer stop()
	group, ctx := errgroup.WithContext(ctx) // ends with the first trip that fails: the others would, too
	group.SetLimit(fillers)
	for _, lease := range l.all() {
		group.Go(func() error { return l.giveBackOne(ctx, lease) })
	}
	if err := group.Wait(); err != nil {
		l.shared.config.Logger.DebugContext(ctx, "tokens that were taken ahead are not given back", slog.Any("error", err))
	}
}

// all returns the leases.
func (l *Leases) all() []*lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*lease, 0, len(l.leases))
	for _, lease := range l.leases {
		all = append(all, lease)
	}
	return all
}

// giveBackOne gives back what is left of one lease. The tokens leave it before the trip, so that nobody uses them meanwhile,
// and do not return if that fails: nobody knows then whether the bucket has them. The trip of somebody else keeps what there
// is, because the server would note after that trip what the replica had before.
func (l *Leases) giveBackOne(ctx context.Context, lease *lease) error {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	back := lease.held(l.shared.now())
	if back == 0 || lease.trip != nil {
		return nil
	}
	lease.tokens, lease.trip = 0, make(chan struct{})
	w := &want{Bucket: lease.bucket()}
	lease.mu.Unlock()
	_, _, err := l.ask(ctx, w, 0, 0, back)
	lease.mu.Lock()
	close(lease.trip)
	lease.trip = nil
	return err
}
