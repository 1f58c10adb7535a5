package upstream

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Bounds of a list.
const (
	maxPages   = 1000
	maxItems   = 5000
	maxList    = 32 << 20         // bytes of all definitions
	freshMax   = 10 * time.Minute // the longest time until a list is read again, whatever the server says
	maxTTL     = 24 * time.Hour   // of what is passed on of how long a server says that a list is fresh
	checkEvery = 30 * time.Second // between two proofs of life, or readings that nothing announced, at least
)

// listing is one of a server's lists (tools, prompts, resources, templates, skills) as it
// was last read. Only the supervisor of its connection touches it, so it has no lock.
type listing struct {
	kind   registry.Kind
	method string
	member string // the member of a result that holds the definitions
	key    string // the member of a definition that names it

	// all definitions as they came, to compare; nil: not read, or the last attempt failed
	text     mcp.RawJSON
	items    []mcp.Object // the definitions that are not quarantined, cleaned
	refused  []registry.Refusal
	withheld []string      // names or URIs of the definitions that are quarantined
	released []string      // digests of those that would be, had the operator not released them
	none     bool          // the server does not know the method
	read     time.Time     // when the last attempt ended; zero: there was none
	ttl      time.Duration // how long the server says that the reading is fresh
	fresh    time.Duration // how long the reading is good when the server announces no changes
	failures int           // attempts that failed in a row
}

// reading is the outcome of one attempt to read a list. Several are fetched at once, and
// the supervisor takes them one after the other.
type reading struct {
	of    *listing
	raw   []mcp.RawJSON // the definitions; with errOverflow, as many as fit
	fresh time.Duration
	ttl   time.Duration // the least that a page says
	none  bool
	// a call ran on the same connection, so that the server may have been busy with it
	beside bool
	err    error
}

// errOverflow is the error for a list of which only the beginning is used.
var errOverflow = fmt.Errorf("more than %d items or %d bytes", maxItems, maxList)

// fetch reads all pages of the list. It changes nothing in the listing, because it runs
// beside the supervisor. A cursor that comes twice ends it, since such a server would
// send pages without end. Before 2026-07-28 all clients took an empty cursor as the end,
// and some servers send one to say so. Since then it leads to a page as any other.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
func (one *listing) fetch(ctx context.Context, c *connection, page pager) reading {
	var (
		r      = reading{of: one, fresh: freshMax}
		params mcp.Object
		size   int
		seen   = map[string]bool{}
	)
	fail := func(format string, args ...any) reading {
		r.err = c.server.protocol(one.method+": "+format, args...)
		return r
	}
	for range maxPages {
		page, err := page(ctx, one.method, params)
		// it has no items of that kind at all
		if answeredWith(err, mcp.CodeMethodNotFound) && len(seen) == 0 {
			return reading{of: one, fresh: freshMax, none: true}
		}
		if err != nil {
			return reading{of: one, err: err}
		}
		elements, ok := page.Value(one.member).Elements()
		if !ok {
			return fail("no array of %s", one.member)
		}
		size += len(page.Value(one.member))
		if len(r.raw)+len(elements) > maxItems || size > maxList {
			if size <= maxList {
				r.raw = append(r.raw, elements[:maxItems-len(r.raw)]...)
			}
			return fail("%w", errOverflow)
		}
		ttl, _ := page.Value("ttlMs").Millis(maxTTL)
		if len(seen) == 0 {
			r.ttl = ttl
		}
		r.raw, r.ttl = append(r.raw, elements...), min(r.ttl, ttl)
		r.fresh = min(r.fresh, max(ttl, checkEvery))
		next := page.Value("nextCursor")
		switch {
		case next.IsNull(), next.Says("") && mcp.EraOf(c.version) == mcp.Legacy:
			return r
		case !next.IsText() || seen[string(next)]:
			return fail("a cursor that came before, or is no string")
		}
		seen[string(next)], params = true, params.With("cursor", next)
	}
	return fail("more than %d pages", maxPages)
}

// take keeps what was read. It tells whether that differs from what was read before, and
// how many repairs cleaning made in it.
func (one *listing) take(cfg *Config, r reading) (differs bool, repaired int) {
	one.read, one.fresh, one.ttl, one.failures, one.none = time.Now(), r.fresh, r.ttl, 0, r.none
	text := mcp.Array(r.raw)
	if one.text != nil && bytes.Equal(one.text, text) {
		return false, 0
	}
	one.text, one.items = text, make([]mcp.Object, 0, len(r.raw))
	one.refused, one.withheld, one.released = nil, nil, nil
	for _, raw := range r.raw {
		definition, _ := mcp.ObjectOf(bytes.Clone(raw)) // or an item would keep its whole page
		repaired += one.admit(cfg, definition)
	}
	return true, repaired
}

// admit takes a definition among the items, unless it is quarantined. What else is wrong
// with it is for the catalogue to say. It returns how many repairs cleaning made in it.
func (one *listing) admit(cfg *Config, definition mcp.Object) (repairs int) {
	key := definition.Text(one.key)
	pinned := cfg.Pinned && (one.kind == registry.KindTool || one.kind == registry.KindPrompt)
	admitted, err := registry.Admit(definition, cfg.Released, pinned)
	if err != nil {
		one.withheld = append(one.withheld, key)
		one.refused = append(one.refused, registry.Quarantined(cfg.Name, one.kind, key, err))
		return 0
	}
	if admitted.Released != "" {
		one.released = append(one.released, admitted.Released)
	}
	one.items = append(one.items, admitted.Definition)
	return admitted.Repairs
}

// fail keeps the items that were read before, notes why there is nothing newer, and lets
// the list be asked for again, with longer waits after each failure. It tells whether the
// reason is a new one, so that the log has it once.
func (one *listing) fail(server string, err error) (differs bool) {
	one.read, one.fresh = time.Now(), freshMax
	if one.failures < 5 {
		one.fresh = min(checkEvery<<one.failures, freshMax)
	}
	one.failures++
	before := one.refused
	// so that the next success counts as a difference and removes this reason
	one.refused, one.text = nil, nil
	one.refuse(server, "list", err)
	return len(before) != 1 || before[0].Reason != "list" || before[0].Err.Error() != err.Error()
}

// empty forgets the items of a list that the server no longer has. It tells whether there
// was anything to forget.
func (one *listing) empty() bool {
	had := len(one.items) > 0 || len(one.refused) > 0
	*one = listing{kind: one.kind, method: one.method, member: one.member, key: one.key}
	return had
}

// refuse notes why the list is not there, or not whole.
func (one *listing) refuse(server, reason string, err error) {
	one.refused = append(one.refused, registry.Refusal{
		Server: server, Kind: one.kind, Reason: reason, Err: err,
	})
}
