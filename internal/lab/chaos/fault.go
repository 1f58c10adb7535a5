package main

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
)

// step is a part of a fault: it does something in a scene, or returns what is not as it
// must be there.
type step func(ctx context.Context, s *scene)

// fault is one kind of fault. A round of it goes
//
//	before ─▶ crowd begins ─▶ make ─▶ seen ─▶ heal ─▶ ready, unaided ─▶ after ─▶ crowd ends ─▶ verdict
//	                                  (asked until all is as it must be)
//
// All steps but make may be nil. What make alone can know it adds to seen, heal and after
// with the methods seeing, heals and following of the scene. Whatever is to be undone
// when the crowd has ended is given to scene.later.
type fault struct {
	name    string // what happens, such as "a replica is killed"
	done    string // how it is done, for the report
	holds   string // what must hold beyond that nothing is lost, for the report
	ground  ground // the world it needs
	behind  string // the only load balancer that it is made with; "": any
	root    bool   // it needs root
	variant bool   // it needs a gateway with a clock that can be set
	// Redis is not well meanwhile, so calls may be answered without a stream, and their
	// progress be left out
	weak bool
	// patience is how long a client waits until it takes a call for lost; zero: silence.
	// For word of a change it waits longer by as much as this exceeds silence
	patience time.Duration
	// unrecorded says that a replica is killed, or its record disturbed, so calls may be
	// executed, broken, and not on record.
	unrecorded bool

	before step // prepares the scene, before there is a crowd
	make   step
	seen   step // returns what is not as it must be while the fault lasts
	heal   step // ends the fault
	after  step // returns what is not as it must be when everything is ready again

	// spares returns how much of what the verdict found must be expected with this fault;
	// holds says so, too. Nil: nothing.
	spares func(v *ledger.Verdict) int
}

// ground is the kind of world that a fault needs.
type ground struct {
	redis      string // "one", "watched" or "cluster"
	links      bool   // the replicas reach each other through proxies
	direct     bool   // the load balancer reaches the replicas without proxies
	namespaces bool   // the parts are in network namespaces of their own

	patience time.Duration // redis.patience of the gateways; zero: that of the world
	eventAge time.Duration // sessions.events.age of the gateways; zero: that of the world
}

// The grounds.
var (
	plain     = ground{redis: "one"}                   //nolint:gochecknoglobals // a constant
	direct    = ground{redis: "one", direct: true}     //nolint:gochecknoglobals // as above
	spaces    = ground{redis: "one", namespaces: true} //nolint:gochecknoglobals // as above
	linked    = ground{redis: "one", links: true}      //nolint:gochecknoglobals // as above
	watched   = ground{redis: "watched"}               //nolint:gochecknoglobals // as above
	clustered = ground{redis: "cluster"}               //nolint:gochecknoglobals // as above
)

// catalogue returns all faults.
func catalogue() []*fault {
	return slices.Concat(networkFaults(), serverFaults(), redisFaults(), replicaFaults(), linkFaults(),
		partitionFaults(), rolloutFaults(), resourceFaults(), configFaults(), issuerFaults(), clientFaults(),
		childFaults(), clockFaults())
}
