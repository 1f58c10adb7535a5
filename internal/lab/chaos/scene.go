package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// scene is a world with the servers behind it, and what a fault in it needs. Its methods
// are for one goroutine.
type scene struct {
	*world.World

	ground   ground
	balancer string
	dir      string // of the world
	program  string // the gateway
	variant  string // the gateway with a clock that can be set; "": it was not built
	servers  map[string]*upstream.Server

	// Of one round.
	seed   uint64
	draw   *rand.Rand
	crowd  *crowd.Crowd
	victim *world.Replica   // the replica that the fault meets, if it meets one
	others []*world.Replica // all but the victim
	server string           // the name of the server that the fault meets, if it meets one
	spared string           // the name of the other
	url    string           // where the crowd asks; the load balancer unless a fault puts something before it
	reader *world.Process   // of the fault with a blocked pipe
	issuer *issuer          // of the faults of issuers
	token  func(tenant, user string) string
	// what make knows of the fault: the server of Redis that it meets, and what it opened
	store    *world.Store
	session  string
	sessions []string
	sent     chan error // of a request that is on its way, when it has its end
	mark     string     // of the processes of a program that behaves badly: a path
	nursery  string     // a token of the nursery
	during   []step     // what is asked beside fault.seen
	healing  []step     // what is done before fault.heal, the last one first
	undo     []step     // what is done when the crowd has ended, the last one first
}

const replicas = 3

// newScene starts a world.
func newScene(ctx context.Context, dir, program, balancer string, g ground) *scene {
	s := &scene{
		ground: g, balancer: balancer, dir: dir, program: program,
		servers: map[string]*upstream.Server{},
	}
	defer must.Else(s.close)
	paths := map[string]string{crowd.Modern: "/mcp", crowd.Legacy: "/legacy"}
	for name, path := range paths {
		address := must.Have(freeport.Address())
		s.servers[name] = upstream.Start(address)
		paths[name] = address + path
	}
	must.OK(os.Mkdir(dir, 0o700))
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s.World = world.Start(ctx, world.Config{
		Dir: dir, Program: program, Balancer: balancer, Replicas: replicas, Redis: g.redis, Upstreams: paths,
		Direct: g.direct, Links: g.links, Namespaces: g.namespaces, EventAge: g.eventAge, Patience: g.patience,
	})
	s.Ready(ctx)
	return s
}

func (s *scene) close() {
	if s.World != nil {
		s.World.Close() //nolint:staticcheck // scene.close is another one
	}
	for _, server := range s.servers {
		server.Close()
	}
}

// begin draws what a round meets.
func (s *scene) begin(seed uint64) {
	s.seed, s.draw = seed, rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a fault is no secret
	at := s.draw.IntN(replicas)
	s.victim, s.others = s.Replicas[at], slices.Delete(slices.Clone(s.fleet()), at, at+1)
	s.server, s.spared = crowd.Modern, crowd.Legacy
	if s.draw.IntN(2) == 1 {
		s.server, s.spared = crowd.Legacy, crowd.Modern
	}
	s.url, s.token, s.during, s.healing, s.undo = s.URL, s.Token, nil, nil, nil
}

// later has something undone when the crowd of this round has ended, the last one first.
func (s *scene) later(undo step) { s.undo = append(s.undo, undo) }

// heals has something done when the fault is healed, the last one first.
func (s *scene) heals(do step) { s.healing = append(s.healing, do) }

// seeing has something asked while the fault lasts.
func (s *scene) seeing(wrong step) { s.during = append(s.during, wrong) }

// clean undoes what was given to later.
func clean(ctx context.Context, s *scene) { must.OK(s.undone(ctx, &s.undo)) }

// undone does steps, the last one first, and forgets them.
func (s *scene) undone(ctx context.Context, steps *[]step) error {
	var wrong []error
	for len(*steps) > 0 {
		last := (*steps)[len(*steps)-1]
		*steps = (*steps)[:len(*steps)-1]
		wrong = append(wrong, must.Try(func() { last(ctx, s) }))
	}
	return errors.Join(wrong...)
}

// executions returns what all servers did since the world began.
func (s *scene) executions() (all []ledger.Execution) {
	for _, server := range s.servers {
		all = append(all, server.Executions()...)
	}
	return all
}

const (
	// patience is how long anything may take that must come to an end. It is long because
	// the processors may be busy with other things, and nothing is measured by it.
	patience = 60 * time.Second
	pace     = 20 * time.Millisecond // between two questions whether something is so by now
)

// until asks until the answer is nil, and returns the last one when ctx or the time is
// over.
func until(ctx context.Context, wrong func(ctx context.Context)) {
	world.For(ctx, patience, func(ctx context.Context) { world.Until(ctx, func() { wrong(ctx) }) })
}

// does returns what does something that cannot fail.
func does(do func()) step {
	return func(context.Context, *scene) {
		do()
	}
}

// fleet returns the replicas of the start.
func (s *scene) fleet() []*world.Replica { return s.Replicas[:replicas] }
