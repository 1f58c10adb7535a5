package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
)

// kindLists says that lists of servers may have changed. It holds their names, one a
// line.
const kindLists = "lists 1"

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

	mu      sync.Mutex      // guards the fields below
	waiting map[string]bool // names of servers of which the others are yet to be told
	wake    chan struct{}   // holds a value if some wait
}

// newRelisting returns a relisting that runs not yet. reread, for one server, and
// rereadAll must return at once.
func newRelisting(others replica.Others, reread func(server string), rereadAll func()) *relisting {
	r := &relisting{
		others: others, reread: reread, waiting: make(map[string]bool), wake: make(chan struct{}, 1),
	}
	others.Handle(kindLists, r.heard)
	others.OnReturn(rereadAll) // others have told nothing to who was gone for them
	return r
}

// add has the others read the lists of a server again. It does not block.
func (r *relisting) add(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[server] = true
	select {
	case r.wake <- struct{}{}:
	default: // it holds one
	}
}

// tell sends a message to all others at once: all that serve are known here, unless this
// replica may lead nothing. The error is that of one which did not take it; who is gone
// need not.
func (r *relisting) tell(ctx context.Context, w replica.Message) error {
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
	return sends.Wait()
}

// run tells the others, until ctx ends. What one of them did not take is told again, and
// so is what was told while this replica may not know all others: who has come meanwhile
// was told nothing.
func (r *relisting) run(ctx context.Context) error {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil
		}
		names := r.take()
		_, leads := r.others.Leads()
		err := r.tell(ctx, replica.Message{Kind: kindLists, Data: []byte(strings.Join(names, "\n"))})
		if !pace.Wait(ctx, relistGap) {
			return nil
		}
		if err != nil || !leads {
			for _, name := range names {
				r.add(name)
			}
		}
	}
}

// take takes out the names of the servers of which the others are to be told.
func (r *relisting) take() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.waiting {
		names = append(names, name)
	}
	clear(r.waiting)
	slices.Sort(names)
	return names
}

// heard takes a message of another replica.
func (r *relisting) heard(_ context.Context, _ replica.ID, w replica.Message) ([]byte, error) {
	for name := range strings.SplitSeq(string(w.Data), "\n") {
		r.reread(name)
	}
	return nil, nil
}
