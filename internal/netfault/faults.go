package netfault

import "time"

// Direction is one of the two directions of a connection.
type Direction int

// The directions.
const (
	Requests Direction = iota // from whoever connected to the target
	Answers                   // from the target
)

// faults is what is wrong at a time; the zero value is nothing. It is replaced, never
// changed, and changed is closed then.
type faults struct {
	delay   time.Duration
	rate    int // bytes a second; zero: any
	hole    bool
	cuts    bool
	resets  bool
	half    [2]bool   // by Way
	quota   [2]*quota // by Way; nil: none
	garbage [2]*noise // by Way; nil: none
	changed chan struct{}
}

// quota is how many bytes may still go one way. Links count by themselves, from when they
// see a quota that is new.
type quota struct{ bytes int64 }

// noise is what bytes are replaced by. Each link makes its own, from when it sees one
// that is new.
type noise struct{ seed uint64 }

// Delay makes all answers come later by that much. Answers stay in order and do not wait
// for each other's delay.
func (p *Proxy) Delay(d time.Duration) { p.change(func(f *faults) { f.delay = d }) }

// Rate lets no more bytes a second through each connection, in each direction.
func (p *Proxy) Rate(bytesPerSecond int) { p.change(func(f *faults) { f.rate = bytesPerSecond }) }

// CutAfter closes each connection when so many more bytes have gone that way; with none,
// at the next byte.
func (p *Proxy) CutAfter(direction Direction, n int64) {
	p.change(func(f *faults) { f.quota[direction] = &quota{n} })
}

// Garbage replaces what goes that way by random bytes, the same for the same seed.
func (p *Proxy) Garbage(direction Direction, seed uint64) {
	p.change(func(f *faults) { f.garbage[direction] = &noise{seed} })
}

// HalfClose ends that way of each connection, as shutdown(2) does, and leaves the other
// open.
func (p *Proxy) HalfClose(direction Direction) {
	p.change(func(f *faults) { f.half[direction] = true })
}

// BlackHole lets nothing through in either direction, and no connection end: connections
// are accepted, and stay silent.
func (p *Proxy) BlackHole() { p.change(func(f *faults) { f.hole = true }) }

// Cut closes all connections, and each new one at once.
func (p *Proxy) Cut() {
	p.change(func(f *faults) { f.cuts = true })
	p.endAll(false)
}

// Reset ends all connections with a RST to both sides, and each new one at once.
func (p *Proxy) Reset() {
	p.change(func(f *faults) { f.resets = true })
	p.endAll(true)
}

// change replaces the faults and tells all links.
func (p *Proxy) change(edit func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.faults
	edit(&next)
	next.changed = make(chan struct{})
	close(p.faults.changed)
	p.faults, p.met = &next, len(p.open)
}

// now returns the faults of this moment.
func (p *Proxy) now() *faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}
