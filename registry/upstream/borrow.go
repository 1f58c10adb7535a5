package upstream

import "context"

// attach makes c the present connection until the function that it returns is called.
func (u *Upstream) attach(_ context.Context, c *connection) func() {
	u.control.Store(c)
	return func() { u.control.Store(nil) }
}

// borrow returns the connection that serves a tenant outside of calls.
func (u *Upstream) borrow(context.Context, string) (c *connection, release func(), err error) {
	if c = u.control.Load(); c == nil {
		return nil, nil, fault(u.cfg.Name).unavailable(false, errGone)
	}
	return c, func() {}, nil
}

func (l *legacy) watchResource(context.Context, string, func(), func(string)) error { return notTold() }
