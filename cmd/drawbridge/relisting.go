package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/batch"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// kindLists says that lists of servers may have changed, whose names are its parts.
const kindLists = "lists 2"

// relistGap is between two messages to other replicas, so that a server that says in each
// call that its lists have changed costs them no more than one reading a second.
const relistGap = time.Second

// relisting has other replicas read the lists of servers again. Some servers say only in
// the session of the call that made it that a list has changed, and only one replica has
// that session:
//
//	upstream ── Overheard ──▶ add ──▶ run ── message ──▶ heard, at all others ──▶ reread
//
// It is safe for concurrent use.
type relisting struct {
	others replica.Others
	reread func(server string)
	// names of servers of which all others are yet to be told, and what tells them
	waiting batch.Queue[struct{}, string]
	begun   chan func(context.Context)
}

// maxRelisted is how many servers go in one message.
const maxRelisted = 1000

// newRelisting returns a relisting that runs not yet. reread, for one server, and
// rereadAll must return at once.
func newRelisting(others replica.Others, reread func(server string), rereadAll func()) *relisting {
	r := &relisting{others: others, reread: reread, begun: make(chan func(context.Context), 1)}
	r.waiting.Do, r.waiting.Most = r.tell, maxRelisted
	r.waiting.Go = func(run func(context.Context)) { r.begun <- run } // one at a time: there is one key
	others.Handle(kindLists, r.heard)
	others.OnReturn(rereadAll) // others have told nothing to who was gone for them
	return r
}

// add has the others read the lists of a server again. It does not block.
func (r *relisting) add(server string) { r.waiting.Add(struct{}{}, server) }

// run tells the others, until ctx ends.
func (r *relisting) run(ctx context.Context) error {
	for {
		select {
		case run := <-r.begun:
			run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// tell tells all others at once: all that serve are known here, unless this replica may
// lead nothing. What one of them did not take is told again, but for who is gone, and so
// is what was told while this replica may not know all others: who has come meanwhile was
// told nothing.
func (r *relisting) tell(ctx context.Context, _ struct{}, servers []string) {
	_, leads := r.others.Leads()
	w := replica.Message{Kind: kindLists, Parts: servers}
	var sends errgroup.Group
	for _, to := range r.others.All() {
		sends.Go(func() error {
			_, err := r.others.Send(ctx, to, w)
			if err != nil && !r.others.IsThere(to) {
				return nil
			}
			return err
		})
	}
	err := sends.Wait()
	if pace.Wait(ctx, relistGap) && (err != nil || !leads) {
		for _, server := range servers {
			r.add(server)
		}
	}
}

// heard takes a message of another replica.
func (r *relisting) heard(_ context.Context, _ replica.ID, w replica.Message) ([]byte, error) {
	for _, name := range w.Parts {
		r.reread(name)
	}
	return nil, nil
}
