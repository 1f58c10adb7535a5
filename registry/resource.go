package registry

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Resource is one resource of the catalogue, or one that is in no list but that its
// server may have. It is immutable.
type Resource struct {
	Item
}

// Subscribe reports changes of the resource to the user until ctx ends. It returns as
// soon as no later change can be missed. updated gets the exposed URI of what changed,
// which may be a part of the resource, and must not block. ok is false when the server
// reports no changes. The error is a *DownError when the server is known to be down, and
// otherwise the source's.
func (r *Resource) Subscribe(ctx context.Context, user share.User,
	updated func(uri string),
) (ok bool, err error) {
	if down := r.Down(); down != nil {
		return false, down
	}
	subscribe := r.origin.service.Load().subscribe
	if subscribe == nil {
		return false, nil
	}
	return true, subscribe(ctx, user, r.Name, func(uri string) { updated(r.origin.exposed(uri)) })
}

// define reads the definition of a resource. Errors are *refusalError.
func (r *Resource) define(o *origin, timeout time.Duration, definition mcp.Object) error {
	uri := definition.Text("uri")
	if !validURI(uri) {
		return refuse("uri", errURI)
	}
	if definition.Text("name") == "" {
		return refuse("name", errName)
	}
	return r.Item.define(o, timeout, KindResource, "uri", definition, o.exposed(uri))
}

// Template is one template of resources: a URI template (RFC 6570) that stands for all
// URIs of its form.
type Template struct {
	Item

	pattern *uriPattern
}

// define reads the definition of a template. Errors are *refusalError.
func (t *Template) define(o *origin, timeout time.Duration, definition mcp.Object) (err error) {
	text := definition.Text("uriTemplate")
	if t.pattern, err = newURIPattern(text); err != nil {
		return refuse("uri", err)
	}
	if definition.Text("name") == "" {
		return refuse("name", errName)
	}
	return t.Item.define(o, timeout, KindTemplate, "uriTemplate", definition, o.exposed(text))
}
