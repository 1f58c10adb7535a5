// Command siege asks whether anybody can end the gateway by what it has to remember. It
// runs the gateway in control groups of Linux with little memory, where the kernel ends
// whoever needs more, lets two attackers with tokens and one without do everything that
// package raid has, mixed at random, while a quiet tenant makes its calls, and says what
// became of the process, its memory and the calls.
//
//	go run -C internal/lab ./siege -out docs/evidence/siege.md
//
// It needs Linux and root. The exit code is 1 if a promise was broken, 2 if something
// went wrong before, and 3 if nothing was measured because no control group could be
// made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("siege", map[string]world.Role{quietPart: beQuiet}, run, 2,
		map[error]int{world.ErrBroken: 1, world.ErrNoCage: 3})
}

// run is the process that measures.
func run(ctx context.Context, args []string, out io.Writer) error {
	return page.Run(ctx, "siege", map[string]page.Part{"": {Begin: begin}}, args, out)
}

// begin besieges a gateway for each size of its memory and each number of strangers.
func begin(flags *flag.FlagSet) page.Measure {
	p := plan{attacks: allAttacks}
	sizes, addresses, disks := []int64{512 << 20, 128 << 20}, []int64{3}, []int64{0}
	minutes := flags.Float64("minutes", 10, "how long each siege lasts")
	flags.Func("memory", "how much memory the gateway may have, one siege for each (default 512MiB,128MiB)",
		listed(&sizes, "MiB", 1<<20, math.MaxInt32))
	flags.Uint64Var(&p.seed, "seed", 1, "of the order of attacks")
	flags.Func("disk", "size of a disk that log and audit share, such as 64MiB; without it the log needs "+
		"none",
		listed(&disks, "MiB", 1<<20, math.MaxInt32))
	flags.Func("addresses", "how many addresses the stranger comes from, one siege for each (default 3)",
		listed(&addresses, "", 1, 1<<20))
	flags.Func("only", "carry out only the attacks whose names contain one of these, separated by commas",
		func(text string) error {
			p.attacks = raid.Named(allAttacks, strings.Split(text, ",")...)
			return nil
		})
	flags.DurationVar(&p.rest, "rest", 6*time.Minute,
		"how long the memory may take after the siege to come back")
	return func(ctx context.Context, r page.Report) (string, error) {
		p.lasts, p.disk = time.Duration(*minutes*float64(time.Minute)), disks[0]
		must.Be(p.lasts >= time.Second && len(p.attacks) > 0, "a siege of %v with %d attacks shows nothing",
			p.lasts, len(p.attacks))
		var outcomes []*outcome
		var broken error
		for _, p.limit = range sizes {
			for _, p.addresses = range addresses {
				o := p.run(ctx, r)
				outcomes, broken = append(outcomes, o), errors.Join(broken, o.verdict())
			}
		}
		return describe(outcomes), broken
	}
}

// listed returns what a flag is read with into numbers with a unit, such as
// "512MiB,128MiB", times what the unit is.
func listed(to *[]int64, unit string, times, most int64) func(text string) error {
	return func(text string) error {
		*to = nil
		for one := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseInt(strings.TrimSuffix(one, unit), 10, 32)
			if err != nil || n <= 0 || n > most || !strings.HasSuffix(one, unit) {
				return fmt.Errorf("%q is none of 1%s to %d%s", one, unit, most, unit)
			}
			*to = append(*to, n*times)
		}
		return nil
	}
}

var allAttacks = slices.Concat(raid.Attacks, raid.Variants)
