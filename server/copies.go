package server

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	copyTime  = time.Minute // how long a message counts as a copy of an earlier one
	maxCopies = 64          // messages that are remembered in a session; the oldest makes room for another
)

// copies knows the requests of a session over HTTP+SSE that came by way of another replica a short while ago. That one may
// have told the client to try again, because it did not hear that the message was taken. The same message is then a copy:
// its answer is on the stream, or comes there. No id may be used twice in a session, but a copy has the same text, too, so
// that a client which uses an id again for something else gets its answer. The zero copies has seen none. It is safe for
// concurrent use.
type copies struct {
	mu   sync.Mutex // guards the field below
	seen []passed   // oldest first
}

// passed is one request. It keeps digests, so that each takes the same room.
type passed struct {
	id, body [sha256.Size]byte
	at       time.Time
}

func passedNow(id mcp.ID, body []byte) passed {
	return passed{sha256.Sum256([]byte(id)), sha256.Sum256(body), time.Now()}
}

// has tells whether such a message was added.
func (c *copies) has(id mcp.ID, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen) > 0 && c.findLocked(passedNow(id, body)) >= 0
}

// add remembers a message. It is true if that was added before.
func (c *copies) add(id mcp.ID, body []byte) bool {
	p := passedNow(id, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.findLocked(p) >= 0 {
		return true
	}
	if len(c.seen) == maxCopies {
		c.seen = slices.Delete(c.seen, 0, 1)
	}
	c.seen = append(c.seen, p)
	return false
}

// remove forgets a message that was refused after all.
func (c *copies) remove(id mcp.ID, body []byte) {
	p := passedNow(id, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.findLocked(p); i >= 0 {
		c.seen = slices.Delete(c.seen, i, i+1)
	}
}

// findLocked forgets what was added too long ago, and returns where the message is, -1 if it is not there.
func (c *copies) findLocked(p passed) int {
	c.seen = slices.DeleteFunc(c.seen, func(one passed) bool { return p.at.Sub(one.at) > copyTime })
	return slices.IndexFunc(c.seen, func(one passed) bool { return one.id == p.id && one.body == p.body })
}
