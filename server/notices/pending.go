package notices

import (
	"iter"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

const (
	// maxUpdates is how many changes are remembered. Beyond that, a changed part of a
	// resource is remembered as a change of the resource that the subscription names.
	maxUpdates = 1024
	// updateCost is what a change takes in memory besides its texts, in bytes, roughly.
	updateCost = 128
)

// Pending are the changes of which a client has yet to be told: of resources and parts of
// resources (Add), or of what has states, such as tasks (Put). The user holds what is
// remembered of them for as long as they are here, but for the resources that a
// subscription names: these are held with that, by the desk. Whoever has them guards
// them, and names the same Memory each time. The zero Pending is ready to use.
type Pending struct {
	changed map[string]update // by URI or id; nil: none
	over    bool
}

// Memory is where the memory for changes comes from, and who holds it.
type Memory struct {
	Budget *share.Budget
	User   share.User
}

// update is one of them.
type update struct {
	stream string // that carries the notice; "": none does yet
	uri    string // that the subscription names
	cost   int64  // bytes that the user holds for it
	state  State
}

// State is the latest that there is to tell of something that has states.
type State struct {
	Method string // of the notice; "": all have the same
	Text   []byte // shared: do not modify it
}

// All returns what has changed, each with the stream that carries its notice, "" if none
// does yet.
func (u *Pending) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for uri, one := range u.changed {
			if !yield(uri, one.stream) {
				return
			}
		}
	}
}

// Subscription returns the URI of the subscription that a change belongs to, "" if there
// is no such change.
func (u *Pending) Subscription(uri string) string { return u.changed[uri].uri }

// Add remembers a change of a part; the subscription to uri said so. If there is no room
// for the part, uri is remembered in its place. Until the client is told, further changes
// of it count as the same one.
func (u *Pending) Add(in Memory, uri, part string) {
	if u.over {
		return
	}
	one, known := u.changed[part]
	if !known && part != uri {
		one.cost = int64(updateCost + len(part))
		if len(u.changed) >= maxUpdates || in.Budget.Take(in.User, one.cost) != nil {
			part, one = uri, u.changed[uri]
		}
	}
	one.stream, one.uri = "", uri
	u.set(part, one)
}

// Put remembers the state of something with that id, in the place of an earlier one of
// which the client was not told. It is false if there is no room, or after Close.
func (u *Pending) Put(in Memory, id string, s State) bool {
	before, known := u.changed[id]
	cost := int64(updateCost + len(id) + len(s.Text))
	if u.over || !known && len(u.changed) >= maxUpdates || in.Budget.Take(in.User, cost) != nil {
		return false
	}
	in.Budget.Give(in.User, before.cost)
	u.set(id, update{cost: cost, state: s})
	return true
}

func (u *Pending) set(key string, one update) {
	if u.changed == nil {
		u.changed = make(map[string]update)
	}
	u.changed[key] = one
}

// State returns what Put remembered under that id.
func (u *Pending) State(id string) State { return u.changed[id].state }

// Assign notes that the stream carries the notice of a change.
func (u *Pending) Assign(uri, stream string) {
	one := u.changed[uri]
	one.stream = stream
	u.changed[uri] = one
}

// Unassign notes that the stream does not carry the notice of a change, if it does.
func (u *Pending) Unassign(uri, stream string) {
	if one, known := u.changed[uri]; known && one.stream == stream {
		u.Assign(uri, "")
	}
}

// Drop forgets the changes for which sent is true.
func (u *Pending) Drop(in Memory, sent func(uri, stream string) bool) {
	for uri, one := range u.changed {
		if sent(uri, one.stream) {
			in.Budget.Give(in.User, one.cost)
			delete(u.changed, uri)
		}
	}
}

// Forget forgets the changes that belong to the subscription to a URI, unless another one
// covers them too, as other tells with its URI, "" if none does: they belong to that
// then.
func (u *Pending) Forget(in Memory, subscribed string, other func(changed string) string) {
	u.Drop(in, func(changed, _ string) bool {
		one := u.changed[changed]
		if one.uri != subscribed {
			return false
		}
		one.uri = other(changed)
		u.changed[changed] = one
		return one.uri == ""
	})
}

// Close forgets all changes, and remembers no more.
func (u *Pending) Close(in Memory) {
	u.over = true
	u.Drop(in, func(string, string) bool { return true })
}
