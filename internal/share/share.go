// Package share answers: may this user hold so much more of something that all share? A
// Budget is a fixed amount of one resource, such as bytes of memory, slots among the
// calls, streams, sessions or child processes. It is shared out fairly on three levels:
// all together, the tenant, and the user within the tenant. The package does not know
// what the resource is. How often something may happen is not its question either; that
// is package ratelimit's.
//
// Two wishes are at odds. A tenant that is alone should be able to use most of a budget,
// or the budget is wasted. And a tenant that was quiet should find room at once, although
// what others hold cannot be taken from them. So the budget has two parts:
//
//	├───────────────── common, 3/4 ──────────────────┼── reserve, 1/4 ──┤
//	│ borrowed by tenants: each at most 2 × what is  │ the first bytes  │
//	│ left; each user at most what its tenant leaves │ of every user    │
//
// The reserve is for small holders. The first that a user holds, up to 1/4 of the
// guarantee of a tenant, comes out of the reserve, and so it does for each tenant up to
// its guarantee, which is 1/32 of the reserve. Nobody can take that from another: as long
// as at most 32 tenants hold anything, and at most 4 users of a tenant do, every one of
// them gets its guarantee, whatever the others do and in whatever order they come.
//
// All beyond is borrowed from the common part by a rule of network switches, where queues
// share the memory of a switch: each may hold at most a constant times what is free at
// the moment. The rule needs no list of who is active. One tenant alone gets 2/3 of the
// common part, which is half of the total; two get 2/5 each; what is left is room for the
// next. A user gets at most what its tenant could still borrow, so one alone gets a
// quarter of the total. A. K. Choudhury, E. L. Hahne: Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches, IEEE/ACM Transactions on Networking 6(2), 1998,
// https://doi.org/10.1109/90.664262
//
// The package does not count time: whoever holds something for long must be cut by
// others, see the least rate of bodies in package server.
package share

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Errors of Take. Each names the innermost level that could make room by itself: the
// user, if the amount would fit had it given back all that it holds; otherwise the
// tenant, by the same measure; otherwise all together. So a tenant that holds little is
// not told that it is at its limit when others have left too little.
var (
	ErrUser   = errors.New("more than the user's share")
	ErrTenant = errors.New("more than the tenant's share")
	ErrTotal  = errors.New("too little is left")
)

// ErrNever is the ErrTotal of an amount that the user could not hold if nobody held
// anything, so waiting does not help.
var ErrNever = fmt.Errorf("%w, and would be if nobody held anything", ErrTotal)

// User is who holds a part of a budget. It has the fields of auth.User, so that one is
// converted into the other. An empty TenantID means a stranger, who has not shown a valid
// token; Subject then tells strangers apart, for example by their address. All strangers
// together hold at most 1/16 of a budget, and have no guarantee. User is comparable.
type User struct{ TenantID, Issuer, Subject string }

// Server returns the server of that name as a holder, for what it sends as long as it is
// not known to whom. All servers together count as one tenant, whose id no tenant can
// have.
func Server(name string) User { return User{TenantID: "(servers)", Subject: name} }

// Budget is a fixed amount of one resource, shared by tenants and their users. It is safe
// for concurrent use. Taking and giving back cost the same however many hold something:
// two look-ups under one mutex, and no allocation beyond the entries of its maps. Whoever
// holds nothing has no entry.
type Budget struct {
	rule rule

	mu      sync.Mutex // guards the fields below
	all     account
	tenants map[string]account
	users   map[User]int64
}

// New returns a budget of which nobody holds anything. Of a total of zero or less nothing
// can be taken.
func New(total int64) *Budget {
	return &Budget{rule: newRule(total), tenants: make(map[string]account), users: make(map[User]int64)}
}

// Bounds are what a tenant and one of its users may hold by their own settings, besides
// what is fair. Zero lets nothing pass.
type Bounds struct{ Tenant, User int64 }

// unbounded are the bounds of whom only fairness bounds.
func unbounded() Bounds { return Bounds{math.MaxInt64, math.MaxInt64} }

// Take lets the user hold n more, which must not be negative. If that is more than its
// share, Take changes nothing and returns ErrUser, ErrTenant or ErrTotal. Whatever was
// taken must be given back, once.
func (b *Budget) Take(u User, n int64) error { return b.TakeWithin(u, n, unbounded()) }

// TakeWithin is Take for a tenant that has bounds of its own.
func (b *Budget) TakeWithin(u User, n int64, own Bounds) error { return b.take(u, n, own, 0) }

// take is TakeWithin for something that grows: part of what the user holds is for it
// already. The error is the one that all of it together would get.
func (b *Budget) take(u User, n int64, own Bounds, part int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := state{all: b.all, tenant: b.tenants[u.TenantID], user: b.users[u], unauthenticated: u.TenantID == ""}
	if err := own.check(s, n); err != nil {
		return err
	}
	next, ok := b.rule.add(s, n)
	if !ok {
		return b.rule.blame(s, part+n)
	}
	b.setLocked(u, next)
	return nil
}

// Give gives back n of what Take let the user hold. It panics if the user does not hold
// that much, since then somebody has given back what is another's.
func (b *Budget) Give(u User, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := state{all: b.all, tenant: b.tenants[u.TenantID], user: b.users[u], unauthenticated: u.TenantID == ""}
	if n < 0 || n > s.user {
		panic("share: more was given back than was held")
	}
	b.setLocked(u, b.rule.moved(s, -n))
}

func (b *Budget) setLocked(u User, s state) {
	b.all = s.all
	if s.tenant.inUse == 0 {
		delete(b.tenants, u.TenantID)
	} else {
		b.tenants[u.TenantID] = s.tenant
	}
	if s.user == 0 {
		delete(b.users, u)
	} else {
		b.users[u] = s.user
	}
}

// Total returns the size of the budget.
func (b *Budget) Total() int64 { return b.rule.total }

// Most returns how much one user can hold while nobody else holds anything.
func (b *Budget) Most() int64 { return b.rule.most(account{}) }

// Available returns how much somebody could take now whose tenant holds nothing.
func (b *Budget) Available() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rule.most(b.all)
}

// InUse returns how much all hold together.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.inUse
}

// InUseBy returns how much the tenant holds.
func (b *Budget) InUseBy(tenant string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tenants[tenant].inUse
}

// Holding is how much a tenant holds. The TenantID of strangers is empty.
type Holding struct {
	TenantID string
	InUse    int64
}

// Top returns the n tenants that hold most, the largest first, for display. It goes
// through all tenants that hold something.
func (b *Budget) Top(n int) []Holding {
	b.mu.Lock()
	all := make([]Holding, 0, len(b.tenants))
	for id, t := range b.tenants {
		all = append(all, Holding{id, t.inUse})
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y Holding) int {
		return cmp.Or(cmp.Compare(y.InUse, x.InUse), cmp.Compare(x.TenantID, y.TenantID))
	})
	return all[:min(n, len(all))]
}
