package pace

import "context"

// Signal puts a value into a channel that has room for one, unless it holds one: whoever
// receives looks what there is to do by then, however often that was signalled before. It
// never waits.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // what is to be done now is found with what was signalled before
	}
}

// Await waits until done is closed. The error is the cause of the end of ctx, if that
// comes first.
func Await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
