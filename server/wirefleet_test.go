package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/wiretest"
)

// The scripts again with three replicas, of which each request goes to the next one: what
// is resumed, answered, cancelled or ended is never where it began. A client must not see
// a difference, but for the names of streams.

func TestWireModernAtReplicas(t *testing.T) { wiretest.Repeat(t, "testdata/modern/*.txtar", spread) }

// Two requests have another answer. Only calls of tools are refused because their id is
// in use at another replica, since nothing else has effects that could come twice. And
// replicas tell each other of the use of a session every few minutes, so that it may be
// idle for so much longer.
func TestWireLegacyAtReplicas(t *testing.T) {
	wiretest.Repeat(t, "testdata/legacy/*.txtar", spread, "id in use by a call", "too late")
}

func TestWireLegacySSEAtReplicas(t *testing.T) {
	wiretest.Repeat(t, "testdata/legacysse/*.txtar", spread)
}

func TestWireQuestionsAtReplicas(t *testing.T) {
	wiretest.Repeat(t, "testdata/questions/*.txtar", spreadAsking)
}

// TestWireResourcesAtReplicas lets time pass before each step: which of two subscriptions
// is the later one is told by the clock, which stands still otherwise.
func TestWireResourcesAtReplicas(t *testing.T) {
	wiretest.Repeat(t, "testdata/resources/*.txtar", func(t *testing.T) *wiretest.World {
		script := spreadAsking(t)
		script.Pause = time.Microsecond
		return script
	})
}

// spread opens the world of a wire script on three replicas.
func spread(t *testing.T) *wiretest.World {
	worlds := fleet(t, &replicatest.Hub{}, 3)
	runAll(t, worlds)
	return inTurn(t, worlds)
}

// spreadAsking does the same with tools that ask and resources that change.
func spreadAsking(t *testing.T) *wiretest.World {
	worlds := fleet(t, &replicatest.Hub{}, 3)
	var askers []*asker
	var all []*files
	for _, w := range worlds {
		a, f := w.asking()
		askers, all = append(askers, a), append(all, f)
	}
	runAll(t, worlds)
	script := inTurn(t, worlds)
	each := func(do func(f *files)) func() {
		return func() {
			for _, f := range all {
				do(f)
			}
		}
	}
	script.Actions["change prompts"] = func() {
		for i, w := range worlds {
			askers[i].changePrompts()
			w.offer(t, "extra")
		}
	}
	script.Actions["change a"] = each(func(f *files) { f.change("file:///a", "file:///a") })
	script.Actions["change part of a"] = each(func(f *files) { f.change("file:///a", "file:///a/part") })
	script.Actions["change b"] = each(func(f *files) { f.change("file:///b", "file:///b") })
	script.Actions["hide"] = each(func(f *files) { f.hide() })
	for name, want := range map[string]int{"two subscriptions": 2, "no subscriptions": 0} {
		script.Actions[name] = func() {
			doneContext(t) // waits
			got := 0
			each(func(f *files) { got += f.open() })()
			if got != want {
				t.Errorf("got %d subscriptions, want %d", got, want)
			}
		}
	}
	script.Actions["nothing waits"] = func() {
		working, endings := 0, 0
		for i, w := range worlds {
			working, endings = working+w.Wait(doneContext(t)), endings+askers[i].endings()
		}
		if working != 0 || endings != 1 {
			t.Errorf("got %d calls in work, and the desks told %d times of an end; want 0, 1", working,
				endings)
		}
	}
	return script
}

// inTurn is a script's world whose requests go to each replica in turn. What an action
// does happens at all of them.
func inTurn(t *testing.T, worlds []*world) *wiretest.World {
	actions := make(map[string][]func())
	handlers := make([]http.Handler, 0, len(worlds))
	script := worlds[0].script(t)
	for _, w := range worlds {
		for name, do := range w.script(t).Actions {
			actions[name] = append(actions[name], do)
		}
		handlers = append(handlers, w.Handler())
	}
	for name, all := range actions {
		script.Actions[name] = func() {
			for _, do := range all {
				do()
			}
		}
	}
	var next atomic.Int64
	script.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[int(next.Add(1))%len(handlers)].ServeHTTP(w, r)
	})
	names := &streamNames{short: make(map[string]string), long: make(map[string]string)}
	script.Show, script.Mean = names.show, names.mean
	return script
}

// streamNames are those of streams in the ids of events: as one gateway names them, by
// kind and number, and as replicas do, which count for themselves and say where the call
// runs, too.
type streamNames struct {
	short, long map[string]string
	count       int
}

var (
	longName  = regexp.MustCompile(`\b([pg])\d+r[0-9a-f]{24}(?:i[0-9a-f]*)?-`)
	shortName = regexp.MustCompile(`\b[pg]\d+-`)
)

func (n *streamNames) show(text string) string {
	return longName.ReplaceAllStringFunc(text, func(long string) string {
		if n.short[long] == "" {
			n.count++
			n.short[long] = fmt.Sprintf("%s%d-", long[:1], n.count)
			n.long[n.short[long]] = long
		}
		return n.short[long]
	})
}

func (n *streamNames) mean(text string) string {
	return shortName.ReplaceAllStringFunc(text, func(short string) string {
		if n.long[short] == "" {
			return short
		}
		return n.long[short]
	})
}
