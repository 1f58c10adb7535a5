package gateway

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// listKind is one of the lists that clients ask for.
type listKind int

// The lists.
const (
	listedTools    listKind = iota
	listedAllTools          // with those that run as tasks only
	listedPrompts
	listedResources
	listedTemplates
	listKinds // how many there are
)

// listings say of each list by which method it is asked for, and what its cursors are sealed for: they serve no other
// list.
var listings = [listKinds]struct{ method, purpose string }{
	listedTools:     {mcp.MethodToolsList, "cursor"},
	listedAllTools:  {mcp.MethodToolsList, "cursor of all tools"},
	listedPrompts:   {mcp.MethodPromptsList, "cursor of prompts"},
	listedResources: {mcp.MethodResourcesList, "cursor of resources"},
	listedTemplates: {mcp.MethodTemplatesList, "cursor of templates"},
}

// listOf returns the first list that a method asks for.
func listOf(method string) listKind {
	for kind := range listKinds {
		if listings[kind].method == method {
			return kind
		}
	}
	panic("gateway: no list is asked for by " + method)
}

// member is what the list is called in a result.
func (k listKind) member() string { return mcp.MethodOf(listings[k].method).Result }

func (k listKind) purpose() string { return listings[k].purpose }

// hinted adds the hints of caching. Lists are filtered by caller, so they are private; nothing here knows how long an
// upstream keeps its items, so they are stale at once and changes are told instead.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
func hinted(result mcp.Object) mcp.Object {
	return result.With("ttlMs", mcp.Int(0)).With("cacheScope", mcp.String("private"))
}

// list answers a request for a list from what the caller sees.
func (g *Gateway) list(c Caller, kind listKind, params mcp.Object) (mcp.Object, error) {
	granted := g.grantOf(c)
	cursor := params.Value("cursor")
	if cursor == nil {
		return g.firstPage(c, granted, kind)
	}
	start, ok := g.openCursor(c, kind, granted.lists[kind].items, cursor)
	if !ok {
		return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-CURSOR", "Invalid cursor: list again from the beginning")
	}
	return g.page(c, granted, kind, start)
}

// firstPage returns the first page, which is made once per change of catalogue or policy when it is the only one: a
// cursor belongs to one user.
func (g *Gateway) firstPage(c Caller, granted *grant, kind listKind) (mcp.Object, error) {
	l := &granted.lists[kind]
	if made := l.first.Load(); made != nil {
		return *made, nil
	}
	result, err := g.page(c, granted, kind, 0)
	if err == nil && len(l.items) <= g.config.PageSize {
		l.first.Store(&result)
	}
	return result, err
}

// page returns one page of a list, from the item with index start.
func (g *Gateway) page(c Caller, granted *grant, kind listKind, start int) (mcp.Object, error) {
	items := granted.lists[kind].items
	end := min(start+g.config.PageSize, len(items))
	raws := make([]mcp.RawJSON, 0, end-start)
	for _, item := range items[start:end] {
		raws = append(raws, granted.shown(c.Tenant, item))
	}
	result := mcp.NewObject(mcp.Member{Name: kind.member(), Value: mcp.Array(raws)})
	if end < len(items) {
		next, err := g.sealCursor(c, kind, items, end-1)
		if err != nil {
			return mcp.Object{}, explain(err).told
		}
		result = result.With("nextCursor", mcp.String(next))
	}
	return g.finish(hinted(result)), nil
}

// A cursor holds digests of its user and of the last item of its page, which a URI may be too long for, and the index
// of that item.
const (
	markSize   = 16
	cursorSize = 2*markSize + 4
)

// sealCursor returns a cursor for the items after the one with index last. It serves the same user of the same tenant
// and the same list only.
func (g *Gateway) sealCursor(c Caller, kind listKind, items []*registry.Item, last int) (string, error) {
	plain := append(mark(c.Principal.User().Key()), mark(items[last].Exposed)...)
	return g.config.Seal.Seal(kind.purpose(), binary.BigEndian.AppendUint32(plain, uint32(last))) //nolint:gosec // lists are shorter
}

// openCursor returns the index of the first item after the one a cursor names, wherever that stands now. ok is false
// when the cursor is somebody else's or the item is gone. The empty text is a cursor like any other, and none of ours.
func (g *Gateway) openCursor(c Caller, kind listKind, items []*registry.Item, cursor mcp.RawJSON) (start int, ok bool) {
	token, _ := cursor.Text()
	plain, err := g.config.Seal.Open(kind.purpose(), token)
	if err != nil || len(plain) != cursorSize || string(plain[:markSize]) != string(mark(c.Principal.User().Key())) {
		return 0, false
	}
	sought := string(plain[markSize : 2*markSize])
	last := int(binary.BigEndian.Uint32(plain[2*markSize:]))
	if last < len(items) && string(mark(items[last].Exposed)) == sought {
		return last + 1, true
	}
	for i, item := range items { // the list has changed
		if string(mark(item.Exposed)) == sought {
			return i + 1, true
		}
	}
	return 0, false
}

func mark(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:markSize:markSize]
}
