package main

import (
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
)

// describe writes the report.
func describe(results []*result, samples int, on cores) string {
	return fmt.Sprintf(`# What one tenant notices of another

A quiet tenant calls a small tool %d times a second, over %d connections or more of %d users, while somebody
attacks the same gateway. Its calls go out at fixed times, whether or not the answers before are late. Each
counts from when it was due. The table has the 50th and 99th percentile (p50, p99) of these calls during
each attack, as a ratio to a **baseline**. In the baseline the same program makes the same attack on a dummy
server on the same machine, while the quiet tenant calls the gateway. The dummy is Go's net/http server with
ready answers of the same size. It asks for no token and does nothing for each tenant. So both have what the
attack takes of the machine, and the ratio is what it takes of the gateway.

An attack does no harm when p99 is less than twice the baseline and every call of the quiet tenant is answered. A call
counts as never answered when its answer has not come in %v. When p99 is one of those, there is none.
Make your own: `+"`make bench-fair`"+` writes this file, and fails if an attack does harm.

On the processors: %s. Load average at the end: %s. What others did on the machine is in the figures.

| attack | p99 ÷ baseline | p50 ÷ baseline | refused or never answered | verdict |
|---|---|---|---|---|
%s
"No attack" is measured like the others, with nobody attacking. The further its ratios are from 1, the less
the others can be trusted. Attack and baseline have %d samples each, in %d rounds that take turns, each with
a new gateway. A percentile is the median of those of the rounds.

## The figures behind it

Attackers send the next request when the one before is answered or refused. Of the attempts a second, the
part in brackets was refused (at the gateway; the dummy refuses nothing). Held: connections open at the same
time.

| attack | baseline p50 / p99 | beside it p50 / p99 | attempts a second at the gateway (refused, broken) | MB/s | held | at the dummy |
|---|---|---|---|---|---|---|
%s
## The attacks

%s
Attackers are %d users of one tenant (strangers have no token), on an address of their own where the system has
one. All limits are the default ones, with two exceptions: the rates of the tenant named above, and those of the quiet
tenant. That one makes up for calls that were late, and must not be refused for it.
`, time.Second/quietInterval, quiet.Connections, usersOfQuiet, client.Patience, on.describe(), page.Load(),
		page.Rows(results, (*result).row), samples, rounds, page.Rows(results, (*result).figures),
		page.Rows(results, (*result).does), usersOfLoud)
}

// does says what the attack does.
func (r *result) does() string {
	return fmt.Sprintf("- **%s**: %s.%s\n", r.attack.Name, r.attack.Does, page.Either(r.attack.Raised,
		" Its tenant has rates of 10,000 requests and calls a second, otherwise most would be refused "+
			"by a limit.",
		""))
}

// row is the line of an attack in the table of verdicts.
func (r *result) row() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.attack.Name, r.times(99), r.times(50), r.refused(),
		r.verdict())
}

func (r *result) times(percent int) string {
	times, found := r.ratio(percent)
	return page.Either(found, fmt.Sprintf("%.1f", times), "none")
}

// refused lists what came instead of answers.
func (r *result) refused() string {
	total, by := r.beside.refused()
	return page.Either(total > 0, fmt.Sprintf("%d (%s)", total, page.Counted(by, "")), "0")
}

func (r *result) verdict() string {
	unanswered, by := r.baseline.refused()
	switch {
	case r.beside.died || r.baseline.died:
		return "**the gateway ended**"
	case r.baseline.fault != nil || r.beside.fault != nil:
		return "**could not be measured**"
	case unanswered > 0:
		return fmt.Sprintf("**no baseline**: %s", page.Counted(by, ""))
	case r.harms():
		return "**does harm**"
	}
	return "no harm"
}

// figures is the line of an attack in the table of figures.
func (r *result) figures() string {
	t, d := r.beside.tally, r.baseline.tally
	return fmt.Sprintf("| %s | %s / %s | %s / %s | %.0f (%s, %s) | %.1f | %d | %.0f |\n", r.attack.Name,
		r.baseline.millis(50), r.baseline.millis(99), r.beside.millis(50), r.beside.millis(99),
		t.perSecond(t.Attempts), share(t.Refused, t.ended()), share(t.Broken, t.ended()),
		t.perSecond(t.Received)/1e6, t.Held,
		d.perSecond(d.Attempts))
}

func (s *side) millis(percent int) string {
	latency, found := s.percentile(percent)
	return page.Either(found, fmt.Sprintf("%.2f ms", float64(latency)/float64(time.Millisecond)), "–")
}

// ended returns how many attempts came to an end.
func (t tally) ended() int64 { return t.Answered + t.Refused + t.Broken }

func (t tally) perSecond(n int64) float64 { return float64(n) * 1000 / float64(max(t.Millis, 1)) }

func share(part, whole int64) string {
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(max(whole, 1)))
}
