package server

import (
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

const (
	// maxUpdates is how many changed resources and parts of resources are remembered.
	// Beyond that, a changed part is remembered as a change of the resource that the
	// subscription names.
	maxUpdates = 1024
	// updateCost is what a changed part takes in memory besides its URI, in bytes,
	// roughly.
	updateCost = 128
)

// updates are the changed resources and parts of resources of which a client has yet to
// be told. The user holds the parts, which the server names, for as long as they are
// here. What a subscription names is held with that, by the desk. Whoever has updates
// guards them.
type updates struct {
	memory *share.Budget
	user   share.User
	owed   map[string]update // by URI; nil: none
	over   bool
}

// update is one of them.
type update struct {
	stream string // that owes the notice; "": none does yet
	uri    string // that the subscription names
	cost   int64  // bytes that the user holds for it
}

// add remembers a change of a part; the subscription to uri said so. If there is no room
// for the part, uri is remembered in its place. Until the client is told, further changes
// of it count as the same one.
func (u *updates) add(uri, part string) {
	if u.over {
		return
	}
	one, known := u.owed[part]
	if !known && part != uri {
		one.cost = int64(updateCost + len(part))
		if len(u.owed) >= maxUpdates || u.memory.Take(u.user, one.cost) != nil {
			part, one = uri, u.owed[uri]
		}
	}
	one.stream, one.uri = "", uri
	if u.owed == nil {
		u.owed = make(map[string]update)
	}
	u.owed[part] = one
}

// owe notes that the stream owes the notice of a change.
func (u *updates) owe(uri, stream string) {
	one := u.owed[uri]
	one.stream = stream
	u.owed[uri] = one
}

// waits tells whether there are any. A nil u has none.
func (u *updates) waits() bool { return u != nil && len(u.owed) > 0 }

// drop forgets the changes for which told is true. A nil u has none.
func (u *updates) drop(told func(uri, stream string) bool) {
	if u == nil {
		return
	}
	for uri, one := range u.owed {
		if told(uri, one.stream) {
			u.memory.Give(u.user, one.cost)
			delete(u.owed, uri)
		}
	}
}

// close forgets all changes, and remembers no more.
func (u *updates) close() {
	u.over = true
	u.drop(func(string, string) bool { return true })
}
