package registry

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Subscribe reports changes of the resource that the item is to the user until ctx ends.
// It returns as soon as no later change can be missed. updated gets the exposed URI of
// what changed, which may be a part of the resource, and must not block. ok is false when
// the server reports no changes. The error is a *DownError when the server is known to be
// down, and otherwise the source's.
func (i *Item) Subscribe(ctx context.Context, user share.User,
	updated func(uri string),
) (ok bool, err error) {
	if down := i.Down(); down != nil {
		return false, down
	}
	subscribe := i.origin.service.Load().subscribe
	if subscribe == nil {
		return false, nil
	}
	return true, subscribe(ctx, user, i.Name, func(uri string) { updated(i.origin.exposed(uri)) },
		func() { i.subscribeAgain(ctx, user, updated) })
}

// subscribeAgain goes on with a subscription whose source has ended, as at a reload that
// changes its server: it subscribes at the source that comes in its place. It tells of a
// change, because one may have been missed.
func (i *Item) subscribeAgain(ctx context.Context, user share.User, updated func(uri string)) {
	for failures := 0; pace.Wait(ctx, pace.Backoff(failures)); failures++ {
		if ok, err := i.Subscribe(ctx, user, updated); ok && err == nil {
			updated(i.Exposed)
			return
		}
	}
}

// defineResource reads the definition of a resource. Errors are *refusalError.
func (i *Item) defineResource(definition mcp.Object) error {
	if !validURI(i.Name) {
		return refuse("uri", errURI)
	}
	if definition.Text("name") == "" {
		return refuse("name", errName)
	}
	return i.define("uri", definition, i.origin.exposed(i.Name))
}

// defineTemplate reads the definition of a template of resources: a URI template (RFC
// 6570) that stands for all URIs of its form. Errors are *refusalError.
func (i *Item) defineTemplate(definition mcp.Object) (err error) {
	if i.pattern, err = newURIPattern(i.Name); err != nil {
		return refuse("uri", err)
	}
	if definition.Text("name") == "" {
		return refuse("name", errName)
	}
	return i.define("uriTemplate", definition, i.origin.exposed(i.Name))
}
