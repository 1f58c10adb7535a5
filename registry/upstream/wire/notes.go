package wire

import (
	"bytes"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Notes are notifications that wait for one who is slow to take them.
type Notes chan *mcp.Message

const (
	notesMax = 256
	noteMax  = 64 << 10 // bytes of one behind another
)

// NewNotes returns room for some notifications.
func NewNotes() Notes { return make(Notes, notesMax) }

// Keep lets a notification wait. It returns false when there is no room: for a large one, when another waits. What waits
// has memory of its own, because the text that it came in may be a thousand times as long.
func (n Notes) Keep(m *mcp.Message) bool {
	if Weight(m.Params) > noteMax && len(n) > 0 {
		return false
	}
	members := make([]mcp.Member, 0, m.Params.Len())
	for name, value := range m.Params.Members {
		members = append(members, mcp.Member{Name: name, Value: bytes.Clone(value)})
	}
	select {
	case n <- &mcp.Message{Method: m.Method, Params: mcp.NewObject(members...)}:
		return true
	default:
		return false
	}
}

// Weight returns about how many bytes an object has.
func Weight(o mcp.Object) (n int) {
	for name, value := range o.Members {
		n += len(name) + len(value)
	}
	return n
}
