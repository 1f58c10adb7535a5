package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Errors of calls: a *registry.UnavailableError or a *registry.ProtocolError, an *mcp.Error that the upstream answered,
// or the context's own. The texts say what the gateway may tell; the causes are for the log.

// Causes that are told apart.
var (
	errNoChild = errors.New("max_children leaves no child for calls")
	errBusy    = errors.New("all sessions for calls are busy")
	errCrowded = errors.New("too many calls wait for input")
	errTasks   = errors.New("too many tasks are open")
	errLong    = errors.New("call took longer than any may, with all its rounds")
)

// fault makes the two kinds of errors for one server.
type fault string

func (f fault) unavailable(sent bool, err error) error {
	return &registry.UnavailableError{Server: string(f), Sent: sent, Err: err}
}

func (f fault) protocol(format string, args ...any) error {
	return &registry.ProtocolError{Server: string(f), Err: fmt.Errorf(format, args...)}
}

// from brings the errors of transports into the words of the catalogue. Others stay as they are.
func (f fault) from(err error) error {
	if lost, ok := errors.AsType[*wire.UnavailableError](err); ok {
		return f.unavailable(lost.Sent, lost.Err)
	}
	if broken, ok := errors.AsType[*wire.ProtocolError](err); ok {
		return &registry.ProtocolError{Server: string(f), Err: broken.Err}
	}
	return err
}

// forCaller brings the error of an exchange into the form that callers of a tool know: the context's error comes first,
// because a caller who left is owed nothing else.
func (f fault) forCaller(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		answered    *mcp.Error
		unavailable *registry.UnavailableError
		broken      *registry.ProtocolError
	)
	if errors.As(err, &unavailable) || errors.As(err, &broken) || errors.As(err, &answered) {
		return err
	}
	return f.unavailable(true, err)
}

// Refusals of questions.
var (
	errUnasked   = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found") // that nobody can be asked
	errNoCall    = mcp.Errorf(mcp.CodeInternal, "There is no call that this could belong to")
	errCallEnded = mcp.Errorf(mcp.CodeInternal, "The call has ended")
)

func rejection(id mcp.ID, err *mcp.Error) []byte { return mcp.AppendError(nil, id, err) }

// notTold is the error for a resource of whose changes a server does not tell.
func notTold() error {
	return mcp.Errorf(mcp.CodeInvalidParams, "The server does not tell of changes of this resource")
}
