package registry

import (
	"time"
)

// Lose notes that a server is down and returns its outage: a new one, or the one that
// already lasts. Items of the server keep their names and URIs and stay in lists until
// Unlist, but using one fails with a *DownError. Replace ends the outage, and Remove
// forgets the source.
//
// A server that was never reached is lost too, before anybody can call. prefix serves
// that case: until the server is reached, names and URIs that begin with it are taken for
// names of that server's items (see View.Unreached), so that their callers are told that
// the server is down and not that there is no such tool.
func (r *Registry) Lose(source, prefix string) *Outage {
	var outage *Outage
	r.update(source, func(present section) section {
		present.origin = present.origin.under(source, prefix)
		if outage = present.origin.outage.Load(); outage == nil {
			outage = &Outage{Since: time.Now(), Reached: present.reached}
			present.origin.outage.Store(outage)
		}
		return present
	})
	return outage
}

// Forget takes all items of a lost source out of the catalogue until Replace, as if it
// had never been reached: what it may offer is decided otherwise from now on. Unlike
// after Remove, its subscriptions go on.
func (r *Registry) Forget(source string) {
	r.update(source, func(present section) section {
		return section{origin: present.origin, announced: present.announced, renewed: present.renewed}
	})
}

// WantsSignIn notes whether the last attempt to reach a lost source failed because its
// server wants a sign-in. The items' errors say so from then on.
func (r *Registry) WantsSignIn(source string, wants bool) {
	r.update(source, func(present section) section {
		if present.origin != nil {
			present.origin.wantsSignIn.Store(wants)
		}
		return present
	})
}

// Unlist takes the items of a lost source out of lists. It does nothing unless the outage
// is the one that lasts: its caller waits for a grace period first, and the server may
// have come back, or come back and gone down again, just as that period ended. The items
// stay known, as after Lose.
func (r *Registry) Unlist(source string, during *Outage) {
	r.update(source, func(present section) section {
		if present.origin != nil && present.origin.outage.Load() == during {
			present.unlisted = true
		}
		return present
	})
}
