package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// personalLists are what servers offer to one caller that have lists for each user.
type personalLists struct {
	// by server; nil: it has none for anybody. nil in it: they are not known, and why may
	// say the reason
	lists map[string]*registry.Lists
	why   map[string]error
}

// personalOf asks the servers what they offer to a caller: ask is Lists or Known. A server
// that fails takes nothing from the others. The principal is copied, so that only those
// cost memory who have such a server.
func personalOf(servers []registry.PersonalServer, p auth.Principal,
	ask func(registry.Personal, *auth.Principal) (*registry.Lists, error),
) personalLists {
	made := personalLists{map[string]*registry.Lists{}, map[string]error{}}
	for _, server := range servers {
		own, err := ask(server.Personal, &p)
		if made.lists[server.Name] = own; own == nil && err != nil {
			made.why[server.Name] = err
		}
	}
	return made
}
