package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
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
	all, bad int      // how many were tried, and how many went wrong in any way
	say      reporter
}

func newTally(say reporter) *tally {
	return &tally{tried: make(map[string]int), wrong: make(map[verdict]int), say: say}
}

// reporter tells whoever waits how far the program is.
type reporter func(format string, values ...any)

// step is after how many inputs there is something to tell.
const step = 50_000

// most examples of what went wrong.
const mostExamples = 40

func (t *tally) add(class string, v verdict, example func() string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried[class]++
	if t.all++; t.all%step == 0 {
		t.say("%s tried, %d of them wrong", page.Grouped(t.all), t.bad)
	}
	if v == fine {
		return
	}
	t.bad++
	t.wrong[v]++
	if len(t.examples) < mostExamples {
		t.examples = append(t.examples, string(v)+": "+class+": "+example())
	}
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
func (w *world) tryInputs(n int, seed uint64, say reporter) *tally {
	t, texts := newTally(say), newTexts()
	speeches := make(map[string]*speech)
	for _, revision := range mcp.Revisions() {
		speeches[revision] = newSpeech(revision, texts.strings)
	}
	must.AtOnce(shards, shards, func(i int) {
		random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // G404: to be repeated, not to be secret
		w.shard(t, people[i], random, texts, speeches, n/shards)
	})
	w.addFaults(t)
	return t
}

// addFaults adds what went wrong inside since it was asked for last, whatever was
// answered.
func (w *world) addFaults(t *tally) {
	for range w.denied.Swap(0) {
		t.add("uses of what is denied", wronglyServed,
			func() string { return "a tool, prompt or resource that a rule denies was used" })
	}
	panics := int(metricstest.Sum(must.TB{}, w.metrics, "drawbridge_panics_total"))
	for range panics - w.panics {
		t.add("panics", crashed, func() string { return "the gateway recovered from a panic" })
	}
	w.panics = panics
}

// shard sends the inputs of one person.
func (w *world) shard(t *tally, p person, r *rand.Rand, texts *texts, speeches map[string]*speech,
	n int,
) {
	var writers []*writer
	fakes := p.signer().forgeries()
	for _, revision := range everywhere {
		s := w.speak(p, revision)
		defer s.close()
		writers = append(writers, &writer{
			Rand: r, speaker: s, speech: speeches[s.revision], texts: texts, forged: s.ids(), fakes: fakes,
			places: slices.DeleteFunc(ways(revisionOf(revision)), way.isHarmless),
		})
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
		if session := a.header.Get(mcp.HeaderSessionID); in.method == "POST" && session != "" {
			w.end(one.token, session) // it was opened on the way
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
