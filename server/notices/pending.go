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
// subscription names: these are held with that, by the desk. Whoever has them guards them.
type Pending struct {
	memory  *share.Budget
	user    share.User
	changed map[string]update // by URI or id; nil: none
	over    bool
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

// NewPending returns what remembers changes for a user.
func NewPending(memory *share.Budget, user share.User) *Pending {
	return &Pending{memory: memory, user: user}
}

// All returns what has changed, each with the stream that carries its notice, "" if none
// does yet. A nil u has none.
func (u *Pending) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if u == nil {
			return
		}
		for uri, one := range u.changed {
			if !yield(uri, one.stream) {
				return
			}
		}
	}
}

// Subscription returns the URI of the subscription that a change belongs to, "" if there
// is no such change. A nil u has none.
func (u *Pending) Subscription(uri string) string {
	if u == nil {
		return ""
	}
	return u.changed[uri].uri
}

// Add remembers a change of a part; the subscription to uri said so. If there is no room
// for the part, uri is remembered in its place. Until the client is told, further changes
// of it count as the same one.
func (u *Pending) Add(uri, part string) {
	if u.over {
		return
	}
	one, known := u.changed[part]
	if !known && part != uri {
		one.cost = int64(updateCost + len(part))
		if len(u.changed) >= maxUpdates || u.memory.Take(u.user, one.cost) != nil {
			part, one = uri, u.changed[uri]
		}
	}
	one.stream, one.uri = "", uri
	u.set(part, one)
}

// Put remembers the state of something with that id, in the place of an earlier one of
// which the client was not told. It is false if there is no room, or after Close.
func (u *Pending) Put(id string, s State) bool {
	before, known := u.changed[id]
	cost := int64(updateCost + len(id) + len(s.Text))
	if u.over || !known && len(u.changed) >= maxUpdates || u.memory.Take(u.user, cost) != nil {
		return false
	}
	u.memory.Give(u.user, before.cost)
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

// Unassign notes that the stream does not carry the notice of a change, if it does. A nil
// u has no change.
func (u *Pending) Unassign(uri, stream string) {
	if u == nil {
		return
	}
	if one, known := u.changed[uri]; known && one.stream == stream {
		u.Assign(uri, "")
	}
}

// Drop forgets the changes for which sent is true. A nil u has none.
func (u *Pending) Drop(sent func(uri, stream string) bool) {
	if u == nil {
		return
	}
	for uri, one := range u.changed {
		if sent(uri, one.stream) {
			u.memory.Give(u.user, one.cost)
			delete(u.changed, uri)
		}
	}
}

// Forget forgets the changes that belong to the subscription to a URI, unless another one
// covers them too, as other tells with its URI, "" if none does: they belong to that then. A
// nil u has none.
func (u *Pending) Forget(subscribed string, other func(changed string) string) {
	u.Drop(func(changed, _ string) bool {
		one := u.changed[changed]
		if one.uri != subscribed {
			return false
		}
		one.uri = other(changed)
		u.changed[changed] = one
		return one.uri == ""
	})
}

// Close forgets all changes, and remembers no more. A nil u has none.
func (u *Pending) Close() {
	if u == nil {
		return
	}
	u.over = true
	u.Drop(func(string, string) bool { return true })
}
