package fairqueue_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
)

// TestLargeMessagesShareOnePace reads several large bodies at once. All together they
// come at 256 MiB a second, but for the first MiB of each and one more.
func TestLargeMessagesShareOnePace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bodies, size int // MiB
		least, most  time.Duration
	}{
		"small ones":   {100, 1, 0, 0},
		"a large one":  {1, 15, 12 * time.Second / 256, 14 * time.Second / 256},
		"many at once": {16, 15, 222 * time.Second / 256, 224 * time.Second / 256},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, began := fairqueue.New(1), time.Now()
				var all sync.WaitGroup
				for range test.bodies {
					all.Go(func() {
						body := q.Paced(t.Context(),
							io.NopCloser(strings.NewReader(strings.Repeat("x", test.size<<20))))
						if n, err := io.Copy(io.Discard, onlyReader{body}); err != nil ||
							n != int64(test.size)<<20 {
							t.Errorf("read %d bytes, %v", n, err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took < test.least || took > test.most {
					t.Errorf("it took %v, want between %v and %v", took, test.least, test.most)
				}
			})
		})
	}
}

// onlyReader hides what else a body can do, so that it is read as a connection is.
type onlyReader struct{ io.Reader }

func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, began := fairqueue.New(1), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		q.Pace(ctx, 1<<40)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it waited %v, want 1 s", took)
		}
		var none *fairqueue.Queue
		none.Pace(t.Context(), 1<<40)
		body := io.NopCloser(strings.NewReader(""))
		if none.Paced(t.Context(), body) != body || time.Since(began) != time.Second {
			t.Error("without a queue there is a pace")
		}
	})
}
