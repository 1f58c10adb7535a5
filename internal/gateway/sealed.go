package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// seal returns a state or a task as clients have it.
func (g *Gateway) seal(purpose string, v any) (string, error) {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return "", err
	}
	return g.config.Seal.SealLong(purpose, text)
}

// open reads what seal wrote. It returns false if the text is not one of ours.
func (g *Gateway) open(purpose, sealed string, into any) bool {
	text, err := g.config.Seal.OpenLong(purpose, sealed)
	return err == nil && strictjson.Unmarshal(text, into) == nil
}

// isElsewhere tells whether only another replica can go on with what that replica keeps.
func (g *Gateway) isElsewhere(home replica.ID) bool {
	return home != "" && home != g.config.Others.Self()
}

// unreadable returns the error for what this replica cannot open: what it takes for
// forged, unless a later version may have made it. Then the client is to try again.
func (g *Gateway) unreadable(forged error) error {
	if g.config.Others.IsNewerThere() {
		return errLater
	}
	return forged
}

// openTask opens the id under which a client knows a task.
func (g *Gateway) openTask(id string) (*task, error) {
	t := &task{}
	if !g.open(purposeTask, id, t) {
		return nil, g.unreadable(&taskError{taskForged})
	}
	return t, nil
}

// mayUseToolOf tells whether a caller may use the tool of a task now, whatever its client
// declares. As long as its server does not say what it offers to the caller, what the
// rules say of the name holds.
func (g *Gateway) mayUseToolOf(t *task, c *Caller) bool {
	s := g.tenantViewOf(c)
	if found := g.callerViewIn(s, *c).tool(t.Tool); found != nil {
		return found.Server == t.Server
	}
	guess := s.view.Unreached(registry.KindTool, t.Tool)
	return guess != nil && guess.Server == t.Server && c.Tenant.allows(c.rules, guess)
}
