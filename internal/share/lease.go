package share

// Sizes of leases of memory, in bytes.
const (
	// Covered is what a request may hold without a lease, because its place among the
	// calls covers it: with a bound on the calls, there is a bound on the sum.
	Covered = 16 << 10
	// Step is the unit of leases beyond Covered.
	Step = 64 << 10

	// DefaultMemory is the size of a budget of memory if nothing says how much there is.
	DefaultMemory = 512 << 20
)

// Lease is a part of a budget of memory that one user holds, and that grows as bytes
// arrive. So a client that announces much and sends little holds little. The zero Lease
// is of no budget, holds nothing, and can only hold what is covered. A Lease belongs to
// one goroutine at a time, and must not be copied while it holds something, unless only
// one of the copies is used further.
type Lease struct {
	budget *Budget
	user   User
	held   int64
}

// Lease returns a lease of the user that holds nothing.
func (b *Budget) Lease(u User) Lease { return Lease{budget: b, user: u} }

// Resize makes the lease hold what size bytes need: nothing up to Covered, otherwise size
// rounded up to whole steps. An error of Take says that it cannot grow so far; then it
// holds what it held. Making it smaller always succeeds.
func (l *Lease) Resize(size int64) error {
	need := int64(0)
	if size > Covered {
		need = (size + Step - 1) / Step * Step
	}
	switch {
	case need > l.held:
		if l.budget == nil {
			return ErrTotal
		}
		if err := l.budget.take(l.user, need-l.held, unbounded(), l.held); err != nil {
			return err
		}
	case need < l.held:
		l.budget.Give(l.user, l.held-need)
	}
	l.held = need
	return nil
}

// Held returns how much the lease holds of its budget, in bytes.
func (l *Lease) Held() int64 { return l.held }

// Release gives back all that the lease holds. Further calls do nothing.
func (l *Lease) Release() { _ = l.Resize(0) } // becoming smaller succeeds
