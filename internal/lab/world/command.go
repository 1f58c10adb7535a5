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

// Claims are promises that are looked at one after the other. The zero value has none.
type Claims struct{ broken []error }

// Claim says why a promise was broken, unless it is kept.
func (c *Claims) Claim(kept bool, format string, args ...any) {
	if !kept {
		c.broken = append(c.broken, fmt.Errorf(format, args...))
	}
}

// Broken returns ErrBroken with those that were broken, nil if none was.
func (c *Claims) Broken() error {
	if c.broken == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBroken, errors.Join(c.broken...))
}

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
