package world

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
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

// Role is what a process of a lab does beside the one that measures. It is the program
// again, with the name of the role and what else it needs to know as arguments. It panics
// with an error, as package must does.
type Role func(ctx context.Context, args []string, in io.Reader, out io.Writer)

// Main is the main function of a lab: run, or the role that the first argument names. In
// the repository, relative paths begin at its root, wherever the go command has started
// it. An interrupt ends the context. The process ends with 0, with the code that codes
// has for the error, or with otherwise.
func Main(name string, roles map[string]Role,
	run func(ctx context.Context, args []string, out io.Writer) error, otherwise int, codes map[error]int,
) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if root, err := sources.Root(); err == nil { // else a lab has started it in a folder of its own
		_ = os.Chdir(root) // it is above
	}
	args := os.Args[1:]
	err := must.Try(func() {
		if len(args) > 0 && roles[args[0]] != nil {
			roles[args[0]](ctx, args[1:], os.Stdin, os.Stdout)
		} else {
			must.OK(run(ctx, args, os.Stdout))
		}
	})
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
