package main

import (
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// peersRun is what the part peers was asked for.
type peersRun struct {
	plan    *plan
	streams int
	only    string // names with commas between; "": all
	cache   string
}

// mostStreams is how many can be asked for.
const mostStreams = 10_000

// newPeers is the part peers: it installs other gateways and measures them beside
// drawbridge.
func newPeers(flags *flag.FlagSet) page.Measure {
	p := peersRun{plan: planOf(flags, 1500*time.Millisecond, 3, "each kind of work")}
	flags.IntVar(&p.streams, "streams", 1000, "sessions and event streams to open for the measure of memory")
	flags.StringVar(&p.cache, "cache", "", "folder for what is installed; one in the user's cache when empty")
	flags.StringVar(&p.only, "only", "", "names of the peers to measure beside drawbridge, with commas between: "+
		strings.Join(peerNames(), ", ")+"; all when empty")
	return func(ctx context.Context, r page.Report) (string, error) {
		p.check()
		lab := newPeersLab(ctx, r)
		defer lab.Close()
		all := p.install(ctx, r)
		lab.measure(ctx, all, p)
		must.OK(ctx.Err())
		return p.section(r, all), nil
	}
}

// check returns what is wrong with what was asked for, and asks for as many open files as
// that needs: each stream is a connection of a client and one of the server behind.
func (p *peersRun) check() {
	must.Be(p.plan.took > 0 && p.plan.rounds > 0 && p.streams >= 10 && p.streams <= mostStreams,
		"peers takes a time and rounds above 0, and 10 to 10000 streams")
	for _, name := range p.names() {
		must.Be(slices.Contains(peerNames(), name),
			"-only names %q, which is no peer; there are: %s", name, strings.Join(peerNames(), ", "))
	}
	if p.cache == "" {
		p.cache = filepath.Join(must.Have(os.UserCacheDir()), "drawbridge-peers")
	}
	p.cache = must.Have(filepath.Abs(p.cache))
	wanted := uint64(2*p.streams + 500) //nolint:gosec // they are 10,000 at most
	most := world.AllowDescriptors(wanted)
	must.Be(most >= wanted,
		"%d open files are allowed, of %d that are needed: raise ulimit -n, or ask for fewer -streams", most,
		wanted)
}

// names are those of -only.
func (p *peersRun) names() []string {
	return strings.FieldsFunc(p.only, func(letter rune) bool { return letter == ',' })
}

func peerNames() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// install installs every peer that was asked for. One that cannot be installed says why.
func (p *peersRun) install(ctx context.Context, r page.Report) []*contender {
	s := &shelf{dir: p.cache, progress: r.Log}
	all := []*contender{newContender(peer{
		name: peerDirect, passes: true,
		settings: "the server alone, without anything before it",
	})}
	for _, one := range peers {
		if p.only != "" && one.name != peerDrawbridge && !slices.Contains(p.names(), one.name) {
			continue
		}
		c := newContender(one)
		all = append(all, c)
		if c.failed = one.refused; c.failed != "" {
			continue
		}
		r.Say("%s %s from %s\n", one.name, one.parcel.version, one.parcel.registry)
		if err := must.Try(func() { c.installed = s.get(ctx, one.parcel) }); err != nil {
			c.failed = "could not be installed: " + short(err.Error())
		} else if one.start == nil {
			c.failed = "can be installed now, but this program has not learned to start it"
		}
		r.Say("  %s\n", cmp.Or(c.failed, "is there"))
	}
	return all
}

func newContender(p peer) *contender { return &contender{peer: p, work: make(map[cell]*series)} }

// measure measures memory of one contender after the other, each alone, and then calls
// and lists of all in turn.
func (l *peersLab) measure(ctx context.Context, all []*contender, p peersRun) {
	l.tell("sessions, streams and changes of the list")
	for _, c := range all {
		if l.begins(ctx, c, "did not start: ") && c.pid() != 0 {
			l.hold(ctx, c, p.streams)
		}
		c.end()
	}
	l.tell("calls and lists, in turn")
	var running []*contender
	for _, c := range all {
		defer c.end()
		if l.begins(ctx, c, "did not start again: ") {
			running = append(running, c)
		}
	}
	l.loadAll(ctx, running, *p.plan)
}

// begins starts a contender, and tells whether it is to be measured. One that does not
// start says why, and begins no more.
func (l *peersLab) begins(ctx context.Context, c *contender, otherwise string) bool {
	if c.failed != "" || ctx.Err() != nil {
		return false
	}
	if err := must.Try(func() { l.start(ctx, c) }); err != nil {
		c.failed = otherwise + short(err.Error())
		l.tell("  %-16s %s", c.name, c.failed)
	}
	return c.failed == ""
}
