package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// row is one figure of the scoreboard.
type row struct {
	figure, target, measured, how string
	met                           bool
}

// board is the whole of it.
type board struct {
	seed    uint64
	inputs  *tally
	crossed *crossing
	timed   []timed
	fuzzed  []fuzzed
	rows    []row
}

func (b *board) add(met bool, figure, target, measured, how string) {
	b.rows = append(b.rows, row{figure, target, measured, how, met})
}

// line returns the row in Markdown.
func (r row) line() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.figure, r.target, r.measured,
		page.Either(r.met, "yes", "**no**"), r.how)
}

const here = "this program"

// addInputs adds what became of the inputs.
func (b *board) addInputs(least int) {
	t := b.inputs
	n, good := t.all, t.tried["messages as they should be"]
	b.add(n-good >= least, "bad inputs tried", "≥ "+page.Grouped(least), page.Grouped(n-good), here)
	for _, one := range []struct {
		figure string
		v      verdict
	}{
		{"panics and other crashes", crashed},
		{"answers with 5xx", ownFault},
		{"wrongly accepted", wronglyServed},
		{"answers that are no JSON-RPC, or have another's id", malformed},
		{"requests without an answer", lost},
	} {
		b.add(t.wrong[one.v] == 0, one.figure, "0", page.Grouped(t.wrong[one.v]), here)
	}
	const leastForged = 6_000
	b.add(t.tried[forgedTokens] >= leastForged,
		fmt.Sprintf("of these, tokens forged for each of %d algorithms", len(signers())), "≥ "+
			page.Grouped(leastForged), page.Grouped(t.tried[forgedTokens]), here)
	b.add(t.wrong[wronglyRefused] == 0 && good > 0, "messages as they should be, refused", "0",
		fmt.Sprintf("%d of %s", t.wrong[wronglyRefused], page.Grouped(good)), here)
}

// addCrossing adds what became of the attempts to use what is another's.
func (b *board) addCrossing(least int) {
	c := b.crossed
	b.add(
		c.all >= least, fmt.Sprintf(
			"uses of another's id (8 principals, %d kinds of ids, each in every place)", len(c.kinds)),
		"≥ "+page.Grouped(least), page.Grouped(c.all), here)
	b.add(c.bad == 0, "answers that differ from those for an unknown id", "0", page.Grouped(c.bad), here)
	b.add(len(c.vain) == 0, "stolen ids that were of no use to their owner either", "0",
		page.Grouped(len(c.vain)), here)
}

// addTimes adds whether the time of answers tells what their words do not.
func (b *board) addTimes(pairs int) {
	var told []string
	for _, t := range b.timed {
		if t.isTold() {
			told = append(told, t.what)
		}
	}
	b.add(
		len(told) == 0, fmt.Sprintf(
			"things whose refusals differ by time when forbidden and when unknown, of %d, each with %s pairs of requests", len(b.timed), page.Grouped(pairs)), "0",
		strings.TrimSpace(fmt.Sprint(len(told), " ", strings.Join(told, "; "))), here)
}

// addFuzz adds what the fuzz targets found.
func (b *board) addFuzz(each time.Duration) {
	executions, idle := 0, 0
	var found []string
	for _, f := range b.fuzzed {
		executions += f.executions
		if f.executions == 0 {
			idle++
		}
		if f.found != "" {
			found = append(found, f.folder+" "+f.name)
		}
	}
	b.add(len(found) == 0 && idle == 0, "fuzz targets that found something, "+each.String()+" each", "0",
		strings.TrimSpace(fmt.Sprintf("%d in %s executions; %d did not run %s", len(found),
			page.Grouped(executions), idle, strings.Join(found, ", "))), "`make fuzz`")
}

func (b *board) addGroup(g group, r ran) {
	measured := fmt.Sprintf("%d tests passed, %d failed", r.passed, r.failed) +
		page.Either(r.skipped > 0, fmt.Sprintf(", %d skipped", r.skipped), "")
	target := g.most
	if g.what != "" {
		target = "≥ " + page.Grouped(g.least) + " " + g.what + "; " + g.most
		measured = page.Grouped(r.tried) + " " + g.what + "; " + measured
	}
	if r.faults != "" {
		measured += ": " + strings.Join(strings.Fields(r.faults), " ")
	}
	b.add(r.failed == 0 && r.passed > 0 && r.tried >= g.least, g.figure, target, measured,
		"`"+strings.ReplaceAll(g.command(), "|", `\|`)+"`")
}

// text is the report in Markdown.
func (b *board) text() string {
	return fmt.Sprintf(`Seed %d.

| figure | target | measured | met | how |
|---|---|---|---|---|
%s
The inputs by what they are:

| class | tried |
|---|---|
%s%s%s
A message that differs from its schema must be refused, except in these places:

| place | why |
|---|---|
%s`, b.seed,
		page.Rows(b.rows, row.line),
		page.Rows(slices.Sorted(maps.Keys(b.inputs.tried)), func(class string) string {
			return fmt.Sprintf("| %s | %s |\n", class, page.Grouped(b.inputs.tried[class]))
		}), b.times(), b.fuzzes(),
		page.Rows(leniencies, func(one leniency) string {
			return fmt.Sprintf("| `%s` | %s |\n", strings.TrimPrefix(one.path, "."), one.why)
		}))
}

// times is the table of what was timed, if anything was.
func (b *board) times() string {
	if len(b.timed) == 0 {
		return ""
	}
	return fmt.Sprintf(`
How long refusals take in this process. *Told* is the chance that of two requests, one for what is unknown
and one for what is forbidden, the second takes longer: 0.5 tells nothing. The target is missed where it is
further from 0.5 than %v and the medians differ by more than %v.

| thing | unknown, median | forbidden, median | between quartiles | told |
|---|---|---|---|---|
%s`, mostTold, mostApart, page.Rows(b.timed, func(t timed) string {
		return fmt.Sprintf("| %s | %.1f µs | %.1f µs | %.1f µs | %.3f |\n", t.what, micros(t.unknown),
			micros(t.forbidden), micros(t.spread), t.auc)
	}))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// fuzzes is the table of fuzz targets, if they ran.
func (b *board) fuzzes() string {
	if len(b.fuzzed) == 0 {
		return ""
	}
	return "\n| fuzz target | package | time | executions | found |\n|---|---|---|---|---|\n" +
		page.Rows(b.fuzzed, func(f fuzzed) string {
			return fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |\n", f.name, strings.TrimPrefix(f.folder, "./"), f.took,
				page.Grouped(f.executions), page.Either(f.found != "", "**a fault**", "nothing"))
		})
}
