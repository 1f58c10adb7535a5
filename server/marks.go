package server

import (
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/session"
)

const (
	markTime = 10 * time.Minute // that an end is remembered: longer than what replicas share may lag behind what it has said
	maxMarks = 4096             // ends of one tenant
	allMarks = 16 * maxMarks    // ends of all tenants, about 200 bytes each
)

// marks remembers which shared sessions have ended just now, whichever replica ended them. That is for two cases. One is a
// replica that is just adopting a session while its end is told. The other is a store that has lost, in a failover, what
// it had said it kept: then the replica that ended a session marks it again.
//
// If a tenant ends more than maxMarks sessions within markTime, the oldest of its ends are forgotten; if all tenants end more
// than allMarks, the oldest of the tenant with most. Then only both together, such a tenant and a failover that loses
// writes, can bring back a session, which is one of that tenant. marks is safe for concurrent use.
type marks struct {
	mu      sync.Mutex // guards the fields below and what they lead to
	tenants map[string]*tenantMarks
	count   int // of all tenants
}

// tenantMarks are those of one tenant.
type tenantMarks struct {
	known map[sessionKey]struct{} // of order; small, since a map in which much comes and goes is mostly empty
	order []mark                  // the oldest first
}

// mark is the end of one session.
type mark struct {
	key   sessionKey
	at    time.Time
	inLog session.Key // what to mark in the log again; zero: another replica does that
}

func newMarks() *marks { return &marks{tenants: make(map[string]*tenantMarks)} }

// add remembers an end. inLog is zero if another replica marked it.
func (m *marks) add(tenantID string, key sessionKey, inLog session.Key, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.tenants[tenantID]
	if of == nil {
		of = &tenantMarks{known: make(map[sessionKey]struct{})}
		m.tenants[tenantID] = of
	}
	m.count -= of.forget(now, maxMarks-1)
	if _, known := of.known[key]; !known {
		of.order = append(of.order, mark{key, now, inLog})
		of.known[key] = struct{}{}
		m.count++
	}
	if m.count > allMarks {
		most := m.largestLocked()
		m.count -= most.forget(now, len(most.order)-1)
	}
}

// largestLocked returns the tenant with most ends. It goes through all tenants.
func (m *marks) largestLocked() (largest *tenantMarks) {
	for _, of := range m.tenants {
		if largest == nil || len(of.order) > len(largest.order) {
			largest = of
		}
	}
	return largest
}

// has tells whether the session of a tenant has ended within markTime, as far as is known here.
func (m *marks) has(tenantID string, key sessionKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.tenants[tenantID]
	if of == nil {
		return false
	}
	_, ended := of.known[key]
	return ended
}

// mine returns the sessions that this replica ended within markTime, and forgets all that ended before.
func (m *marks) mine(now time.Time) (ended []session.Key) {
	m.tidy(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.tenants {
		for _, one := range of.order {
			if one.inLog != (session.Key{}) {
				ended = append(ended, one.inLog)
			}
		}
	}
	return ended
}

// tidy forgets the ends that are too old, of all tenants.
func (m *marks) tidy(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tenantID, of := range m.tenants {
		m.count -= of.forget(now, maxMarks)
		if len(of.order) == 0 {
			delete(m.tenants, tenantID)
		}
	}
}

// forget forgets ends that are too old, and the oldest until there are at most so many. It returns how many it forgot.
func (of *tenantMarks) forget(now time.Time, most int) (n int) {
	for n < len(of.order) && (len(of.order)-n > most || now.Sub(of.order[n].at) > markTime) {
		delete(of.known, of.order[n].key)
		of.order[n] = mark{} // its texts go now, its place when append makes another array
		n++
	}
	of.order = of.order[n:]
	return n
}
