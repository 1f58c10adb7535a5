// Command fair asks whether one tenant can take the speed of another. A quiet tenant
// makes its calls at a modest pace while a loud one, or a stranger, attacks the same
// gateway, with one attack after the other. What the quiet tenant notices is compared
// with a baseline: the same attack on another program on the same machine, so that what
// the machine does not have for two is no fault of the gateway. All parts run as
// processes of their own on loopback.
//
//	go run -C internal/lab ./fair -out docs/evidence/fairness.md
//
// With -short it only asks whether every call of the quiet tenant was answered and
// whether every attack took place, which does not depend on how fast the machine is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("fair", func(ctx context.Context, args []string) error {
		return run(ctx, args, os.Stdin, os.Stdout)
	}, 1, nil)
}

// run is the whole program. The processes that it starts are this program again, with the
// name of their part as first argument.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if part, argument := partOf(args); part != nil {
		return must.Try(func() { part(ctx, argument, in, out) })
	}
	flags := flag.NewFlagSet("fair", flag.ContinueOnError)
	report := flags.String("out", "", "file to write the report to; the standard output when empty")
	short := flags.Bool("short", false,
		"a few hundred calls without a baseline: are all of them answered, and did every attack take place?")
	samples := flags.Int("samples", 2000,
		"calls of the quiet tenant for each attack, and as many for its baseline")
	only := flags.String("only", "", "run only the attacks whose name contains this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	each := rounds * quietConnections
	if *samples = (*samples + each - 1) / each * each; *samples <= 0 {
		return errors.New("-samples must be positive")
	}
	chosen := attacksNamed(*only)
	if len(chosen) == 0 {
		return fmt.Errorf("no attack has %q in its name", *only)
	}
	if *short {
		runShort(ctx, chosen, out)
		return nil
	}
	text, err := runFull(ctx, chosen, plan{*samples, args}, out)
	return errors.Join(page.Write(out, *report, text), err)
}

// role is what a process of this program does beside the measuring one. It ends when its
// standard input does.
type role func(ctx context.Context, argument string, in io.Reader, out io.Writer)

// partOf returns the role that the arguments name, with its own argument. It is nil if
// they name none.
func partOf(args []string) (part role, argument string) {
	if len(args) != 2 {
		return nil, ""
	}
	return map[string]role{
		"part-server": serveTools,
		"part-quiet":  callQuietly,
		"part-attack": attackUntilTold,
	}[args[0]], args[1]
}

// attacksNamed returns the attacks whose name contains text.
func attacksNamed(text string) []raid.Attack {
	var chosen []raid.Attack
	for _, a := range attacks() {
		if strings.Contains(a.Name, text) {
			chosen = append(chosen, a)
		}
	}
	return chosen
}
