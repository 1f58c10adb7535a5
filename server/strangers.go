package server

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

const (
	strangersWindow = time.Minute // for which refusals are summed up
	strangersShown  = 5           // refusals of one stranger in a window that are recorded one by one
	strangersSwift  = 100         // refusals of one stranger in a window that are answered at once
	maxStrangers    = 1000        // with a sum of their own in a window; all others share one for each outcome

	otherAddresses = "other_addresses" // the reason of the sum of those beyond maxStrangers
)

// strangers decides how refusals of callers whose token did not verify are put on record. No limit bounds how many such
// refusals there are. So the first few of each address and reason in a window of time are recorded one by one; of the
// others, one line with their number is recorded when the window ends. It is safe for concurrent use.
type strangers struct {
	mu   sync.Mutex // guards the field below
	seen map[stranger]*seen
}

// stranger is the key under which refusals are summed up: an address (or a /64 network of IPv6) and a reason. If the
// signature of a token says which issuer it is from, refusals of different issuers are counted apart, because many
// clients may share one address. The zero network stands for all for whom there is no room.
type stranger struct {
	network         netip.Prefix
	outcome, reason string
	issuer          string // one of the config; "" for none that is known
}

// seen is how often a stranger was refused in this window.
type seen struct {
	times int
	sum   audit.Record // of the refusals beyond those; its Count is zero if there are none
}

func newStrangers() *strangers { return &strangers{seen: make(map[stranger]*seen)} }

// recordStranger puts the refusal of an unverified caller on record, or counts it for the line at the end of the
// window. Who is refused again and again waits for each further answer.
func (s *Server) recordStranger(x *exchange, outcome, reason string) {
	times := s.strangers.count(x, outcome, reason)
	if times <= strangersShown {
		x.record(outcome, reason)
	} else {
		s.config.Metrics.Refused(outcome, "", reason)
	}
	if times > strangersSwift {
		s.rest(&x.held)
		s.knocking.wait(x.context())
	}
}

// count returns how often the stranger has been refused for that reason in this window, this time included. Beyond
// those that are recorded one by one, it has been added to a sum. Those who share a sum because there is no room for
// more are not told apart; they count as shown already and not as often refused.
func (s *strangers) count(x *exchange, outcome, reason string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := stranger{network: networkOf(x.remote), outcome: outcome, reason: reason}
	if x.refused != nil {
		who.issuer = x.refused.Issuer
	}
	one := s.seen[who]
	if one == nil && len(s.seen) >= maxStrangers {
		who = stranger{outcome: outcome, reason: otherAddresses}
		one = s.seen[who]
	}
	if one == nil {
		one = &seen{}
		s.seen[who] = one
	}
	if !who.network.IsValid() {
		one.add(who, x.started)
		return strangersShown + 1
	}
	if one.times++; one.times > strangersShown {
		one.add(who, x.started)
	}
	return one.times
}

// add adds a refusal to the sum.
func (o *seen) add(who stranger, at time.Time) {
	sum := &o.sum
	if sum.Count == 0 {
		sum.Time, sum.Outcome, sum.Reason, sum.Remote, sum.Issuer = at, who.outcome, who.reason, remoteName(who.network), who.issuer
	}
	sum.Count++
	sum.Duration = max(sum.Duration, at.Sub(sum.Time))
}

// networkOf returns the network whose refusals are summed up together. One host with IPv6 usually has a whole /64.
func networkOf(remote string) netip.Prefix {
	address, err := netip.ParseAddr(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return netip.PrefixFrom(address, address.BitLen())
	}
	return netip.PrefixFrom(address, 64).Masked()
}

func remoteName(network netip.Prefix) string {
	switch {
	case !network.IsValid():
		return ""
	case network.IsSingleIP():
		return network.Addr().String()
	}
	return network.String()
}

// sums ends the window, begins a new one, and returns the sums of the one that ended, in the order of time.
func (s *strangers) sums() []audit.Record {
	s.mu.Lock()
	before := s.seen
	s.seen = make(map[stranger]*seen)
	s.mu.Unlock()
	var sums []audit.Record
	for _, one := range before {
		if one.sum.Count > 0 {
			sums = append(sums, one.sum)
		}
	}
	slices.SortFunc(sums, func(a, b audit.Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Remote, b.Remote), cmp.Compare(a.Issuer, b.Issuer))
	})
	return sums
}

// recordStrangers puts the sums of the window on record and begins a new one. A sum that panics is lost, the others are
// not.
func (s *Server) recordStrangers(ctx context.Context) {
	for _, sum := range s.strangers.sums() {
		s.safely(ctx, func() { s.records.Refuse(ctx, sum) })
	}
}
