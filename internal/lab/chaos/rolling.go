package main

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// rollingFlags say how often replicas are restarted, and behind what.
type rollingFlags struct {
	requests int
	balancer string
	previous string
	only     regexp.Regexp
}

// newRolling is the part rolling: it restarts replicas in all ways that a rollout has,
// while a crowd of clients works.
func newRolling(flags *flag.FlagSet) page.Measure {
	var f rollingFlags
	flags.IntVar(&f.requests, "requests", 100_000,
		"how many requests go through at least while replicas are restarted, behind each load balancer")
	flags.StringVar(&f.balancer, "balancer", "both", "nginx, haproxy, or both one after the other")
	flags.StringVar(&f.previous, "previous", "",
		"another program of the gateway, by which replicas are replaced, and which they replace")
	flags.TextVar(&f.only, "only", regexp.MustCompile(""),
		"play only the acts whose names match this regular expression")
	return f.prove
}

// prove restarts replicas and returns the section about it.
func (f *rollingFlags) prove(ctx context.Context, r page.Report) (string, error) {
	balancers := balancersOf(f.balancer)
	must.Be(f.requests > 0 && balancers != nil, "%d requests behind %q show nothing", f.requests, f.balancer)
	must.Be(len(f.chosen()) > 0, "-only: no act that can be played here matches %q", f.only.String())
	return inFolder(ctx, "rolling", r.Log, false, func(dir, program string) (string, error) {
		began := time.Now()
		var scores []*score
		for _, balancer := range balancers {
			scores = append(scores, f.behind(ctx, r.Log, filepath.Join(dir, balancer), program, balancer)...)
		}
		wanted := page.Either(f.only.String() == "", f.requests, 0) // some acts alone need not have them all
		return describeRolling(scores, time.Since(began)), verdictOfRolling(scores, wanted)
	})
}

// chosen returns the acts that are to be played.
func (f *rollingFlags) chosen() []*act {
	return slices.DeleteFunc(slices.Clone(acts), func(a *act) bool {
		return !f.only.MatchString(a.name) || a.another && f.previous == ""
	})
}

// behind plays all acts in one world.
func (f *rollingFlags) behind(ctx context.Context, log io.Writer, dir, program, balancer string) []*score {
	scene := newScene(ctx, dir, program, balancer, steady)
	defer scene.close()
	var scores []*score
	for _, a := range f.chosen() {
		s := &stage{scene: scene, current: program, previous: f.previous, loads: loads}
		one := s.play(ctx, a, f.requests*a.share/100)
		say(log, "%s, %v\n", time.Now().UTC().Format(time.TimeOnly), one)
		scores = append(scores, one)
	}
	return scores
}

// loads are clients of all kinds, most of whom make plain calls.
var loads = []crowd.Load{
	{Kinds: slices.Concat(crowd.Kinds, crowd.Libraries)},
	{Kinds: []string{crowd.Plain}, Size: 8, Pause: 2 * time.Millisecond},
	{Kinds: []string{crowd.Brief}},
}

// steady is a ground on which nothing happens but what is done to replicas, however busy
// the machine is: the gateways wait for Redis as long as they can.
var steady = ground{redis: "one", direct: true, patience: 10 * time.Second}

// verdictOfRolling returns the promises that were broken, nil if none was. Behind each
// load balancer as many requests as are wanted must have gone through while replicas were
// restarted.
func verdictOfRolling(scores []*score, wanted int) error {
	var c world.Claims
	for _, all := range rolled(scores) {
		c.Claim(all.requests >= int64(wanted),
			"behind %s %d requests went through while replicas were restarted, want %d", all.balancer,
			all.requests, wanted)
	}
	for _, s := range scores {
		c.Claim(s.wrong() == nil, "%v", s)
	}
	return c.Broken()
}
