package server

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/legacy"
)

// endpoint serves /mcp, the one endpoint for clients of both eras.
func (s *Server) endpoint(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	x.ReadAccept(r.Header)
	switch r.Method {
	case http.MethodPost:
		s.post(x, r)
	case http.MethodGet:
		s.legacy.Get(x)
	case http.MethodDelete:
		s.legacy.Delete(x)
	default:
		x.RefuseMethod("POST, GET, DELETE")
	}
}

// post reads one message, decides which era it belongs to, and passes it to the half of
// the door that serves that era.
func (s *Server) post(x *exchange.Exchange, r *http.Request) {
	if !x.AcceptsJSON {
		x.Refuse("", exchange.ErrAccept)
		return
	}
	raw, refused := s.exchanges.ReadBody(x, r)
	if x.Refuses("", refused) {
		return
	}
	if raw.IsArray() {
		s.legacy.Batch(x, raw)
		return
	}
	m := x.Decode(raw)
	if m == nil {
		return
	}
	x.Era = eraOf(r.Header, x.Meta)
	if x.Era == mcp.Modern {
		x.Key = exchange.KeyOf(r, m, raw)
	}
	if to := s.forwarder.Elsewhere(x, m); to != "" {
		if s.forwarder.Deliver(x, to, m, raw) {
			return
		}
		x.Reservation.TakeSlot()
	}
	if x.Era == mcp.Modern {
		s.modern.Answer(x, m, raw)
		return
	}
	s.legacy.Answer(x, m, raw)
}

// eraOf decides, once for each message, which era it belongs to. A message is modern if
// one of these is true, else legacy:
//   - its header names a modern revision, or one that is newer than all known ones;
//   - it carries the metadata of the modern era;
//   - it names a revision that nobody knows, and has a header that only the modern era uses.
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
func eraOf(h http.Header, meta mcp.Object) mcp.Era {
	revision := legacy.RevisionIn(h)
	if revision >= mcp.Revision2607 || meta.Has(mcp.MetaProtocolVersion) {
		return mcp.Modern
	}
	_, named := h[mcp.HeaderMethod]
	if named && revision != "" && mcp.EraOf(revision) == 0 {
		return mcp.Modern
	}
	return mcp.Legacy
}
