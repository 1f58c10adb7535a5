package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// heard is what a client was told during one call.
type heard struct {
	mu       sync.Mutex // guards the fields below; never waited for, since notifications come one at a time
	progress []int64
	logs     int
	when     []time.Time // of each progress
}

// listen makes one call in a bubble, in which a tool tells what it likes and returns. It
// returns what the client heard, and how much was counted as left out.
func listen(t *testing.T, tool func(ctx context.Context, tell func(n int), log func())) (h *heard,
	left float64,
) {
	t.Helper()
	h = &heard{}
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			tell := func(n int) {
				params := object(fmt.Sprintf(`{"progressToken":7,"progress":%d,"message":"step"}`, n))
				_ = c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: params})
			}
			tool(ctx, tell, func() {
				_ = c.Notify(ctx, mcp.Notification{
					Method: mcp.NotifyMessage,
					Params: object(`{"level":"info","data":"x"}`),
				})
			})
			return object(`{"content":[]}`), nil
		}
		r := ask(mcp.MethodToolsCall, `{"name":"lib__other","_meta":{"progressToken":7}}`)
		r.LogLevel, _ = mcp.LevelOf("debug")
		r.Notify = func(_ context.Context, n mcp.Notification) error {
			if !h.mu.TryLock() {
				t.Error("two notifications at the same time")
				return nil
			}
			defer h.mu.Unlock()
			if n.Method == mcp.NotifyMessage {
				h.logs++
				return nil
			}
			value, _ := n.Params.Value("progress").Int()
			h.progress, h.when = append(h.progress, value), append(h.when, time.Now())
			return nil
		}
		if _, failure := b.handle(t, r); failure != nil {
			t.Fatal(failure)
		}
		told := len(h.progress)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(h.progress) != told {
			t.Errorf("%d notifications came after the result", len(h.progress)-told)
		}
		left = metricstest.Sum(t, b.metrics, "drawbridge_upstream_anomalies_total")
	})
	return h, left
}

// endsWith checks that progress grew, and what it was at last.
func (h *heard) endsWith(t *testing.T, last int64) {
	t.Helper()
	for i := 1; i < len(h.progress); i++ {
		if h.progress[i] <= h.progress[i-1] {
			t.Errorf("progress %d came after %d", h.progress[i], h.progress[i-1])
		}
	}
	if len(h.progress) == 0 || h.progress[len(h.progress)-1] != last {
		t.Errorf("progress ended with %v, want %d", h.progress[max(0, len(h.progress)-1):], last)
	}
}

func TestAFloodOfProgressIsThinnedOut(t *testing.T) {
	h, left := listen(t, func(_ context.Context, tell func(int), _ func()) {
		for n := range 20_000 {
			tell(n)
		}
	})
	h.endsWith(t, 19_999)
	if got := len(h.progress); got != progressBurst+1 {
		t.Errorf("told %d times, want %d", got, progressBurst+1)
	}
	if want := float64(20_000 - progressBurst - 1); left != want {
		t.Errorf("%v were counted as left out, want %v", left, want)
	}
}

func TestAnEndlessFloodIsToldAtItsPace(t *testing.T) {
	h, _ := listen(t, func(_ context.Context, tell func(int), log func()) {
		for n := range 4_000 {
			tell(n)
			if n%10 == 0 {
				log()
			}
			time.Sleep(time.Millisecond)
		}
	})
	h.endsWith(t, 3_999)
	if got, want := len(h.progress), progressBurst+int(4*time.Second/progressGap)+1; got > want ||
		got < want-2 {
		t.Errorf("told %d times, want about %d", got, want)
	}
	if h.logs != 400 {
		t.Errorf("%d log messages came, want all 400", h.logs)
	}
}

func TestTheLastOfABurstDoesNotWaitForTheResult(t *testing.T) {
	h, _ := listen(t, func(_ context.Context, tell func(int), _ func()) {
		for n := range 100 {
			tell(n)
		}
		time.Sleep(5 * time.Second)
	})
	h.endsWith(t, 99)
	if got := len(h.progress); got != progressBurst+1 {
		t.Fatalf("told %d times, want %d", got, progressBurst+1)
	}
	if waited := h.when[progressBurst].Sub(h.when[0]); waited != progressGap {
		t.Errorf("the last was told after %v, want %v", waited, progressGap)
	}
}

func TestOrdinaryProgressIsToldWhole(t *testing.T) {
	h, left := listen(t, func(_ context.Context, tell func(int), _ func()) {
		for n := range 80 {
			tell(n)
			time.Sleep(progressGap)
		}
	})
	h.endsWith(t, 79)
	if len(h.progress) != 80 || left != 0 {
		t.Errorf("told %d times, %v left out; want all 80", len(h.progress), left)
	}
}

func TestLargeProgressDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := b.newCall(b.caller(t, alice), request("box__plain", `{}`), b.methods[mcp.MethodToolsCall])
		r := &relay{to: c, ctx: t.Context()}
		large := mcp.Notification{
			Method: mcp.NotifyProgress,
			Params: object(`{"message":` + quote(strings.Repeat("x", maxProgress)) + `}`),
		}
		for range progressBurst + 5 {
			if err := r.progress(large); err != nil {
				t.Fatal(err)
			}
		}
		if r.latest != nil {
			t.Errorf("%d bytes wait, want none", len(r.latest))
		}
		if left := r.end(t.Context()); left != 5 {
			t.Errorf("%d were counted as left out, want 5", left)
		}
	})
}

// BenchmarkProgressFlood measures what one notification of a flood costs behind its
// transport.
func BenchmarkProgressFlood(b *testing.B) {
	bench, l := newLibrary(b)
	l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		params := object(`{"progressToken":7,"progress":1,"total":100,"message":"reading file 1 of 100"}`)
		for b.Loop() {
			_ = c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: params})
		}
		return object(`{"content":[]}`), nil
	}
	r := ask(mcp.MethodToolsCall, `{"name":"lib__other","_meta":{"progressToken":7}}`)
	r.Notify = func(context.Context, mcp.Notification) error { return nil }
	if _, failure := bench.handle(b, r); failure != nil {
		b.Fatal(failure)
	}
}
