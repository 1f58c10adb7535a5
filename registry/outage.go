package registry

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Outage is a period in which a server is down. It is immutable, and its address
// identifies it: every outage is a new value.
type Outage struct {
	Since   time.Time
	Reached bool // the server was there before Since; false: it was never reached since it was configured
}

// DownError says that an item cannot be used because its server is known to be down.
// Nothing was sent to the server.
type DownError struct {
	Kind   Kind
	Server string
	Name   string // exposed name of the item
	Outage Outage
	SignIn bool // the server wants a sign-in, so it stays down until the operator gives a credential
}

func (e *DownError) Error() string {
	return fmt.Sprintf("server %s is down since %s", e.Server, e.Outage.Since.UTC().Format(time.RFC3339))
}

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
	r.update(source, func(present shelf) shelf {
		if present.origin == nil {
			present.origin = newOrigin(source, prefix)
		}
		if outage = present.origin.outage.Load(); outage == nil {
			outage = &Outage{Since: time.Now(), Reached: present.reached}
			present.origin.outage.Store(outage)
		}
		return present
	})
	return outage
}

// WantsSignIn notes whether the last attempt to reach a lost source failed because its
// server wants a sign-in. The items' errors say so from then on.
func (r *Registry) WantsSignIn(source string, wants bool) {
	r.update(source, func(present shelf) shelf {
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
	r.update(source, func(present shelf) shelf {
		if present.origin != nil && present.origin.outage.Load() == during {
			present.unlisted = true
		}
		return present
	})
}

// Lists tells whether items of a server belong in lists. Those of a server that was
// unlisted do not.
func (v *View) Lists(server string) bool { return !v.shelves[server].unlisted }

// Unreached returns a guess at the tool, prompt or template of that exposed name: an item
// of a server of the view that was never reached, or whose lists for the user are not
// known, and whose prefix the name begins with.
// The item has no definition, and using it fails with a
// *DownError for as long as the server is down. Unreached returns nil when no such server has that prefix; names of a
// server without a prefix cannot be guessed. For resources, View.Resource does the same.
func (v *View) Unreached(kind Kind, exposed string) *Item {
	if kind == KindTemplate {
		server, own, ok := fromForm(exposed)
		if s := v.shelves[server]; ok && s.isUnreached() && s.origin.prefix != "" && own != "" {
			return s.guess(kind, own, exposed)
		}
		return nil
	}
	if len(exposed) > maxExposed {
		return nil
	}
	for _, server := range v.order {
		s := v.shelves[server]
		if !s.isUnreached() && !s.isUnlisted(kind) || s.origin.prefix == "" {
			continue
		}
		if own, ok := strings.CutPrefix(exposed, s.origin.prefix+separator); ok && own != "" {
			return s.guess(kind, own, exposed)
		}
	}
	return nil
}

// isUnreached tells whether the server is known to be down and has never offered
// anything.
func (s *shelf) isUnreached() bool { return s.origin != nil && !s.reached }

// isUnlisted tells whether the server has lists for each user, and that of the kind is not
// known.
func (s *shelf) isUnlisted(kind Kind) bool { return s.personal != nil && !s.listed[listOf(kind)] }

// guess makes an item without a definition, for a name that may be one of the server's.
func (s *shelf) guess(kind Kind, own, exposed string) *Item {
	return &Item{
		Kind: kind, Server: s.origin.server, Name: own, Exposed: exposed,
		Timeout: cmp.Or(s.timeout, defaultTimeout), origin: s.origin,
	}
}

// Down returns nil when the item's server is there, and otherwise the error of every use
// of the item now.
func (i *Item) Down() *DownError {
	outage := i.origin.outage.Load()
	if outage == nil {
		return nil
	}
	return &DownError{
		Kind: i.Kind, Server: i.Server, Name: i.Exposed, Outage: *outage,
		SignIn: i.origin.wantsSignIn.Load(),
	}
}
