package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of a list.
const (
	maxPages = 1000
	maxTools = 5000
	maxList  = 32 << 20         // bytes of definitions
	freshMax = 10 * time.Minute // a list is asked for again after that, whatever the server says
)

// tools reads all pages of tools/list.
func (c *connection) tools(ctx context.Context) ([]mcp.RawJSON, error) {
	var (
		tools  []mcp.RawJSON
		cursor mcp.RawJSON
		size   int
		seen   = map[string]bool{}
	)
	for range maxPages {
		page, err := c.peer.page(ctx, cursor)
		if noTools(err) && cursor == nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		elements, ok := page.Value("tools").Elements()
		if !ok {
			return nil, c.server.protocol("tools/list: no array of tools")
		}
		tools = append(tools, elements...)
		if size += len(page.Value("tools")); len(tools) > maxTools || size > maxList {
			return nil, c.server.protocol("tools/list: more than %d tools or %d bytes", maxTools, maxList)
		}
		if cursor = page.Value("nextCursor"); cursor == nil {
			c.fresh = freshness(page)
			return tools, nil
		}
		if _, ok := cursor.Text(); !ok || seen[string(cursor)] {
			return nil, c.server.protocol("tools/list: a cursor that came before, or is no string")
		}
		seen[string(cursor)] = true
	}
	return nil, c.server.protocol("tools/list: more than %d pages", maxPages)
}

// freshness returns how long a list without news of changes may be kept: what the server says, within bounds.
func freshness(page mcp.Object) time.Duration {
	millis, _ := page.Value("ttlMs").Int()
	return min(max(time.Duration(min(millis, freshMax.Milliseconds()))*time.Millisecond, checkEvery), freshMax)
}

// noTools tells whether err is the answer of a server that has no tools at all.
func noTools(err error) bool {
	var answered *mcp.Error
	return errors.As(err, &answered) && answered.Code == mcp.CodeMethodNotFound
}
