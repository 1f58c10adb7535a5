package gateway

import (
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// viewOf returns what the client of a call sees, by the extensions that it declares.
func (g *Gateway) viewOf(c *call) *registry.View {
	return g.tenantViewAs(&c.caller, c.request.Extensions).view
}

// foreseen returns the tool that a call will find, if the catalogue stays as it is; nil
// if it will find none, or nothing that has a limit of its own.
func (g *Gateway) foreseen(c *call) *registry.Tool {
	if c.method.Name != mcp.MethodToolsCall || len(c.caller.Tenant.tools) == 0 {
		return nil
	}
	return g.usable(c, c.params.Text("name"))
}

// allow makes item the item of the call if the caller may use it. name is what the client
// called it.
func (g *Gateway) allow(c *call, item *registry.Item, name string) error {
	if !c.caller.Tenant.allows(c.caller.rules, item) {
		return g.refusal(&c.caller, item, name)
	}
	c.item = item
	return nil
}

// absent returns the error for a name that no known item has. By its form the name may
// belong to a server that was not reached yet, or that does not say what it offers to the
// caller. Then a caller who may use an item of that name is told that, and everybody else
// that the item is unknown.
func (g *Gateway) absent(c *call, kind registry.Kind, name string) error {
	guess := g.viewOf(c).Unreached(kind, name)
	if guess == nil || !c.caller.Tenant.allows(c.caller.rules, guess) {
		return &unknownError{kind: kind, name: name}
	}
	c.unreached = guess.Server
	if down := guess.Down(); down != nil {
		return down
	}
	if err := c.caller.personal.why[guess.Server]; err != nil {
		return err
	}
	// it was reached this moment, or has not said yet what it offers to the user
	return &registry.UnavailableError{Server: guess.Server, Err: errUnlisted}
}

var errUnlisted = errors.New("it is not known yet what the server offers to the caller")

func (g *Gateway) findTool(c *call) error {
	name, err := c.toolName()
	if err != nil {
		return err
	}
	if found := g.usable(c, name); found != nil {
		c.tool, c.item = found, &found.Item
		return c.runAs()
	}
	visible := g.callerViewAs(c.caller, c.request.Extensions)
	if g.hostsApps(c) && visible.isAmbiguous(name) {
		return errAmbiguousTool
	}
	if tool := visible.tool(name); tool != nil && tool.TaskOnly && !tool.AppOnly && !c.request.InSession {
		return &capabilityError{mcp.NeedsTasks(mcp.Object{})}
	}
	tool, err := g.viewOf(c).Lookup(name)
	if err != nil || tool.TaskOnly || tool.AppOnly {
		return g.absent(c, registry.KindTool, name)
	}
	return g.refusal(&c.caller, &tool.Item, name)
}

// toolName returns what the client calls the tool. Where limited has looked the tool up,
// it need not be read again.
func (c *call) toolName() (string, error) {
	if c.charged != nil {
		return c.charged.Exposed, nil
	}
	return text(c.params, "name")
}

// usable returns the tool with that exposed name, nil if the call may not be one of it.
func (g *Gateway) usable(c *call, name string) *registry.Tool {
	visible := g.callerViewAs(c.caller, c.request.Extensions)
	found := visible.tool(name)
	if found == nil && g.hostsApps(c) {
		found = visible.own[name]
	}
	if found != nil && (found.TaskOnly && c.request.Tasks == 0 || found.AppOnly && !g.hostsApps(c)) {
		return nil
	}
	return found
}

func (g *Gateway) findPrompt(c *call) error {
	return g.findIn(c, registry.KindPrompt, (*registry.View).Prompt, c.params, "name")
}

// findIn finds the item of a kind that a member of these params names.
func (g *Gateway) findIn(c *call, kind registry.Kind, in func(*registry.View, string) (*registry.Item, error),
	params mcp.Object, member string,
) error {
	name, err := text(params, member)
	if err != nil {
		return err
	}
	item, err := in(g.viewOf(c), name)
	if err != nil {
		return g.absent(c, kind, name)
	}
	return g.allow(c, item, name)
}

func (g *Gateway) findResource(c *call) error {
	return g.findURI(c, registry.KindResource, (*registry.View).Resource, (*registry.View).Owned)
}

func (g *Gateway) findSkill(c *call) error {
	return g.findURI(c, registry.KindSkill, (*registry.View).Skill, (*registry.View).OwnedSkills)
}

// findURI finds what has the exposed URI of the request or, if nothing has it, the one
// item that the caller may use of those whose own URI that is.
func (g *Gateway) findURI(c *call, kind registry.Kind,
	exposed func(*registry.View, string) (*registry.Item, error),
	own func(*registry.View, string) []*registry.Item,
) error {
	uri, err := text(c.params, "uri")
	if err != nil {
		return err
	}
	view := g.viewOf(c)
	found, err := exposed(view, uri)
	if err != nil {
		if found, err = owned(c, own(view, uri)); err != nil {
			return err
		}
	}
	if found == nil {
		return &unknownError{kind: kind, name: uri}
	}
	return g.allow(c, found, uri)
}

// findDirectory finds a directory as if it were a resource, at a server that has skills.
func (g *Gateway) findDirectory(c *call) error {
	if err := g.findResource(c); err != nil {
		return err
	}
	if !g.viewOf(c).Extensions(c.item.Server).Has(mcp.ExtensionSkills) {
		return &unknownError{kind: registry.KindResource, name: c.item.Exposed}
	}
	return nil
}

// findReference finds the item whose argument is to be completed: a prompt by its name,
// or a resource template by its text, or a listed resource by its URI, for which most
// servers have no values.
// https://modelcontextprotocol.io/specification/2026-07-28/schema#resourcetemplatereference
func (g *Gateway) findReference(c *call) error {
	ref := c.params.Object("ref")
	switch ref.Text("type") {
	case "ref/prompt":
		return g.findIn(c, registry.KindPrompt, (*registry.View).Prompt, ref, "name")
	case "ref/resource":
		return g.findIn(c, registry.KindTemplate, templateOrResource, ref, "uri")
	}
	return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS",
		"Invalid params: ref must be of type ref/prompt or ref/resource")
}

// templateOrResource returns the template with that text or, if there is none, the listed
// resource with that URI.
func templateOrResource(v *registry.View, uri string) (*registry.Item, error) {
	template, err := v.Template(uri)
	if err != nil {
		if r, _ := v.Resource(uri); r != nil && r.Lists(r.Name) { // nil: there is none either
			return r, nil
		}
	}
	return template, err
}

// refusal returns the error for an item that is there and that the rules do not allow to
// the caller.
func (g *Gateway) refusal(c *Caller, item *registry.Item, name string) *unknownError {
	n := policyNameOf(item)
	e := g.refused(c, &n, name)
	e.item = item
	return e
}

// refused returns the error for what is called n by the rules, and name by the client,
// and is not allowed.
func (g *Gateway) refused(c *Caller, n *policyName, name string) *unknownError {
	e := &unknownError{kind: n.kind, name: name, there: true}
	var rule int
	e.reason, rule, e.missing = c.Tenant.whyNot(c, n)
	if rule >= 0 {
		e.rule = c.stands.ofRule(rule, &c.Tenant.config.Rules[rule])
		if e.reason == reasonScope {
			e.scopes = c.Tenant.rules[rule].scopes
		}
	}
	return e
}

// locationOf returns where a rule of the tenant stands, as file:line, or its number if it
// stands in no file.
func (d *directory) locationOf(t *Tenant, rule int) string {
	return d.stands[t.ID].ofRule(rule, &t.config.Rules[rule])
}

// hostsApps tells whether the client of a call declares that it can show apps.
func (g *Gateway) hostsApps(c *call) bool { return c.request.Extensions.Has(mcp.ExtensionApps) }

// What a client is told that names what several servers have.
var (
	errAmbiguousTool = mcp.Stable(mcp.CodeInvalidParams, "DB-AMBIGUOUS",
		"Several servers have a tool of this name: call it by the name in the list, with the server's prefix")
	errAmbiguousResource = mcp.Stable(mcp.CodeInvalidParams, "DB-AMBIGUOUS",
		"Several servers have a resource of this URI: read it by the URI in the list, with the server's name")
)

// owned returns the one of these resources or skills that the caller may use, nil if
// there is none. The error is errAmbiguousResource.
func owned(c *call, candidates []*registry.Item) (*registry.Item, error) {
	var found *registry.Item
	for _, one := range candidates {
		switch {
		case !c.caller.Tenant.allows(c.caller.rules, one):
		case found != nil:
			return nil, errAmbiguousResource
		default:
			found = one
		}
	}
	return found, nil
}
