package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// charts draws the pictures of the section into the folder beside the page and returns
// what shows them there. Without idle streams there is no picture of them.
func (m *findings) charts(r page.Report) (calls, memory string) {
	const callsSay = "Calls per second through drawbridge, in times of what a tuned ReverseProxy does"
	bars := &page.Bars{
		Title: callsSay, Unit: "calls per second ÷ ReverseProxy's: median of the rounds, and their spread",
		Mark:   1,
		Series: []string{"beside a tuned ReverseProxy", "beside one with GOGC=400"},
	}
	for _, c := range m.calls {
		g := page.Group{Label: fmt.Sprintf("%s, %s", c.revision, page.Plural(c.connections, "connection"))}
		for _, way := range []string{wayProxy, wayThrifty} {
			s := ratioOf(c.ways[wayDrawbridge].rate, c.ways[way].rate)
			g.Bars = append(g.Bars, s.bar())
		}
		bars.Groups = append(bars.Groups, g)
	}
	calls = r.Chart("calls", bars, callsSay)
	if len(m.idle) == 0 {
		return calls, ""
	}
	const memorySays = "Memory that an idle event stream takes of the gateway"
	bars = &page.Bars{Title: memorySays, Unit: "KiB of resident memory a stream"}
	for _, kind := range idleKinds() {
		g := page.Group{Label: kind.name}
		bars.Series = bars.Series[:0]
		for _, idle := range m.idle {
			if idle.kind == kind.name {
				bars.Series = append(bars.Series, page.Number(float64(idle.streams))+" streams")
				g.Bars = append(g.Bars, page.Bar{Value: max(0, idle.kib)})
			}
		}
		bars.Groups = append(bars.Groups, g)
	}
	return calls, r.Chart("streams", bars, memorySays)
}

// describe writes the section.
func (m *findings) describe(p plan, nginx, calls, memory string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## One call

%s

One tools/call of an echo tool, in several ways to the same upstream in the same rounds:

- **direct**: with nothing in between.
- **nginx**: as a plain proxy that keeps its connections (%s).
- **ReverseProxy**: Go's httputil.ReverseProxy, tuned. It keeps as many idle connections as there are calls at
  once, and reads the body before it sends it on. It checks nothing and records nothing.
- **ReverseProxy, GOGC=400**: the same, with a garbage collector that runs less often and takes more memory. The
  gateway may choose this setting for itself. This way takes that gain out of the comparison.
- **drawbridge** with everything on: token, tenant, rules, limits of requests, calls, users and tools, argument
  schema, time limit, output cleaning, audit, a log line for each request, metrics. Audit writes a line before
  each answer. With `+"`sync: interval`"+` it is synced to disk once a second.

Every answer's content is checked. Each way has %s of %v. What a ratio compares ran right after one another, in
both orders in turn. A figure is the median of the rounds' ratios. The brackets hold the lowest and the highest.

| revision | connections | calls/s ÷ ReverseProxy | ÷ ReverseProxy, GOGC=400 | ÷ nginx | ÷ direct | CPU a call ÷ ReverseProxy |
|---|---|---|---|---|---|---|
`, calls, nginx, page.Plural(p.rounds, "round"), p.took)
	for _, r := range m.calls {
		own := r.ways[wayDrawbridge]
		fmt.Fprintf(&b, "| %s | %d | **%s** | %s | %s | %s | %s |\n", r.revision, r.connections,
			r.over(wayProxy), r.over(wayThrifty), r.over(wayNginx), r.over(wayDirect), ratioOf(own.cpu,
				r.ways[wayProxy].cpu))
	}
	b.WriteString(
		"\nThese are the figures behind the ratios. CPU and memory are those of the processes between client and upstream alone.\n\n")
	m.figures(&b, m.calls)
	b.WriteString(`
### An upstream that speaks TLS

The same calls to an https upstream. The gateway and the proxies check its certificate. The upstream offers
HTTP/2, so there are two ReverseProxies: one uses it, and one stays with HTTP/1.1.

`)
	fmt.Fprintf(
		&b, "drawbridge ÷ ReverseProxy with HTTP/1.1: calls/s **%s**, CPU a call %s. ÷ ReverseProxy with HTTP/2: calls/s **%s**, CPU a call %s.\n\n",
		m.secure.over(wayProxyOne), ratioOf(m.secure.ways[wayDrawbridge].cpu, m.secure.ways[wayProxyOne].cpu),
		m.secure.over(wayProxyTwo), ratioOf(m.secure.ways[wayDrawbridge].cpu, m.secure.ways[wayProxyTwo].cpu))
	m.figures(&b, []result{m.secure})
	m.describeKinds(&b, p)
	m.describeIdle(&b, memory)
	return b.String()
}

// over returns the ratio of calls per second, through the gateway and another way.
func (r *result) over(way string) string {
	other, found := r.ways[way]
	if !found {
		return "not measured"
	}
	return ratioOf(r.ways[wayDrawbridge].rate, other.rate).String()
}

// figures writes the table of absolute figures.
func (m *findings) figures(b *strings.Builder, results []result) {
	b.WriteString(
		"| revision | connections | way | calls/s | median latency, µs | CPU a call, µs | resident, MiB |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		for _, way := range []string{
			wayDirect, wayNginx, wayProxy, wayThrifty, wayProxyOne, wayProxyTwo,
			wayDrawbridge,
		} {
			s, found := r.ways[way]
			if !found {
				continue
			}
			cpu, held := "–", "–"
			if way != wayDirect && len(s.cpu) > 0 {
				cpu, held = spreadOf(s.cpu).String(), page.Number(spreadOf(s.resident).median)
			}
			fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s |\n", r.revision, r.connections, way,
				spreadOf(s.rate), page.Number(spreadOf(s.latency).median), cpu, held)
		}
	}
}

// describeKinds writes what other kinds of calls cost.
func (m *findings) describeKinds(b *strings.Builder, p plan) {
	fmt.Fprintf(b, `
### Other kinds of calls

The CPU is that of drawbridge alone, without server and client. A KiB counts requests and answers together, with
their headers, between client and gateway. The last column divides the CPU of a KiB by that of the plain case in
the same round. The plain case is a call of echo in the same revision, at 16 connections, or at 1 for one question
at a time. A question is one that the server asks in the middle of a call (elicitation). The client answers it,
and then the result comes. Each kind has %s of %v.

| kind | callers | calls/s | CPU a call, µs | KiB a call | CPU a KiB, µs | ÷ plain call, by KiB |
|---|---|---|---|---|---|---|
`, page.Plural(p.rounds, "round"), p.took/2)
	byName := make(map[string]*kindRounds)
	for _, k := range m.kinds {
		byName[k.name] = k
	}
	var notes, reasons []string
	for _, k := range m.kinds {
		times := "–"
		if plain, found := byName[k.plain]; found {
			factor := ratioOf(k.perKiB, plain.perKiB)
			times = factor.String()
			if factor.median > 2 {
				times = "**" + times + "**"
				notes = append(notes, fmt.Sprintf("- %s costs %s times the plain case by KiB.", k.name,
					page.Number(factor.median)))
				reasons = append(reasons, cmp.Or(k.reason, reasonUnknown))
			}
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s |\n", k.name, k.callers,
			page.Number(spreadOf(k.rate).median),
			spreadOf(k.cpu), page.Number(spreadOf(k.kib).median), spreadOf(k.perKiB), times)
	}
	for _, k := range m.kinds {
		if other, found := byName[k.name+besideProxy]; found {
			notes = append(notes, fmt.Sprintf("- A %s costs %s times the CPU that ReverseProxy takes for it.",
				k.name, ratioOf(k.cpu, other.cpu)))
			reasons = append(reasons, reasonUnread)
		}
	}
	b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	for i, reason := range reasons {
		if !slices.Contains(reasons[:i], reason) {
			b.WriteString("\n" + reason + "\n")
		}
	}
}

// describeIdle writes what idle streams cost and how soon they are told.
func (m *findings) describeIdle(b *strings.Builder, memory string) {
	if len(m.idle) == 0 {
		return
	}
	fmt.Fprintf(b, `
### Idle event streams

%s

Each stream is a connection of its own. Where a revision has sessions, each stream has a session of its own too,
whose client has listed the tools.

A stream's memory is the gateway's resident memory with all streams open, less what it was before the first,
divided by their number. It is taken after each stream had a heartbeat, which is every 20 seconds. By
then the gateway has given back what it needed only for a moment, which it does by itself. Memory that the kernel
has for connections is not in these figures.

Then a reload hides or shows a tool, and every stream must be told. The time counts from the signal to reload, so
the reload is in it.

| streams | open | KiB a stream | after a changed list | told of it | the first after | the median | the last |
|---|---|---|---|---|---|---|---|
`, memory)
	for _, r := range m.idle {
		told := fmt.Sprintf("all %d", r.told)
		if r.told < r.streams {
			told = fmt.Sprintf("**%d of %d**", r.told, r.streams)
		}
		fmt.Fprintf(b, "| %s | %d | **%s** | %s | %s | %v | %v | %v |\n", r.kind, r.streams,
			page.Number(r.kib), page.Number(r.after), told,
			r.first.Round(time.Millisecond), r.median.Round(time.Millisecond), r.last.Round(time.Millisecond))
	}
	if m.note != "" {
		b.WriteString("\n" + m.note + "\n")
	}
}

// bar is the spread in a chart.
func (s spread) bar() page.Bar { return page.Bar{Value: s.median, Least: s.least, Most: s.most} }

// String writes the median and, where there were several rounds, the spread.
func (s spread) String() string {
	if s == (spread{}) {
		return "–"
	}
	median, least, most := page.Number(s.median), page.Number(s.least), page.Number(s.most)
	if least == most {
		return median
	}
	return median + " (" + least + "–" + most + ")"
}
