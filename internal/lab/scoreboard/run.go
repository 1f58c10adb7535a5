package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// shards are how many rows of inputs there are. Each has its own person, sessions and
// random numbers, so that a seed gives the same inputs on every machine.
const shards = 8

// tally counts what became of inputs.
type tally struct {
	mu       sync.Mutex // guards the fields below
	tried    map[string]int
	wrong    map[verdict]int
	examples []string // of what went wrong, the first ones
	count    int      // how many were tried
	say      teller
}

func newTally(say teller) *tally {
	return &tally{tried: make(map[string]int), wrong: make(map[verdict]int), say: say}
}

// teller tells whoever waits how far the program is.
type teller func(format string, values ...any)

// quietly tells nobody.
func quietly(string, ...any) {}

// step is after how many inputs there is something to tell.
const step = 50_000

// most examples of what went wrong.
const mostExamples = 40

func (t *tally) add(class string, v verdict, example func() string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried[class]++
	if t.count++; t.count%step == 0 {
		t.say("%s tried, %d of them wrong", page.Grouped(t.count), t.badLocked())
	}
	if v == fine {
		return
	}
	t.wrong[v]++
	if len(t.examples) < mostExamples {
		t.examples = append(t.examples, string(v)+": "+class+": "+example())
	}
}

func (t *tally) all() (n int) {
	for _, of := range t.tried {
		n += of
	}
	return n
}

func (t *tally) classes() []string { return slices.Sorted(maps.Keys(t.tried)) }

// bad tells how many answers were wrong in any way.
func (t *tally) bad() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.badLocked()
}

func (t *tally) badLocked() (n int) {
	for _, of := range t.wrong {
		n += of
	}
	return n
}

// kinds of inputs, each with its share of a hundred.
var kinds = []struct {
	share    int
	make     func(*writer) input
	nameless bool // ids of their answers cannot be told, so nobody could wait for these on a stream
}{
	{60, (*writer).mutated, false},
	{4, (*writer).good, false},
	{3, (*writer).batch, true},
	{10, (*writer).badToken, false},
	{5, (*writer).around, false},
	{4, (*writer).odd, false},
	{5, (*writer).denied, false},
	{5, (*writer).forgedID, false},
	{4, (*writer).smuggled, true},
}

// tryInputs sends n inputs.
func (w *world) tryInputs(n int, seed uint64, say teller) *tally {
	t, texts := newTally(say), newTexts()
	speeches := make(map[string]*speech)
	for _, revision := range mcp.Revisions() {
		s := newSpeech(revision, texts.strings)
		speeches[revision] = s
	}
	var all sync.WaitGroup
	faults := make([]error, shards)
	for i := range shards {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // G404: to be repeated, not to be secret
			faults[i] = must.Try(func() { w.shard(t, people()[i], random, texts, speeches, n/shards) })
		})
	}
	all.Wait()
	must.OK(errors.Join(faults...))
	for range w.denied.Load() {
		t.add("uses of what is denied", wronglyServed,
			func() string { return "a tool, prompt or resource that a rule denies was used" })
	}
	for range int(w.panics()) {
		t.add("panics", crashed, func() string { return "the gateway recovered from a panic" })
	}
	return t
}

// shard sends the inputs of one person.
func (w *world) shard(t *tally, p person, r *rand.Rand, texts *texts, speeches map[string]*speech,
	n int,
) {
	var writers []*writer
	for _, revision := range everywhere() {
		s := w.speak(p, revision)
		defer s.close()
		one := &writer{Rand: r, speaker: s, speech: speeches[s.revision], texts: texts}
		one.forged = s.ids()
		writers = append(writers, one)
	}
	for range n {
		one := writers[r.IntN(len(writers))]
		in := one.next()
		a := one.do(&in)
		v := judge(&in, &a)
		t.add(in.class, v, func() string {
			return fmt.Sprintf("%s %s: %s %.20s %.600s: %d %.200s", one.revision, in.what, in.method, in.path,
				in.body, a.status, a.body)
		})
		// a session that was opened on the way
		if in.method == "POST" && a.header.Get(mcp.HeaderSessionID) != "" {
			w.send(&request{
				method: "DELETE", path: "/mcp", token: one.token,
				headers: []string{mcp.HeaderSessionID, a.header.Get(mcp.HeaderSessionID)},
			})
		}
	}
}

// next makes the next input.
func (w *writer) next() input {
	at := w.IntN(100)
	for _, k := range kinds {
		if at -= k.share; at < 0 && (w.stream == nil || !k.nameless) {
			return k.make(w)
		}
	}
	return w.good()
}

// panics are how many the gateway recovered from.
func (w *world) panics() float64 { return w.counted("drawbridge_panics_total") }

// counted returns the sum of a counter.
func (w *world) counted(name string) (sum float64) {
	families, err := prometheus.Gatherer(w.metrics).Gather()
	if err != nil {
		panic(err) // metrics of this process
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			sum += one.GetCounter().GetValue()
		}
	}
	return sum
}
