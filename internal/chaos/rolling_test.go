package main

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
)

// TestNothingIsLostInARollingRestart restarts each of three replicas once behind nginx. `make rolling` does that, and much
// more, behind both load balancers until 100,000 requests went through.
func TestNothingIsLostInARollingRestart(t *testing.T) {
	needs(t, "nginx", "redis-server")
	dir := t.TempDir()
	program, err := build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	scene, err := newScene(t.Context(), filepath.Join(dir, "world"), program, "nginx", steady())
	if err != nil {
		t.Fatal(err)
	}
	defer scene.close()
	s := &stage{scene: scene, size: 1}
	got, err := s.play(t.Context(), &act{name: "one after the other", pass: oneByOne}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(got)
	if err := got.wrong(); err != nil {
		t.Error(err)
	}
	if got.restarts != replicas || got.deeds.Requests < 100 || got.deeds.Goodbyes == 0 {
		t.Errorf("%d restarts, %d requests and %d streams that were told to come back show nothing", got.restarts, got.deeds.Requests, got.deeds.Goodbyes)
	}
}

// TestAScoreKnowsWhatWasLost judges acts in which something went wrong, and in which nothing did.
func TestAScoreKnowsWhatWasLost(t *testing.T) {
	inFlight, soon, late := ledger.Failure{Nonce: 1}, ledger.Failure{Nonce: 2}, ledger.Failure{Nonce: 3}
	known, asked := map[ledger.Nonce]bool{1: true}, map[ledger.Nonce]bool{2: true}
	for name, test := range map[string]struct {
		score score
		wrong bool
	}{
		"nothing":                     {score{act: &act{}}, false},
		"a call":                      {score{act: &act{}, failures: []ledger.Failure{late}}, true},
		"a handshake":                 {score{act: &act{}, troubles: map[string]int{"status 502": 1}}, true},
		"a session":                   {score{act: &act{}, deeds: crowd.Deeds{Reconnects: 1}}, true},
		"twice":                       {score{act: &act{}, verdict: ledger.Verdict{Twice: 1}}, true},
		"in flight at a kill":         {score{act: &act{deadly: true}, failures: []ledger.Failure{inFlight, soon}, inFlight: known, soon: asked}, false},
		"not in flight at a kill":     {score{act: &act{deadly: true}, failures: []ledger.Failure{inFlight, late}, inFlight: known, soon: asked}, true},
		"without a word after a kill": {score{act: &act{deadly: true}, verdict: ledger.Verdict{Unanswered: 1}}, true},
	} {
		if err := test.score.wrong(); (err != nil) != test.wrong {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestActsAreWhole(t *testing.T) {
	names, share := map[string]bool{}, 0
	for _, a := range acts(true) {
		if names[a.name] || a.name == "" || a.done == "" || a.pass == nil {
			t.Errorf("the act %q is not whole, or stands twice", a.name)
		}
		names[a.name], share = true, share+a.share
	}
	if share != 100+acts(true)[len(acts(true))-2].share {
		t.Errorf("all acts have %d %% of the requests, want 100 without another program: %v", share, slices.Sorted(maps.Keys(names)))
	}
}
