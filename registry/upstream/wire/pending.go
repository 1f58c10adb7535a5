package wire

import (
	"bytes"
	"sync"

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

// pending holds the requests that wait for an answer on a connection that all share.
type pending struct {
	mu      sync.Mutex // guards the fields below
	waiters map[mcp.ID]*waiter
	logs    mcp.ID // of the request that log messages belong to; "": there is none
}

// waiter is one request that waits. The reader of the connection never waits for it: what does not fit is dropped.
type waiter struct {
	notes  Notes
	hear   func(*mcp.Message) // takes notifications in place of notes, at once; nil: notes has them
	answer chan answer        // holds one
	modern bool               // its server may end it without an answer
}

// answer is how a request ended.
type answer struct {
	message *mcp.Message
	err     error
}

func newPending() pending { return pending{waiters: map[mcp.ID]*waiter{}} }

// add begins to wait for the answer to a request.
func (p *pending) add(out *Request) *waiter {
	w := &waiter{answer: make(chan answer, 1), modern: out.Header != nil}
	switch {
	case out.Hear != nil:
		w.hear = out.Hear
	case out.Notify != nil:
		w.notes = NewNotes()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters[out.ID] = w
	if out.Logs {
		p.logs = out.ID
	}
	return w
}

// remove ends the wait.
func (p *pending) remove(id mcp.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, id)
	if p.logs == id {
		p.logs = ""
	}
}

// logging returns the id of the request that log messages belong to, "" when there is none.
func (p *pending) logging() mcp.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs
}

// end ends a request without a result, as a modern server ends a subscription. It returns false for what is no request to
// such a server.
func (p *pending) end(id mcp.ID) bool {
	p.mu.Lock()
	w := p.waiters[id]
	p.mu.Unlock()
	return w != nil && w.modern && p.resolve(id, answer{err: ErrEnded})
}

// resolve gives an answer to who waits for it, once. It returns false when nobody does.
func (p *pending) resolve(id mcp.ID, a answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiters[id]
	if ok {
		delete(p.waiters, id)
		w.answer <- a // has room: an id is resolved once
	}
	return ok
}

// only returns the id that waits when exactly one does.
func (p *pending) only() (mcp.ID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.waiters {
		return id, len(p.waiters) == 1
	}
	return "", false
}

// note gives a notification to the request with that id. It returns false when the request's place is full.
func (p *pending) note(id mcp.ID, m *mcp.Message) bool {
	p.mu.Lock()
	w := p.waiters[id]
	p.mu.Unlock()
	switch {
	case w != nil && w.hear != nil:
		w.hear(m)
		return true
	case w == nil || w.notes == nil:
		return true // nobody wants it
	}
	return w.notes.Keep(m)
}

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
