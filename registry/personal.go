package registry

import (
	"slices"
	"sync/atomic"
)

var lists atomic.Uint64 // counts them

// NewLists makes the lists of what a source offers to a user. Its own name and prefix are
// those that Replace was called with. It also returns the definitions that were left out.
func (r *Registry) NewLists(s Source) (*Lists, []Refusal) {
	own := newOrigin(s.Name, s.Prefix)
	if present := r.current.Load().sections[s.Name]; present.origin != nil {
		own.presence = present.origin.presence // it goes down, and comes back, with the server
	}
	made, refused := build(s, section{origin: own})
	return &Lists{section: made, number: lists.Add(1), bytes: made.bytes()}, refused
}

// Number returns a number that no other lists have, zero for nil.
func (l *Lists) Number() uint64 {
	if l == nil {
		return 0
	}
	return l.number
}

// Bytes returns about how many bytes of memory the lists take.
func (l *Lists) Bytes() int64 { return l.bytes }

// bytes estimates what the items take in memory: their definitions, the same taken apart,
// and the schemas of tools, of which weigh tells up to twice too much.
func (s *itemSet) bytes() (bytes int64) {
	for _, tool := range s.tools {
		bytes += int64(2*len(tool.Raw) + weigh(tool.Raw)/2)
	}
	for _, item := range slices.Concat(s.items[:]...) {
		bytes += int64(2 * len(item.Raw))
	}
	return bytes
}

// ViewOf is View for a user to whom the servers offer these lists, by their names. It is
// made anew each time.
func (c *Catalogue) ViewOf(servers []string, own map[string]*Lists) *View {
	return c.newView(servers, nil, own)
}

// Renew publishes a new catalogue although nothing in it differs, because what the source
// offers to somebody does. Those who wait on Changed look again, each at what they see.
func (r *Registry) Renew(source string) {
	r.update(source, func(present section) section {
		if present.personal != nil {
			present.renewed++
		}
		return present
	})
}
