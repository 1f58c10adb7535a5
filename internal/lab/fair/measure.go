package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	rounds   = 3           // of baseline and attack in turn, so that what disturbs the machine disturbs both
	settle   = time.Second // from when an attack bites to the first call that counts
	biteTime = time.Minute // in which an attack must bite

	quietInterval = 12500 * time.Microsecond // between two calls of the quiet tenant
)

// side is what was seen while an attack was on one target: the dummy, which is the
// baseline, or the gateway.
type side struct {
	rounds []quiet.Notes
	tally  tally
	died   bool  // the gateway ended
	fault  error // the attack did not take place, or the quiet tenant could not call
}

// result is what one attack did.
type result struct {
	attack           raid.Attack
	baseline, beside side
}

// runFull measures every attack against its baseline and returns the report. The error
// says that an attack does harm, or that the measure itself failed; in the first case
// there is a report.
func runFull(ctx context.Context, chosen []raid.Attack, samples int, to page.Report) (string, error) {
	l := newLab(ctx)
	defer l.Close()
	var results []*result
	var harmful []string
	for _, a := range chosen {
		r := l.compare(ctx, a, samples)
		results = append(results, r)
		to.Say("%s", r.row())
		if fault := errors.Join(r.baseline.fault, r.beside.fault); fault != nil {
			to.Say("%v\n", fault)
		}
		if r.harms() {
			harmful = append(harmful, a.Name)
		}
	}
	text := describe(results, samples, l.cores)
	if len(harmful) > 0 {
		return text, fmt.Errorf("%d of %d attacks do harm: %s", len(harmful), len(results),
			strings.Join(harmful, ", "))
	}
	return text, nil
}

// compare measures one attack and its baseline in turn. Each time there is a new gateway,
// which has nothing left of the time before.
func (l *lab) compare(ctx context.Context, a raid.Attack, samples int) *result {
	r := &result{attack: a}
	for round := range rounds {
		order := []*side{&r.baseline, &r.beside}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			target := page.Either(s == &r.baseline, l.dummy, l.gateway)
			s.add(l.beside(ctx, a, target, samples/rounds))
		}
	}
	return r
}

func (s *side) add(more *side) {
	*s = side{
		append(s.rounds, more.rounds...), s.tally.plus(more.tally), s.died || more.died,
		errors.Join(s.fault, more.fault),
	}
}

// beside lets the quiet tenant call a new gateway while an attack is on a target.
func (l *lab) beside(ctx context.Context, a raid.Attack, target string, samples int) *side {
	gateway := l.serve(ctx)
	defer gateway.Kill()
	s, err := must.Got(func() *side {
		return l.meet(ctx, l.mission(a, target), samples, settle)
	})
	if err != nil {
		s = &side{fault: err}
	}
	s.died = !gateway.Runs()
	must.OK(ctx.Err())
	return s
}

// mission returns what attackers need for an attack on a target.
func (l *lab) mission(a raid.Attack, target string) mission {
	tenant := page.Either(a.Ruled, "ruled", page.Either(a.Raised, "raised", "loud"))
	return mission{
		Attack: a.Name, For: raid.Mission{Addr: target, From: l.from, Tokens: l.tokens[tenant]},
		Real: target == l.gateway,
	}
}

// meet starts an attack, waits until it bites, lets the quiet tenant make calls of the
// gateway that runs, and ends the attack. A call that was sent again was not answered at
// first.
func (l *lab) meet(ctx context.Context, m mission, calls int, settle time.Duration) *side {
	attacker := l.startPart(l.cores.loud, "part-attack", string(must.Have(strictjson.Marshal(m))))
	defer attacker.Finish(partTime)
	// it ends without having been ready
	impatient := time.AfterFunc(biteTime, func() { _ = attacker.In.Close() })
	line, err := attacker.Out.ReadString('\n')
	impatient.Stop()
	must.Be(err == nil && line == ready, "the attack did not begin: %s", attacker.Words())
	world.Pause(ctx, settle)
	tenant := l.startPart(l.cores.quiet, "part-quiet", "")
	defer tenant.Finish(partTime)
	o := quiet.Calls(l.gateway, "calm", l.tokens["quiet"])
	o.Least, o.Most, o.Count = int64(quietInterval), int64(quietInterval), calls
	quiet.Say(tenant.In, o)
	s := &side{rounds: make([]quiet.Notes, 1)}
	tenant.Reads(&s.rounds[0])
	if again := s.rounds[0].Again; again > 0 {
		s.rounds[0].Instead["connection closed, and sent again"] += again
	}
	_ = attacker.In.Close() // now it tells
	attacker.Reads(&s.tally)
	return s
}

// percentile returns the median of the rounds' percentiles: a burst of what others do on
// the machine hits one round, an attack hits all. It returns false if there is none,
// because the calls of most rounds were not answered.
func (s *side) percentile(percent int) (time.Duration, bool) {
	var found []time.Duration
	for i := range s.rounds {
		if latency, answered := s.rounds[i].Percentile(percent); answered {
			found = append(found, latency)
		}
	}
	slices.Sort(found)
	if middle := len(s.rounds) / 2; middle < len(found) {
		return found[middle], true
	}
	return 0, false
}

// refused returns how many calls were not answered as they should, in all rounds, by what
// came instead.
func (s *side) refused() (total int, by map[string]int) {
	all := quiet.Notes{Instead: map[string]int{}}
	for i := range s.rounds {
		all.Add(&s.rounds[i])
	}
	return all.Refused(), all.Instead
}

// ratio returns how many times the baseline a percentile is, and false if there is none.
func (r *result) ratio(percent int) (float64, bool) {
	base, found := r.baseline.percentile(percent)
	beside, answered := r.beside.percentile(percent)
	if !found || !answered {
		return 0, false
	}
	return float64(beside) / float64(max(base, time.Microsecond)), true
}

// harms tells whether the attack takes something of the quiet tenant: a call, or more
// than its share of time. What could not be measured counts as harm, and so does a
// baseline in which not all calls were answered.
func (r *result) harms() bool {
	times, found := r.ratio(99)
	for _, s := range []*side{&r.baseline, &r.beside} {
		if refused, _ := s.refused(); s.died || s.fault != nil || refused > 0 {
			return true
		}
	}
	return !found || times >= 2
}
