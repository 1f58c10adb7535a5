package upstream

import (
	"crypto/rand"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of the addresses of one session whose ids are known, the latest ones.
const (
	maxElicitations  = 256
	maxElicitationID = 256 // bytes of a server's id; of a longer one no end is told
)

// elicitations are the addresses that the server of a legacy session wants users to open,
// by ids of the gateway's own: what a server tells by an id reaches only the client that
// was asked, and under the id that it was asked with. The zero value has none. It is safe
// for concurrent use.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
type elicitations struct {
	mu  sync.Mutex // guards the field below
	all []elicitation
}

// elicitation is one address. A server may ask for it more than once.
type elicitation struct {
	own, id string          // of the server, and of the gateway
	tell    func(id string) // as registry.Call.OnOpened
}

// elicitationOf returns the server's id of the address in the params of a question, "" if
// there is none, or one that is too long.
func elicitationOf(params mcp.Object) string {
	id := params.Text("elicitationId")
	if len(id) > maxElicitationID {
		return ""
	}
	return id
}

// rename returns the params of a question with an id of the gateway in place of the
// server's, or without one if they have none, or tell is nil.
func (e *elicitations) rename(params mcp.Object, tell func(id string)) mcp.Object {
	own := elicitationOf(params)
	params = params.Without("elicitationId")
	if own == "" || tell == nil {
		return params
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one := elicitation{own, rand.Text(), tell}
	if i := slices.IndexFunc(e.all, one.isSame); i >= 0 {
		one.id = e.all[i].id
		e.all = slices.Delete(e.all, i, i+1)
	}
	e.all = append(e.all[max(0, len(e.all)+1-maxElicitations):], one)
	return params.With("elicitationId", mcp.String(one.id))
}

func (one elicitation) isSame(other elicitation) bool { return other.own == one.own }

// complete tells, once, that what was to be done at an address is done.
func (e *elicitations) complete(own string) {
	e.mu.Lock()
	i := slices.IndexFunc(e.all, elicitation{own: own}.isSame)
	if i < 0 {
		e.mu.Unlock()
		return
	}
	one := e.all[i]
	e.all = slices.Delete(e.all, i, i+1)
	e.mu.Unlock()
	one.tell(one.id)
}
