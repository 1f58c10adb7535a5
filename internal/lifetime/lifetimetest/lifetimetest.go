// Package lifetimetest runs, for as long as a test lasts, what runs until it is told to
// end. It does not know what that is.
package lifetimetest

import (
	"context"
	"sync"
	"testing"
)

// Run runs some things until the test ends or stop is called, which waits for them and
// may be called again. The test fails if one of them returns an error.
func Run(t testing.TB, all ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var over sync.WaitGroup
	for _, run := range all {
		over.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	stop = func() { cancel(); over.Wait() }
	t.Cleanup(stop)
	return stop
}
