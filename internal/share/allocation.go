package share

// Sizes of allocations of memory, in bytes.
const (
	// Covered is what a request may hold without an allocation, because its slot among
	// the calls covers it: with a bound on the calls, there is a bound on the sum.
	Covered = 16 << 10
	// Step is the unit of allocations beyond Covered.
	Step = 64 << 10

	// DefaultMemory is the size of a budget of memory if nothing says how much there is.
	DefaultMemory = 512 << 20
)

// Allocation is a part of a budget of memory that one user holds, and that grows as bytes
// arrive. So a client that announces much and sends little holds little. The zero
// Allocation is of no budget, holds nothing, and can only hold what is covered. An
// Allocation belongs to one goroutine at a time, and must not be copied while it holds
// something, unless only one of the copies is used further.
type Allocation struct {
	budget *Budget
	user   User
	size   int64 // bytes that there are, as was said last
}

// Allocate returns an allocation of the user that holds nothing.
func (b *Budget) Allocate(u User) Allocation { return Allocation{budget: b, user: u} }

// Resize makes the allocation hold what size bytes need: nothing up to Covered, otherwise
// size rounded up to whole steps. An error of Take says that it cannot grow so far; then
// it holds what it held. Making it smaller always succeeds.
func (l *Allocation) Resize(size int64) error {
	held, need := needOf(l.size), needOf(size)
	switch {
	case need > held && l.budget == nil:
		return ErrTotal
	case need > held:
		if err := l.budget.take(l.user, need-held, unbounded(), held); err != nil {
			return err
		}
	case need < held:
		l.budget.Give(l.user, held-need)
	}
	l.size = size
	return nil
}

// needOf returns how much of a budget so many bytes need.
func needOf(size int64) int64 {
	if size <= Covered {
		return 0
	}
	return (size + Step - 1) / Step * Step
}

// Size returns how much the allocation holds of its budget, in bytes.
func (l *Allocation) Size() int64 { return needOf(l.size) }

// Release gives back all that the allocation holds. Further calls do nothing.
func (l *Allocation) Release() { _ = l.Resize(0) } // becoming smaller succeeds
