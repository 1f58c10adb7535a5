package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// contender is a peer on this machine, with what was measured of it.
type contender struct {
	peer
	installed
	target  gateTarget // in the legacy era
	tool    string     // what it calls the tool echo
	process *world.Process
	callers map[mcp.Era][]*peerCaller // those of calls, as long as it runs
	failed  string                    // why it is not measured; "" if it is
	modern  bool                      // it serves clients of that era, too
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

func (c *contender) gate(era mcp.Era) gateTarget {
	t := c.target
	t.era = era
	return t
}

// peersLab has the server that stands behind all contenders, and starts them.
type peersLab struct {
	*lab

	server part
	begun  time.Time
}

func newPeersLab(ctx context.Context, r page.Report) (*peersLab, error) {
	empty, err := emptyLab("peers", r)
	if err != nil {
		return nil, err
	}
	l := &peersLab{lab: empty, begun: time.Now()}
	l.upstream = l.Addresses(1)[0]
	l.server = l.lab.start(ctx, l.upstream, l.Self, "peers-upstream", l.upstream)
	return world.Begun(l, l.Close, l.Err)
}

// tell writes a line of progress, after the seconds since the start.
func (l *peersLab) tell(format string, args ...any) {
	l.Say("%4.0fs "+format+"\n", append([]any{time.Since(l.begun).Seconds()}, args...)...)
}

// start runs a contender until end is called, and finds out which tool to call and which
// eras it serves.
func (l *peersLab) start(ctx context.Context, c *contender) (end func(), err error) {
	end = func() {
		for _, callers := range c.callers {
			for _, caller := range callers {
				caller.line.Close()
			}
		}
		if c.process != nil {
			c.process.KillTree()
		}
		c.process = nil
	}
	c.callers = make(map[mcp.Era][]*peerCaller)
	if c.name == peerDirect {
		c.target = gateTarget{addr: l.upstream, path: "/mcp"}
	} else if err := l.launch(ctx, c); err != nil {
		return end, err
	}
	var failed error
	if world.Within(ctx, peerStart, c.name+" serves the tool",
		func() bool { failed = c.greet(ctx); return failed == nil }) != nil {
		return end, failed
	}
	return end, nil
}

// launch starts the contender's process in a folder of its own.
func (l *peersLab) launch(ctx context.Context, c *contender) error {
	dir, err := os.MkdirTemp(l.Dir, "peer-")
	if err != nil {
		return err
	}
	addrs, err := world.Addresses(2)
	if err != nil {
		return err
	}
	how := c.start(place{
		binary: c.binary, self: l.Self, dir: dir, addr: addrs[0], operator: addrs[1],
		upstream: l.upstream,
	})
	if err := world.WriteFiles(dir, how.files); err != nil {
		return err
	}
	c.target = gateTarget{addr: addrs[0], path: how.path}
	if c.name == peerDrawbridge {
		c.target.token = sign(c.target.addr)
	}
	c.process, err = l.startPeer(ctx, dir, c.target.addr, how.argv, how.env...)
	return err
}

// greet opens a session, lists the tools and calls one. Whoever does not serve the modern
// era may do without.
func (c *contender) greet(ctx context.Context) error {
	if err := c.tryOut(ctx, mcp.Legacy); err != nil {
		return err
	}
	c.modern = (c.passes || c.discovers(ctx) == nil) && c.tryOut(ctx, mcp.Modern) == nil
	return nil
}

// discovers tells whether the contender itself knows the modern era. Some answer its
// calls as if they were older ones.
func (c *contender) discovers(ctx context.Context) error {
	caller, err := connectPeer(ctx, c.gate(mcp.Modern))
	if err != nil {
		return err
	}
	defer caller.line.Close()
	answer, err := caller.ask(ctx, caller.message(mcp.MethodDiscover, ""))
	if err != nil {
		return err
	}
	m, err := mcp.Decode(answer)
	if err == nil && !bytes.Contains(m.Result.Value("supportedVersions"), []byte(mcp.LatestModern)) {
		err = errors.New("another revision")
	}
	return err
}

func (c *contender) tryOut(ctx context.Context, era mcp.Era) error {
	caller, err := connectPeer(ctx, c.gate(era))
	if err != nil {
		return err
	}
	defer caller.line.Close()
	if err := caller.learn(ctx); err != nil {
		return err
	}
	c.tool = caller.name
	request, want := caller.call(0)
	answer, err := caller.ask(ctx, request)
	if err != nil {
		return fmt.Errorf("call: %w", err)
	}
	return checkCall(answer, want)
}

// announce changes the list of every server behind the contender.
func (l *peersLab) announce(c *contender) error {
	if err := l.server.Signal(upstream.ChangeSignal); err != nil {
		return err
	}
	if c.pid() == 0 {
		return nil
	}
	return announceIn(c.pid())
}
