package metrics

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
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
// It counts into spans of failureWindow, so that what noisy sees reaches back between one
// and two of them. Its memory is bounded, although attackers have as many addresses
// as they like: if too many fail within one window, those with few failures are
// forgotten.
type failures struct {
	mu    sync.Mutex                     // guards the field below
	spans evict.Spans[netip.Prefix, int] // failures
}

func newFailures() *failures {
	return &failures{spans: evict.Spans[netip.Prefix, int]{Length: failureWindow}}
}

// add counts a failure of an address. An IPv6 address counts for its network, because one
// customer usually has a whole one and could use a new address for every attempt. An
// address that is not known is not counted.
func (f *failures) add(addr netip.Addr) {
	from := connlimit.Network(addr)
	if !from.IsValid() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans.Turn(time.Now())
	now := f.spans.Now
	if _, known := now[from]; !known && len(now) >= maxAddresses {
		evict.One(now, sampleSize, func(_ netip.Prefix, count int) (worth float64, may bool) {
			return float64(count), true
		})
	}
	now[from]++
}

// noisy returns how many addresses failed at least noisyFrom times in the two windows
// together.
func (f *failures) noisy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans.Turn(time.Now())
	sums := maps.Clone(f.spans.Now)
	for addr, count := range f.spans.Previous {
		sums[addr] += count
	}
	maps.DeleteFunc(sums, func(_ netip.Prefix, count int) bool { return count < noisyFrom })
	return len(sums)
}
