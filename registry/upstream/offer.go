package upstream

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// item is what a call needs to know of what it is about. It is immutable.
type item struct {
	method string
	name   string      // or URI; of a completion, that of what its argument belongs to
	quoted mcp.RawJSON // the same as JSON; of a completion, the whole reference
	header http.Header // of calls without Mcp-Param-* over modern HTTP; made by the peer, nil elsewhere
}

// itemOf returns the item of a call that is not about a tool.
func (c *connection) itemOf(call *registry.Call) *item {
	i := &item{method: call.Method, name: call.Target, quoted: mcp.String(call.Target)}
	if call.Method == mcp.MethodComplete {
		ref, member := call.Params.Object("ref"), "name"
		if ref.Text("type") == "ref/resource" {
			member = "uri"
		}
		i.quoted = ref.With(member, i.quoted).JSON()
	}
	c.peer.prepare(i)
	return i
}

var errName = errors.New("name is missing or holds hidden characters")

// offers lists the upstream's tools as the catalogue wants them, with the definitions left out already. Nil offers
// without an error mean that nothing changed since the last list of this connection.
func (u *Upstream) offers(ctx context.Context, c *connection) ([]registry.Offer, []registry.Refusal, error) {
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	raw, err := c.tools(limited)
	if err != nil {
		return nil, nil, c.server.settle(ctx, err)
	}
	text := mcp.Array(raw)
	if c.listed != nil && bytes.Equal(c.listed, text) {
		return nil, nil, nil
	}
	offers := make([]registry.Offer, 0, len(raw))
	var refused []registry.Refusal
	repaired := 0
	for _, one := range raw {
		definition, ok := mcp.ObjectOf(one)
		name := definition.Text("name")
		cleaned, report := sanitize.Definition(definition)
		repaired += report.Total()
		if !ok || name == "" || cleaned.Text("name") != name {
			refused = append(refused, registry.Refusal{Server: u.cfg.Name, Kind: registry.KindTool, Item: cleaned.Text("name"), Reason: "name", Err: errName})
			continue
		}
		offers = append(offers, u.offer(c, name, cleaned))
	}
	if repaired > 0 {
		u.cfg.Logger.WarnContext(ctx, "tool definitions held hidden text, which was removed", "repairs", repaired)
	}
	c.listed = text
	return offers, refused, nil
}

func (u *Upstream) offer(c *connection, name string, definition mcp.Object) registry.Offer {
	t := &item{method: mcp.MethodToolsCall, name: name, quoted: mcp.String(name)}
	c.peer.prepare(t)
	timeout := u.cfg.Timeout
	if own := u.cfg.ToolTimeouts[name]; own > 0 {
		timeout = own
	}
	return registry.Offer{
		Definition: definition,
		Timeout:    timeout,
		Call: func(ctx context.Context, call *registry.Call) (mcp.Object, error) {
			return c.call(ctx, t, call)
		},
	}
}
