package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// TestWhatIsDoneOnceGoesOnForThoseWhoWait has somebody who begins a fetch and leaves, and
// another who waits for it.
func TestWhatIsDoneOnceGoesOnForThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var once pace.Once[int]
		calls, landed := 0, make(chan struct{})
		slow := func(ctx context.Context) (int, error) {
			calls++
			select {
			case <-landed:
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		brief, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := once.Do(brief, "key", slow)
			left <- err
		}()
		synctest.Wait()
		got := make(chan int)
		go func() {
			n, err := once.Do(t.Context(), "key", slow)
			if err != nil {
				t.Errorf("who waits: %v", err)
			}
			got <- n
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: got %v, want the end of the context", err)
		}
		close(landed)
		if n := <-got; n != 7 || calls != 1 {
			t.Errorf("got %d after %d fetches, want 7 after one", n, calls)
		}
		_, err := once.Do(t.Context(), "key", func(context.Context) (int, error) { return 0, errors.ErrUnsupported })
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a fetch that fails: got %v", err)
		}
	})
}
