package share

import (
	"math"
	"sort"
)

// How a budget is divided; the package comment says why.
const (
	reservePart         = 4  // the reserve is the total divided by this
	tenantsPart         = 32 // the guarantee of a tenant is the reserve divided by this
	usersPart           = 4  // the guarantee of a user is that of a tenant divided by this
	unauthenticatedPart = 16 // what all strangers may hold is the total divided by this

	// A tenant may borrow thresholdFactor times what the common part has left, and a user
	// once what its tenant could still borrow.
	thresholdFactor = 2
)

// rule says how much of a budget is whose. It is immutable and counts nothing itself: its
// methods turn one state into the next.
type rule struct {
	total   int64
	reserve int64
	tenant  int64 // guarantee of a tenant
	user    int64 // guarantee of a user
}

func newRule(total int64) rule {
	total = min(max(total, 0), math.MaxInt64/(thresholdFactor+1)) // or multiplying would overflow
	r := rule{total: total, reserve: total / reservePart}
	r.tenant = max(r.reserve/tenantsPart, 1)
	r.user = max(r.tenant/usersPart, 1)
	return r
}

// account is what a tenant holds, or all together.
type account struct {
	inUse int64
	// small is, in the account of a tenant, the sum of the first that each of its users
	// holds, up to the guarantee of a user. In the account of all it is the sum of what
	// each tenant has of that, up to the guarantee of a tenant: the part of inUse that
	// comes out of the reserve.
	small int64
}

// state is all that the decision about one user depends on.
type state struct {
	all, tenant     account
	user            int64 // that the user holds
	unauthenticated bool
}

// smallOf returns how much of what the user holds is guaranteed to it.
func (r *rule) smallOf(s *state) int64 {
	if s.unauthenticated {
		return 0
	}
	return min(s.user, r.user)
}

// guaranteed returns how much of what the tenant holds comes out of the reserve.
func (r *rule) guaranteed(s *state) int64 { return min(s.tenant.small, r.tenant) }

// borrowed returns how much of what the tenant holds comes out of the common part.
func (r *rule) borrowed(s *state) int64 { return s.tenant.inUse - r.guaranteed(s) }

// moved returns the state after the user holds n more, or less if n is negative. It
// judges nothing.
//
// What a tenant has borrowed never grows by giving back: what is guaranteed to it falls
// by at most n.
func (r *rule) moved(s state, n int64) state {
	next := s
	next.user += n
	next.tenant.inUse += n
	next.tenant.small += r.smallOf(&next) - r.smallOf(&s)
	next.all.inUse += n
	next.all.small += r.guaranteed(&next) - r.guaranteed(&s)
	return next
}

// add returns the state after the user holds n more. ok is false if that is more than its
// share.
func (r *rule) add(s state, n int64) (next state, ok bool) {
	if n < 0 || n > r.total-s.all.inUse {
		return s, false
	}
	next = r.moved(s, n)
	borrowed := r.borrowed(&next)
	if borrowed <= r.borrowed(&s) {
		return next, true // all of n comes out of the reserve
	}
	left := r.total - next.all.inUse - max(r.reserve-next.all.small, 0) // of the common part
	if left < 0 {
		return s, false
	}
	// To hold at most twice what is left is to hold at most two thirds of that and one's
	// own together.
	ceiling := (left + borrowed) * thresholdFactor / (thresholdFactor + 1)
	if s.unauthenticated {
		ceiling = min(ceiling, r.total/unauthenticatedPart)
	}
	return next, next.user-r.smallOf(&next) <= ceiling-borrowed
}

// blame returns the error for n that does not fit.
func (r *rule) blame(s state, n int64) error {
	s = r.moved(s, -s.user)
	if _, ok := r.add(s, n); ok {
		return ErrUser
	}
	s.all.inUse -= s.tenant.inUse
	s.all.small -= r.guaranteed(&s)
	s.tenant = account{}
	if _, ok := r.add(s, n); ok {
		return ErrTenant
	}
	if _, ok := r.add(state{unauthenticated: s.unauthenticated}, n); !ok {
		return ErrNever
	}
	return ErrTotal
}

// most returns the largest amount that fits for a user whose tenant holds nothing, if all
// others hold what all says.
func (r *rule) most(all account) int64 {
	return int64(sort.Search(int(r.total), func(n int) bool {
		_, fits := r.add(state{all: all}, int64(n)+1)
		return !fits
	}))
}

// check returns an error if n more would be beyond the bounds.
func (b Bounds) check(s state, n int64) error {
	switch {
	case n > b.User-s.user:
		return ErrUser
	case n > b.Tenant-s.tenant.inUse:
		return ErrTenant
	}
	return nil
}
