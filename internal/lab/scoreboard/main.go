// Command scoreboard measures what the gateway withstands, as far as one machine can
// tell: inputs that are wrong on purpose against the whole gateway in this process, ids
// of one principal in the hands of all others, and the tests and fuzz targets of the
// repository that try the rest. Each figure has a target; the program fails when one is
// missed.
//
// Whether an input was wrongly accepted is known from how it was made: a message that its
// schema does not allow, a token that no issuer signed, an id that nobody was given. What
// cannot be told that way must only do no harm. Good messages stand among the bad ones
// and must be served, so that a gateway which refuses everything does not pass.
//
//	go run -C internal/lab ./scoreboard -out SECURITY.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	lab "github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

func main() { lab.Main("scoreboard", nil, run, 1, nil) }

// settings are what is asked for on the command line.
type settings struct {
	inputs, crossings int
	seed              uint64
	pairs             int
	fuzz              time.Duration
	tests             bool
}

// run is the whole program.
func run(ctx context.Context, args []string, out io.Writer) error {
	return page.Run(ctx, "scoreboard", map[string]page.Part{"": {Section: "scoreboard", Begin: begin}}, args, out)
}

// begin measures all of it, or runs some of the tests again.
func begin(flags *flag.FlagSet) page.Measure {
	var s settings
	flags.IntVar(&s.inputs, "inputs", 1_000_000, "bad inputs to try")
	flags.IntVar(&s.crossings, "crossings", 100_000, "uses of another's id to try")
	flags.Uint64Var(&s.seed, "seed", 1, "of the inputs: the same seed makes the same ones")
	flags.IntVar(&s.pairs, "pairs", 20_000,
		"pairs of requests to time for each thing that may be unknown or forbidden; 0: none")
	flags.DurationVar(&s.fuzz, "fuzz", 10*time.Second,
		"how long each fuzz target runs; 0: they are only counted")
	flags.BoolVar(&s.tests, "tests", true, "run the tests that the scoreboard counts on")
	return func(ctx context.Context, r page.Report) (string, error) {
		b, root, started := &board{seed: s.seed}, must.Have(sources.Root()), time.Now()
		say := func(format string, values ...any) {
			r.Say("%4.0f s: "+format+"\n", append([]any{time.Since(started).Seconds()}, values...)...)
		}
		b.attack(s, say)
		if s.tests {
			for _, g := range groups {
				say("%s", g.command())
				b.addGroup(g, g.measure(ctx, root))
			}
		}
		b.count(ctx, root, s.fuzz, say)
		return b.text(), b.verdict()
	}
}

// verdict is an error if a target is missed.
func (b *board) verdict() error {
	var c lab.Claims
	for _, r := range b.rows {
		c.Claim(r.met, "%s: %s, which is not %s", r.figure, r.measured, r.target)
	}
	return c.Broken()
}

// attack tries what this program tries itself, and says what went wrong.
func (b *board) attack(s settings, say reporter) {
	w := newWorld()
	defer w.close()
	say("bad inputs")
	// Of a hundred inputs some are good: with a tenth more, the bad ones are enough.
	b.inputs = w.tryInputs(s.inputs+s.inputs/10, s.seed, say)
	say("forged tokens")
	w.tryForgeries(b.inputs)
	say("ids of others")
	b.crossed = w.cross(s.crossings, everywhere, say)
	if s.pairs > 0 {
		b.timed = w.tell(s.pairs, s.seed, say)
	}
	w.addFaults(b.inputs)
	b.addInputs(s.inputs)
	b.addCrossing(s.crossings)
	if s.pairs > 0 {
		b.addTimes(s.pairs)
	}
	for _, example := range append(b.inputs.examples, b.crossed.examples...) {
		say("%s", example)
	}
}

// count adds the fuzz targets and the advisories.
func (b *board) count(ctx context.Context, root string, each time.Duration, say reporter) {
	all := targets(root)
	b.add(len(all) >= 15, "fuzz targets", "≥ 15", fmt.Sprint(len(all)), "`make fuzz`")
	if each > 0 {
		b.fuzzed = fuzz(ctx, root, all, each, say)
		b.addFuzz(each)
	}
	tested, without := advisories(root)
	gone := missing(root, tested)
	b.add(len(tested) > 0 && len(gone) == 0,
		"advisories about gateways, servers and libraries like these that have a test", "all that apply",
		fmt.Sprintf("%d; for %d others the page says why there is none", len(tested), len(without)),
		"[`docs/evidence/advisories.md`](docs/evidence/advisories.md)")
}
