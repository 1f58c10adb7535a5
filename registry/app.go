package registry

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file has what the catalogue knows of apps: tools whose results a host shows in a
// view, which is a resource of the same server. The view calls tools by the names that
// the server gives them, and reads resources by its own URIs. Some hosts let it call only
// what they see listed, so such tools are listed under both names.
// https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx

// app is what the definition of a tool says of apps.
type app struct {
	AppURI  string // the exposed URI of its view; "": it has none
	ForApps bool   // views may call it
	AppOnly bool   // nobody but views is meant to call it
}

// readApp returns what a definition says of apps, and the definition with the exposed URI
// of its view.
func (o *origin) readApp(definition mcp.Object) (app, mcp.Object) {
	a := app{ForApps: true}
	meta, ok := mcp.ObjectOf(definition.Value("_meta"))
	if !ok {
		return a, definition
	}
	if visible, ok := meta.Object(mcp.MetaApp).Value("visibility").Elements(); ok {
		forModels := slices.ContainsFunc(visible, func(one mcp.RawJSON) bool { return one.Says("model") })
		a.ForApps = slices.ContainsFunc(visible, func(one mcp.RawJSON) bool { return one.Says("app") })
		a.AppOnly = a.ForApps && !forModels
	}
	a.AppURI = o.exposedView(viewIn(meta))
	return a, definition.With("_meta", o.viewMapped(meta))
}

// Listing is a way in which a tool is listed besides that of its definition.
type Listing int

// The ways.
const (
	Viewless  Listing = iota // without its view, for who may not read that
	OwnNamed                 // under the name that its server gives it, for views alone
	ForModels                // not for views
	listings                 // how many there are
)

// ListedAs returns the tool as it is listed in that way. It is for lists alone: calls go
// to the tool itself.
func (t *Tool) ListedAs(listing Listing) *Item {
	if known := t.byListing[listing].Load(); known != nil {
		return known
	}
	meta := t.Definition.Object("_meta")
	visible := func(to string) mcp.RawJSON {
		return meta.With(mcp.MetaApp, meta.Object(mcp.MetaApp).With("visibility",
			mcp.Array([]mcp.RawJSON{mcp.String(to)})).JSON()).JSON()
	}
	definition, exposed := t.Definition, t.Exposed
	switch listing {
	case OwnNamed:
		exposed = t.Name
		meta = withoutView(meta)
		definition = definition.WithAll(
			mcp.Member{Name: "name", Value: mcp.String(t.Name)}, mcp.Member{
				Name:  "_meta",
				Value: visible("app"),
			})
	case ForModels:
		definition = definition.With("_meta", visible("model"))
	default:
		definition = definition.WithMeta(withoutView(meta))
	}
	listed := &Item{
		Kind: t.Kind, Server: t.Server, Name: t.Name, Exposed: exposed, Definition: definition,
		Raw: definition.JSON(), origin: t.origin,
	}
	t.inline(listed)
	t.byListing[listing].CompareAndSwap(nil, listed)
	return t.byListing[listing].Load()
}

// ListsOwnName tells whether the tool may be listed under the name that its server gives
// it, besides its exposed one.
func (t *Tool) ListsOwnName() bool {
	return t.ForApps && t.Exposed != t.Name && onlyNameCharacters(t.Name)
}
