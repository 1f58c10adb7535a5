package registry

import "sync/atomic"

var lists atomic.Uint64 // counts them

// NewLists makes the lists of what a source offers to a user. Its own name and prefix are
// those that Replace was called with. It also returns the definitions that were left out.
func (r *Registry) NewLists(s Source) (*Lists, []Refusal) {
	own := newOrigin(s.Name, s.Prefix)
	if present := r.current.Load().shelves[s.Name]; present.origin != nil {
		own.presence = present.origin.presence // it goes down, and comes back, with the server
	}
	made, refused := build(s, shelf{origin: own})
	l := &Lists{shelf: made, number: lists.Add(1)}
	for _, t := range made.tools {
		l.bytes += int64(len(t.Raw))
	}
	for _, i := range made.others() {
		l.bytes += int64(len(i.Raw))
	}
	return l, refused
}

// Number returns a number that no other lists have.
func (l *Lists) Number() uint64 { return l.number }

// Bytes returns how many bytes the definitions have.
func (l *Lists) Bytes() int64 { return l.bytes }

// others returns the items that are not tools.
func (s *shelf) others() []*Item {
	var all []*Item
	for _, p := range s.prompts {
		all = append(all, &p.Item)
	}
	for _, r := range s.resources {
		all = append(all, &r.Item)
	}
	for _, t := range s.templates {
		all = append(all, &t.Item)
	}
	for _, skill := range s.skills {
		all = append(all, &skill.Item)
	}
	return all
}

// ViewOf is View for a user to whom the servers offer these lists, by their names. It is
// made anew each time.
func (c *Catalogue) ViewOf(servers []string, own map[string]*Lists) *View {
	return c.newView(servers, nil, own)
}

// Renew publishes a new catalogue although nothing in it differs, because what the source
// offers to somebody does. Those who wait on Changed look again, each at what they see.
func (r *Registry) Renew(source string) {
	r.update(source, func(present shelf) shelf {
		if present.personal != nil {
			present.renewed++
		}
		return present
	})
}
