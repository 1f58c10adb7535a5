package wire

import (
	"bytes"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Notes are notifications that wait for a slow taker, a bounded number of them. The taker
// holds their memory, so that one who is slow fills only its own share. Notes are safe
// for concurrent use. Of nil Notes nothing can be taken.
type Notes struct {
	queue    chan *mcp.Message
	reserved *share.Reservation // holds those that wait; nil: they are not counted

	mu   sync.Mutex // guards the field below; held while a note is added, never while somebody waits
	size int        // bytes of those that wait
}

const (
	notesMax = 256
	noteMax  = 64 << 10 // bytes of a notification that may wait behind another
	noteCost = 512      // bytes that a notification takes besides its params, roughly
)

// NewNotes returns room for notesMax notifications, which the reservation holds. It is
// theirs alone; Close releases it.
func NewNotes(reserved *share.Reservation) *Notes {
	return &Notes{queue: make(chan *mcp.Message, notesMax), reserved: reserved}
}

// Waiting returns the channel from which the taker receives what waits. It calls Took
// with each.
func (n *Notes) Waiting() <-chan *mcp.Message {
	if n == nil {
		return nil
	}
	return n.queue
}

// Took says that a notification does not wait any more.
func (n *Notes) Took(m *mcp.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tookLocked(m)
}

func (n *Notes) tookLocked(m *mcp.Message) {
	n.size -= costOf(m)
	n.reserved.Shrink(int64(n.size))
}

// Each takes all notifications that wait now, and calls take for each of them.
func (n *Notes) Each(take func(*mcp.Message)) {
	for {
		select {
		case m := <-n.Waiting():
			n.Took(m)
			take(m)
		default:
			return
		}
	}
}

// Close gives back the memory of what waits. The taker takes nothing afterwards, and
// nothing more is kept if it is counted.
func (n *Notes) Close() {
	if n != nil {
		n.reserved.Release()
	}
}

// Keep makes a notification wait, without blocking. It returns false when one had to be
// dropped for want of room: when notesMax wait, when the taker's share of memory has none
// left, or when one of more than noteMax bytes comes and any waits. That is the new one.
// But if the new one is of progress and has at most noteMax bytes, it is the oldest that
// waits, because the latest progress says more. What waits is copied, names included,
// because the text that it came in, and would keep in memory, may be a thousand times as
// long.
func (n *Notes) Keep(m *mcp.Message) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m.Params.Size() > noteMax && len(n.queue) > 0 {
		return false
	}
	if n.addLocked(m) {
		return true
	}
	if m.Method == mcp.NotifyProgress {
		select {
		case oldest := <-n.queue:
			n.tookLocked(oldest)
		default: // the taker was faster
		}
		n.addLocked(m)
	}
	return false
}

// addLocked makes a copy of a notification wait if fewer than notesMax do and there is
// memory for it.
func (n *Notes) addLocked(m *mcp.Message) bool {
	size := n.size + costOf(m)
	if len(n.queue) == cap(n.queue) || n.reserved.Resize(int64(size)) != nil {
		return false
	}
	members := make([]mcp.Member, 0, m.Params.Len())
	for name, value := range m.Params.Members {
		members = append(members, mcp.Member{Name: strings.Clone(name), Value: bytes.Clone(value)})
	}
	n.size = size
	// nobody else adds, so there is a place
	n.queue <- &mcp.Message{Method: m.Method, Params: mcp.NewObject(members...)}
	return true
}

// costOf returns about how many bytes a notification takes.
func costOf(m *mcp.Message) int { return noteCost + m.Params.Size() }
