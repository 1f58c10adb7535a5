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
	"fmt"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("chaos", map[string]world.Role{childPart: beChild}, run, 2, map[error]int{world.ErrBroken: 1})
}

// say writes how it goes. Whoever reads it may have gone, which ends no proof.
func say(log io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(log, format, args...) }

// run is the whole program but for the child.
func run(ctx context.Context, args []string, log io.Writer) error {
	faults := page.Part{Section: "faults", Begin: newFaults}
	return page.Run(ctx, "chaos", map[string]page.Part{
		"": faults, "faults": faults, "rolling": {Section: "rolling", Begin: newRolling},
		"soak": {Section: "soak", Begin: newSoak},
	}, args, log)
}

// inFolder builds the gateway in a temporary folder and measures there. It removes the
// folder, unless it is to be kept or something went wrong before anything could be told.
func inFolder(ctx context.Context, name string, log io.Writer, keep bool,
	measure func(dir, program string) (section string, err error),
) (section string, err error) {
	must.OK(crowd.FindNPM())
	l := world.NewLab(name)
	failed := must.Try(func() {
		l.Build(ctx)
		section, err = measure(l.Dir, l.Program)
	})
	if keep || failed != nil {
		say(log, "kept: %s\n", l.Dir)
	} else {
		l.Close()
	}
	must.OK(failed)
	return section, err
}
