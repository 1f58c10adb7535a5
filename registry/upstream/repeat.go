package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// repeatAfter is how long a lost call waits before it is made once more.
const repeatAfter = 100 * time.Millisecond

// repeats tells whether a call that failed with err is to be made once more: when nothing of it left, or when the
// operator says that making it twice does no harm. What a server refused, it would refuse again, and a call that already
// asked its user something does not ask twice.
func (c *connection) repeats(ctx context.Context, i *item, call *registry.Call, err error) bool {
	var (
		refused  *wire.StatusError
		unknown  *wire.SessionError
		answered *mcp.Error
	)
	unavailable, lost := errors.AsType[*registry.UnavailableError](err)
	switch {
	case !lost, c.gone.Load(), call.Params.Has("requestState"),
		errors.As(err, &refused) && refused.Status < http.StatusInternalServerError,
		errors.As(err, &answered), errors.As(err, &unknown), errors.Is(err, errBusy), errors.Is(err, errCrowded), errors.Is(err, errTasks):
		return false
	}
	return (i.idempotent || !unavailable.Sent) && pace.Wait(ctx, repeatAfter)
}

// isIdempotent tells whether the operator's patterns name the tool.
func isIdempotent(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return registry.MatchName(pattern, tool)
	})
}
