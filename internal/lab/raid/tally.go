package raid

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// Tally is what the raiders of an attack saw.
type Tally struct {
	Attempts int64 // requests, and connections that were opened only to be there
	Answered int64 // with 200
	Refused  int64 // with another status
	Broken   int64 // not answered: refused connections, or closed ones
	Received int64 // bytes of answers
	Held     int64 // connections that were held open at the same time, at most
	// Instead is what came instead of an answer with 200, by status and code, and how
	// often. Connections that were closed without an answer are among them.
	Instead map[string]int64
}

// Since returns what was added after before, without what came instead of answers. What
// is held at once is the most of all times.
func (t *Tally) Since(before Tally) Tally {
	return Tally{
		Attempts: t.Attempts - before.Attempts, Answered: t.Answered - before.Answered,
		Refused: t.Refused - before.Refused,
		Broken:  t.Broken - before.Broken, Received: t.Received - before.Received, Held: t.Held,
	}
}

// Add adds another tally, as of a later time. What is held at once is the most of all
// times.
func (t *Tally) Add(other Tally) {
	instead := t.Instead
	if instead == nil {
		instead = map[string]int64{}
	}
	for what, count := range other.Instead {
		instead[what] += count
	}
	*t = Tally{
		t.Attempts + other.Attempts, t.Answered + other.Answered, t.Refused + other.Refused,
		t.Broken + other.Broken, t.Received + other.Received, max(t.Held, other.Held), instead,
	}
}

// Counters is a tally that many raiders add to. The zero value is ready.
type Counters struct {
	attempts, answered, refused, broken, received, holds, held atomic.Int64

	mu      sync.Mutex // guards the field below
	instead map[string]int64
}

// Tally returns what was counted so far.
func (c *Counters) Tally() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Tally{
		c.attempts.Load(), c.answered.Load(), c.refused.Load(), c.broken.Load(), c.received.Load(),
		c.held.Load(), maps.Clone(c.instead),
	}
}

// counted counts an answer.
func (c *Counters) counted(answer *client.Answer) *client.Answer {
	c.received.Add(answer.Size)
	if !refused(answer) {
		c.answered.Add(1)
		return answer
	}
	c.refused.Add(1)
	code := page.Either(answer.Status >= http.StatusBadRequest, answer.Code(), "")
	c.seen(strings.TrimSpace(fmt.Sprint(answer.Status, " ", code)))
	return answer
}

// seen counts what came instead of an answer.
func (c *Counters) seen(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.instead == nil {
		c.instead = map[string]int64{}
	}
	c.instead[what]++
}

// hold counts a connection that is held open, until release is called.
func (c *Counters) hold() (release func()) {
	now := c.holds.Add(1)
	for most := c.held.Load(); now > most && !c.held.CompareAndSwap(most, now); {
		most = c.held.Load()
	}
	return func() { c.holds.Add(-1) }
}
