package upstream

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// counter gives the ids of one connection's requests. An id is never used twice. It is
// safe for concurrent use.
type counter struct{ last atomic.Int64 }

func (c *counter) next() mcp.ID { return mcp.NumberID(c.last.Add(1)) }

// call returns the request for a call, whose caller gets the notifications that it wants.
// own is as in appendCall.
func (c *counter) call(i *item, call *registry.Call, own string) *wire.Request {
	id := c.next()
	raw := call.Params.Value("_meta")
	meta, _ := mcp.ObjectOf(raw)
	body := make([]byte, 0, 128+len(i.quoted)+len(own)+call.Params.Size()) // about as long as it becomes
	return &wire.Request{
		ID: id, Method: i.method, Body: appendCall(body, id, i, call.Params, raw != nil, meta, own),
		Notify: notifier(call, meta), Memory: call.Memory,
		Caller: wire.Caller{For: &call.Principal, Trace: call.Trace},
	}
}

// appendCall appends a whole request to dst: the client's params, in which the server's
// own name replaces the exposed one and the gateway's metadata the client's. hasMeta says
// that meta is the client's. own has the reserved members of _meta as JSON without the
// braces; it is "" for legacy servers.
//
// Members that the server's revision does not know are left out. Answers and requestState
// pass byte for byte.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func appendCall(dst []byte, id mcp.ID, i *item, params mcp.Object, hasMeta bool, meta mcp.Object,
	own string,
) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	about := mcp.MethodOf(i.method).Subject
	dst = append(append(append(dst, `,"method":"`...), i.method...), `","params":{`...)
	empty := len(dst)
	if about != "" { // a list is about nothing
		dst = append(append(append(append(dst, '"'), about...), `":`...), i.quoted...)
	}
	for name, value := range params.Members {
		switch {
		case name == about, name == "_meta", !i.knows(name):
		default:
			dst = append(append(strictjson.AppendQuote(separated(dst, empty), name), ':'), value...)
		}
	}
	if hasMeta || own != "" {
		dst = appendMeta(append(separated(dst, empty), `"_meta":`...), id, meta, own)
	}
	return append(dst, "}}"...)
}

// separated appends a comma unless an object that has its first member at start is empty.
func separated(dst []byte, start int) []byte {
	if len(dst) == start {
		return dst
	}
	return append(dst, ',')
}

// knows tells whether the server's revision gives this member of the params a meaning.
func (i *item) knows(member string) bool {
	switch member {
	case "inputResponses", "requestState":
		return mcp.EraOf(i.revision) == mcp.Modern
	case "context":
		return i.method != mcp.MethodComplete || i.revision >= mcp.Revision2506
	}
	return member != "task" || i.asTask
}

// appendMeta appends the client's metadata, without the members that the gateway sets
// itself, behind those of own. The client's progress token is replaced by the request's
// id: tokens of two clients may be the same, but no other request of the connection has
// this id. A task that the client names is left out: its id is the gateway's or another
// caller's, and servers give the answer to such a request to whoever asks for that task.
func appendMeta(dst []byte, id mcp.ID, meta mcp.Object, own string) []byte {
	dst = append(dst, '{')
	empty := len(dst)
	dst = append(dst, own...)
	for name, value := range meta.Members {
		switch name {
		case mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel,
			mcp.MetaRelatedTask:
			continue
		case mcp.MetaProgressToken:
			if !isToken(value) {
				continue
			}
			value = mcp.RawJSON(id)
		}
		dst = append(append(strictjson.AppendQuote(separated(dst, empty), name), ':'), value...)
	}
	return append(dst, '}')
}

// maxToken bounds a progress token, in bytes: each notification repeats it.
const maxToken = 1 << 10

// isToken tells whether raw may be a progress token: a string or an integer.
func isToken(raw mcp.RawJSON) bool {
	_, isInt := raw.Int()
	return len(raw) <= maxToken && (isInt || raw.IsText())
}

// notifier returns a function that passes notifications of a call on to its caller:
// progress under the caller's own token, and log messages of at least the level that the
// caller wants. meta is the call's own. It is nil when the caller wants neither.
func notifier(c *registry.Call, meta mcp.Object) func(context.Context, *mcp.Message) {
	token := meta.Value(mcp.MetaProgressToken)
	if !isToken(token) {
		token = nil
	}
	if token == nil && c.LogLevel == 0 {
		return nil
	}
	return func(ctx context.Context, m *mcp.Message) {
		params := m.Params
		switch {
		case m.Method == mcp.NotifyProgress && token != nil:
			params = params.With(mcp.MetaProgressToken, token)
		case m.Method == mcp.NotifyMessage && c.LogLevel.Wants(params.Text("level")):
		default:
			return
		}
		// fails only when the caller has gone
		_ = c.Notify(ctx, mcp.Notification{Method: m.Method, Params: params})
	}
}

// clientInfo returns how the gateway introduces itself to servers.
func clientInfo(version string) mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String("drawbridge")},
		mcp.Member{Name: "version", Value: mcp.String(cmp.Or(version, "0"))},
	).JSON()
}

// cancelled returns the notification that the answer to a request is no longer wanted.
// own is the _meta that it carries to a modern server; empty: none.
func cancelled(id mcp.ID, own mcp.Object) []byte {
	params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(id)})
	if own.Len() > 0 {
		params = params.With("_meta", own.JSON())
	}
	return mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params)
}

// everything returns all capabilities that have a server ask its client, in canonical
// form, and all extensions that are carried: as text it is compared with other sets.
func (c *Config) everything() mcp.Object { return c.everythingBut(mcp.Extensions{}) }

// everythingBut is everything without these extensions.
func (c *Config) everythingBut(missing mcp.Extensions) mcp.Object {
	return c.Extensions.All().Without(missing).Adding(mcp.NewObject(
		mcp.Member{Name: "elicitation", Value: mcp.RawJSON(`{"form":{},"url":{}}`)},
		mcp.Member{Name: "roots", Value: mcp.RawJSON("{}")},
		mcp.Member{Name: "sampling", Value: mcp.RawJSON(`{"context":{},"tools":{}}`)},
	))
}
