// Command count counts the code of this module by syntax, by package, with the product,
// the labs and the tests apart. It measures no quality: it says what a change costs a
// reader.
//
//	go run ./internal/count                 # what stands in the working directory
//	go run ./internal/count -since v1.4.0   # before and after a revision
//
// Labs are the packages that archtest.Support lists and those of internal/lab,
// without their tests. Tests are all files that end in _test.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, ".", os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1) //nolint:gocritic // exitAfterDefer: the process ends, and the handler of signals with it
	}
}

// run is the whole program, for the module whose root is the directory.
func run(ctx context.Context, directory string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("count", flag.ContinueOnError)
	flags.SetOutput(out)
	since := flags.String("since", "", "compare with this revision, and leave out what did not change")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is an argument too many: %s", flags.Arg(0))
	}
	now, err := count(os.DirFS(directory))
	if err != nil {
		return err
	}
	if *since == "" {
		return writeTotals(out, now)
	}
	archive, err := revision(ctx, directory, *since)
	if err != nil {
		return err
	}
	before, err := count(archive)
	if err != nil {
		return err
	}
	return writeChanges(out, before, now)
}
