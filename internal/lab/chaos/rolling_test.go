package main

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestNothingIsLostInARollingRestart restarts each of three replicas once behind nginx.
// `make rolling` does that, and much more, behind both load balancers until 100,000
// requests went through.
func TestNothingIsLostInARollingRestart(t *testing.T) {
	needs(t, "nginx", "redis-server")
	dir := t.TempDir()
	program := filepath.Join(dir, "drawbridge")
	world.Build(t.Context(), program)
	scene := newScene(t.Context(), filepath.Join(dir, "world"), program, "nginx", steady)
	defer scene.close()
	s := &stage{scene: scene, loads: loads}
	got := s.play(t.Context(), &act{name: "one after the other", pass: oneByOne}, 0)
	t.Log(got)
	if err := got.wrong(); err != nil {
		t.Error(err)
	}
	if got.restarts != replicas || got.deeds.Requests < 100 || got.deeds.Goodbyes == 0 {
		t.Errorf("%d restarts, %d requests and %d streams that were told to come back show nothing",
			got.restarts, got.deeds.Requests, got.deeds.Goodbyes)
	}
}

// TestAScoreKnowsWhatWasLost judges acts in which something went wrong, and in which
// nothing did.
func TestAScoreKnowsWhatWasLost(t *testing.T) {
	inFlight, soon, late := ledger.Failure{Nonce: 1}, ledger.Failure{Nonce: 2}, ledger.Failure{Nonce: 3}
	known, asked := map[ledger.Nonce]bool{1: true}, map[ledger.Nonce]bool{2: true}
	for name, test := range map[string]struct {
		score score
		wrong bool
	}{
		"nothing":        {score{act: &act{}}, false},
		"a call":         {score{act: &act{}, failures: []ledger.Failure{late}}, true},
		"a handshake":    {score{act: &act{}, troubles: map[string]int{"status 502": 1}}, true},
		"a session":      {score{act: &act{}, deeds: crowd.Deeds{Reconnects: 1}}, true},
		"twice":          {score{act: &act{}, verdict: ledger.Verdict{Twice: 1}}, true},
		"a cancellation": {score{act: &act{}, verdict: ledger.Verdict{Uncancelled: 1}}, true},
		"a cancellation at a kill": {
			score{act: &act{deadly: true}, verdict: ledger.Verdict{Uncancelled: 1}, inFlight: known}, false,
		},
		"in flight at a kill": {score{act: &act{deadly: true}, failures: []ledger.Failure{
			inFlight,
			soon,
		}, inFlight: known, soon: asked}, false},
		"not in flight at a kill": {score{act: &act{deadly: true}, failures: []ledger.Failure{
			inFlight,
			late,
		}, inFlight: known, soon: asked}, true},
		"without a stream": {score{act: &act{}, verdict: ledger.Verdict{Unstreamed: 1}}, true},
		"without a stream at a kill": {score{
			act: &act{deadly: true}, verdict: ledger.Verdict{Unstreamed: 1},
			inFlight: known,
		}, true},
		"left and not on record": {
			score{act: &act{}, verdict: ledger.Verdict{BrokenUnaudited: 1}},
			true,
		},
		"left at a kill": {score{
			act:     &act{deadly: true},
			verdict: ledger.Verdict{BrokenUnaudited: 1}, inFlight: known,
		}, false},
		"not on record at a kill": {score{
			act:     &act{deadly: true},
			verdict: ledger.Verdict{BrokenUnaudited: 2, Unrecorded: []ledger.Nonce{1, 2}}, inFlight: known,
			soon: asked,
		}, false},
		"not on record after a kill": {score{
			act:     &act{deadly: true},
			verdict: ledger.Verdict{BrokenUnaudited: 1, Unrecorded: []ledger.Nonce{3}}, inFlight: known,
			soon: asked,
		}, true},
		"without a word after a kill": {score{
			act:     &act{deadly: true},
			verdict: ledger.Verdict{Unanswered: 1},
		}, true},
	} {
		if err := test.score.wrong(); (err != nil) != test.wrong {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestOnlyRequestsWithRestartsAreCounted adds up acts with restarts, without any, and
// with kills.
func TestOnlyRequestsWithRestartsAreCounted(t *testing.T) {
	some := func(balancer string, restarts int, deadly bool, requests int64) *score {
		return &score{
			act: &act{name: "some", deadly: deadly}, balancer: balancer, restarts: restarts,
			deeds: crowd.Deeds{Requests: requests},
		}
	}
	scores := []*score{
		some("nginx", 0, false, 1000), some("nginx", 3, false, 60), some("nginx", 4, false, 40), some("nginx",
			6, true, 1000),
		some("haproxy", 3, false, 110), some("haproxy", 0, false, 1000),
	}
	want := []rolls{
		{balancer: "nginx", restarts: 7, requests: 100},
		{balancer: "haproxy", restarts: 3, requests: 110},
	}
	if got := rolled(scores); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if page := describeRolling(scores, 0); !strings.Contains(page,
		"Behind nginx: 100 requests during 7 restarts, 0 lost.** **Behind haproxy: 110 requests during 3 restarts") {
		t.Errorf("the report counts others: %s", page)
	}
	played := []*score{{act: &act{name: "none"}, balancer: "nginx"}}
	if page := describeRolling(played, 0); strings.Contains(page, "none | **not run**") ||
		!strings.Contains(page, "kill -9 | **not run**") {
		t.Errorf("the report does not say what was not run: %s", page)
	}
	for wanted, broken := range map[int]bool{0: false, 100: false, 101: true, 111: true} {
		if err := verdictOfRolling(scores, wanted); errors.Is(err, world.ErrBroken) != broken {
			t.Errorf("%d requests are wanted: got %v", wanted, err)
		}
	}
}

func TestActsAreWhole(t *testing.T) {
	names, share := map[string]bool{}, 0
	for _, a := range acts {
		if names[a.name] || a.name == "" || a.done == "" || a.pass == nil || a.share == 0 {
			t.Errorf("the act %q is not whole, or stands twice", a.name)
		}
		names[a.name] = true
		if a.name != "none" && !a.deadly && !a.another {
			share += a.share
		}
	}
	if share != 110 {
		t.Errorf("the acts with restarts have %d %% of the requests, want 110 without another program: %v",
			share, slices.Sorted(maps.Keys(names)))
	}
}
