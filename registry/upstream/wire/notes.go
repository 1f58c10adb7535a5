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

// Keep makes a notification wait, without blocking. It returns false when one had to be dropped for want of room: when
// notesMax wait, or when one of more than noteMax bytes comes and any waits. That is the new one, but of progress the
// oldest that waits, because the latest says more. What waits is copied, because the text that it came in, and would
// keep in memory, may be a thousand times as long.
func (n Notes) Keep(m *mcp.Message) bool {
	if Weight(m.Params) > noteMax && len(n) > 0 {
		return false
	}
	members := make([]mcp.Member, 0, m.Params.Len())
	for name, value := range m.Params.Members {
		members = append(members, mcp.Member{Name: name, Value: bytes.Clone(value)})
	}
	note := &mcp.Message{Method: m.Method, Params: mcp.NewObject(members...)}
	if n.add(note) {
		return true
	}
	if m.Method == mcp.NotifyProgress {
		select {
		case <-n:
		default: // the taker was faster
		}
		n.add(note)
	}
	return false
}

// add makes a notification wait if fewer than notesMax do.
func (n Notes) add(m *mcp.Message) bool {
	select {
	case n <- m:
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
