package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// findings is all that the part without a name measures.
type findings struct {
	calls  []result
	secure result
	kinds  []kind
	byKind map[string]*rounds // what each kind showed, by its name
	idle   []idleResult
	note   string // what could not be measured as asked; "" for nothing
}

// newCalls is the part without a name: calls, the kinds of them, and idle streams.
func newCalls(flags *flag.FlagSet) page.Measure {
	p := planOf(flags, 1500*time.Millisecond, 5, "each way; kinds of calls run half as long")
	streams := flags.Int("streams", 10_000,
		"idle event streams to open for the measure of memory; 0 for none")
	return func(ctx context.Context, r page.Report) (string, error) {
		m := p.everything(ctx, *streams, r)
		calls, memory := m.charts(r)
		return m.describe(*p, nginxVersion(ctx), calls, memory), m.missed()
	}
}

// missed returns an error if an idle stream was not told of a change.
func (m *findings) missed() error {
	var c world.Claims
	for _, r := range m.idle {
		c.Claim(r.told == r.streams, "%s: %d of %d streams were told that a list has changed", r.kind, r.told,
			r.streams)
	}
	return c.Broken()
}

// everything measures all of it, in one lab.
func (p plan) everything(ctx context.Context, streams int, r page.Report) *findings {
	sizes, note := crowdSizes(streams)
	m, l := &findings{note: note}, emptyLab("bench", r)
	defer l.Close()
	l.begin(ctx)
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		for _, connections := range []int{1, 16, 64} {
			m.calls = append(m.calls, l.measure(ctx, p, connections,
				l.targets(era, "echo__echo", wayDirect, wayNginx, wayProxy, wayDrawbridge, wayThrifty)...))
		}
	}
	m.secure = l.measure(ctx, p, 16,
		l.targets(mcp.Modern, "tls__echo", wayProxyTwo, wayDrawbridge, wayProxyOne)...)
	m.kinds, m.byKind = kinds, l.measureKinds(ctx, plan{p.took / 2, p.rounds})
	m.idle = l.idle(ctx, sizes)
	return m
}

// crowdSizes returns how many idle streams are measured: a thousand, and all. Where the
// system does not allow so many open files, there are fewer, and the note says so.
func crowdSizes(streams int) (sizes []int, note string) {
	if streams <= 0 {
		return nil, ""
	}
	allowed := world.AllowDescriptors(uint64(streams)*2 + 4096)
	if most := int(min(allowed, 1<<30)) / 2; most < streams {
		note = fmt.Sprintf("The system allows %d open files, so there are %d streams instead of %d.", allowed,
			most, streams)
		streams = most
	}
	sizes = []int{min(1000, streams), streams}
	return slices.Compact(sizes), note
}
