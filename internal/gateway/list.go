package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// hinted adds the hints of caching to a result. A list depends on the caller, so it is
// private. Nobody here knows how long an upstream keeps its items, so a list counts as
// stale at once, and clients are told of changes instead.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
func hinted(result mcp.Object) mcp.Object {
	return result.With("ttlMs", mcp.Int(0)).With("cacheScope", mcp.String("private"))
}

// list answers a request for one page of a list, with the items that the caller may see.
func (g *Gateway) list(c Caller, r *Request) (mcp.Object, error) {
	visible := g.callerViewAs(c, r.Extensions)
	kind := visible.listFor(r)
	start := 0
	// Some clients ask for the first page with a cursor that is empty, which the gateway
	// never gives, or null.
	if cursor := r.Params.Value("cursor"); !cursor.IsNull() && !cursor.Says("") {
		var ok bool
		if start, ok = g.openCursor(c, kind, visible.lists[kind], cursor); !ok {
			return mcp.Object{},
				mcp.Stable(mcp.CodeInvalidParams, "DB-CURSOR",
					"Invalid cursor: list again from the beginning")
		}
	}
	return g.page(c, r, visible, kind, start)
}

// page returns one page of a list, from the item with index start. Its items are shared
// by all callers who see the same; only a cursor belongs to one user.
func (g *Gateway) page(c Caller, r *Request,
	visible *callerView, kind listKind, start int,
) (mcp.Object, error) {
	items := visible.lists[kind]
	end := min(start+g.config.PageSize, len(items))
	text, err := g.rendered.text(c.Tenant, r, visible, kind, start, end)
	if err != nil {
		return mcp.Object{}, failureOf(err).rpcErr
	}
	var next mcp.RawJSON
	if end < len(items) {
		cursor, err := g.sealCursor(c, kind, items, end-1)
		if err != nil {
			return mcp.Object{}, failureOf(err).rpcErr
		}
		next = mcp.String(cursor)
	}
	members := append(make([]mcp.Member, 0, 2+g.ending.Len()),
		mcp.Member{Name: kind.member(), Value: text}, mcp.Member{Name: "nextCursor", Value: next})
	for name, value := range g.ending.Members {
		if name == "ttlMs" && kind == listedSkills {
			value = mcp.Int(freshFor(items))
		}
		members = append(members, mcp.Member{Name: name, Value: value})
	}
	return mcp.NewObject(members...), nil
}

// freshFor returns for how many milliseconds a list of skills is fresh: as long as all of
// its servers say, from when they said it.
func freshFor(items []*registry.Item) int64 {
	least := time.Duration(-1)
	for i, item := range items {
		if i > 0 && item.Server == items[i-1].Server {
			continue
		}
		rest := max(0, time.Until(item.SkillsFresh()))
		if least < 0 || rest < least {
			least = rest
		}
	}
	return max(0, least.Milliseconds())
}

// A cursor holds a digest of its user, a digest of the last item on its page (of which
// the name itself, if it is a URI, could be too long), and the index of that item. A
// later version may add what may be overlooked.
const (
	markSize   = 16
	cursorSize = 2*markSize + 4
)

// sealCursor returns a cursor for the items after the one with index last. Only the same
// user of the same tenant can use it, and only for the same list.
func (g *Gateway) sealCursor(c Caller, kind listKind, items []*registry.Item, last int) (string, error) {
	plain := append(mark(c.Principal.User().Key()), mark(items[last].Exposed)...)
	return g.config.Seal.Seal(kind.purpose(),
		binary.BigEndian.AppendUint32(plain, uint32(last))) //nolint:gosec // lists are shorter
}

// openCursor returns the index of the first item after the one that a cursor names,
// wherever that item stands now. ok is false if the cursor belongs to somebody else or
// the item has gone.
func (g *Gateway) openCursor(c Caller, kind listKind, items []*registry.Item, cursor mcp.RawJSON) (start int,
	ok bool,
) {
	token, _ := cursor.Text()
	// The user is worked out for every cursor, so that the time does not tell a foreign
	// one from a forged one.
	user := mark(c.Principal.User().Key())
	plain, err := g.config.Seal.Open(kind.purpose(), token)
	if err != nil || len(plain) < cursorSize || string(plain[:markSize]) != string(user) {
		return 0, false
	}
	sought := string(plain[markSize : 2*markSize])
	last := int(binary.BigEndian.Uint32(plain[2*markSize:]))
	if last < len(items) && string(mark(items[last].Exposed)) == sought {
		return last + 1, true
	}
	// the list has changed since the cursor was made
	at := slices.IndexFunc(items,
		func(item *registry.Item) bool { return string(mark(item.Exposed)) == sought })
	return at + 1, at >= 0
}

func mark(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:markSize:markSize]
}
