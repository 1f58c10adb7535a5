package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	purposeSession = "session" // ids of Streamable HTTP
	purposeSSE     = "sse"     // ids of HTTP+SSE: neither passes for the other

	ticketVersion  = 3
	generationSize = 8
	keySize        = 16
	ticketSize     = 1 + generationSize + keySize + sha256.Size + 8 + len(mcp.LatestLegacy) + 1
)

// ticket is what a session id says. It is sealed, so only this gateway can read or make one, and it is of use only to
// the principal it was made for: possession proves nothing. What the client is never said to change is in it, so that
// another replica can serve the session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
type ticket struct {
	generation [generationSize]byte // of the process that opened the session
	key        sessionKey
	owner      [sha256.Size]byte
	opened     time.Time  // in seconds
	revision   string     // as negotiated; over HTTP+SSE, where the handshake comes later, it says nothing
	asks       mcp.Object // what the client can be asked; over HTTP+SSE it says nothing
}

type sessionKey [keySize]byte

func newKey() (k sessionKey) {
	rand.Read(k[:]) // never fails
	return k
}

func (k sessionKey) String() string { return hex.EncodeToString(k[:]) }

// encode returns the ticket in its fixed layout.
func (t *ticket) encode() []byte {
	out := make([]byte, 0, ticketSize)
	out = append(out, ticketVersion)
	out = append(out, t.generation[:]...)
	out = append(out, t.key[:]...)
	out = append(out, t.owner[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(t.opened.Unix())) //nolint:gosec // not before 1970
	out = append(out, t.revision...)
	return append(out, encodeAsks(t.asks))
}

// decodeTicket reads what encode wrote.
func decodeTicket(data []byte) (t ticket, ok bool) {
	if len(data) != ticketSize || data[0] != ticketVersion {
		return ticket{}, false
	}
	rest := data[1:]
	rest = rest[copy(t.generation[:], rest):]
	rest = rest[copy(t.key[:], rest):]
	rest = rest[copy(t.owner[:], rest):]
	t.opened = time.Unix(int64(binary.BigEndian.Uint64(rest)), 0) //nolint:gosec // as encode wrote it
	last := len(rest) - 1
	t.revision, t.asks = string(rest[8:last]), decodeAsks(rest[last])
	return t, mcp.EraOf(t.revision) == mcp.Legacy
}

// askable are the things that a client can be asked, each one bit of a ticket. A part follows the whole.
var askable = [...]struct{ name, part string }{
	{"elicitation", ""},
	{"elicitation", "form"},
	{"elicitation", "url"},
	{"roots", ""},
	{"sampling", ""},
	{"sampling", "context"},
	{"sampling", "tools"},
}

// encodeAsks returns capabilities in the form of mcp.CapabilitiesOf as bits.
func encodeAsks(asks mcp.Object) (bits byte) {
	for i, one := range askable {
		if one.part == "" && asks.Has(one.name) || one.part != "" && asks.Object(one.name).Has(one.part) {
			bits |= 1 << i
		}
	}
	return bits
}

// decodeAsks reads what encodeAsks wrote.
func decodeAsks(bits byte) (asks mcp.Object) {
	for i, one := range askable {
		switch {
		case bits&(1<<i) == 0:
		case one.part == "":
			asks = asks.With(one.name, mcp.RawJSON("{}"))
		default:
			asks = asks.With(one.name, asks.Object(one.name).With(one.part, mcp.RawJSON("{}")).JSON())
		}
	}
	return asks
}

// negotiate returns the revision of a handshake: the one asked for when a handshake can have it, else the newest that
// can.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
func negotiate(asked string) string {
	if mcp.EraOf(asked) == mcp.Legacy {
		return asked
	}
	return mcp.LatestLegacy
}

// initialize opens a session, and answers with its id.
func (s *Server) initialize(ctx context.Context, x *exchange, m *mcp.Message) {
	if refused := checkInitialize(m); refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	revision := negotiate(m.Params.Text("protocolVersion"))
	asks := mcp.CapabilitiesOf(revision, m.Params.Object("capabilities"))
	sess, id, refused := s.openSession(ctx, x, purposeSession, revision, asks)
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	sess.claim(s.catalogue.Lists(x.caller), "") // the client has yet to list: what it sees now is no change
	x.Header().Set(mcp.HeaderSessionID, id)
	x.writeJSON(http.StatusOK, mcp.AppendResult(nil, m.ID, s.welcome(revision)))
}

// openSession opens a session for the caller of x, and returns its id.
func (s *Server) openSession(ctx context.Context, x *exchange, purpose, revision string, asks mcp.Object) (*live, string, *refusal) {
	l, id, refused, err := s.sessions.open(ctx, purpose, x.caller, revision, asks)
	if err != nil {
		s.log.ErrorContext(ctx, "session id not sealed", "error", err)
		return nil, "", errPanic
	}
	return l, id, refused
}

func checkInitialize(m *mcp.Message) *refusal {
	if _, ok := m.Params.Value("protocolVersion").Text(); !ok {
		return refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: protocolVersion must be a string")
	}
	if capabilities := m.Params.Value("capabilities"); capabilities != nil && !capabilities.IsObject() {
		return refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams, "Invalid params: capabilities must be an object")
	}
	return nil
}

// welcome is the result of initialize.
func (s *Server) welcome(revision string) mcp.Object {
	declared := gateway.Capabilities()
	capabilities := declared.Without("completions", "extensions")
	if revision >= mcp.Revision2503 { // before, the method had no capability
		capabilities = capabilities.With("completions", declared.Value("completions"))
	}
	if tasksIn(revision) != 0 { // there is no list of them: their ids are all that is known here
		capabilities = capabilities.With("tasks", mcp.RawJSON(`{"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	return mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(revision)},
		mcp.Member{Name: "capabilities", Value: capabilities.JSON()},
		mcp.Member{Name: "serverInfo", Value: gateway.ServerInfo(s.config.Version)},
	)
}
