package wire

import (
	"bytes"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Notes are notifications that wait for a slow taker, a bounded number of them.
type Notes chan *mcp.Message

const (
	notesMax = 256
	noteMax  = 64 << 10 // bytes of a notification that may wait behind another
)

// NewNotes returns room for notesMax notifications.
func NewNotes() Notes { return make(Notes, notesMax) }

// Keep makes a notification wait, without blocking. It returns false when there is no room: for any notification when
// notesMax wait, for one of more than noteMax bytes when any waits. What waits is copied, because the text that it came
// in, and would keep in memory, may be a thousand times as long.
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

// Weight returns about how many bytes an object has as JSON.
func Weight(o mcp.Object) (n int) {
	for name, value := range o.Members {
		n += len(name) + len(value)
	}
	return n
}
