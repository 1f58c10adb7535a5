package exchange

import (
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// unknownExtensions remembers which extensions clients have declared that nobody carries,
// so that the operator is told of each once. It is safe for concurrent use.
type unknownExtensions struct {
	mu     sync.Mutex // guards the field below
	logged map[string]bool
}

// maxUnknownExtensions bounds what is remembered and told: clients choose the names.
const maxUnknownExtensions = 64

// first tells whether the extension was not declared before. It is false for a text that
// is no identifier.
func (u *unknownExtensions) first(id string) bool {
	if !mcp.ValidExtensionID(id) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.logged[id] || len(u.logged) >= maxUnknownExtensions {
		return false
	}
	u.logged[strings.Clone(id)] = true // or all of the message would stay in memory
	return true
}

// maxExtensionsLogged bounds how many identifiers stand in the line of a request.
const maxExtensionsLogged = 16

// loggedExtensions returns the identifiers in a member extensions, for the line of a
// request.
func loggedExtensions(declared mcp.RawJSON) string {
	all, _ := mcp.ObjectOf(declared)
	var ids []string
	for id := range all.Members {
		if len(ids) < maxExtensionsLogged && mcp.ValidExtensionID(id) {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}
