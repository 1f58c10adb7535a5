package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	purposeSession = "session" // ids of Streamable HTTP
	purposeSSE     = "sse"     // ids of HTTP+SSE: neither passes for the other

	ticketVersion  = 1
	generationSize = 8
	keySize        = 16
	ticketSize     = 1 + generationSize + keySize + sha256.Size
)

// ticket is what a session id says. It is sealed, so only this gateway can read or make one, and it is of use only to
// the principal it was made for: possession proves nothing. What else there is to know of a session, the process that
// holds it knows.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
type ticket struct {
	generation [generationSize]byte // of the process that holds the session
	key        sessionKey
	owner      owner
}

type sessionKey [keySize]byte

func newKey() (k sessionKey) {
	rand.Read(k[:]) // never fails
	return k
}

func (k sessionKey) String() string { return hex.EncodeToString(k[:]) }

// owner is a digest of whom a session belongs to.
type owner [sha256.Size]byte

// ownerOf returns a digest of who a session belongs to: issuer, subject, client and tenant, each with its length, so
// that no two principals give one text. A digest keeps ids short whatever the names are.
func ownerOf(p auth.Principal) owner {
	var buffer [256]byte
	text := buffer[:0]
	for _, part := range [...]string{p.Issuer, p.Subject, p.ClientID, p.TenantID} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// encode returns the ticket in its fixed layout.
func (t *ticket) encode() []byte {
	out := make([]byte, 0, ticketSize)
	out = append(out, ticketVersion)
	out = append(out, t.generation[:]...)
	out = append(out, t.key[:]...)
	return append(out, t.owner[:]...)
}

// decodeTicket reads what encode wrote.
func decodeTicket(data []byte) (t ticket, ok bool) {
	if len(data) != ticketSize || data[0] != ticketVersion {
		return ticket{}, false
	}
	rest := data[1:]
	rest = rest[copy(t.generation[:], rest):]
	rest = rest[copy(t.key[:], rest):]
	copy(t.owner[:], rest)
	return t, true
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
	sess, id, err := s.sessions.open(ctx, purposeSession, x.principal, revision)
	if err != nil {
		s.log.ErrorContext(ctx, "session id not sealed", "error", err)
		x.refuse(m.ID, errPanic)
		return
	}
	sess.claim(s.desk.Lists(x.caller).Tools, "") // the client has yet to list: what it sees now is no change
	x.Header().Set(mcp.HeaderSessionID, id)
	x.writeJSON(http.StatusOK, mcp.AppendResult(nil, m.ID, s.welcome(revision)))
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
	return mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(revision)},
		mcp.Member{Name: "capabilities", Value: mcp.RawJSON(`{"tools":{"listChanged":true}}`)},
		mcp.Member{Name: "serverInfo", Value: s.serverInfo()},
	)
}

// serverInfo says who answers.
func (s *Server) serverInfo() mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String("drawbridge")},
		mcp.Member{Name: "version", Value: mcp.String(s.config.Version)},
	).JSON()
}
