package main

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// contender is a peer on this machine, with what was measured of it.
type contender struct {
	peer
	installed
	target  target // in the legacy era
	tool    string // what it calls the tool echo
	process *world.Process
	callers map[mcp.Era][]*caller // those of calls, as long as it runs
	failed  string                // why it is not measured; "" if it is
	modern  bool                  // it serves clients of that era, too
	memory  memoryFigures
	work    map[cell]*series
}

// pid returns the process that the peer began with, 0 for the server itself, which is
// measured without anything before.
func (c *contender) pid() int {
	if c.process == nil {
		return 0
	}
	return c.process.PID()
}

// gate is how clients of an era call the tool.
func (c *contender) gate(era mcp.Era) *target {
	t := c.target
	t.tool = c.tool
	return t.in(era)
}

// peersLab has the server that stands behind all contenders, and starts them.
type peersLab struct {
	*lab

	server part
	begun  time.Time
}

func newPeersLab(ctx context.Context, r page.Report) *peersLab {
	l := &peersLab{lab: emptyLab("peers", r), begun: time.Now()}
	defer must.Else(l.Close)
	l.server = l.startUpstream(ctx, "peers-upstream")
	return l
}

// tell writes a line of progress, after the seconds since the start.
func (l *peersLab) tell(format string, args ...any) {
	l.Say("%4.0fs "+format+"\n", append([]any{time.Since(l.begun).Seconds()}, args...)...)
}

// start runs a contender until it is ended, and finds out which tool to call and which
// eras it serves.
func (l *peersLab) start(ctx context.Context, c *contender) {
	c.callers = make(map[mcp.Era][]*caller)
	if c.name == peerDirect {
		c.target = target{addr: l.upstream, path: "/mcp", greets: true}
	} else {
		l.launch(ctx, c)
	}
	world.For(ctx, peerStart, func(ctx context.Context) { world.Until(ctx, func() { c.greet(ctx) }) })
}

// end ends what start has started.
func (c *contender) end() {
	for _, callers := range c.callers {
		for _, caller := range callers {
			caller.close()
		}
	}
	if c.process != nil {
		c.process.KillTree()
	}
	c.process = nil
}

// launch starts the contender's process in a folder of its own.
func (l *peersLab) launch(ctx context.Context, c *contender) {
	dir, addrs := must.Have(os.MkdirTemp(l.Dir, "peer-")), world.Addresses(2)
	how := c.start(place{
		binary: c.binary, self: l.Self, dir: dir, addr: addrs[0], operator: addrs[1],
		upstream: l.upstream,
	})
	world.WriteFiles(dir, how.files)
	c.target = target{addr: addrs[0], path: how.path, greets: true}
	if c.name == peerDrawbridge {
		c.target.token = sign(c.target.addr)
	}
	c.process = l.startPeer(ctx, dir, c.target.addr, how.argv, how.env...)
}

// greet opens a session, lists the tools and calls one. Whoever does not serve the modern
// era may do without.
func (c *contender) greet(ctx context.Context) {
	c.tryOut(ctx, mcp.Legacy)
	c.modern = must.Try(func() {
		if !c.passes {
			c.discovers(ctx)
		}
		c.tryOut(ctx, mcp.Modern)
	}) == nil
}

// discovers panics unless the contender itself knows the modern era. Some answer its
// calls as if they were older ones.
func (c *contender) discovers(ctx context.Context) {
	caller := c.gate(mcp.Modern).saying(0).connect(ctx)
	defer caller.close()
	body := client.Message(firstID, mcp.MethodDiscover, "", caller.revision)
	m := must.Have(mcp.Decode(response(caller.say(body, mcp.MethodDiscover))))
	must.Be(bytes.Contains(m.Result.Value("supportedVersions"), []byte(mcp.LatestModern)), "another revision")
}

func (c *contender) tryOut(ctx context.Context, era mcp.Era) {
	caller := c.gate(era).saying(0).connect(ctx)
	defer caller.close()
	c.tool = caller.learn()
	caller.target.tool = c.tool
	caller.asks(caller.target.callBody(), mcp.MethodToolsCall, caller.target.isAnswer)
	caller.call()
}

// announce changes the list of every server behind the contender.
func (l *peersLab) announce(c *contender) {
	must.OK(l.server.Signal(upstream.ChangeSignal))
	if c.pid() != 0 {
		announceIn(c.pid())
	}
}
