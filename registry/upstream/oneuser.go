package upstream

import (
	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
)

// Where one user stands behind all calls (Config.OneUser), a child of the legacy era is not started once for the lists and
// once for each client: the control connection is a session of the pool, too, and serves the calls of all clients, one
// client at a time.
//
//	no call is open                 the session is lent to whichever client calls
//	calls of the same client        run beside each other: a question is for that client, whichever call it came from
//	those of one without a session  run one by one if it can be asked: it is but a name, which each of its windows has
//	a call of another client        another child is started; it ends when it was idle for long
//	who wants log lines, or a task  has a session for that, as without OneUser
//	who has roots                   has a session of its own, if the server asks for roots when it starts: they hold for all calls
//
// So what the server keeps in memory is the same for all clients, and lists change with what a call does, as when a client
// is connected directly. The hazard is a question that reaches the client that did not call: nothing ties one to a call
// over stdio, and the user of the wrong window would answer it. So a session never has open calls of two clients, and is
// lent to nobody else while its server may still run a call that it did not answer (abandonedFor).
//
// The price: what the server is told that its client can be asked is what any client could be, since its lists may depend
// on that and one session has one such declaration. The caller that cannot be asked a question is not asked, and the
// server gets an error where it might have done without the question, had it known. When that happens once, the pool is
// strict until the server is connected to again: each set of what a client can be asked has sessions that declare it.

// lend makes the control connection a session that calls run on. It is called before the pool has calls.
func (p *pool) lend(control *legacy) {
	k := seats.Key{Traits: string(everything().JSON()), Patient: true}
	p.lends = true
	p.room.Lend(&pooled{key: k, conn: control.conn, calls: control.calls, room: p.room, session: control}, k)
}

// lentKey says which sessions may run the call of one user's client.
func (p *pool) lentKey(c *registry.Call, i *item) seats.Key {
	logs := c.LogLevel > 0 && p.conn.has("logging")
	roots := p.conn.rooted.Load() && c.Capabilities.Has("roots")
	solo := !c.InSession && c.Capabilities.Len() > 0 && i.asks
	k := seats.Key{Owner: p.ownerOf(c), Alone: logs, Kept: roots, Solo: solo}
	switch {
	case !logs && !roots && c.Tasks != mcp.TasksAsked && !p.parking.strict.Load():
		k.Traits = string(everything().JSON())
	case c.Capabilities.Len() > 0 && i.asks:
		k.Traits = string(c.Capabilities.JSON())
	}
	k.Patient = k.Traits != ""
	return k
}

// ownerOf returns whose the call is: where there is one user, also in which client.
func (p *pool) ownerOf(c *registry.Call) auth.Owner {
	who := c.Principal.Owner()
	if p.lends {
		who.ClientID += " " + c.Client
	}
	return who
}
