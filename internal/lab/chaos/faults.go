package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// faultFlags say which faults are made, and how often.
type faultFlags struct {
	only     regexp.Regexp
	rounds   int
	balancer string
	seed     uint64
	keep     bool
}

// newFaults is the part faults: it makes every fault of the catalogue, several times
// each, while a crowd of clients works.
func newFaults(flags *flag.FlagSet) page.Measure {
	var f faultFlags
	flags.TextVar(&f.only, "only", regexp.MustCompile(""),
		"make only the faults whose names match this regular expression")
	flags.IntVar(&f.rounds, "rounds", 3, "how often each fault is made")
	flags.StringVar(&f.balancer, "balancer", "both", "nginx, haproxy, or both in turn")
	flags.Uint64Var(&f.seed, "seed", uint64(time.Now().Unix()), "of all that is drawn: the replica that a fault meets, bytes of garbage") //nolint:gosec // not before 1970
	flags.BoolVar(&f.keep, "keep", false, "keep the folders of worlds in which a promise was broken")
	return f.prove
}

// prove makes the faults and returns the section about them.
func (f *faultFlags) prove(ctx context.Context, r page.Report) (string, error) {
	faults, unable := f.chosen()
	return inFolder(ctx, "chaos", r.Log, f.keep, func(dir, program string) (string, error) {
		return f.make(ctx, r.Log, dir, program, faults, unable)
	})
}

// make makes the faults in a folder.
func (f *faultFlags) make(ctx context.Context, log io.Writer, dir, program string, faults, unable []*fault,
) (string, error) {
	balancers, began, variant := balancersOf(f.balancer), time.Now(), ""
	say(log, "%d faults, %d rounds each, seed %d, in %s\n", len(faults), f.rounds, f.seed, dir)
	if slices.ContainsFunc(faults, func(f *fault) bool { return f.variant }) {
		variant = buildVariant(ctx, dir)
	}
	// The two load balancers have worlds of their own, so their rounds can be made at the
	// same time: nothing is measured.
	group, ctx := errgroup.WithContext(ctx)
	runners := make([]*runner, len(balancers))
	for i, balancer := range balancers {
		r := &runner{
			dir: filepath.Join(dir, balancer), program: program, variant: variant,
			keep: f.keep, log: log, began: began,
		}
		runners[i] = r
		group.Go(must.Trying(func() { r.run(ctx, f.plan(faults, balancers, balancer)) }))
	}
	must.OK(group.Wait())
	var outcomes []*outcome
	for _, r := range runners {
		outcomes = append(outcomes, r.outcomes...)
	}
	return describe(faults, unable, outcomes, f.seed, time.Since(began)), verdictOf(faults, outcomes)
}

// balancersOf returns the load balancers that a flag names; nil: it is wrong.
func balancersOf(name string) []string {
	return map[string][]string{
		"both": {"nginx", "haproxy"}, "nginx": {"nginx"}, "haproxy": {"haproxy"},
	}[name]
}

// chosen returns the faults that are to be made, and those that this user, or behind
// these load balancers, cannot be.
func (f *faultFlags) chosen() (faults, unable []*fault) {
	must.Be(f.rounds > 0 && balancersOf(f.balancer) != nil, "%d rounds behind %q show nothing", f.rounds,
		f.balancer)
	for _, one := range catalogue() {
		switch {
		case !f.only.MatchString(one.name):
		case one.root && os.Getuid() != 0,
			one.behind != "" && !slices.Contains(balancersOf(f.balancer), one.behind):
			unable = append(unable, one)
		default:
			faults = append(faults, one)
		}
	}
	must.Be(len(faults) > 0, "-only: no fault that can be made here matches %q", f.only.String())
	return faults, unable
}

// job is one round that is to be made.
type job struct {
	fault    *fault
	at       int // of the fault in the catalogue
	balancer string
	round    int
	seed     uint64
}

// plan returns the rounds behind one of the load balancers, in an order in which one
// world serves many of them. The load balancers take turns from round to round of a
// fault.
func (f *faultFlags) plan(faults []*fault, balancers []string, balancer string) (jobs []job) {
	for at, one := range faults {
		for round := range f.rounds {
			if cmp.Or(one.behind, balancers[(at+round)%len(balancers)]) == balancer {
				jobs = append(jobs, job{one, at, balancer, round, seedOf(f.seed, one, round)})
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a.fault.ground), fmt.Sprint(b.fault.ground)), a.round-b.round,
			a.at-b.at)
	})
	return jobs
}

// seedOf returns the seed of a round. It depends on the fault, so that over a run all
// replicas and both servers are met, and by its name, so that the same is drawn when
// -only leaves out others.
func seedOf(seed uint64, f *fault, round int) uint64 {
	name := fnv.New64a()
	_, _ = io.WriteString(name, f.name)        // a hash takes everything
	return seed + name.Sum64() + uint64(round) //nolint:gosec // rounds count from 0
}

// runner makes rounds, each in the world of the one before if that fits and is well.
type runner struct {
	dir, program, variant string
	keep                  bool
	log                   io.Writer
	began                 time.Time
	worlds                int // so many were started
	scene                 *scene
	outcomes              []*outcome
}

// run makes rounds.
func (r *runner) run(ctx context.Context, jobs []job) {
	defer r.end(false)
	must.OK(os.Mkdir(r.dir, 0o700))
	for _, j := range jobs {
		r.round(ctx, j)
	}
}

// round makes one round and keeps its outcome. An error means that no world could be
// started, or that ctx ended.
func (r *runner) round(ctx context.Context, j job) {
	if r.scene != nil && (r.scene.ground != j.fault.ground || r.scene.balancer != j.balancer) {
		r.end(false)
	}
	if r.scene == nil {
		dir := filepath.Join(r.dir, fmt.Sprint("world-", r.worlds))
		r.worlds++
		r.scene = newScene(ctx, dir, r.program, j.balancer, j.fault.ground)
		r.scene.variant = r.variant
	}
	o := r.scene.play(ctx, j)
	must.OK(context.Cause(ctx))
	o.lost += j.fault.unexcused(&o.verdict)
	r.outcomes = append(r.outcomes, o)
	say(r.log, "%6s  %s\n", time.Since(r.began).Round(time.Second), o)
	if o.bad() {
		for _, sample := range slices.Concat(o.verdict.Samples, o.verdict.Notes) {
			say(r.log, "          %s\n", sample)
		}
		r.end(r.keep)
	}
}

// lost returns how much was lost that the fault does not excuse. An excuse is only for
// what counts as lost, or it would be one for anything else.
func (f *fault) lost(v *ledger.Verdict) int {
	lost := v.Lost() + page.Either(f.weak, 0, v.Unstreamed)
	if f.spares != nil {
		lost -= f.spares(v)
	}
	return lost
}

// unexcused returns how many calls were executed, broken and not on record, although the
// fault kills no replica and leaves the record alone. Those that their clients left do
// not count: they may still be on their way to the record.
func (f *fault) unexcused(v *ledger.Verdict) int {
	return page.Either(f.unrecorded, 0, len(v.Unrecorded))
}

// end ends the world, and removes its folder unless it is kept.
func (r *runner) end(keep bool) {
	if r.scene == nil {
		return
	}
	r.scene.close()
	if keep {
		say(r.log, "          kept: %s\n", r.scene.dir)
	} else {
		_ = os.RemoveAll(r.scene.dir) // it is below the folder that close removes
	}
	r.scene = nil
}

// verdictOf returns the promises that were broken, nil if none was.
func verdictOf(faults []*fault, outcomes []*outcome) error {
	var c world.Claims
	for _, f := range faults {
		for _, o := range outcomes {
			c.Claim(o.job.fault != f || !o.bad(), "%v", o)
		}
	}
	return c.Broken()
}
