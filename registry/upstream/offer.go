package upstream

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// item is what a call needs to know of what it is about. It is immutable.
type item struct {
	method     string
	name       string      // or URI, or id of a task; of a completion, that of what its argument belongs to
	quoted     mcp.RawJSON // the same as JSON; of a completion, the whole reference
	revision   string      // that the server speaks
	idempotent bool        // a tool that the operator says does no harm when called twice
	header     http.Header // of calls without Mcp-Param-* over modern HTTP; made by the peer, nil elsewhere
	asTask     bool        // the call asks for a task
}

func (c *connection) newItem(method, name string, quoted mcp.RawJSON) *item {
	i := &item{method: method, name: name, quoted: quoted, revision: c.version}
	c.peer.prepare(i)
	return i
}

// itemOf returns the item of a call that is not about a tool.
func (c *connection) itemOf(call *registry.Call) *item {
	quoted := mcp.String(call.Target)
	if call.Method == mcp.MethodComplete {
		ref, member := call.Params.Object("ref"), "name"
		if ref.Text("type") == "ref/resource" {
			member = "uri"
		}
		quoted = ref.With(member, quoted).JSON()
	}
	return c.newItem(call.Method, call.Target, quoted)
}

// offers returns the upstream's tools as the catalogue wants them.
func (u *Upstream) offers(l *lists) []registry.Offer {
	offers := make([]registry.Offer, len(l.tools.items))
	for i, definition := range l.tools.items {
		offers[i] = u.offer(l.conn, definition)
	}
	return offers
}

func (u *Upstream) offer(c *connection, definition mcp.Object) registry.Offer {
	name := definition.Text("name")
	tasks, definition := c.tasksOf(definition)
	t := c.newItem(mcp.MethodToolsCall, name, mcp.String(name))
	t.idempotent = isIdempotent(u.cfg.Idempotent, name)
	asTask := *t
	asTask.asTask, asTask.idempotent = true, false // another task would be left behind
	timeout := u.cfg.Timeout
	if own := u.cfg.ToolTimeouts[name]; own > 0 {
		timeout = own
	}
	return registry.Offer{
		Definition: definition,
		Timeout:    timeout,
		Tasks:      tasks,
		Call: func(ctx context.Context, call *registry.Call) (mcp.Object, error) {
			switch {
			case call.Task != "":
				return c.call(ctx, c.newItem(call.Method, call.Task, mcp.String(call.Task)), call)
			case call.Tasks == mcp.TasksAsked && tasks == mcp.TasksAsked:
				return c.call(ctx, &asTask, call)
			}
			return c.call(ctx, t, call)
		},
	}
}
