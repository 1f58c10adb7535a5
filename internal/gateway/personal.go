package gateway

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// personalLists are what servers offer to one caller that have lists for each user.
type personalLists struct {
	// by server; nil: it has none for anybody. nil in it: they are not known, and why may
	// say the reason
	lists map[string]*registry.Lists
	why   map[string]error
}

// knownOf returns what is known of what servers offer to a caller. The principal is
// copied, so that only those cost memory who have such a server.
func knownOf(servers []registry.PersonalServer, p auth.Principal) personalLists {
	made := personalLists{lists: map[string]*registry.Lists{}}
	for _, server := range servers {
		made.lists[server.Name] = server.Known(&p)
	}
	return made
}

// askedOf asks the servers what they offer to a caller, all at once: several that are
// slow cost the time of one. A server that fails takes nothing from the others. A panic
// is the request's own, which recovers from it. The principal is copied as for knownOf.
func askedOf(ctx context.Context, servers []registry.PersonalServer, p auth.Principal) personalLists {
	found, faults := make([]*registry.Lists, len(servers)), make([]error, len(servers))
	panics := make([]any, len(servers))
	pace.AtOnce(len(servers), len(servers), func(i int) {
		defer func() { panics[i] = recover() }()
		found[i], faults[i] = servers[i].Lists(ctx, &p)
	})
	for _, problem := range panics {
		if problem != nil {
			panic(problem)
		}
	}
	made := personalLists{map[string]*registry.Lists{}, map[string]error{}}
	for i, server := range servers {
		if made.lists[server.Name] = found[i]; found[i] == nil && faults[i] != nil {
			made.why[server.Name] = faults[i]
		}
	}
	return made
}
