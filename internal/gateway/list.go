package gateway

import (
	"bytes"
	"crypto/sha256"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const purposeCursor = "cursor"

// discover returns the answer to server/discover, the same for everybody.
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover
func (g *Gateway) discover() mcp.Object {
	versions := make([]mcp.RawJSON, 0, len(mcp.Revisions()))
	for _, revision := range mcp.Revisions() {
		versions = append(versions, mcp.String(revision))
	}
	return g.finish(hinted(mcp.NewObject(
		mcp.Member{Name: "supportedVersions", Value: mcp.Array(versions)},
		mcp.Member{Name: "capabilities", Value: mcp.RawJSON(`{"tools":{"listChanged":true}}`)},
	)))
}

// hinted adds the hints of caching. Lists are filtered by caller, so they are private; nothing here knows how long an
// upstream keeps its tools, so they are stale at once and changes are told instead.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
func hinted(result mcp.Object) mcp.Object {
	return result.With("ttlMs", mcp.Int(0)).With("cacheScope", mcp.String("private"))
}

// listTools answers tools/list from what the caller may use.
func (g *Gateway) listTools(c Caller, params mcp.Object) (mcp.Object, error) {
	granted := g.grantOf(c)
	cursor := params.Value("cursor")
	if cursor == nil {
		return g.firstPage(c, granted)
	}
	start, ok := g.openCursor(c, granted, cursor)
	if !ok {
		return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-CURSOR", "Invalid cursor: list again from the beginning")
	}
	return g.page(c, granted, start)
}

// firstPage returns the first page, which is made once per change of catalogue or policy when it is the only one: a
// cursor belongs to one user.
func (g *Gateway) firstPage(c Caller, granted *grant) (mcp.Object, error) {
	if made := granted.first.Load(); made != nil {
		return *made, nil
	}
	result, err := g.page(c, granted, 0)
	if err == nil && len(granted.tools) <= g.config.PageSize {
		granted.first.Store(&result)
	}
	return result, err
}

// page returns one page of tools, from the tool with index start.
func (g *Gateway) page(c Caller, granted *grant, start int) (mcp.Object, error) {
	end := min(start+g.config.PageSize, len(granted.tools))
	raws := make([]mcp.RawJSON, 0, end-start)
	for _, one := range granted.tools[start:end] {
		raws = append(raws, one.tool.Raw)
	}
	result := mcp.NewObject(mcp.Member{Name: "tools", Value: mcp.Array(raws)})
	if end < len(granted.tools) {
		next, err := g.sealCursor(c, granted.tools[end-1].tool.Exposed)
		if err != nil {
			return mcp.Object{}, explain(err).told
		}
		result = result.With("nextCursor", mcp.String(next))
	}
	return g.finish(hinted(result)), nil
}

// sealCursor returns a cursor for the tools after the one with that name. It serves the same user of the same tenant
// only.
func (g *Gateway) sealCursor(c Caller, after string) (string, error) {
	return g.config.Seal.Seal(purposeCursor, append(owner(c), after...))
}

// openCursor returns the index of the first tool after the one a cursor names. ok is false when the cursor is
// somebody else's or the tool is gone.
func (g *Gateway) openCursor(c Caller, granted *grant, cursor mcp.RawJSON) (start int, ok bool) {
	token, _ := cursor.Text()
	plain, err := g.config.Seal.Open(purposeCursor, token)
	if err != nil {
		return 0, false
	}
	name, mine := bytes.CutPrefix(plain, owner(c))
	last := granted.byName[string(name)]
	if !mine || last == nil {
		return 0, false
	}
	return last.index + 1, true
}

// owner returns a digest of the user that a cursor belongs to.
func owner(c Caller) []byte {
	sum := sha256.Sum256([]byte(c.Tenant.ID + "\x00" + c.Principal.Issuer + "\x00" + c.Principal.Subject))
	return sum[:16]
}
