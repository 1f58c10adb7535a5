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
	flags := flag.NewFlagSet("siege", flag.ContinueOnError)
	minutes := flags.Float64("minutes", 10, "how long each siege lasts")
	memory := flags.String("memory", "512MiB,128MiB",
		"how much memory the gateway may have, one siege for each")
	report := flags.String("out", "", "file to write the report to; the standard output when empty")
	seed := flags.Uint64("seed", 1, "of the order of attacks")
	disk := flags.String("disk", "",
		"size of a disk that log and audit share, such as 64MiB; without it the log needs none")
	addresses := flags.String("addresses", "3",
		"how many addresses the stranger comes from, one siege for each")
	only := flags.String("only", "",
		"carry out only the attacks whose names contain one of these, separated by commas")
	restMost := flags.Duration("rest", 6*time.Minute,
		"how long the memory may take after the siege to come back")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p := plan{
		lasts: time.Duration(*minutes * float64(time.Minute)), seed: *seed, rest: *restMost,
		attacks: attacksNamed(strings.Split(*only, ",")...),
	}
	if p.lasts < time.Second || len(p.attacks) == 0 {
		return fmt.Errorf("a siege of %v with %d attacks shows nothing", p.lasts, len(p.attacks))
	}
	if *disk != "" {
		disks, err := sizesIn(*disk)
		if err != nil {
			return err
		}
		p.disk = disks[0]
	}
	sizes, err := sizesIn(*memory)
	if err != nil {
		return err
	}
	begun := time.Now()
	var outcomes []*outcome
	var broken error
	for _, p.limit = range sizes {
		for text := range strings.SplitSeq(*addresses, ",") {
			if p.addresses, err = strconv.Atoi(text); err != nil || p.addresses < 1 || p.addresses > 1<<20 {
				return fmt.Errorf("-addresses: %q is no number of addresses", text)
			}
			o := p.run(ctx, out)
			outcomes = append(outcomes, o)
			broken = errors.Join(broken, o.verdict())
		}
	}
	made := page.Origin(ctx, begun, append([]string{"siege"}, args...)...)
	return errors.Join(page.Write(out, *report, describe(outcomes, made)), broken)
}

// sizesIn reads sizes like "512MiB,128MiB" and returns them in bytes.
func sizesIn(text string) (sizes []int64, err error) {
	for size := range strings.SplitSeq(text, ",") {
		mebibytes, err := strconv.ParseInt(strings.TrimSuffix(size, "MiB"), 10, 32)
		if err != nil || mebibytes <= 0 || !strings.HasSuffix(size, "MiB") {
			return nil, fmt.Errorf("%q is no size like 512MiB", size)
		}
		sizes = append(sizes, mebibytes<<20)
	}
	return sizes, nil
}

// attacksNamed returns the attacks whose name contains one of the texts.
func attacksNamed(texts ...string) []raid.Attack {
	return slices.DeleteFunc(slices.Concat(raid.Attacks(), raid.Variants()), func(a raid.Attack) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(a.Name, text) })
	})
}
