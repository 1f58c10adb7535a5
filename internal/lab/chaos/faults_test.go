package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestOneRoundOfEachFaultMeetsAllReplicasAndServers draws what a run of one round each
// draws, behind both load balancers.
func TestOneRoundOfEachFaultMeetsAllReplicasAndServers(t *testing.T) {
	balancers := []string{"nginx", "haproxy"}
	for seed := range uint64(10) {
		f := &faultFlags{rounds: 1, seed: seed}
		for _, balancer := range balancers {
			met := map[string]int{}
			jobs := f.plan(catalogue(), balancers, balancer)
			for _, j := range jobs {
				s := &scene{World: &world.World{Replicas: []*world.Replica{
					{Name: "replica-0"},
					{Name: "replica-1"},
					{Name: "replica-2"},
				}}}
				s.begin(j.seed)
				met[s.victim.Name]++
				met[s.server]++
			}
			if len(met) != replicas+2 {
				t.Errorf("seed %d, %s: %d rounds meet %v, want each of three replicas and of two servers",
					seed, balancer, len(jobs), met)
			}
		}
	}
}

func TestARoundDrawsTheSameWithoutTheOtherFaults(t *testing.T) {
	f := &faultFlags{rounds: 3, seed: 7}
	seeds := func(only string) map[int]uint64 {
		pattern, found := regexp.MustCompile(only), map[int]uint64{}
		var faults []*fault
		for _, one := range catalogue() {
			if pattern.MatchString(one.name) {
				faults = append(faults, one)
			}
		}
		for _, j := range f.plan(faults, []string{"nginx"}, "nginx") {
			if j.fault.name == "a replica is killed" {
				found[j.round] = j.seed
			}
		}
		return found
	}
	all, alone := seeds(""), seeds("^a replica is killed$")
	for round := range f.rounds {
		if all[round] == 0 || all[round] != alone[round] {
			t.Errorf("round %d: got seed %d alone, want %d as among all others", round, alone[round],
				all[round])
		}
	}
	if all[0] == all[1] || all[1] == all[2] {
		t.Errorf("all rounds draw alike: %v", all)
	}
}

// TestACallThatIsNotOnRecordIsExcusedByAKillOnly judges the same verdict with a fault
// that kills a replica, and with one that does not, and looks for it in the report.
func TestACallThatIsNotOnRecordIsExcusedByAKillOnly(t *testing.T) {
	v := ledger.Verdict{BrokenUnaudited: 3, Unrecorded: []ledger.Nonce{1, 2}, Notes: []string{"call 7"}}
	for name, want := range map[string]int{
		"a replica is killed": 0, "a replica is killed while it stops": 0, "the record may not grow": 0,
		"the load balancer sends calls again": 0,
		"a replica is stopped":                2, "Redis freezes": 2, "replica to server: resets": 2,
	} {
		f := named(t, name)
		o := &outcome{job: job{fault: f}, verdict: v, lost: f.unexcused(&v)}
		if o.lost != want {
			t.Errorf("%s: got %d lost, want %d", name, o.lost, want)
		}
		page := describe([]*fault{f}, nil, []*outcome{o}, 1, 0)
		if !strings.Contains(page, "| 0, 3 | "+map[bool]string{true: "yes", false: "**no**"}[want == 0]+
			" |") || strings.Contains(page, "call 7") == (want == 0) {
			t.Errorf("%s: the report does not say it: %s", name, page)
		}
	}
}

// TestACarelessBalancerExcusesWhatCopiesTell judges events and answers that came twice:
// of calls that a load balancer sent again, and of others.
func TestACarelessBalancerExcusesWhatCopiesTell(t *testing.T) {
	f := named(t, "the load balancer sends calls again")
	v := ledger.Verdict{Twice: 2, TwiceKeyed: 1, EventsTwice: 5, EventsOfCopies: 3}
	if got := f.lost(&v); got != 3 {
		t.Errorf("got %d lost, want the call under a key and two events of calls that ran once", got)
	}
}

// TestNoFaultExcusesACallWithoutAnEnd judges a call that has no end beside all that some
// fault excuses, and what no fault counts.
func TestNoFaultExcusesACallWithoutAnEnd(t *testing.T) {
	for _, f := range catalogue() {
		v := ledger.Verdict{
			Unanswered: 1, Uncancelled: 9, BrokenUnaudited: 9, Unstreamed: 9, Twice: 9, TwiceKeyed: 4, Denied: 9,
			EventsTwice: 9, EventsOfCopies: 9, Unaudited: 9, Ends: map[string]int{"DB-REQUEST": 9},
		}
		others := v
		others.Unanswered = 0
		if got, without := f.lost(&v), f.lost(&others); got != without+1 || without < 0 {
			t.Errorf("%s: got %d lost, and %d without that call", f.name, got, without)
		}
		if nothing := (&ledger.Verdict{Unanswered: 1, Uncancelled: 9, BrokenUnaudited: 9}); f.lost(nothing) != 1 {
			t.Errorf("%s: got %d lost of one call without an end, want 1", f.name, f.lost(nothing))
		}
	}
}

// TestAFaultThatChangesNothingIsNone looks for a text that no config has.
func TestAFaultThatChangesNothingIsNone(t *testing.T) {
	if err := must.Try(func() { instead("nothing: of this\n", "")("listen: here\n") }); err == nil {
		t.Error("a config stays as it is, and nobody says so")
	}
}

// TestAFaultOfOneBalancerIsNotMadeBehindAnother asks for all faults behind nginx: those
// of HAProxy must not count as made.
func TestAFaultOfOneBalancerIsNotMadeBehindAnother(t *testing.T) {
	f := &faultFlags{rounds: 1, balancer: "nginx", only: *regexp.MustCompile("")}
	faults, unable := f.chosen()
	for _, one := range faults {
		if len(f.plan([]*fault{one}, balancersOf("nginx"), "nginx")) == 0 {
			t.Errorf("%s is chosen and never made", one.name)
		}
	}
	page := describe(nil, unable, nil, 1, 0)
	if !strings.Contains(page, "the load balancer reloads | **not run, since it needs haproxy**") {
		t.Errorf("the report does not say what was not run: %s", page)
	}
}
