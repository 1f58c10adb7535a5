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
	"flag"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() { world.Main("fair", roles, run, 1, nil) }

// roles are what processes of this program do beside the measuring one. They end when
// their standard input does.
var roles = map[string]world.Role{
	"part-server": serveTools,
	"part-quiet": func(ctx context.Context, _ []string, in io.Reader, out io.Writer) {
		quiet.Be(ctx, in, out)
	},
	"part-attack": attackUntilTold,
}

// run is the process that measures.
func run(ctx context.Context, args []string, out io.Writer) error {
	return page.Run(ctx, "fair", map[string]page.Part{"": {Begin: begin}}, args, out)
}

// begin measures all attacks, or some of them, or only whether they take place.
func begin(flags *flag.FlagSet) page.Measure {
	short := flags.Bool("short", false,
		"a few hundred calls without a baseline: are all of them answered, and did every attack take place?")
	samples := flags.Int("samples", 2000,
		"calls of the quiet tenant for each attack, and as many for its baseline")
	only := flags.String("only", "", "run only the attacks whose name contains this")
	return func(ctx context.Context, r page.Report) (string, error) {
		must.Be(*samples > 0, "-samples must be positive")
		chosen := raid.Named(attacks, *only)
		must.Be(len(chosen) > 0, "no attack has %q in its name", *only)
		if *short {
			runShort(ctx, chosen, r)
			return "", nil
		}
		return runFull(ctx, chosen, (*samples+rounds-1)/rounds*rounds, r)
	}
}
