package must

import "golang.org/x/sync/errgroup"

// AtOnce does something so many times, but at most so many of them at once. It waits for
// all, and panics with the first error.
func AtOnce(times, most int, do func(i int)) {
	var all errgroup.Group
	all.SetLimit(most)
	for i := range times {
		all.Go(Trying(func() { do(i) }))
	}
	OK(all.Wait())
}
