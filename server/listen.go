package server

import (
	"context"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// listen serves subscriptions/listen: an event stream of notices, until the client leaves or the stream's time is
// over. Every message carries the id of the request as its subscription.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (s *Server) listen(x *exchange, r *http.Request, m *mcp.Message) {
	wants := m.Params.Value("notifications")
	switch {
	case !wants.IsObject():
		x.refuse(m.ID, refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: notifications must be an object"))
		return
	case !x.acceptsStream:
		x.refuse(m.ID, errAccept)
		return
	}
	place, refused := s.takePlace(x, "listen")
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	defer place.leave()
	s.leave(x)
	filter, _ := mcp.ObjectOf(wants)
	told := s.desk.Lists(x.caller).Tools // before the acknowledgement: what changes after it is told
	out, err := openStream(x)
	if err != nil {
		return // the client is gone
	}
	sub := &subscription{server: s, out: out, x: x, id: m.ID, told: told, tools: string(filter.Value("toolsListChanged")) == "true"}
	sub.serve(r.Context())
}

// subscription is one stream of notices.
type subscription struct {
	server *Server
	out    *stream
	x      *exchange
	id     mcp.ID
	tools  bool   // the client wants to hear of changed lists of tools
	told   string // digest of the lists that it was last told of
}

// serve sends the acknowledgement, the notices and, unless the client left, the result.
func (sub *subscription) serve(ctx context.Context) {
	defer sub.out.close()
	honoured := mcp.Object{}
	if sub.tools {
		honoured = honoured.With("toolsListChanged", mcp.Bool(true))
	}
	params := mcp.NewObject(mcp.Member{Name: "notifications", Value: honoured.JSON()})
	if sub.notify(mcp.NotifyAcknowledged, params) != nil || !sub.wait(ctx) {
		return
	}
	result := mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("complete")},
		mcp.Member{Name: "_meta", Value: sub.meta().With(mcp.MetaServerInfo, sub.server.serverInfo()).JSON()},
	)
	_ = sub.out.send(sse.Event{Data: mcp.AppendResult(nil, sub.id, result)}) // the client may be gone
}

// wait tells of changes until the subscription is over. It is false when the client is gone.
func (sub *subscription) wait(ctx context.Context) bool {
	s := sub.server
	silence := time.NewTimer(s.config.Heartbeat)
	defer silence.Stop()
	var over <-chan time.Time
	if expiry := sub.x.principal.Expiry; !expiry.IsZero() {
		timer := time.NewTimer(time.Until(expiry) + expiryLeeway)
		defer timer.Stop()
		over = timer.C
	}
	for {
		changed := s.desk.Changed()
		caller, ok := s.resolve(sub.x.principal)
		if !ok {
			return true
		}
		if digest := s.desk.Lists(caller).Tools; sub.tools && digest != sub.told {
			sub.told = digest
			if sub.notify(mcp.NotifyToolsChanged, mcp.Object{}) != nil {
				return false
			}
			silence.Reset(s.config.Heartbeat)
		}
		select {
		case <-changed:
		case <-silence.C:
			silence.Reset(s.config.Heartbeat)
			if sub.out.comment() != nil {
				return false
			}
		case <-over:
			return true
		case <-s.draining:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func (sub *subscription) notify(method string, params mcp.Object) error {
	params = params.With("_meta", sub.meta().JSON())
	return sub.out.send(sse.Event{Data: mcp.AppendRequest(nil, "", method, params)})
}

func (sub *subscription) meta() mcp.Object {
	return mcp.NewObject(mcp.Member{Name: mcp.MetaSubscriptionID, Value: mcp.RawJSON(sub.id)})
}
