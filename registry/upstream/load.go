package upstream

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Load is what an upstream costs at the moment.
type Load struct {
	// Processes are the children that were started and have not ended, those that are starting or ending included. What a
	// child starts in its turn is not counted: npx, for one, stays beside the server that it runs.
	Processes int
	// Sessions are those of the legacy era, with the one that only lists, as far as they are open, being opened or being
	// closed. The one connection to a modern server is none.
	Sessions int
}

// Load returns what the upstream costs now. It waits for nothing that the server does.
func (u *Upstream) Load() Load {
	load := Load{Processes: int(u.children.Load())}
	if c := u.control.Load(); c != nil {
		load.Sessions = c.peer.sessions()
	}
	return load
}

// startChild starts a child that counts until it has ended.
func (u *Upstream) startChild(ctx context.Context, c *connection) (*wire.Child, error) {
	of := u.cfg.program(c.said)
	of.Ended = func() { u.children.Add(-1) }
	u.children.Add(1)
	k, err := wire.Start(ctx, of, c)
	if err != nil {
		u.children.Add(-1)
	}
	return k, err
}
