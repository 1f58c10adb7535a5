// Command chaos asks whether anything is lost when replicas of the gateway, and what they
// stand on, fail, come and go. It runs real gateways, a real Redis and a real load
// balancer on this machine, lets clients of all eras work with them, makes faults
// meanwhile, and joins afterwards what clients were told, what servers did and what the
// gateways recorded.
//
//	go run -C internal/lab ./chaos [faults | rolling | soak] [flags]
//
// Each part has flags of its own, which -h lists. It writes its section of the page that
// -out names, and leaves the others as they are. The exit code is 1 if a promise was
// broken, and 2 if something went wrong before that could be told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == childPart {
		if err := beChild(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	world.Main("chaos", func(ctx context.Context, args []string) error {
		return run(ctx, args, os.Stdout)
	}, 2, map[error]int{world.ErrBroken: 1})
}

// say writes how it goes. Whoever reads it may have gone, which ends no proof.
func say(log io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(log, format, args...) }

// proof is one part of the program. It says on log how it goes, and returns its section
// of the page. An error that is world.ErrBroken comes with a section, any other without.
type proof func(ctx context.Context, log io.Writer) (section string, err error)

// proofs returns what adds the flags of a part and makes its proof, by the name of the
// part, which is that of its section.
func proofs() map[string]func(*flag.FlagSet) proof {
	return map[string]func(*flag.FlagSet) proof{
		"faults":  newFaults,
		"rolling": newRolling,
		"soak":    newSoak,
	}
}

// run is the whole program.
func run(ctx context.Context, args []string, log io.Writer) error {
	part, all := "faults", append([]string{"chaos"}, args...)
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		part, args = args[0], args[1:]
	}
	begin := proofs()[part]
	if begin == nil {
		return fmt.Errorf("there is no part %q: the parts are %s", part,
			strings.Join(slices.Sorted(maps.Keys(proofs())), ", "))
	}
	flags := flag.NewFlagSet("chaos "+part, flag.ContinueOnError)
	path := flags.String("out", "", "page whose section "+part+" is written; the standard output when empty")
	prove := begin(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag of the part %s", flags.Arg(0), part)
	}
	made := page.Origin(ctx, time.Now(), all...)
	section, err := prove(ctx, log)
	if err != nil && !errors.Is(err, world.ErrBroken) {
		return err
	}
	return errors.Join(err, page.WriteSection(log, *path, part, made+"\n\n"+section))
}
