package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	rounds   = 3           // of baseline and attack in turn, so that what disturbs the machine disturbs both
	settle   = time.Second // from when an attack bites to the first call that counts
	biteTime = time.Minute // in which an attack must bite
	grace    = 10          // seconds that the quiet tenant may take longer than it does by plan
)

// plan says how much is measured.
type plan struct {
	samples int      // calls of the quiet tenant, for each attack and for its baseline
	args    []string // of the command, for the report
}

// side is what was seen while an attack was on one target: the dummy, which is the
// baseline, or the gateway.
type side struct {
	rounds []notes // of the quiet tenant
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
func runFull(ctx context.Context, chosen []raid.Attack, p plan, progress io.Writer) (string, error) {
	l := newLab(ctx)
	defer l.Close()
	made := page.Origin(ctx, time.Now(), append([]string{"fair"}, p.args...)...)
	var results []result
	for _, a := range chosen {
		r := l.compare(ctx, a, p.samples)
		results = append(results, *r)
		_, _ = fmt.Fprint(progress, r.row()) // a terminal
		if fault := errors.Join(r.baseline.fault, r.beside.fault); fault != nil {
			_, _ = fmt.Fprintln(progress, fault) // the same
		}
	}
	text := describe(results, p, setting{made, l.cores})
	var harmful []string
	for _, r := range results {
		if r.harms() {
			harmful = append(harmful, r.attack.Name)
		}
	}
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
			target := l.gateway
			if s == &r.baseline {
				target = l.dummy
			}
			seen := l.beside(ctx, a, target, samples/rounds)
			s.add(seen)
		}
	}
	return r
}

func (s *side) add(more *side) {
	s.rounds = append(s.rounds, more.rounds...)
	s.tally = s.tally.plus(more.tally)
	s.died = s.died || more.died
	s.fault = errors.Join(s.fault, more.fault)
}

// beside lets the quiet tenant call a new gateway while an attack is on a target.
func (l *lab) beside(ctx context.Context, a raid.Attack, target string, samples int) *side {
	gateway := l.serve(ctx)
	defer gateway.Kill()
	s, err := must.Got(func() *side {
		return l.meet(ctx, l.mission(a, target), l.errand(samples, grace), settle)
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
	tenant := "loud"
	if a.Raised {
		tenant = "raised"
	}
	if a.Ruled {
		tenant = "ruled"
	}
	var from []string
	if l.from != "" {
		from = []string{l.from}
	}
	return mission{
		Attack: a.Name, For: raid.Mission{Addr: target, From: from, Tokens: l.tokens[tenant]},
		Real: target == l.gateway,
	}
}

// errand returns what the quiet tenant needs for so many calls.
func (l *lab) errand(calls, grace int) errand {
	return errand{Addr: l.gateway, Tokens: l.tokens["quiet"], Calls: calls, Grace: grace}
}

// meet starts an attack, waits until it bites, lets the quiet tenant call the gateway
// that runs, and ends the attack.
func (l *lab) meet(ctx context.Context, m mission, do errand, settle time.Duration) *side {
	attacker := l.say(l.cores.loud, "part-attack", m)
	defer attacker.Finish(partTime)
	// it ends without having been ready
	impatient := time.AfterFunc(biteTime, func() { _ = attacker.In.Close() })
	line, err := attacker.Out.ReadString('\n')
	impatient.Stop()
	if err != nil || line != ready {
		panic(fmt.Errorf("the attack did not begin: %s", attacker.Words()))
	}
	world.Pause(ctx, settle)
	quiet := l.say(l.cores.quiet, "part-quiet", do)
	defer quiet.Finish(partTime)
	s := &side{rounds: make([]notes, 1)}
	quiet.Reads(&s.rounds[0])
	_ = attacker.In.Close() // now it tells
	attacker.Reads(&s.tally)
	return s
}

// say starts a part with an argument in JSON.
func (l *lab) say(on, name string, argument any) *world.Process {
	text := must.Have(strictjson.Marshal(argument))
	return l.startPart(on, name, string(text))
}

// percentile returns the latency that so many percent of the calls do not exceed. Calls
// that were refused count as slower than all others; if it is one of them, there is no
// such latency and it returns false.
func (n *notes) percentile(percent int) (time.Duration, bool) {
	slices.Sort(n.Latency)
	at := (len(n.Latency)+n.refusals())*percent/100 - 1
	if at = max(at, 0); at >= len(n.Latency) {
		return 0, false
	}
	return time.Duration(n.Latency[at]) * time.Microsecond, true
}

// percentile returns the median of the rounds' percentiles: a burst of what others do on
// the machine hits one round, an attack hits all. It returns false if there is none,
// because the calls of most rounds were not answered.
func (s *side) percentile(percent int) (time.Duration, bool) {
	var found []time.Duration
	for i := range s.rounds {
		if latency, answered := s.rounds[i].percentile(percent); answered {
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
	all := notes{Refused: map[string]int{}}
	for i := range s.rounds {
		all.add(&s.rounds[i])
	}
	return all.refusals(), all.Refused
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
// than its share of time. What could not be measured counts as harm.
func (r *result) harms() bool {
	times, found := r.ratio(99)
	refused, _ := r.beside.refused()
	return r.beside.died || r.beside.fault != nil || r.baseline.fault != nil || refused > 0 || !found ||
		times >= 2
}
