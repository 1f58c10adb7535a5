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
			g.Bars = append(g.Bars, ratioOf(c.ways[wayDrawbridge].rate, c.ways[way].rate).bar())
		}
		bars.Groups = append(bars.Groups, g)
	}
	calls = r.Chart("calls", bars, callsSay)
	if len(m.idle) == 0 {
		return calls, ""
	}
	const memorySays = "Memory that an idle event stream takes of the gateway"
	bars = &page.Bars{Title: memorySays, Unit: "KiB of resident memory a stream"}
	for _, kind := range idleKinds {
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
	own := m.secure.ways[wayDrawbridge].cpu
	return fmt.Sprintf(callsSection, calls, nginx, page.Plural(p.rounds, "round"), p.took,
		page.Rows(m.calls, func(r result) string {
			return fmt.Sprintf("| %s | %d | **%s** | %s | %s | %s | %s |\n", r.revision, r.connections,
				r.over(wayProxy), r.over(wayThrifty), r.over(wayNginx), r.over(wayDirect),
				ratioOf(r.ways[wayDrawbridge].cpu, r.ways[wayProxy].cpu))
		}),
		figuresHead+page.Rows(m.calls, result.figures),
		m.secure.over(wayProxyOne), ratioOf(own, m.secure.ways[wayProxyOne].cpu),
		m.secure.over(wayProxyTwo), ratioOf(own, m.secure.ways[wayProxyTwo].cpu),
		figuresHead+m.secure.figures(), m.describeKinds(p), m.describeIdle(memory))
}

// callsSection is the section, with places for what was measured.
const callsSection = `## One call

%s

One tools/call of an echo tool, in several ways to the same upstream in the same rounds:

- **direct**: with nothing in between.
- **nginx**: as a plain proxy that keeps its connections (%s).
- **ReverseProxy**: Go's httputil.ReverseProxy, tuned. It keeps as many idle connections as there are calls
  at once, and reads the body before it sends it on. It checks nothing and records nothing.
- **ReverseProxy, GOGC=400**: the same, with a garbage collector that runs less often and takes more memory.
  The gateway may choose this setting for itself. This way takes that gain out of the comparison.
- **drawbridge** with everything on: token, tenant, rules, limits of requests, calls, users and tools,
  argument schema, time limit, output cleaning, audit, a log line for each request, metrics. Audit writes a
  line before each answer. With ` + "`sync: interval`" + ` it is synced to disk once a second.

Every answer's content is checked. Each way has %s of %v. What a ratio compares ran right after one another,
in both orders in turn. A figure is the median of the rounds' ratios. The brackets hold the lowest and the
highest.

| revision | connections | calls/s ÷ ReverseProxy | ÷ ReverseProxy, GOGC=400 | ÷ nginx | ÷ direct | CPU a call ÷ ReverseProxy |
|---|---|---|---|---|---|---|
%s
These are the figures behind the ratios. CPU and memory are those of the processes between client and
upstream alone.

%s
### An upstream that speaks TLS

The same calls to an https upstream. The gateway and the proxies check its certificate. The upstream offers
HTTP/2, so there are two ReverseProxies: one uses it, and one stays with HTTP/1.1.

drawbridge ÷ ReverseProxy with HTTP/1.1: calls/s **%s**, CPU a call %s. ÷ ReverseProxy with HTTP/2: calls/s
**%s**, CPU a call %s.

%s%s%s`

// over returns the ratio of calls per second, through the gateway and another way.
func (r result) over(way string) string {
	other, found := r.ways[way]
	if !found {
		return "not measured"
	}
	return ratioOf(r.ways[wayDrawbridge].rate, other.rate).String()
}

// figuresHead begins the tables of absolute figures.
const figuresHead = "| revision | connections | way | calls/s | median latency, µs | CPU a call, µs | " +
	"resident, MiB |\n" +
	"|---|---|---|---|---|---|---|\n"

// figures are the rows of absolute figures.
func (r result) figures() string {
	return page.Rows([]string{
		wayDirect, wayNginx, wayProxy, wayThrifty, wayProxyOne, wayProxyTwo, wayDrawbridge,
	}, func(way string) string {
		s, found := r.ways[way]
		if !found {
			return ""
		}
		cpu, held := "–", "–"
		if way != wayDirect && len(s.cpu) > 0 {
			cpu, held = spreadOf(s.cpu).String(), page.Number(spreadOf(s.resident).median)
		}
		return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s |\n", r.revision, r.connections, way,
			spreadOf(s.rate), page.Number(spreadOf(s.latency).median), cpu, held)
	})
}

// describeKinds writes what other kinds of calls cost.
func (m *findings) describeKinds(p plan) string {
	var notes, reasons []string
	note := func(reason, format string, args ...any) {
		notes = append(notes, fmt.Sprintf(format, args...))
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	rows := page.Rows(m.kinds, func(k kind) string {
		r, times := m.byKind[k.name], "–"
		if plain, found := m.byKind[k.plain]; found {
			factor := ratioOf(r.perKiB, plain.perKiB)
			if times = factor.String(); factor.median > 2 {
				times = "**" + times + "**"
				note(cmp.Or(k.reason, reasonUnknown), "- %s costs %s times the plain case by KiB.", k.name,
					page.Number(factor.median))
			}
		}
		return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s |\n", k.name, k.callers,
			page.Number(spreadOf(r.rate).median),
			spreadOf(r.cpu), page.Number(spreadOf(r.kib).median), spreadOf(r.perKiB), times)
	})
	for _, k := range m.kinds {
		if other, found := m.byKind[k.name+besideProxy]; found {
			note(reasonUnread, "- A %s costs %s times the CPU that ReverseProxy takes for it.", k.name,
				ratioOf(m.byKind[k.name].cpu, other.cpu))
		}
	}
	return fmt.Sprintf(`
### Other kinds of calls

The CPU is that of drawbridge alone, without server and client. A KiB counts requests and answers together,
with their headers, between client and gateway. The last column divides the CPU of a KiB by that of the
plain case in the same round. The plain case is a call of echo in the same revision, at 16 connections, or
at 1 for one question at a time. A question is one that the server asks in the middle of a call
(elicitation). The client answers it, and then the result comes. Each kind has %s of %v.

| kind | callers | calls/s | CPU a call, µs | KiB a call | CPU a KiB, µs | ÷ plain call, by KiB |
|---|---|---|---|---|---|---|
%s
%s

%s
`, page.Plural(p.rounds, "round"), p.took/2, rows, strings.Join(notes, "\n"), strings.Join(reasons, "\n\n"))
}

// describeIdle writes what idle streams cost and how soon they are told.
func (m *findings) describeIdle(memory string) string {
	if len(m.idle) == 0 {
		return ""
	}
	return fmt.Sprintf(`
### Idle event streams

%s

Each stream is a connection of its own. Where a revision has sessions, each stream has a session of its own
too, whose client has listed the tools.

A stream's memory is the gateway's resident memory with all streams open, less what it was before the first,
divided by their number. It is taken after each stream had a heartbeat, which is every 20 seconds. By then
the gateway has given back what it needed only for a moment, which it does by itself. Memory that the kernel
has for connections is not in these figures.

Then a reload hides or shows a tool, and every stream must be told. The time counts from the signal to
reload, so the reload is in it.

| streams | open | KiB a stream | after a changed list | told of it | the first after | the median | the last |
|---|---|---|---|---|---|---|---|
%s%s`, memory, page.Rows(m.idle, func(r idleResult) string {
		told := page.Either(r.told < r.streams, fmt.Sprintf("**%d of %d**", r.told, r.streams),
			fmt.Sprintf("all %d", r.told))
		return fmt.Sprintf("| %s | %d | **%s** | %s | %s | %v | %v | %v |\n", r.kind, r.streams,
			page.Number(r.kib), page.Number(r.after), told,
			r.first.Round(time.Millisecond), r.median.Round(time.Millisecond), r.last.Round(time.Millisecond))
	}), page.Either(m.note != "", "\n"+m.note+"\n", ""))
}

// bar is the spread in a chart.
func (s spread) bar() page.Bar { return page.Bar{Value: s.median, Least: s.least, Most: s.most} }

// String writes the median and, where there were several rounds, the spread.
func (s spread) String() string {
	if s == (spread{}) {
		return "–"
	}
	median, least, most := page.Number(s.median), page.Number(s.least), page.Number(s.most)
	return median + page.Either(least == most, "", " ("+least+"–"+most+")")
}
