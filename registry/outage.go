package registry

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Outage is a time in which a server is not there. It is immutable, and another one each time.
type Outage struct {
	Since   time.Time
	Reached bool // the server was there before; false: it was not reached since Since
}

// DownError says that an item cannot be used because its server is not there. Nothing was sent to the server.
type DownError struct {
	Kind   Kind
	Server string
	Name   string // of the item, as clients call it
	Outage Outage
}

func (e *DownError) Error() string {
	return fmt.Sprintf("server %s is down since %s", e.Server, e.Outage.Since.UTC().Format(time.RFC3339))
}

// Lose notes that a source is not there, and returns the outage: a new one, or the one that lasts already. What the
// source offered stays known and keeps its names and URIs, and stays in the lists until Unlist; its uses fail with a
// *DownError. Replace ends the outage, Remove forgets the source. prefix is for a source that has offered nothing yet:
// names and URIs that begin like its own are then taken to be its own.
func (r *Registry) Lose(source, prefix string) *Outage {
	var outage *Outage
	r.update(source, func(present shelf) shelf {
		if present.origin == nil {
			present.origin = &origin{server: source, prefix: prefix}
		}
		if outage = present.origin.outage.Load(); outage == nil {
			outage = &Outage{Since: time.Now(), Reached: present.reached}
			present.origin.outage.Store(outage)
		}
		return present
	})
	return outage
}

// Unlist takes what a source offered out of the lists, unless that outage is over. It stays known.
func (r *Registry) Unlist(source string, during *Outage) {
	r.update(source, func(present shelf) shelf {
		if present.origin != nil && present.origin.outage.Load() == during {
			present.unlisted = true
		}
		return present
	})
}

// Lists tells whether the items of a server belong into lists. Those of one that is down for long do not.
func (v *View) Lists(server string) bool { return !v.shelves[server].unlisted }

// Unreached returns the tool, prompt or template of that exposed name as a guess: the name has the form that those of a
// server have which was not reached yet. It has no definition. It is nil when no such server's names have that form; a
// server without a prefix gives its names none. For resources there is View.Resource.
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
		if !s.isUnreached() || s.origin.prefix == "" {
			continue
		}
		if own, ok := strings.CutPrefix(exposed, s.origin.prefix+separator); ok && own != "" {
			return s.guess(kind, own, exposed)
		}
	}
	return nil
}

// isUnreached tells whether nothing is known yet of what the server offers.
func (s *shelf) isUnreached() bool { return s.origin != nil && !s.reached }

// guess makes an item of the server that is in no list.
func (s *shelf) guess(kind Kind, own, exposed string) *Item {
	return &Item{
		Kind: kind, Server: s.origin.server, Name: own, Exposed: exposed,
		Timeout: cmp.Or(s.timeout, defaultTimeout), origin: s.origin,
	}
}

// Down returns why the item cannot be used now, because its server is not there; nil when the server is there.
func (i *Item) Down() *DownError {
	outage := i.origin.outage.Load()
	if outage == nil {
		return nil
	}
	return &DownError{Kind: i.Kind, Server: i.Server, Name: i.Exposed, Outage: *outage}
}
