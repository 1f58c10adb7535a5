package upstream

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	maxBody   = 16 << 20 // bytes of a request
	heartbeat = 10 * time.Second
)

// serveModern serves revision 2026-07-28. A connection that closes cancels its request.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func (s *Server) serveModern(w http.ResponseWriter, r *http.Request) {
	m, ok := receive(w, r)
	if !ok {
		return
	}
	out := &output{w: w}
	defer out.close()
	switch {
	case m.Params.Object("_meta").Text(mcp.MetaProtocolVersion) != mcp.Revision2607:
		refuse(w, http.StatusBadRequest, m.ID, mcp.CodeInvalidParams, "this server speaks 2026-07-28")
	case m.ID == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodDiscover:
		out.end(
			resultOf(
				m.ID, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},`+hints+`}`))
	case m.Method == mcp.MethodToolsCall:
		newCall(s.modern, m, out).serve(r.Context())
	case m.Method == mcp.MethodListen:
		s.modern.subscription(r, m, out)
	case s.modern.answer(out, m):
	default:
		refuse(w, http.StatusNotFound, m.ID, mcp.CodeMethodNotFound, "there is no such method")
	}
}

// receive reads the message of a POST. It has answered already if ok is false.
func receive(w http.ResponseWriter, r *http.Request) (m *mcp.Message, ok bool) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, false // the client left
	}
	if m, err = mcp.Decode(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return m, true
}

// subscription is subscriptions/listen, until the client leaves or the server crashes.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (s *side) subscription(r *http.Request, m *mcp.Message, out *output) {
	filter := m.Params.Object("notifications")
	lists := string(filter.Value("toolsListChanged")) == "true"
	uris, _ := filter.Value("resourceSubscriptions").Elements() // none if it wants none
	id := mcp.NewObject(mcp.Member{Name: mcp.MetaSubscriptionID, Value: mcp.RawJSON(m.ID)}).JSON()
	var order sync.Mutex // so that the acknowledgement is the first message
	send := func(method string, params mcp.Object) {
		order.Lock()
		defer order.Unlock()
		out.event(mcp.AppendRequest(nil, "", method, params.With("_meta", id)))
	}
	order.Lock()
	leave := s.listen(&listener{
		tell: send,
		wants: func(uri string) bool {
			return uri == "" && lists ||
				uri != "" && slices.ContainsFunc(uris, func(e mcp.RawJSON) bool { return e.Says(uri) })
		},
	})
	defer leave()
	out.event(mcp.AppendRequest(nil, "", mcp.NotifyAcknowledged, mcp.NewObject(
		mcp.Member{Name: "notifications", Value: filter.JSON()}, mcp.Member{Name: "_meta", Value: id})))
	order.Unlock()
	for pace.Wait(r.Context(), heartbeat) {
		out.comment()
	}
}
