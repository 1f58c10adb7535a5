package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// The error of a call is a *registry.UnavailableError, a *registry.ProtocolError, a
// *registry.MemoryError, an *mcp.Error that the server answered, the context's own, or
// one of package share if the caller has no room for the request itself. What Error
// returns of the first two is what the gateway may tell its clients; the cause within is
// for the log alone.

// Causes that are told apart.
var (
	errNoChild = errors.New("max_children leaves no child for calls")
	errCrowded = errors.New("too many calls wait for input")
	errTasks   = errors.New("too many tasks are open")
	errLong    = errors.New("call took longer than any may, with all its rounds")
	errSilent  = errors.New("no answer to the handshake in time")
)

// fault makes the errors of one server; its text is the server's name.
type fault string

// unavailable returns the error for a server that cannot be reached or was lost. sent:
// the server may have received the request, so the call may have taken effect.
func (f fault) unavailable(sent bool, err error) error {
	return &registry.UnavailableError{
		Server: string(f), Sent: sent, SignIn: wantsSignIn(err), Status: refusedFor(err),
		Credential: credential.FaultOf(err), Err: err,
	}
}

// protocol returns the error for an answer that the protocol does not allow.
func (f fault) protocol(format string, args ...any) error {
	return &registry.ProtocolError{Server: string(f), Err: fmt.Errorf(format, args...)}
}

// from turns the errors of transports into those of the catalogue, which name the server.
// Other errors stay as they are.
func (f fault) from(err error) error {
	if lost, ok := errors.AsType[*wire.UnavailableError](err); ok {
		return f.unavailable(lost.Sent, lost.Err)
	}
	if broken, ok := errors.AsType[*wire.ProtocolError](err); ok {
		return &registry.ProtocolError{Server: string(f), Err: broken.Err}
	}
	if full, ok := errors.AsType[*wire.MemoryError](err); ok {
		return &registry.MemoryError{Server: string(f), Err: full.Err}
	}
	return err
}

// forCaller turns the error of a request into one that callers of a tool know. When ctx
// has ended, the result is the context's error, whatever else went wrong: a caller who
// left is owed nothing else, and a deadline is told as one.
func (f fault) forCaller(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		unavailable *registry.UnavailableError
		broken      *registry.ProtocolError
		full        *registry.MemoryError
	)
	if isAnswer(err) || errors.As(err, &full) || errors.As(err, &unavailable) || errors.As(err, &broken) {
		return err
	}
	return f.unavailable(true, err)
}

// unread returns the error for a call of which nobody can say what it calls, because the
// lists of its user could not be read. Nothing of the call was sent, whatever became of
// the reading. The cause is kept as text: what a server answers would otherwise pass for
// an error of the gateway's own, uncleaned, and a list that is too large for an answer of
// the call.
func (f fault) unread(err error) error {
	if err == nil {
		return nil
	}
	refused := registry.UnavailableError{Server: string(f), Credential: credential.FaultOf(err)}
	if unavailable, ok := errors.AsType[*registry.UnavailableError](err); ok {
		refused = *unavailable
	}
	refused.Sent, refused.Err = false, errors.New("read the lists of the user: "+problem(err))
	return &refused
}

// cause returns the error within that of what comes before a call, as a handshake does,
// without the types by which it would be taken for the answer to the call.
func cause(err error) error {
	if unavailable, ok := errors.AsType[*registry.UnavailableError](err); ok {
		return unavailable.Err
	}
	return errors.New(err.Error())
}

// isAnswer tells whether an error is what the server itself answered, which is then no
// outage.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*mcp.Error](err)
	return ok
}

// answeredWith tells whether an error is an answer of the server with one of these codes.
func answeredWith(err error, codes ...int) bool {
	answered, ok := errors.AsType[*mcp.Error](err)
	return ok && slices.Contains(codes, answered.Code)
}

// toOpen returns the error of a server that refuses a call until its user has opened some
// addresses, nil for any other.
func toOpen(err error) *mcp.Error {
	answered, is := errors.AsType[*mcp.Error](err)
	if !is || answered.Code != mcp.CodeURLElicitation {
		return nil
	}
	return answered
}

// wantsSignIn tells whether the server answered that it wants a sign-in.
func wantsSignIn(err error) bool {
	refused, ok := errors.AsType[*wire.StatusError](err)
	return ok && refused.SignIn
}

// refusedFor returns the status of a refusal that another attempt would meet again, zero
// for any other error.
func refusedFor(err error) int {
	refused, ok := errors.AsType[*wire.StatusError](err)
	passing := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	if !ok || refused.Status < 400 || refused.Status >= 500 || slices.Contains(passing, refused.Status) {
		return 0
	}
	return refused.Status
}

// Refusals of questions.
var (
	errUnasked   = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found") // nobody can be asked this
	errNoCall    = mcp.Errorf(mcp.CodeInternal, "There is no call that this could belong to")
	errCallEnded = mcp.Errorf(mcp.CodeInternal, "The call has ended")
)

// rejection returns the answer to a question that is refused.
func rejection(id mcp.ID, err *mcp.Error) []byte { return mcp.AppendError(nil, id, err) }

// errUnannounced is the error for a resource whose changes the server does not announce.
var errUnannounced = mcp.Errorf(mcp.CodeInvalidParams,
	"The server does not tell of changes of this resource")
