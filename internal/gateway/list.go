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

// listings says of each list by which method clients ask for it, and the purpose that its cursors are sealed for, so
// that a cursor of one list is not valid for another.
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

// hinted adds the hints of caching to a result. A list depends on the caller, so it is private. Nobody here knows how
// long an upstream keeps its items, so a list counts as stale at once, and clients are told of changes instead.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
func hinted(result mcp.Object) mcp.Object {
	return result.With("ttlMs", mcp.Int(0)).With("cacheScope", mcp.String("private"))
}

// list answers a request for one page of a list, with the items that the caller may see.
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

// firstPage returns the first page of a list. If the whole list fits on it, it holds no cursor, which would belong to
// one user: then it is made once per change of catalogue or policy and shared by all callers with the same rules.
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

// A cursor holds a digest of its user, a digest of the last item on its page (of which the name itself, if it is a URI,
// could be too long), and the index of that item.
const (
	markSize   = 16
	cursorSize = 2*markSize + 4
)

// sealCursor returns a cursor for the items after the one with index last. Only the same user of the same tenant can
// use it, and only for the same list.
func (g *Gateway) sealCursor(c Caller, kind listKind, items []*registry.Item, last int) (string, error) {
	plain := append(mark(c.Principal.User().Key()), mark(items[last].Exposed)...)
	return g.config.Seal.Seal(kind.purpose(), binary.BigEndian.AppendUint32(plain, uint32(last))) //nolint:gosec // lists are shorter
}

// openCursor returns the index of the first item after the one that a cursor names, wherever that item stands now. ok
// is false if the cursor belongs to somebody else or the item has gone. An empty text is treated like any other cursor,
// and is never valid.
func (g *Gateway) openCursor(c Caller, kind listKind, items []*registry.Item, cursor mcp.RawJSON) (start int, ok bool) {
	token, _ := cursor.Text()
	user := mark(c.Principal.User().Key()) // worked out for every cursor, so that the time does not tell a foreign one from a forged one
	plain, err := g.config.Seal.Open(kind.purpose(), token)
	if err != nil || len(plain) != cursorSize || string(plain[:markSize]) != string(user) {
		return 0, false
	}
	sought := string(plain[markSize : 2*markSize])
	last := int(binary.BigEndian.Uint32(plain[2*markSize:]))
	if last < len(items) && string(mark(items[last].Exposed)) == sought {
		return last + 1, true
	}
	for i, item := range items { // the list has changed since the cursor was made
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
