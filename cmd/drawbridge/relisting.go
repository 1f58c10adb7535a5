package main

import (
	"context"
	"sync"
	"time"

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
	others  replica.Others
	reread  func(server string)
	waiting batch.Queue[struct{}, relisted]
	begun   chan func(context.Context) // hands on what waits
}

// relisted is a server whose lists may have changed, of which others are yet to be told.
type relisted struct {
	to     replica.ID // one replica, or one of the words below
	server string
}

const (
	toAll replica.ID = "all" // all others that are known here
	// toNewcomers: all others, as soon as all are known here. Who has come while they
	// were not was told nothing.
	toNewcomers replica.ID = "newcomers"
)

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
func (r *relisting) add(server string) { r.waiting.Add(struct{}{}, relisted{toAll, server}) }

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

// tell tells replicas at once, each of its servers. All that serve are known here, unless
// this replica may lead nothing. A replica that did not take it is told again, and no
// other one: each reads the lists as often as it is told.
func (r *relisting) tell(ctx context.Context, _ struct{}, some []relisted) {
	_, leads := r.others.Leads()
	servers := map[replica.ID][]string{}
	for _, one := range some {
		to := []replica.ID{one.to}
		if one.to == toAll || one.to == toNewcomers && leads {
			to = r.others.All()
		}
		if one.to == toAll && !leads {
			to = append(to, toNewcomers)
		}
		for _, id := range to {
			servers[id] = append(servers[id], one.server)
		}
	}
	var tells sync.WaitGroup
	for to, names := range servers {
		tells.Go(func() {
			done := to != toNewcomers && r.send(ctx, to, names)
			if pace.Wait(ctx, relistGap) && !done {
				for _, server := range names {
					r.waiting.Add(struct{}{}, relisted{to, server})
				}
			}
		})
	}
	tells.Wait()
}

// send tells one replica. It is false if that is there and did not take it.
func (r *relisting) send(ctx context.Context, to replica.ID, servers []string) bool {
	_, err := r.others.Send(ctx, to, replica.Message{Kind: kindLists, Parts: servers})
	return err == nil || !r.others.IsThere(to)
}

// heard takes a message of another replica.
func (r *relisting) heard(_ context.Context, _ replica.ID, w replica.Message) ([]byte, error) {
	for _, name := range w.Parts {
		r.reread(name)
	}
	return nil, nil
}
