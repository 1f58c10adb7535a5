package legacy

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// negotiate returns the revision that a session gets: the one that the client asks for if
// a session can have it, else the newest that one can have.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
func negotiate(asked string) string {
	if mcp.EraOf(asked) == mcp.Legacy {
		return asked
	}
	return mcp.LatestLegacy
}

// initialize opens a session, and answers with its id.
func (s *Service) initialize(ctx context.Context, x *exchange.Exchange, m *mcp.Message) {
	if x.Refuses(m.ID, checkInitialize(m)) {
		return
	}
	revision := negotiate(m.Params.Text("protocolVersion"))
	sess, id, refused := s.sessions.Open(ctx, ticket.Session, x.Caller, s.termsOf(ctx, x, revision, m))
	if x.Refuses(m.ID, refused) {
		return
	}
	sess.Assign(s.desk.Lists(x.Caller), "") // the client has yet to list: what it sees now is no change
	s.sessions.Register(ctx, sess)
	x.Header().Set(mcp.HeaderSessionID, id)
	x.WriteJSON(http.StatusOK, mcp.AppendResult(nil, m.ID, s.welcome(x, revision)))
}

// termsOf returns what the handshake says that the client can do.
func (s *Service) termsOf(ctx context.Context, x *exchange.Exchange, revision string,
	m *mcp.Message,
) ticket.Terms {
	declared := m.Params.Object("capabilities")
	return ticket.Terms{
		Revision: revision, Capabilities: mcp.CapabilitiesOf(revision, declared),
		Extensions: x.Declares(ctx, declared.Value("extensions")),
	}
}

func checkInitialize(m *mcp.Message) *exchange.Refusal {
	if _, ok := m.Params.Value("protocolVersion").Text(); !ok {
		return exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: protocolVersion must be a string")
	}
	if capabilities := m.Params.Value("capabilities"); capabilities != nil && !capabilities.IsObject() {
		return exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
			"Invalid params: capabilities must be an object")
	}
	return nil
}

// welcome returns the result of initialize. Extensions are named to every client that
// could read of them in _meta, if the servers of this caller have any.
func (s *Service) welcome(x *exchange.Exchange, revision string) mcp.Object {
	declared := gateway.Capabilities()
	capabilities := declared.Without("completions", "extensions")
	if revision >= mcp.Revision2503 { // earlier revisions have the method, but no capability for it
		capabilities = capabilities.With("completions", declared.Value("completions"))
	}
	if lowering.Tasks(revision) != 0 {
		capabilities = capabilities.With("tasks",
			mcp.RawJSON(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	if revision >= mcp.Revision2506 {
		capabilities = s.desk.Extensions(x.Caller).Adding(capabilities)
	}
	return mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(revision)},
		mcp.Member{Name: "capabilities", Value: capabilities.JSON()},
		mcp.Member{Name: "serverInfo", Value: gateway.ServerInfo(s.config.Name, s.config.Version)},
	)
}

// checkRevision checks the header that repeats the negotiated revision. Clients may leave
// it out, and some name another revision than was negotiated, so any revision that a
// session can have is accepted.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header
func checkRevision(x *exchange.Exchange, l *sessions.Session) *exchange.Refusal {
	values := x.Request.Header[mcp.HeaderProtocolVersion]
	if len(values) == 0 || len(values) == 1 &&
		(values[0] == l.Client().Revision || mcp.EraOf(values[0]) == mcp.Legacy) {
		return nil
	}
	return exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: Mcp-Protocol-Version names no revision that is served in a session")
}
