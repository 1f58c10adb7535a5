package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// openState opens a sealed state of either version. ok is false if it is not one of ours.
func (g *Gateway) openState(token string) (s *state, ok bool) {
	purpose := purposeState
	plain, err := g.config.Seal.OpenLong(purpose, token)
	if err != nil {
		purpose = purposeHome
		plain, err = g.config.Seal.OpenLong(purpose, token)
	}
	if err != nil {
		return nil, false
	}
	return decodeState(plain, purpose == purposeHome)
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

// sealTask returns the id under which a client knows the task.
func (g *Gateway) sealTask(t *task) (string, error) {
	plain := make([]byte, 0, 160+len(t.server)+len(t.tool)+len(t.callID)+len(t.own))
	plain = append(append(plain, t.owner[:]...), byte(t.form)) //nolint:gosec // there are two
	plain = appendSized(appendSized(appendSized(plain, t.server), t.tool), t.callID)
	if t.home == "" {
		return g.config.Seal.SealLong(purposeTask, append(plain, t.own...))
	}
	return g.config.Seal.SealLong(purposeLocalTask, append(appendSized(plain, string(t.home)), t.own...))
}

// openTask reads what sealTask wrote.
func (g *Gateway) openTask(id string) (*task, error) {
	hasHome := false
	plain, err := g.config.Seal.OpenLong(purposeTask, id)
	if err != nil {
		hasHome = true
		plain, err = g.config.Seal.OpenLong(purposeLocalTask, id)
	}
	if err != nil {
		return nil, g.unreadable(&taskError{taskForged})
	}
	r := &stateReader{rest: plain, ok: true}
	t := &task{}
	copy(t.owner[:], r.next(len(t.owner)))
	t.form = mcp.Tasks(r.byte())
	t.server, t.tool, t.callID = r.sized(), r.sized(), r.sized()
	if hasHome {
		t.home = replica.ID(r.sized())
	}
	if t.own = string(r.rest); !r.ok {
		return nil, &taskError{taskForged}
	}
	return t, nil
}
