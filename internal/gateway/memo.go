package gateway

import (
	linked "container/list"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// memo remembers JSON that many callers get, up to a bound of bytes: the text that was
// asked for longest ago makes room for the next. A key must say everything that its text
// depends on, so that no text is ever wrong. It is safe for concurrent use.
type memo[K comparable] struct {
	limit int64 // bytes

	mu    sync.Mutex // guards the fields below
	size  int64      // bytes
	known map[K]*linked.Element
	used  *linked.List // of *remembered[K]; the one that was asked for last is at the front
}

// remembered is one of them, with what it costs.
type remembered[K comparable] struct {
	key  K
	json mcp.RawJSON
	size int64
}

// entrySize is about what an entry costs besides its text, in bytes.
const entrySize = 256

func newMemo[K comparable](limit int64) *memo[K] {
	return &memo[K]{limit: limit, known: make(map[K]*linked.Element), used: linked.New()}
}

// find returns the text with that key, if it is remembered.
func (m *memo[K]) find(key K) (mcp.RawJSON, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.known[key]
	if !ok {
		return nil, false
	}
	m.used.MoveToFront(found)
	return found.Value.(*remembered[K]).json, true
}

// keep remembers a text, and returns it, or the equal one that another goroutine has put
// there meanwhile. bytes is what keeping it costs: zero if its memory belongs to
// something that lives anyway. A text that would take more than half of the room is not
// remembered, since nearly all others would go for it.
func (m *memo[K]) keep(key K, json mcp.RawJSON, bytes int) mcp.RawJSON {
	size := int64(bytes) + entrySize
	if size > m.limit/2 {
		return json
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[key]; ok {
		return found.Value.(*remembered[K]).json
	}
	for m.size+size > m.limit {
		m.dropLocked(m.used.Back())
	}
	m.known[key] = m.used.PushFront(&remembered[K]{key, json, size})
	m.size += size
	return json
}

func (m *memo[K]) dropLocked(e *linked.Element) {
	dropped := m.used.Remove(e).(*remembered[K])
	delete(m.known, dropped.key)
	m.size -= dropped.size
}

// forget drops all texts, with the memory of the table.
func (m *memo[K]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.size = make(map[K]*linked.Element), 0
	m.used.Init()
}
