package pace

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Once has all who want the same at a time wait until it was done for one of them. It is
// safe for concurrent use, and its zero value is ready.
type Once[T any] struct{ flights singleflight.Group }

// Do returns what do returns, which is called for the first of those who come with a key.
// Its context does not end when that one leaves, since others wait. Whoever's own ctx
// ends gets the error of that.
func (o *Once[T]) Do(ctx context.Context, key string, do func(context.Context) (T, error)) (T, error) {
	flight := o.flights.DoChan(key, func() (any, error) { return do(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case answer := <-flight:
		made, _ := answer.Val.(T)
		return made, answer.Err
	}
}
