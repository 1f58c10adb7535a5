package registry

import "context"

// Resource is one resource of the catalogue, or one that is in no list but that a server may have.
type Resource struct {
	Item

	subscribe func(ctx context.Context, tenantID, uri string, updated func(uri string)) error
}

// Subscribe tells of changes of the resource until ctx ends; updated gets the exposed URI of what changed and must not
// wait. ok is false when the server does not tell.
func (r *Resource) Subscribe(ctx context.Context, tenantID string, updated func(uri string)) (ok bool, err error) {
	return false, nil
}

// Template is one template of resources.
type Template struct {
	Item
}

// Prompt returns the prompt with that exposed name. The error is ErrNotFound.
func (v *View) Prompt(name string) (*Prompt, error) { return nil, ErrNotFound }

// Resource returns the resource with that exposed URI: one that is listed, or one in no list that belongs to a server
// by its form, by a template, or because only one server can have it. The error is ErrNotFound.
func (v *View) Resource(uri string) (*Resource, error) { return nil, ErrNotFound }

// Template returns the template with that exposed text. The error is ErrNotFound.
func (v *View) Template(uriTemplate string) (*Template, error) { return nil, ErrNotFound }
