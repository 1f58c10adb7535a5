package wire

import (
	"sync"
	"time"
)

// Bounds of what is read of one server besides answers, in messages; each KiB of a
// message counts as one more.
const (
	throttleBurst = 10_000
	throttleRate  = 5_000                 // a second
	throttleMin   = 10 * time.Millisecond // the shortest pause; shorter ones are saved up
	throttleMax   = time.Second           // the longest
)

// Throttle bounds how fast the messages of one server are read that are no answers:
// progress, log lines, questions. A server in a loop sends them as fast as they are read,
// and to read them costs the processor that all tenants share, even where they are
// dropped then. Beyond the bounds the reader of a stream or pipe pauses, so that the
// server has to wait before it can send more. Only callers of this server notice, whose
// answers stand behind the flood. All streams and pipes of a server share one Throttle,
// so many of them get no more than one. The zero value is ready. It is safe for
// concurrent use; nil bounds nothing.
type Throttle struct {
	mu   sync.Mutex // guards the field below
	paid time.Time  // up to then what was read has used up the rate
}

// take notes that so many bytes of messages were read, and returns how long to pause
// before more is read.
func (t *Throttle) take(bytes int) time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.paid.Before(now) {
		t.paid = now
	}
	const burst = throttleBurst * time.Second / throttleRate
	cost := time.Duration(1+bytes>>10) * time.Second / throttleRate
	pause := min(t.paid.Add(cost).Sub(now)-burst, throttleMax)
	t.paid = now.Add(burst + pause) // and no more, or what comes long after a flood would pause for it
	if pause < throttleMin {
		return 0
	}
	return pause
}

// pace pauses when too much was read. It returns as soon as hurry is closed.
func (r reader) pace(hurry <-chan struct{}, bytes int) {
	pause := r.throttle.take(bytes)
	if pause == 0 {
		return
	}
	r.count(Paced, 1)
	select {
	case <-time.After(pause):
	case <-hurry:
	}
}

const (
	paddingLine = 16       // bytes that a line counts for besides its own: it has to be found
	paddingStep = 64 << 10 // bytes that are added up before they are paced
	// bytes that one of standard error counts for: each line is searched for the name of
	// an error
	errorCost = 8
)

// padding paces what a server sends besides messages: comments of event streams, events
// of other types, empty lines, standard error. Nothing of that is parsed, but a server
// that sends only that as fast as it is read would keep a processor busy. It belongs to
// one goroutine, which it pauses.
type padding struct {
	read  reader
	hurry <-chan struct{} // closed when there are to be no pauses
	bytes int             // since the last pause
}

// add notes a line of that many bytes.
func (p *padding) add(bytes int) {
	if p.bytes += bytes + paddingLine; p.bytes >= paddingStep {
		p.read.pace(p.hurry, p.bytes)
		p.bytes = 0
	}
}
