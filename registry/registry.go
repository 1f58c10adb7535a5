// Package registry is the catalogue. It answers which tools, prompts, resources and
// templates of resources exist, under which names and URIs, and with which definitions.
// It knows neither tenants nor transports: the gateway decides who may see an item, and
// the source of an item decides how a call reaches the server. What a JSON Schema means
// is decided in registry/schema; the catalogue only has the schemas of its items
// compiled, and leaves out an item whose schema is refused.
//
// A source is the code that speaks for one server of the config: registry/upstream,
// registry/openapi or registry/builtin. An item has two names. Its own name (or URI) is
// what the source calls it; its exposed name is what clients call it, and differs from
// its own when the server has a prefix.
//
//	sources                                             the gateway
//	   |  Replace, Announce,                               |  Catalogue, Changed
//	   |  Lose, Unlist, Remove                             v
//	   '-----> Registry --publishes--> Catalogue --View(servers)--> View --> Tool, Prompt, Resource, Template
//	                                   (immutable)              (immutable)              |  Call
//	   source.Use or Offer.Call <------------------- origin <----------------------------'
//
// An origin is what the items of one server share, and unlike them it changes after
// publication. A request may hold an item of an older catalogue, and its call must still
// go where the source now wants it to go, or fail because the server is down.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	what sources change    registry: the catalogue of now; outage: servers that are down;
//	                       personal: what is offered to one user alone
//	what readers get       lookup: items by name; view: what one list of servers offers; catalogue;
//	                       build: from offers to items
//	the kinds              tool, app, header; prompt; resource; skill
//	what they share        item, argument; skillrules: what no skill may be
//	  URIs in results      expose
//	  one server           origin
//	what is refused        quarantine: hidden text; refuse
//	what sources hand in   offer; errors: of their servers
//	names and URIs         name, uri, authority, spelling, template, match: patterns of names
//
// The states of one source, as Replace, Lose, Unlist and Remove change them:
//
//	nothing known --Lose--> not reached yet
//	      |                        |
//	      '-------Replace----------+--Replace--> there --Lose--> lost --Unlist--> lost, and in no list
//	                                               ^              |                       |
//	                                               '--Replace-----'--------Replace--------'
//
// Remove leads from every state back to the first one, Forget from a lost one to the
// second, and a server that was not reached yet can be unlisted too. A lost source keeps
// its names: if they became free, the tool of another server could take the place of one
// that a model already knows and trusts.
package registry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Registry holds the current catalogue. It is safe for concurrent use, and readers never
// wait for writers: each change publishes a new Catalogue, and a request goes on with the
// one it began with.
type Registry struct {
	current atomic.Pointer[Catalogue]
	mu      sync.Mutex // serialises writers; held while current is replaced
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{}
	r.current.Store(newCatalogue(map[string]section{}))
	return r
}

// Replace puts what a source offers now in the place of what it offered before, ends its
// outage if there is one, and returns the definitions that it left out. Items of other
// sources stay as they are. Waiters on Changed are woken only when something differs: a
// definition with the same bytes keeps its item, whose schemas are not compiled again.
//
// Only one goroutine at a time may call Replace for the same source. Items are built
// before the mutex is taken, because compiling schemas takes long, so that of two such
// calls the older offer could win.
func (r *Registry) Replace(s Source) []Refusal { return r.ReplacePersonal(s, nil) }

// ReplacePersonal is Replace for a source that offers to each user what personal says.
// Beside that, the source itself offers nothing.
func (r *Registry) ReplacePersonal(s Source, personal Personal) []Refusal {
	next, refusals := build(s, r.current.Load().sections[s.Name])
	next.personal = personal
	r.update(s.Name, func(present section) section {
		next.announced, next.renewed = present.announced, present.renewed
		next.origin.outage.Store(nil)
		return next
	})
	return refusals
}

// Remove takes a source out of the catalogue and frees its names. It is for a server that
// is no longer configured; for one that is down there is Lose.
func (r *Registry) Remove(source string) {
	r.update(source, func(section) section { return section{} })
}

// Announce publishes a new catalogue although the items of the source are the same,
// because the server said that its list of that kind changed. Clients that see an item of
// the source are then told so too: the server may mean a change that its definitions do
// not show. Resources and templates count as one list.
func (r *Registry) Announce(source string, kind Kind) {
	r.update(source, func(present section) section {
		present.announced[listOf[kind]]++
		return present
	})
}

// update publishes a catalogue in which change has been applied to the section of the
// source, unless the section stays the same. change runs with the mutex held.
func (r *Registry) update(source string, change func(section) section) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.current.Load()
	present := before.sections[source]
	next := change(present)
	if present.empty() && next.empty() || present.equal(&next) {
		return
	}
	sections := maps.Clone(before.sections)
	if next.empty() {
		delete(sections, source)
	} else {
		sections[source] = next
	}
	r.current.Store(newCatalogue(sections))
	close(before.replaced)
}

// Catalogue returns the current catalogue. As long as nothing changes, it returns the
// same pointer.
func (r *Registry) Catalogue() *Catalogue { return r.current.Load() }

// Changed returns a channel that is closed when the current catalogue is replaced. A
// waiter that calls Changed first and Catalogue second misses no change. In the other
// order it would miss one that came between the two calls. When a change comes between
// them in the right order, the channel is already closed, and the waiter looks once more
// in vain.
func (r *Registry) Changed() <-chan struct{} { return r.current.Load().replaced }
