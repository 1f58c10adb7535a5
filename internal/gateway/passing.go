package gateway

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file is the form in which requests, notifications and errors go from one replica to another. Changing it takes
// another kind of word.

// encode returns the request: the user, so that the home knows whose memory it takes before it has read the rest, and
// then an object. It holds the token of the caller, and goes nowhere but into a sealed word.
func (r *Request) encode(who *auth.Principal) []byte {
	refusals := mcp.Object{}
	for key, refused := range r.Refusals {
		refusals = refusals.With(key, encodeError(refused).JSON())
	}
	o := mcp.NewObject(
		mcp.Member{Name: "id", Value: mcp.String(r.ID)},
		mcp.Member{Name: "method", Value: mcp.String(r.Method)},
		mcp.Member{Name: "params", Value: r.Params.JSON()},
		mcp.Member{Name: "capabilities", Value: r.Capabilities.JSON()},
		mcp.Member{Name: "inSession", Value: mcp.Bool(r.InSession)},
		mcp.Member{Name: "client", Value: mcp.String(r.Client)},
		mcp.Member{Name: "logLevel", Value: mcp.Int(int64(r.LogLevel))},
		mcp.Member{Name: "tasks", Value: mcp.Int(int64(r.Tasks))},
		mcp.Member{Name: "refusals", Value: refusals.JSON()},
		mcp.Member{Name: "token", Value: mcp.String(r.Token)},
	)
	text := make([]byte, 0, len(who.Issuer)+len(who.Subject)+8+o.Size())
	return o.AppendJSON(appendSized(appendSized(text, who.Issuer), who.Subject))
}

// cutUser takes the user off the beginning of what encode wrote, which must be whole.
func cutUser(text []byte) (issuer, subject string, rest []byte, ok bool) {
	r := &stateReader{rest: text, ok: true}
	issuer, subject = r.sized(), r.sized()
	return issuer, subject, r.rest, r.ok
}

// decodeRequest reads the object that encode wrote.
func decodeRequest(text []byte) (*Request, bool) {
	o, err := mcp.ParseObject(text)
	level, isLevel := o.Value("logLevel").Int()
	tasks, isForm := o.Value("tasks").Int()
	if err != nil || !isLevel || !isForm {
		return nil, false
	}
	r := &Request{
		ID: o.Text("id"), Method: o.Text("method"), Params: o.Object("params"), Capabilities: o.Object("capabilities"),
		InSession: string(o.Value("inSession")) == "true",
		Client:    o.Text("client"), LogLevel: mcp.Level(level), Tasks: mcp.Tasks(tasks), Token: o.Text("token"),
	}
	for key, raw := range o.Object("refusals").Members {
		refused, _ := mcp.ObjectOf(raw)
		if r.Refusals == nil {
			r.Refusals = make(map[string]*mcp.Error)
		}
		r.Refusals[key] = decodeError(refused)
	}
	return r, true
}

func encodeNote(n mcp.Notification) []byte {
	return mcp.NewObject(
		mcp.Member{Name: "method", Value: mcp.String(n.Method)}, mcp.Member{Name: "params", Value: n.Params.JSON()},
	).JSON()
}

// decodeNote reads what encodeNote wrote.
func decodeNote(text []byte) (mcp.Notification, bool) {
	o, err := mcp.ParseObject(text)
	return mcp.Notification{Method: o.Text("method"), Params: o.Object("params")}, err == nil
}

// encodeError returns all of an error, with when to come back, which is no part of it for clients.
func encodeError(e *mcp.Error) mcp.Object {
	return e.Object().With("retryAfter", mcp.Int(int64(e.RetryAfter)))
}

// decodeError reads what encodeError wrote.
func decodeError(o mcp.Object) *mcp.Error {
	code, _ := o.Value("code").Int()
	after, _ := o.Value("retryAfter").Int()
	return &mcp.Error{Code: int(code), Message: o.Text("message"), Data: o.Value("data"), RetryAfter: time.Duration(after)}
}
