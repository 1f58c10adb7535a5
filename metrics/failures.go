package metrics

import (
	"net/netip"
	"sync"
	"time"
)

const (
	failureWindow = 5 * time.Minute
	noisyFrom     = 10   // failures of one address
	maxAddresses  = 4096 // remembered per window
	sampleSize    = 16   // addresses looked at to find one to forget
)

// failures counts failed logins by address over this window of time and the one before it. Its memory is bounded:
// when too many addresses fail at once, those with few failures are forgotten.
type failures struct {
	mu       sync.Mutex // guards the fields below
	started  time.Time  // of the window that now counts into
	now      map[netip.Addr]int
	previous map[netip.Addr]int
}

func newFailures() *failures {
	return &failures{started: time.Now(), now: make(map[netip.Addr]int)}
}

// add counts a failure of addr, or of its /64 network when it is an IPv6 address.
func (f *failures) add(addr netip.Addr) {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	if !addr.IsValid() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn()
	if _, known := f.now[addr]; !known && len(f.now) >= maxAddresses {
		f.forget()
	}
	f.now[addr]++
}

// noisy returns how many addresses have many failures.
func (f *failures) noisy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn()
	n := 0
	for addr, count := range f.now {
		if count+f.previous[addr] >= noisyFrom {
			n++
		}
	}
	for addr, count := range f.previous {
		if f.now[addr] == 0 && count >= noisyFrom {
			n++
		}
	}
	return n
}

// turn begins a new window when it is time.
func (f *failures) turn() {
	past := time.Since(f.started)
	if past < failureWindow {
		return
	}
	f.previous = f.now
	if past >= 2*failureWindow {
		f.previous = nil
	}
	f.now, f.started = make(map[netip.Addr]int), time.Now()
}

// forget drops the address with the fewest failures of a few.
func (f *failures) forget() {
	var victim netip.Addr
	fewest, looked := 0, 0
	for addr, count := range f.now { // in random order
		if looked == 0 || count < fewest {
			victim, fewest = addr, count
		}
		if looked++; looked == sampleSize {
			break
		}
	}
	delete(f.now, victim)
}
