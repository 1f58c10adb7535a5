package registry

import (
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file has what the catalogue knows of apps: tools whose results a host shows in a
// view, which is a resource of the same server. The view calls tools by the names that
// the server gives them, and reads resources by its own URIs. Some hosts let it call only
// what they see listed, so such tools are listed under both names.
// https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx

// app is what the definition of a tool says of apps.
type app struct {
	View    string // the exposed URI of its view; "": it has none
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
	a.View = o.exposedView(viewIn(meta))
	if mapped := o.viewMapped(meta); mapped != nil {
		definition = definition.With("_meta", mapped)
	}
	return a, definition
}

// viewIn returns the URI of a view as _meta names it, "" if it names none: hosts take the
// nested member, else the flat one.
func viewIn(meta mcp.Object) string {
	uri := meta.Object(mcp.MetaApp).Text(mcp.MetaAppURI)
	if uri == "" {
		uri = meta.Text(mcp.MetaAppFlat)
	}
	return uri
}

// exposedView returns the exposed URI of a view. One that is no URI of views stays: hosts
// refuse it.
func (o *origin) exposedView(uri string) string {
	if schemeOf(uri) != mcp.SchemeApp {
		return uri
	}
	return o.exposed(uri)
}

// viewMapped returns _meta with the exposed URI of the view in both places, nil where
// nothing changes.
func (o *origin) viewMapped(meta mcp.Object) mcp.RawJSON {
	if o.prefix == "" {
		return nil
	}
	mapped := meta
	if ui := meta.Object(mcp.MetaApp); ui.Text(mcp.MetaAppURI) != "" {
		mapped = mapped.With(mcp.MetaApp,
			ui.With(mcp.MetaAppURI, mcp.String(o.exposedView(ui.Text(mcp.MetaAppURI)))).JSON())
	}
	if flat := meta.Text(mcp.MetaAppFlat); flat != "" {
		mapped = mapped.With(mcp.MetaAppFlat, mcp.String(o.exposedView(flat)))
	}
	return mapped.JSON()
}

// withoutView returns _meta without the URI of a view, with what else it says; nil if
// nothing is left.
func withoutView(meta mcp.Object) mcp.RawJSON {
	meta = meta.Without(mcp.MetaAppFlat)
	if ui := meta.Object(mcp.MetaApp); ui.Has(mcp.MetaAppURI) {
		if ui = ui.Without(mcp.MetaAppURI); ui.Len() > 0 {
			meta = meta.With(mcp.MetaApp, ui.JSON())
		} else {
			meta = meta.Without(mcp.MetaApp)
		}
	}
	if meta.Len() == 0 {
		return nil
	}
	return meta.JSON()
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

// In returns the tool as it is listed in that way. It is for lists alone: calls go to the
// tool itself.
func (t *Tool) In(way Listing) *Tool {
	if known := t.ways[way].Load(); known != nil {
		return known
	}
	meta := t.Definition.Object("_meta")
	visible := func(to string) mcp.RawJSON {
		return meta.With(mcp.MetaApp, meta.Object(mcp.MetaApp).With("visibility",
			mcp.Array([]mcp.RawJSON{mcp.String(to)})).JSON()).JSON()
	}
	listed := &Tool{input: t.input, output: t.output}
	listed.Kind, listed.Server, listed.Name, listed.Exposed, listed.origin = t.Kind, t.Server, t.Name,
		t.Exposed, t.origin
	definition := t.Definition
	switch way {
	case OwnNamed:
		listed.Exposed = t.Name
		meta, _ = mcp.ObjectOf(withoutView(meta))
		definition = definition.WithAll(
			mcp.Member{Name: "name", Value: mcp.String(t.Name)}, mcp.Member{
				Name:  "_meta",
				Value: visible("app"),
			})
	case ForModels:
		definition = definition.With("_meta", visible("model"))
	default:
		definition = definition.Without("_meta")
		if rest := withoutView(meta); rest != nil {
			definition = definition.With("_meta", rest)
		}
	}
	listed.Definition, listed.Raw = definition, definition.JSON()
	listed.inlined = listed.inlineOnce()
	t.ways[way].CompareAndSwap(nil, listed)
	return t.ways[way].Load()
}

// ListsOwnName tells whether the tool may be listed under the name that its server gives
// it, besides its exposed one.
func (t *Tool) ListsOwnName() bool {
	return t.ForApps && t.Exposed != t.Name && onlyNameCharacters(t.Name)
}

// keepsScheme tells whether the exposed form of a URI keeps its scheme, by which hosts
// know what it is.
func keepsScheme(uri string) bool {
	scheme := schemeOf(uri)
	return mcp.KeepsScheme(scheme) && strings.HasPrefix(uri[len(scheme):], "://")
}

// schemeKept returns the exposed form of a URI that keeps its scheme: the name of the
// server stands before the path, so that ui://chart/view.html of the server mod becomes
// ui://mod/chart/view.html.
func schemeKept(server, uri string) string {
	scheme := schemeOf(uri)
	return scheme + "://" + server + "/" + uri[len(scheme)+len("://"):]
}

// fromSchemeKept splits what schemeKept made. ok is false when the URI does not have that
// form; when it is true, there need not be such a server.
func fromSchemeKept(exposed string) (server, uri string, ok bool) {
	if !keepsScheme(exposed) {
		return "", "", false
	}
	start := len(schemeOf(exposed)) + len("://")
	server, rest, ok := strings.Cut(exposed[start:], "/")
	if !ok || rest == "" || !ValidServerName(server) {
		return "", "", false
	}
	return server, exposed[:start] + rest, true
}

// Owned returns the resources of servers with a prefix that a URI may mean which is one
// of a server's own, as a view or a file of a skill names it: those of the servers that
// list it or, if none does, of all that may have it. It is for URIs that are no exposed
// form of another server.
func (v *View) Owned(uri string) []*Resource {
	if !keepsScheme(uri) {
		return nil
	}
	var listed, possible []*Resource
	for _, server := range v.order {
		s := v.shelves[server]
		if s.origin == nil || s.origin.prefix == "" {
			continue
		}
		if known, err := find(v.resources, s.origin.exposed(uri)); err == nil {
			listed = append(listed, known)
		} else if s.extensions.Any() && s.reads && len(listed) == 0 {
			if r, err := v.unlisted(server, uri, s.origin.exposed(uri)); err == nil {
				possible = append(possible, r)
			}
		}
	}
	if len(listed) > 0 {
		return listed
	}
	return possible
}
