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
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("siege", func(ctx context.Context, args []string) error {
		return run(ctx, args, os.Stdin, os.Stdout)
	}, 2, map[error]int{world.ErrBroken: 1, world.ErrNoCage: 3})
}

// run is the whole program. in is read by the part that is the quiet tenant alone.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if slices.Equal(args, []string{quietPart}) {
		beQuiet(ctx, in, out)
		return nil
	}
	p := plan{attacks: attacksNamed("")}
	flags := flag.NewFlagSet("siege", flag.ContinueOnError)
	minutes := flags.Float64("minutes", 10, "how long each siege lasts")
	sizes, addresses := []int64{512 << 20, 128 << 20}, []int{3}
	disks := []int64{0}
	flags.Func("memory", "how much memory the gateway may have, one siege for each (default 512MiB,128MiB)",
		into(&sizes, mebibytes))
	report := flags.String("out", "", "file to write the report to; the standard output when empty")
	flags.Uint64Var(&p.seed, "seed", 1, "of the order of attacks")
	flags.Func("disk",
		"size of a disk that log and audit share, such as 64MiB; without it the log needs none",
		into(&disks, mebibytes))
	flags.Func("addresses", "how many addresses the stranger comes from, one siege for each (default 3)",
		into(&addresses, func(text string) ([]int, error) { return listed(text, "", 1, 1<<20) }))
	flags.Func("only", "carry out only the attacks whose names contain one of these, separated by commas",
		into(&p.attacks, func(text string) ([]raid.Attack, error) {
			return attacksNamed(strings.Split(text, ",")...), nil
		}))
	flags.DurationVar(&p.rest, "rest", 6*time.Minute,
		"how long the memory may take after the siege to come back")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p.lasts = time.Duration(*minutes * float64(time.Minute))
	if p.lasts < time.Second || len(p.attacks) == 0 {
		return fmt.Errorf("a siege of %v with %d attacks shows nothing", p.lasts, len(p.attacks))
	}
	p.disk = disks[0]
	begun := time.Now()
	var outcomes []*outcome
	var broken error
	for _, p.limit = range sizes {
		for _, p.addresses = range addresses {
			o := p.run(ctx, out)
			outcomes = append(outcomes, o)
			broken = errors.Join(broken, o.verdict())
		}
	}
	made := page.Origin(ctx, begun, append([]string{"siege"}, args...)...)
	return errors.Join(page.Write(out, *report, describe(outcomes, made)), broken)
}

// into returns what a flag is read with into a variable.
func into[T any](to *T, read func(text string) (T, error)) func(text string) error {
	return func(text string) (err error) {
		*to, err = read(text)
		return err
	}
}

func mebibytes(text string) ([]int64, error) { return listed[int64](text, "MiB", 1<<20, math.MaxInt32) }

// listed reads numbers with a unit, such as "512MiB,128MiB", and returns them times what
// the unit is.
func listed[N int | int64](text, unit string, times, most N) (all []N, err error) {
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSuffix(one, unit), 10, 32)
		if err != nil || n <= 0 || N(n) > most || !strings.HasSuffix(one, unit) {
			return nil, fmt.Errorf("%q is none of 1%s to %d%s", one, unit, most, unit)
		}
		all = append(all, N(n)*times)
	}
	return all, nil
}

// attacksNamed returns the attacks whose name contains one of the texts.
func attacksNamed(texts ...string) []raid.Attack {
	return slices.DeleteFunc(slices.Concat(raid.Attacks(), raid.Variants()), func(a raid.Attack) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(a.Name, text) })
	})
}
