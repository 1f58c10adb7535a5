package gateway

import (
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Waited is for how long a call waited, by what it waited for. The zero Waited is that of
// a call which waited for nothing. It belongs to the goroutine of the call.
type Waited struct {
	Queue time.Duration // for a processor, to parse, check or clean what is large
	Limit time.Duration // until its limits were asked, of which some may be far away

	// The source adds these two: for a free session with its server, and until a session
	// was opened, for which a command may have to be started.
	registry.Waited
}

// waitedLittle is the least wait that records tell of. Less is the time that it takes to
// look.
const waitedLittle = time.Millisecond

// waitedFor are the words for what is waited for, in the order of times.
var waitedFor = [...]string{"queue", "limit", "slot", "process"}

func (w *Waited) times() [len(waitedFor)]time.Duration {
	return [...]time.Duration{w.Queue, w.Limit, w.Slot, w.Process}
}

// total returns how long the call waited for everything together, zero for a little.
func (w *Waited) total() (sum time.Duration) {
	for _, d := range w.times() {
		sum += d
	}
	if sum < waitedLittle {
		return 0
	}
	return sum
}

// longest returns the word for what the call waited for longest, "" if it waited little.
func (w *Waited) longest() string {
	times := w.times()
	if w.total() == 0 {
		return ""
	}
	return waitedFor[slices.Index(times[:], slices.Max(times[:]))]
}

// since adds the time since a moment to one of the times.
func since(began time.Time, to *time.Duration) { *to += time.Since(began) }
