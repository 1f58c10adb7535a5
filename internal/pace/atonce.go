package pace

import "golang.org/x/sync/errgroup"

// AtOnce calls do for each number below times, for at most so many of them at once. It
// returns when all calls have.
func AtOnce(times, most int, do func(i int)) {
	var all errgroup.Group
	all.SetLimit(most)
	for i := range times {
		all.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = all.Wait() // there is no error
}
