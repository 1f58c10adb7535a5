package upstream

import (
	"context"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// counter gives the ids of one connection's requests. They are never used twice.
type counter struct{ last atomic.Int64 }

func (c *counter) next() mcp.ID { return mcp.NumberID(c.last.Add(1)) }

// call returns the request of a call in a session, whose caller gets the notifications that it wants. own is as in appendCall.
func (c *counter) call(i *item, call *registry.Call, own string) *wire.Request {
	id := c.next()
	body := make([]byte, 0, callSize(i, call.Params, own))
	return &wire.Request{
		ID: id, Method: i.method, Body: appendCall(body, id, i, call.Params, own), Notify: notifier(call),
	}
}

// appendCall appends a whole request in one go: the client's params with the server's own name for what the call is
// about, and with metadata that is the gateway's. own is the inside of an object of reserved _meta members, "" for
// legacy servers.
//
// What the server's revision does not know stays behind. Answers and state of a dialogue pass byte for byte.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func appendCall(dst []byte, id mcp.ID, i *item, params mcp.Object, own string) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	about := mcp.MethodOf(i.method).Subject
	dst = append(append(append(dst, `,"method":"`...), i.method...), `","params":{"`...)
	dst = append(append(append(dst, about...), `":`...), i.quoted...)
	var meta mcp.RawJSON
	for name, value := range params.Members {
		switch {
		case name == about, !i.knows(name):
		case name == "_meta":
			meta = value
		default:
			dst = append(dst, ',')
			dst = append(append(strictjson.AppendQuote(dst, name), ':'), value...)
		}
	}
	if meta != nil || own != "" {
		dst = appendMeta(append(dst, `,"_meta":`...), id, meta, own)
	}
	return append(dst, "}}"...)
}

// knows tells whether the server's revision has a meaning for a member of the params.
func (i *item) knows(member string) bool {
	switch member {
	case "inputResponses", "requestState":
		return mcp.EraOf(i.revision) == mcp.Modern
	case "context":
		return i.method != mcp.MethodComplete || i.revision >= mcp.Revision2506
	}
	return member != "task" || i.asTask
}

// appendMeta appends the client's metadata with the members that the gateway sets itself replaced. The progress token
// is the request's id, which no other request of the connection has.
func appendMeta(dst []byte, id mcp.ID, meta mcp.RawJSON, own string) []byte {
	dst = append(append(dst, '{'), own...)
	separate := own != ""
	object, _ := mcp.ObjectOf(meta)
	for name, value := range object.Members {
		switch name {
		case mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel:
			continue
		case mcp.MetaProgressToken:
			if !isToken(value) {
				continue
			}
			value = mcp.RawJSON(id)
		}
		if separate {
			dst = append(dst, ',')
		}
		separate = true
		dst = append(append(strictjson.AppendQuote(dst, name), ':'), value...)
	}
	return append(dst, '}')
}

// isToken tells whether raw may be a progress token: a string or an integer.
func isToken(raw mcp.RawJSON) bool {
	if _, ok := raw.Int(); ok {
		return true
	}
	return len(raw) > 0 && raw[0] == '"'
}

// callSize is about how many bytes a call's message has.
func callSize(i *item, params mcp.Object, own string) int {
	size := 128 + len(i.quoted) + len(own)
	for name, value := range params.Members {
		size += len(name) + len(value) + 4
	}
	return size
}

// notifier returns what passes notifications that belong to a call on to its caller: progress under the caller's own
// token, and log messages that are grave enough. It is nil when the caller wants neither.
func notifier(c *registry.Call) func(context.Context, *mcp.Message) {
	token := c.Params.Object("_meta").Value(mcp.MetaProgressToken)
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
		_ = c.Notify(ctx, mcp.Notification{Method: m.Method, Params: params}) // whoever asked may be gone
	}
}

// clientInfo is how the gateway introduces itself.
func clientInfo(version string) mcp.RawJSON {
	if version == "" {
		version = "0"
	}
	return mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String("drawbridge")},
		mcp.Member{Name: "version", Value: mcp.String(version)},
	).JSON()
}

// cancelled is the notification that the answer to a request is no longer wanted.
func cancelled(id mcp.ID, own mcp.Object) []byte {
	params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(id)})
	if own.Len() > 0 {
		params = params.With("_meta", own.JSON())
	}
	return mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params)
}

// everything returns all that a client can be asked, in canonical form.
func everything() mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "elicitation", Value: mcp.RawJSON(`{"form":{},"url":{}}`)},
		mcp.Member{Name: "roots", Value: mcp.RawJSON("{}")},
		mcp.Member{Name: "sampling", Value: mcp.RawJSON(`{"context":{},"tools":{}}`)},
	)
}
