package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// lateLimiter admits requests, which take from one bucket, and never decides about calls,
// which take from several. It waits until the call ends and returns why, as a question to
// Redis does.
type lateLimiter struct{}

func (lateLimiter) Take(ctx context.Context, buckets ...ratelimit.Bucket) error {
	if len(buckets) == 1 {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestACallThatItsClientEndsIsNoFaultOfTheLimits lets clients end calls while the limiter
// is asked. None is an error in the log, for somebody to act upon, nor on record as
// refused because the limits could not be checked.
func TestACallThatItsClientEndsIsNoFaultOfTheLimits(t *testing.T) {
	for name, end := range map[string]func(id string) message{
		"the session": func(id string) message { return inSession("DELETE", id, "") },
		"only the call": func(id string) message {
			return inSession("POST", id,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := newWorld(t, func(w *world) {
					w.limiter = lateLimiter{}
					w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				id := w.open(t, "alice", mcp.Revision2511)
				over := make(chan struct{})
				go func() {
					defer close(over)
					w.do(t, legacyCall(id, "echo"))
				}()
				wait(t)
				w.do(t, end(id))
				<-over
				wait(t)
				if text := log.String(); strings.Contains(text, "level=ERROR") {
					t.Errorf("the log has an error:\n%s", text)
				}
			})
		})
	}
}
