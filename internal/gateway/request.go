package gateway

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Request is one request in the stateless form of the protocol, whatever form the client
// used.
type Request struct {
	ID           string // of the HTTP request, for records
	Traceparent  string // of the HTTP request, for servers that know callers; "": it had none
	Method       string
	Params       mcp.Object
	Capabilities mcp.Object // what this client can be asked now, in the canonical form of mcp.CapabilitiesOf
	// InSession says that the client has a session, and expects questions while its call
	// is under way. Sessions know neither resultType nor serverInfo, so that the desk
	// does not add them to the results of calls.
	InSession bool
	// Extensions are those that the client declares and the gateway carries.
	Extensions mcp.Extensions
	Client     string // as registry.Call.Client
	From       From   // for records
	// Waited is for how long the request waited so far, and for what. The door says what
	// it knows, the desk adds to it.
	Waited   Waited
	LogLevel mcp.Level // of log messages that the client wants; zero: none
	Tasks    mcp.Tasks // the form that this client knows; zero: none
	Form     *Form     // of the items of lists that this client knows; nil: that of the catalogue
	// Refusals are the client's errors in answer to questions of the previous round, by
	// the keys of the questions.
	Refusals map[string]*mcp.Error
	// Notify sends a notification to the client before the result. It is never nil, and
	// is not called after Handle has returned.
	Notify func(context.Context, mcp.Notification) error
	// OnTaskStatus sends a notification of a task that this call became, or waits for,
	// whose id is given, at any time until the task ends. It must not block. nil: the
	// client has no stream for that.
	OnTaskStatus func(id string, n mcp.Notification)
	// OnOpened is called as registry.Call.OnOpened, also after the request has ended.
	// nil: the client does not know such notifications.
	OnOpened func(id string)
	// Ended is how the request ended, in the words of the records; "": it was not
	// recorded. The desk sets it.
	Ended string
	// Memory holds the answer for as long as it is in memory. When Handle returns a large
	// result, it holds that twice, so that the caller can encode it, but for a list,
	// whose items are shared; the caller releases it when the client has the answer. nil:
	// nothing is counted.
	Memory *share.Reservation
}

// From says where a request came from. Of each, what is not known is "".
type From struct {
	Remote        string // the client's address
	Session       string // the beginning of its name in the log
	Name, Version string // of the client, as it says
}

// Form is how clients of one revision of the protocol know the items of lists.
type Form struct {
	// Revision is its name. Forms of one revision must be the same, since what they make
	// is remembered by it.
	Revision string
	// Differs is a cheap test: false means that Of would return the item itself. Its
	// arguments are those of Of.
	Differs func(kind string, item mcp.RawJSON) bool
	// Of returns an item in this form, which must depend on nothing else. kind is as in
	// mcp.Method.Result.
	Of func(kind string, item mcp.RawJSON) mcp.RawJSON
}

// mayUse tells whether the client may use a method that only one form of tasks has; zero:
// both. A client that knows no tasks may try those of the extension, which wants it to be
// told that it lacks the capability.
func (r *Request) mayUse(only mcp.Tasks) bool {
	return only == 0 || only == r.Tasks || only == mcp.TasksGiven && r.Tasks == 0
}
