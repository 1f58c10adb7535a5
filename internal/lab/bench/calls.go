package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// findings is all that the command without a name measures.
type findings struct {
	calls  []result
	secure result
	kinds  []*kindRounds
	idle   []idleResult
	note   string // what could not be measured as asked; "" for nothing
}

// runCalls is the command without a name: calls, the kinds of them, and idle streams.
func runCalls(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	report := flags.String("out", "",
		"page to write the section to, with its charts beside it; the standard output, without charts, when empty")
	took := flags.Duration("time", 1500*time.Millisecond,
		"how long each way runs in each round; kinds of calls run half as long")
	number := flags.Int("rounds", 5, "rounds; the median counts")
	streams := flags.Int("streams", 10_000,
		"idle event streams to open for the measure of memory; 0 for none")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(),
			"bench [flags], or bench scale, peers, record or replicas [flags]: each has its own -h")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no command %q: it is scale, peers, record or replicas, or none", flags.Arg(0))
	}
	if *took <= 0 || *number <= 0 {
		return errors.New("-time and -rounds must be more than 0")
	}
	begun := time.Now()
	from := page.Origin(ctx, begun, append([]string{"bench"}, args...)...)
	p := plan{took: *took, rounds: *number}
	m, err := p.everything(ctx, *streams, out)
	if err != nil {
		return err
	}
	from += fmt.Sprintf(" It took %v.", time.Since(begun).Round(time.Second))
	calls, memory := "", ""
	if *report != "" {
		if calls, memory, err = m.charts(*report); err != nil {
			return err
		}
	}
	return page.WriteSection(out, *report, "bench", m.describe(p, from, nginxVersion(ctx), calls, memory))
}

// everything measures all of it, in one lab.
func (p plan) everything(ctx context.Context, streams int, progress io.Writer) (*findings, error) {
	m := &findings{}
	sizes, note, err := crowdSizes(streams)
	if err != nil {
		return nil, err
	}
	m.note = note
	l, err := newLab(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		for _, connections := range []int{1, 16, 64} {
			r, err := p.measure(ctx, l.targets(era), connections, progress)
			if err != nil {
				return nil, err
			}
			m.calls = append(m.calls, r)
		}
	}
	if m.secure, err = p.measure(ctx, l.secureTargets(mcp.Modern), 16, progress); err != nil {
		return nil, err
	}
	if m.kinds, err = (plan{took: p.took / 2, rounds: p.rounds}).measureKinds(ctx, l.kinds(),
		progress); err != nil {
		return nil, err
	}
	m.idle, err = l.idle(ctx, sizes, progress)
	return m, err
}

// crowdSizes returns how many idle streams are measured: a thousand, and all. Where the
// system does not allow so many open files, there are fewer, and the note says so.
func crowdSizes(streams int) (sizes []int, note string, err error) {
	if streams <= 0 {
		return nil, "", nil
	}
	allowed, err := world.AllowDescriptors(uint64(streams)*2 + 4096)
	if err != nil {
		return nil, "", fmt.Errorf("ask for open files: %w", err)
	}
	if most := int(min(allowed, 1<<30)) / 2; most < streams {
		note = fmt.Sprintf("The system allows %d open files, so there are %d streams instead of %d.", allowed,
			most, streams)
		streams = most
	}
	sizes = []int{min(1000, streams), streams}
	return slices.Compact(sizes), note, nil
}
