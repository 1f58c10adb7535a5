package metrics

import (
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

const (
	failureWindow = 5 * time.Minute
	noisyFrom     = 10   // an address with at least so many failures is noisy
	maxAddresses  = 4096 // the most addresses that are remembered of one window
	sampleSize    = 16   // addresses that are looked at to find one to forget
)

// failures counts refused tokens by the address that they came from. It answers how many
// addresses fail often, for a gauge that an alert watches; who they are stands in the log
// and in the audit records.
//
// It counts into windows of failureWindow and keeps two of them, this one and the one
// before. So what noisy sees reaches back between one and two windows, and failures need
// no time of their own. Its memory is bounded, although attackers have as many addresses
// as they like: if too many fail within one window, those with few failures are
// forgotten.
type failures struct {
	mu       sync.Mutex         // guards the fields below
	started  time.Time          // when this window began
	now      map[netip.Addr]int // failures in this window
	previous map[netip.Addr]int // failures in the window before; never changed
}

func newFailures() *failures {
	return &failures{started: time.Now(), now: make(map[netip.Addr]int)}
}

// add counts a failure of an address. An IPv6 address counts for its /64 network, because
// one customer usually has a whole one and could use a new address for every attempt. An
// address that is not known is not counted.
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
	f.turnLocked()
	if _, known := f.now[addr]; !known && len(f.now) >= maxAddresses {
		evict.One(f.now, sampleSize, func(_ netip.Addr, count int) (worth float64, may bool) {
			return float64(count), true
		})
	}
	f.now[addr]++
}

// noisy returns how many addresses failed at least noisyFrom times in the two windows
// together.
func (f *failures) noisy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turnLocked()
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

// turnLocked begins a new window if this one is over. If nobody came for longer than two
// windows, the one before this is too old as well.
func (f *failures) turnLocked() {
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
