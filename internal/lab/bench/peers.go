package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// peersRun is what the command peers was asked for.
type peersRun struct {
	report  string
	plan    plan
	streams int
	only    []string // names; empty means all
	cache   string
	args    []string // of the command, for the report
}

// mostStreams is how many can be asked for.
const mostStreams = 10_000

// runPeers is the command peers: it installs other gateways and measures them beside
// drawbridge.
func runPeers(ctx context.Context, args []string, out io.Writer) error {
	begun := time.Now()
	r, err := parsePeers(args)
	if err != nil {
		return err
	}
	wanted := uint64(2*r.streams + 500) //nolint:gosec // mostStreams bounds it; each stream is a connection of a client and one of the server behind
	if most, err := world.AllowDescriptors(wanted); err != nil || most < wanted {
		return errors.Join(
			fmt.Errorf(
				"%d open files are allowed, of %d that are needed: raise ulimit -n, or ask for fewer -streams", most, wanted), err)
	}
	lab, err := newPeersLab(ctx, out)
	if err != nil {
		return err
	}
	defer lab.Close()
	all := r.install(ctx, out)
	lab.measure(ctx, all, r)
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.write(ctx, out, all, begun)
}

func parsePeers(args []string) (*peersRun, error) {
	r := &peersRun{args: args}
	flags := flag.NewFlagSet("bench peers", flag.ContinueOnError)
	flags.StringVar(&r.report, "out", "", "page whose section is written; the standard output when empty")
	flags.DurationVar(&r.plan.took, "time", 1500*time.Millisecond,
		"how long each kind of work takes in each round")
	flags.IntVar(&r.plan.rounds, "rounds", 3, "rounds; the median counts")
	flags.IntVar(&r.streams, "streams", 1000, "sessions and event streams to open for the measure of memory")
	flags.StringVar(&r.cache, "cache", "", "folder for what is installed; one in the user's cache when empty")
	only := flags.String("only", "", "names of the peers to measure beside drawbridge, with commas between: "+
		strings.Join(peerNames(), ", ")+"; all when empty")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || r.plan.took <= 0 || r.plan.rounds < 1 || r.streams < 10 ||
		r.streams > mostStreams {
		return nil, errors.New("peers takes no arguments, a time and rounds above 0, and 10 to 10000 streams")
	}
	for _, name := range strings.FieldsFunc(*only, func(letter rune) bool { return letter == ',' }) {
		if !slices.ContainsFunc(peers(), func(p peer) bool { return p.name == name }) {
			return nil, fmt.Errorf("-only names %q, which is no peer; there are: %s", name,
				strings.Join(peerNames(), ", "))
		}
		r.only = append(r.only, name)
	}
	if r.cache == "" {
		folder, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("%w: give a folder with -cache", err)
		}
		r.cache = filepath.Join(folder, "drawbridge-peers")
	}
	cache, err := filepath.Abs(r.cache)
	r.cache = cache
	return r, err
}

func peerNames() []string {
	var names []string
	for _, p := range peers() {
		names = append(names, p.name)
	}
	return names
}

// install installs every peer that was asked for. One that cannot be installed says why.
func (r *peersRun) install(ctx context.Context, out io.Writer) []*contender {
	s := &shelf{dir: r.cache, progress: out}
	all := []*contender{newContender(peer{
		name: peerDirect, passes: true,
		settings: "the server alone, without anything before it",
	})}
	for _, p := range peers() {
		if len(r.only) > 0 && p.name != peerDrawbridge && !slices.Contains(r.only, p.name) {
			continue
		}
		c := newContender(p)
		all = append(all, c)
		if p.refused != "" {
			c.failed = p.refused
			continue
		}
		_, _ = fmt.Fprintf(out, "%s %s from %s\n", p.name, p.parcel.version, p.parcel.registry)
		var err error
		c.installed, err = s.get(ctx, p.parcel)
		switch {
		case err != nil:
			c.failed = "could not be installed: " + short(err.Error())
		case p.start == nil:
			c.failed = "can be installed now, but this program has not learned to start it"
		default:
			continue
		}
		_, _ = fmt.Fprintf(out, "  %s\n", c.failed)
	}
	return all
}

func newContender(p peer) *contender { return &contender{peer: p, work: make(map[cell]*series)} }

// measure measures memory of one contender after the other, each alone, and then calls
// and lists of all in turn.
func (l *peersLab) measure(ctx context.Context, all []*contender, r *peersRun) {
	l.say("sessions, streams and changes of the list")
	for _, c := range all {
		if c.failed != "" || ctx.Err() != nil {
			continue
		}
		end, err := l.start(ctx, c)
		switch {
		case err != nil:
			c.failed = "did not start: " + short(err.Error())
			l.say("  %-16s %s", c.name, c.failed)
		case c.pid() != 0:
			l.hold(ctx, c, r.streams)
		}
		end()
	}
	l.say("calls and lists, in turn")
	var running []*contender
	for _, c := range all {
		if c.failed != "" || ctx.Err() != nil {
			continue
		}
		end, err := l.start(ctx, c)
		defer end()
		if err != nil {
			c.failed = "did not start again: " + short(err.Error())
			continue
		}
		running = append(running, c)
	}
	l.loadAll(ctx, running, r.plan)
}
