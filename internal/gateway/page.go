package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// This file makes the text of a page of a list, from the texts of its items:
//
//	item of the catalogue ──Form──▶ item as a revision knows it ──┐
//	item of the catalogue ──Form──▶ item as a revision knows it ──┴─joined──▶ page
//	                                     (shapes, remembered)         (pages, remembered)
//
// An item is brought into a form once, whoever sees it. A page is joined once for all
// callers of all tenants to whom it is the same, in particular for those who come back to
// it. Both memories are bounded: with thousands of tenants that all see something else,
// pages come and go, and joining one again costs no more than copying it.

// Bounds of what is remembered of lists: a part of the memory that requests may hold, and
// a number of bytes.
const (
	pagePart = 32
	maxPages = 32 << 20
)

// rendered is what is remembered of lists.
type rendered struct {
	pages  *memo[pageKey]
	shapes *memo[shapeKey]
}

// pageKey says what the text of a page depends on. The digest stands for the definitions
// of the items in their order; that of the tools covers those that run as tasks only,
// too, and which these are stands in their definitions.
type pageKey struct {
	digest   string
	kind     listKind
	start    int // index of the first item
	end      int // and of the first that is not on the page
	inlined  bool
	revision string // "" for the form of the catalogue
}

// shapeKey names an item of the catalogue, by the memory of its text, and a form. The
// memory lives as long as the key, so that no other item can come to lie there.
type shapeKey struct {
	first    *byte
	length   int
	revision string
}

func newRendered(memory int64) *rendered {
	limit := min(memory/pagePart, maxPages)
	return &rendered{newMemo[pageKey](limit), newMemo[shapeKey](limit)}
}

// forget drops everything, because the catalogue or the tenants have changed: what was
// remembered is not wrong, but parts of it will not be asked for again, and keep items in
// memory that are gone.
func (m *rendered) forget() {
	m.pages.forget()
	m.shapes.forget()
}

// text returns the items of a page as a JSON array. A text that has to be made counts as
// memory of this request; the error is one of package share.
func (m *rendered) text(t *Tenant, r *Request,
	visible *callerView, kind listKind, start, end int,
) (mcp.RawJSON, error) {
	key := pageKey{
		digest: visible.digests[listings[kind].digest].Listed, kind: kind, start: start, end: end,
		inlined: t.inlineRefs,
	}
	if r.Form != nil {
		key.revision = r.Form.Revision
	}
	if known, ok := m.pages.find(key); ok {
		return known, nil
	}
	items := visible.lists[kind][start:end]
	parts, size := make([]mcp.RawJSON, 0, len(items)), len("[]")
	for _, item := range items {
		raw := item.Raw
		if t.inlineRefs {
			raw = item.Inlined()
		}
		part := m.shape(r.Form, kind.member(), raw)
		parts = append(parts, part)
		size += len(part) + len(",")
	}
	if size > share.Covered {
		if err := r.Memory.Resize(int64(size)); err != nil {
			return nil, err
		}
	}
	made := mcp.Array(parts)
	return m.pages.keep(key, made, len(made)), nil
}

// shape returns an item of a list in a form; nil is the form of the catalogue.
func (m *rendered) shape(f *Form, list string, item mcp.RawJSON) mcp.RawJSON {
	if f == nil || len(item) == 0 || !f.Differs(list, item) {
		return item
	}
	key := shapeKey{&item[0], len(item), f.Revision}
	if known, ok := m.shapes.find(key); ok {
		return known
	}
	shaped := f.Of(list, item)
	if string(shaped) == string(item) {
		return m.shapes.keep(key, item, 0)
	}
	return m.shapes.keep(key, shaped, len(shaped))
}
