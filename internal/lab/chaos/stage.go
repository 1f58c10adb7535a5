package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// stage is a scene on which replicas come and go while clients work. Its methods are for
// one goroutine.
type stage struct {
	*scene

	current, previous string       // programs of the gateway
	loads             []crowd.Load // of clients

	book     *ledger.Ledger
	tally    crowd.Tally           // of all clients, those that were relieved among them
	restarts int                   // replicas that were stopped or killed
	inFlight map[ledger.Nonce]bool // calls in flight when a replica was killed
	soon     map[ledger.Nonce]bool // calls asked within noticeTime after that
}

// stopTime is for a stop or a start, on a machine that is busy with other things.
const stopTime = 3 * patience

// play plays an act again and again until a number of requests went through, and judges
// it.
func (s *stage) play(ctx context.Context, a *act, requests int) *score {
	began := time.Now()
	s.begin(1) // nothing is drawn
	s.book, s.inFlight, s.soon = ledger.New(), map[ledger.Nonce]bool{}, map[ledger.Nonce]bool{}
	s.well(ctx)
	s.employ(ctx)
	defer must.Else(func() { s.dismiss(ctx) })
	a.pass(ctx, s)
	for s.tally.Deeds().Requests < int64(requests) {
		a.pass(ctx, s)
	}
	s.dismiss(ctx)
	return &score{
		act: a, balancer: s.balancer, restarts: s.restarts, deeds: s.tally.Deeds(),
		troubles: s.tally.Troubles(), verdict: s.judge(ctx), failures: s.book.Failures(),
		inFlight: s.inFlight,
		soon:     s.soon, took: time.Since(began),
	}
}

// settleTime is how long a call may go on that its client has left: calls have 10 s. It
// is put on record when it ends.
const settleTime = 15 * time.Second

// judge joins what clients, servers and records say of this book. As long as calls are
// not on record that must be, it does that again, until these have had time to end.
func (s *stage) judge(ctx context.Context) ledger.Verdict {
	for end := time.Now().Add(settleTime); ; world.Pause(ctx, settleTime/5) {
		records := s.Audit()
		must.OK(ctx.Err())
		v := s.book.Judge(s.executions(), records)
		if unrecorded(&v, s.inFlight, s.soon) == 0 || time.Now().After(end) {
			return v
		}
	}
}

// employ sets the clients to work.
func (s *stage) employ(ctx context.Context) {
	s.crowd = crowd.Start(ctx, crowd.Config{
		URL: s.URL, Token: s.Token, Ledger: s.book, Tally: &s.tally, Loads: s.loads,
	})
}

// dismiss ends all clients when each of their calls has its end.
func (s *stage) dismiss(ctx context.Context) {
	world.For(ctx, stopTime, func(ctx context.Context) { must.OK(s.crowd.Stop(ctx)) })
}

// relieve replaces all clients by others, which know nothing of sessions from before.
func (s *stage) relieve(ctx context.Context) {
	s.dismiss(ctx)
	s.employ(ctx)
}

// work waits until the clients have sent some more requests.
func (s *stage) work(ctx context.Context) {
	const some = 100
	before := s.tally.Deeds().Requests
	world.For(ctx, stopTime, func(ctx context.Context) {
		world.Until(ctx, func() {
			sent := s.tally.Deeds().Requests - before
			is(fmt.Sprintf("the clients send %d requests", some), sent >= some, sent)
		})
	})
}

// well waits until all is ready, and the load balancer sends requests to all replicas
// that run.
func (s *stage) well(ctx context.Context) {
	world.For(ctx, stopTime, s.Ready)
}

// leave stops a replica, which must end with exit code 0.
func (s *stage) leave(ctx context.Context, r *world.Replica) {
	s.restarts++
	world.For(ctx, stopTime, func(ctx context.Context) { s.stopClean(ctx, r) })
}

// join starts a replica, and returns when it is ready and the load balancer knows.
func (s *stage) join(ctx context.Context, r *world.Replica) {
	world.For(ctx, stopTime, r.Start)
	s.well(ctx)
}

// restart stops a replica and starts it again.
func (s *stage) restart(ctx context.Context, r *world.Replica) {
	s.leave(ctx, r)
	s.join(ctx, r)
}

// noticeTime is how long a load balancer may take, on a machine that is busy, to notice
// that connections which it keeps open have ended with a replica. A request that it sends
// on one meanwhile is lost, too.
const noticeTime = time.Second

// strike kills a replica. What was in flight at any replica is remembered, and what was
// asked soon after.
func (s *stage) strike(ctx context.Context, r *world.Replica) {
	s.restarts++
	before := s.book.Last()
	maps.Copy(s.inFlight, s.book.Open())
	r.Kill()
	dead := s.book.Last()
	for n := before + 1; n <= dead; n++ { // asked while it died
		s.inFlight[n] = true
	}
	world.Pause(ctx, noticeTime)
	for n := dead + 1; n <= s.book.Last(); n++ {
		s.soon[n] = true
	}
}
