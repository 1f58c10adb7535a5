package eventlog

import (
	"cmp"
	"container/list"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// holder is what one user has in a Memory. One without events is forgotten.
type holder struct {
	bytes int64 // of its events
	// of its *memoryStream that have events; the one that was not used for the longest
	// time is first
	full *list.List
}

// reserveLocked takes room for n bytes for the owner of a stream, which may be one that
// is just being made. If there is too little, it drops events; victimLocked says whose.
// What fills the budget beside the room of streams may be no events, so when that is too
// full the owner has to do with its own. An error is one of package share; then there was
// nothing to drop, or the event is too large for any user.
func (m *Memory) reserveLocked(s *memoryStream, n int64) error {
	if n > m.most {
		return share.ErrUser
	}
	user := s.session.owner
	for {
		err := m.budget.Take(user, n)
		victim := m.holders[user]
		if err != nil {
			victim = m.victimLocked(user, n, err)
		} else if err = m.config.Memory.Take(user, n); err == nil {
			return nil
		} else {
			m.budget.Give(user, n)
		}
		if victim == nil {
			return err
		}
		m.shedLocked(victim, s)
	}
}

func (m *Memory) giveLocked(user share.User, n int64) {
	m.budget.Give(user, n)
	m.config.Memory.Give(user, n)
}

// victimLocked returns whose events make room for n bytes of a user that was refused
// them. It is the first of these that there is, nil if there is none:
//
//	more than the user's share      the user itself, a colleague, another tenant
//	more than the tenant's share    a colleague, the user itself, another tenant
//	too little is left              another tenant, a colleague, the user itself
//
// The colleague is the one with most events, and has more of them than the user would
// have. The other tenant is the one with most, and has more than the user's would have;
// of that it is the user with most. So whoever needs room takes it from itself, or from
// one who has more.
func (m *Memory) victimLocked(user share.User, n int64, refused error) *holder {
	itself, own, most := m.holders[user], n, m.tenants[user.TenantID]+n
	if itself != nil && errors.Is(refused, share.ErrUser) {
		return itself // to look for others goes through all
	}
	if itself != nil {
		own += itself.bytes
	}
	colleague := m.largestLocked(user.TenantID, own)
	within := errors.Is(refused, share.ErrUser) || errors.Is(refused, share.ErrTenant)
	if within && cmp.Or(colleague, itself) != nil {
		return cmp.Or(colleague, itself)
	}
	tenant, other := user.TenantID, (*holder)(nil)
	for id, bytes := range m.tenants {
		if bytes > most {
			tenant, most = id, bytes
		}
	}
	if tenant != user.TenantID {
		other = m.largestLocked(tenant, 0)
	}
	return cmp.Or(other, colleague, itself)
}

// largestLocked returns the user of a tenant that has most events, if they have more than
// so many bytes, and nil otherwise. It goes through all who have any.
func (m *Memory) largestLocked(tenant string, most int64) (largest *holder) {
	for user, h := range m.holders {
		if user.TenantID == tenant && h.bytes > most {
			largest, most = h, h.bytes
		}
	}
	return largest
}

// shedLocked drops the events of the stream that its user has not used for the longest
// time or, if only the stream that needs the room has any, the oldest event of that one.
func (m *Memory) shedLocked(h *holder, needy *memoryStream) {
	first := h.full.Front()
	if first.Value == any(needy) {
		if first = first.Next(); first == nil {
			m.dropOldestLocked(needy)
			return
		}
	}
	s := first.Value.(*memoryStream)
	m.emptyLocked(s)
	s.session.rouse() // its readers learn that they have missed something
}

// emptyLocked drops all events of a stream. The stream stays until it is too old, so that
// those who read it get ErrUnknown: one that began anew under its name would look as if
// nothing had been said.
func (m *Memory) emptyLocked(s *memoryStream) {
	for len(s.events) > 0 {
		m.dropOldestLocked(s)
	}
}

// dropOldestLocked drops the oldest event of a stream.
func (m *Memory) dropOldestLocked(s *memoryStream) {
	event := s.events[0]
	s.events[0] = memoryEvent{} // or the array would keep its data
	if s.events = s.events[1:]; len(s.events) == 0 {
		s.events = nil
	}
	s.floor = event.sequence
	cost := len(event.data) + eventCost
	m.giveLocked(s.session.owner, int64(cost))
	m.grownLocked(s, -cost)
	m.droppedLocked(s, event.data, false)
}

func (m *Memory) droppedLocked(s *memoryStream, oldest []byte, forgotten bool) {
	if s.shared != nil {
		m.dropped(s, oldest, forgotten)
	}
}

// grownLocked notes that the events of a stream have n bytes more, or less if n is
// negative.
func (m *Memory) grownLocked(s *memoryStream, n int) {
	user := s.session.owner
	h := m.holders[user]
	if h == nil {
		h = &holder{full: list.New()}
		m.holders[user] = h
	}
	s.bytes += n
	h.bytes += int64(n)
	m.tenants[user.TenantID] += int64(n)
	switch {
	case s.bytes > 0 && s.full == nil:
		s.full = h.full.PushBack(s)
	case s.bytes == 0:
		h.full.Remove(s.full)
		s.full = nil
	}
	if h.bytes == 0 {
		delete(m.holders, user)
	}
	if m.tenants[user.TenantID] == 0 {
		delete(m.tenants, user.TenantID)
	}
}
