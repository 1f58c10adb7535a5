package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	purposeSession = "session" // ids of Streamable HTTP
	purposeSSE     = "sse"     // ids of HTTP+SSE: neither passes for the other

	// ticketVersion is the first byte of a ticket. While a gateway is updated, replicas
	// of two versions serve the same clients. What may be overlooked may be added at the
	// end of a ticket. Any other change of the layout needs a new version,
	// replica.Formats, and two rollouts: the first reads both layouts and writes the old
	// one, and the second, when no replica is left that reads only the old one, writes
	// the new one. See sessions.unreadable for who skips the first.
	ticketVersion = 4
	openerSize    = 8
	keySize       = 16
	ticketSize    = 1 + openerSize + keySize + sha256.Size + 8 + len(mcp.LatestLegacy) + 1 + 2 // without extensions
)

// ticket is what the id of a session says. It is sealed, so only gateways with the same
// keys can make or read one. It can be used only by the owner that it was made for, so
// possessing the id alone is worth nothing. It holds everything about the session that
// does not change, so that another replica can serve the session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
type ticket struct {
	opener   [openerSize]byte // the id of the replica that opened the session, and leads it at first
	key      sessionKey
	owner    [sha256.Size]byte
	opened   time.Time // in seconds
	revision string    // as negotiated; means nothing over HTTP+SSE, where the handshake comes later
	// what the client can be asked, see encodeCapabilities; means nothing over HTTP+SSE
	capabilities byte
	extensions   mcp.Extensions
}

// agreed returns what the handshake decided.
func (t *ticket) agreed() terms {
	return terms{t.revision, decodeCapabilities(t.capabilities), t.extensions}
}

// terms are what the handshake of a session decides.
type terms struct {
	revision     string
	capabilities mcp.Object     // what the client can be asked
	extensions   mcp.Extensions // that the client declares and that are carried
}

type sessionKey [keySize]byte

func newKey() (k sessionKey) {
	rand.Read(k[:]) // never fails
	return k
}

func (k sessionKey) String() string { return hex.EncodeToString(k[:]) }

// encode returns the ticket in its fixed layout. A change of the layout needs a new
// ticketVersion.
func (t *ticket) encode() []byte {
	out := make([]byte, 0, ticketSize)
	out = append(out, ticketVersion)
	out = append(out, t.opener[:]...)
	out = append(out, t.key[:]...)
	out = append(out, t.owner[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(t.opened.Unix())) //nolint:gosec // not before 1970
	out = append(out, t.revision...)
	out = append(out, t.capabilities)
	text := t.extensions.JSON()
	out = binary.BigEndian.AppendUint16(out, uint16(len(text))) //nolint:gosec // its bound is lower
	return append(out, text...)
}

// decodeTicket reads what encode wrote, here or in a later version that adds something at
// the end. The ticket keeps nothing of data.
func decodeTicket(data []byte) (t ticket, ok bool) {
	if len(data) < ticketSize || data[0] != ticketVersion {
		return ticket{}, false
	}
	rest := data[1:ticketSize]
	rest = rest[copy(t.opener[:], rest):]
	rest = rest[copy(t.key[:], rest):]
	rest = rest[copy(t.owner[:], rest):]
	t.opened = time.Unix(int64(binary.BigEndian.Uint64(rest)), 0) //nolint:gosec // as encode wrote it
	size := len(rest) - 2
	t.revision, t.capabilities = legacyRevision(rest[8:size-1]), rest[size-1]
	extensions := data[ticketSize:]
	if n := int(binary.BigEndian.Uint16(rest[size:])); n > 0 && n <= len(extensions) {
		t.extensions = mcp.ParseExtensions(string(extensions[:n]))
	}
	return t, t.revision != ""
}

// legacyRevision returns the legacy revision of that name, "" if there is none.
func legacyRevision(name []byte) string {
	for _, known := range mcp.Revisions() {
		if known == string(name) && mcp.EraOf(known) == mcp.Legacy {
			return known
		}
	}
	return ""
}

// askable lists what a client can be asked; each entry is one bit of a ticket. A part
// follows the whole that it belongs to.
var askable = [...]struct{ name, part string }{
	{"elicitation", ""},
	{"elicitation", "form"},
	{"elicitation", "url"},
	{"roots", ""},
	{"sampling", ""},
	{"sampling", "context"},
	{"sampling", "tools"},
}

// encodeCapabilities returns capabilities, in the form of mcp.CapabilitiesOf, as bits.
func encodeCapabilities(capabilities mcp.Object) (bits byte) {
	for i, one := range askable {
		if one.part == "" && capabilities.Has(one.name) || one.part != "" &&
			capabilities.Object(one.name).Has(one.part) {
			bits |= 1 << i
		}
	}
	return bits
}

// decodeCapabilities reads what encodeCapabilities wrote.
func decodeCapabilities(bits byte) (capabilities mcp.Object) {
	for i, one := range askable {
		switch {
		case bits&(1<<i) == 0:
		case one.part == "":
			capabilities = capabilities.With(one.name, mcp.RawJSON("{}"))
		default:
			capabilities = capabilities.With(one.name, capabilities.Object(one.name).With(one.part,
				mcp.RawJSON("{}")).JSON())
		}
	}
	return capabilities
}
