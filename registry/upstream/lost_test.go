package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// endedLink is the link of a child that answers, or has ended without that anybody but a
// call was told. What it does not have is not called.
type endedLink struct {
	wire.Link

	loss error // nil: the child answers
	sent bool  // it ended with a call
}

func (l *endedLink) Exchange(context.Context, *wire.Request) (mcp.Object, error) {
	if l.loss != nil {
		return mcp.Object{}, &wire.UnavailableError{Sent: l.sent, Err: l.loss}
	}
	return mcp.TextResult("done"), nil
}

func (l *endedLink) Follow(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (l *endedLink) Streams() bool { return false }

func (l *endedLink) Loss() error { return l.loss }

func (l *endedLink) Close(context.Context, bool) {}

// TestCallsThatDidNotReachALostChildGetAnother makes calls on children that have ended,
// of which the pool has not heard yet: one that was not sent goes to one more child, and
// never to a third; one that was sent goes to no other.
func TestCallsThatDidNotReachALostChildGetAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		capabilities string
		ended        int32 // so many children have ended
		sent         bool
		children     int32
		served       bool
	}{
		"one":                      {`{}`, 1, false, 2, true},
		"one, of who can be asked": {`{"elicitation":{}}`, 1, false, 2, true},
		"all":                      {`{}`, 9, false, 2, false},
		"one, with the call":       {`{}`, 1, true, 1, false},
		"none":                     {`{}`, 0, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var children atomic.Int32
			open := func(_ context.Context, c *connection, declared mcp.Object, of *calls) (*legacy, error) {
				link := &endedLink{sent: test.sent}
				if children.Add(1) <= test.ended {
					link.loss = errors.New("child ended")
				}
				life, stop := context.WithCancel(context.Background())
				return &legacy{
					conn: c, link: link, capabilities: declared, calls: of,
					life: life, stop: stop, streaming: make(chan struct{}),
				}, nil
			}
			p := newPool(t.Context(), newConnection(&Config{Name: "s"}), false, open, &strays{})
			defer p.close(context.Background(), true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			capabilities, err := mcp.ParseObject([]byte(test.capabilities))
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.call(ctx, &item{name: "x", quoted: mcp.String("x"), method: mcp.MethodToolsCall, asks: true},
				&registry.Call{Method: mcp.MethodToolsCall, Capabilities: capabilities})
			if (err == nil) != test.served || children.Load() != test.children {
				t.Errorf("got %v with %d children, want it served %v with %d", err, children.Load(), test.served,
					test.children)
			}
		})
	}
}
