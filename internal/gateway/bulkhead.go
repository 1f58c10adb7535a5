package gateway

import (
	"sync"
)

// levels is on how many levels a call is counted at a server: those of the user, the
// tenant, and all.
const levels = 3

// defaultSlots is how many calls there may be at once of all tenants, if the config does
// not say.
const defaultSlots = 1024

// bulkhead keeps a server that hangs from taking all slots for calls: each of them would
// hold its slot until its time is over, and calls to servers that are well would be
// refused meanwhile. So at each server a user, a tenant, and all tenants together may
// hold at most twice as many of their slots as are free at the moment. It needs no list
// of servers that hang and no clock: of 64 slots, one server that hangs leaves 22 free,
// two leave 8, three leave 3. Somewhere it has no call, a holder gets its first one as
// long as it has any slot.
//
//	slots that calls at other servers have, of 64     0    12    42    63
//	slots that one server may have, at most          42    34    14     1
//
// Without it, TestAServerThatHangsLeavesSlotsOfItsTenant counts 64 of 64 slots at the
// first server that hangs, and the next call anywhere is refused. Package share has the
// same rule, but of one holder each: for the three holders of each call it would take a
// budget, with a reserve that nobody wants here, for each user and each tenant.
//
// Slots of a tenant and its users are those that this replica may give out: what other
// replicas have is taken there.
//
// A tenant with a single server has no other server to keep slots for, and may use all
// of them there. The bulkhead does not end calls, and it does not judge servers: that one
// is down is for package upstream to find out.
//
// It is safe for concurrent use.
type bulkhead struct {
	slots int // for calls of all tenants together

	mu     sync.Mutex      // guards the field below
	active map[counter]int // calls under way; one that has none is absent
}

// counter says where calls are counted: those of a holder (a user, a tenant, or "" for
// all) at a server, or at all servers when server is "".
type counter struct{ holder, server string }

// level is a holder, how many slots it has, and the error when a server has too many of
// them.
type level struct {
	holder string
	slots  int
	full   error
}

func newBulkhead(slots int) *bulkhead {
	return &bulkhead{slots: slots, active: make(map[counter]int)}
}

// enter counts a call at the server, of a tenant of whose slots this replica may give out
// so many. release is called once with taken, when the call has ended. If the server
// holds too many slots already, the error says whose: errServerFull for those of the user
// or the tenant, errServerCrowded for those of all.
func (b *bulkhead) enter(c *Caller, server string, here int) (taken [levels]counter, err error) {
	wanted := b.levels(c, here)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, l := range wanted {
		taken[i] = counter{l.holder, server}
		count, all := b.active[taken[i]]+1, b.active[counter{l.holder, ""}]+1
		if l.full != nil && count > max(1, 2*(l.slots-all)) {
			return taken, l.full
		}
	}
	for _, at := range taken {
		b.active[at]++
		b.active[counter{at.holder, ""}]++
	}
	return taken, nil
}

// release ends the count of a call, of which enter returned what it took.
func (b *bulkhead) release(taken [levels]counter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range taken {
		b.dropLocked(at)
		b.dropLocked(counter{at.holder, ""})
	}
}

func (b *bulkhead) dropLocked(at counter) {
	if n := b.active[at]; n > 1 {
		b.active[at] = n - 1
	} else {
		delete(b.active, at)
	}
}

// levels returns whose slots a call of the caller takes, of whose tenant there are so
// many here. Those without an error are only counted.
func (b *bulkhead) levels(c *Caller, here int) [levels]level {
	full := errServerFull
	if len(c.Tenant.servers) == 1 {
		full = nil
	}
	return [levels]level{
		{c.key(), ofUser(here), full},
		{c.Tenant.ID, here, full},
		{"", b.slots, errServerCrowded},
	}
}
