// Package ticket is what the id of a session says: everything about the session that does
// not change. It knows how that is laid out in bytes, and neither how it is sealed nor
// what becomes of the session.
package ticket

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// What the id of a session is sealed for: neither passes for the other.
const (
	Session = "session" // ids of Streamable HTTP
	SSE     = "sse"     // ids of HTTP+SSE
)

// The layout of a ticket; sizes are in bytes.
const (
	// ticketVersion is the first byte of a ticket. While a gateway is updated, replicas
	// of two versions serve the same clients. What may be overlooked may be added at the
	// end of a ticket. Any other change of the layout needs a new version,
	// replica.Formats, and two rollouts: the first reads both layouts and writes the old
	// one, and the second, when no replica is left that reads only the old one, writes
	// the new one. See Directory.unreadable for who skips the first.
	ticketVersion = 4
	OpenerSize    = 8
	KeySize       = 16
	// without extensions
	Size = 1 + OpenerSize + KeySize + sha256.Size + 8 + len(mcp.LatestLegacy) + 1 + 2
)

// Ticket is what the id of a session says. It is sealed, so only gateways with the same
// keys can make or read one. It can be used only by the owner that it was made for, so
// possessing the id alone is worth nothing. It holds everything about the session that
// does not change, so that another replica can serve the session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
type Ticket struct {
	Opener   [OpenerSize]byte // the id of the replica that opened the session, and leads it at first
	Key      Key
	Owner    [sha256.Size]byte
	Opened   time.Time // in seconds
	Revision string    // as negotiated; means nothing over HTTP+SSE, where the handshake comes later
	// what the client can be asked, see mcp.CapabilityBits; means nothing over HTTP+SSE
	Capabilities byte
	Extensions   mcp.Extensions
}

// Agreed returns what the handshake decided.
func (t *Ticket) Agreed() Terms {
	return Terms{t.Revision, mcp.CapabilitiesIn(t.Capabilities), t.Extensions}
}

// Terms are what the handshake of a session decides.
type Terms struct {
	Revision     string
	Capabilities mcp.Object     // what the client can be asked
	Extensions   mcp.Extensions // that the client declares and that are carried
}

// Key names a session. It is random, and no secret.
type Key [KeySize]byte

// NewKey returns a key that no other session has.
func NewKey() (k Key) {
	rand.Read(k[:]) // never fails
	return k
}

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Encode returns the ticket in its fixed layout. A change of the layout needs a new
// ticketVersion.
func (t *Ticket) Encode() []byte {
	out := make([]byte, 0, Size)
	out = append(out, ticketVersion)
	out = append(out, t.Opener[:]...)
	out = append(out, t.Key[:]...)
	out = append(out, t.Owner[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(t.Opened.Unix())) //nolint:gosec // not before 1970
	out = append(out, t.Revision...)
	out = append(out, t.Capabilities)
	text := t.Extensions.JSON()
	out = binary.BigEndian.AppendUint16(out, uint16(len(text))) //nolint:gosec // its bound is lower
	return append(out, text...)
}

// Decode reads what encode wrote, here or in a later version that adds something at
// the end. The ticket keeps nothing of data.
func Decode(data []byte) (t Ticket, ok bool) {
	if len(data) < Size || data[0] != ticketVersion {
		return Ticket{}, false
	}
	rest := data[1:Size]
	rest = rest[copy(t.Opener[:], rest):]
	rest = rest[copy(t.Key[:], rest):]
	rest = rest[copy(t.Owner[:], rest):]
	t.Opened = time.Unix(int64(binary.BigEndian.Uint64(rest)), 0) //nolint:gosec // as encode wrote it
	size := len(rest) - 2
	t.Revision, t.Capabilities = legacyRevision(rest[8:size-1]), rest[size-1]
	extensions := data[Size:]
	if n := int(binary.BigEndian.Uint16(rest[size:])); n > 0 && n <= len(extensions) {
		t.Extensions = mcp.ParseExtensions(string(extensions[:n]))
	}
	return t, t.Revision != ""
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

// OpenedBy returns the replica that opened the session of a ticket.
func (t *Ticket) OpenedBy() replica.ID { return replica.ID(hex.EncodeToString(t.Opener[:])) }
