package world

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// ErrBroken means that a measure took place and a promise of the gateway did not hold.
var ErrBroken = errors.New("a promise was broken")

// Main is the main function of a lab. In the repository, relative paths begin at Root,
// wherever the go command has started it. An interrupt ends the context. The process ends
// with 0, with the code that codes has for the error, or with otherwise.
func Main(name string, run func(ctx context.Context, args []string) error, otherwise int,
	codes map[error]int,
) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if root, err := Root(); err == nil { // else a lab has started it in a folder of its own
		_ = os.Chdir(root) // it is above
	}
	err := must.Try(func() { must.OK(run(ctx, os.Args[1:])) })
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	for known, code := range codes {
		if errors.Is(err, known) {
			os.Exit(code)
		}
	}
	os.Exit(otherwise)
}
