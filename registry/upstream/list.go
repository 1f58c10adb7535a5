package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Bounds of a list.
const (
	maxPages   = 1000
	maxItems   = 5000
	maxList    = 32 << 20         // bytes of definitions
	freshMax   = 10 * time.Minute // a list is asked for again after that, whatever the server says
	maxRefused = 200              // bytes of a name or URI in a refusal
	checkEvery = 30 * time.Second // the least time between two readings that nothing asks for, and between proofs of life
)

// listing is one of a server's lists, as it was last read. Only the supervisor touches it.
type listing struct {
	kind   registry.Kind
	method string
	member string // of the result that holds the definitions
	key    string // of a definition that names it

	text     mcp.RawJSON  // nil: never read
	items    []mcp.Object // the definitions, cleaned
	refused  []registry.Refusal
	none     bool          // the server does not know the method
	read     time.Time     // when the last attempt ended
	fresh    time.Duration // how long that is good, where changes are not told
	failures int           // in a row
}

// reading is what became of one attempt to read a list.
type reading struct {
	of    *listing
	raw   []mcp.RawJSON // beside errOverflow the first of them
	fresh time.Duration
	none  bool
	err   error
}

var errOverflow = fmt.Errorf("more than %d items or %d bytes", maxItems, maxList)

// fetch reads all pages of the list.
func (one *listing) fetch(ctx context.Context, c *control) reading {
	var (
		r      = reading{of: one, fresh: freshMax}
		cursor mcp.RawJSON
		size   int
		seen   = map[string]bool{}
	)
	fail := func(format string, args ...any) reading {
		r.err = c.server.protocol(one.method+": "+format, args...)
		return r
	}
	for range maxPages {
		page, err := c.peer.page(ctx, one.method, cursor)
		if unknownMethod(err) && cursor == nil {
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
		r.raw, r.fresh = append(r.raw, elements...), min(r.fresh, freshness(page))
		if cursor = page.Value("nextCursor"); cursor == nil {
			return r
		}
		if _, ok := cursor.Text(); !ok || seen[string(cursor)] {
			return fail("a cursor that came before, or is no string")
		}
		seen[string(cursor)] = true
	}
	return fail("more than %d pages", maxPages)
}

// freshness returns how long a list without news of changes may be kept: what the server says, within bounds.
func freshness(page mcp.Object) time.Duration {
	millis, _ := page.Value("ttlMs").Int()
	return min(max(time.Duration(min(millis, freshMax.Milliseconds()))*time.Millisecond, checkEvery), freshMax)
}

// unknownMethod tells whether err is the answer of a server that has no items of that kind at all.
func unknownMethod(err error) bool {
	var answered *mcp.Error
	return errors.As(err, &answered) && answered.Code == mcp.CodeMethodNotFound
}

// take keeps what was read. It tells whether that differs from before, and how much was repaired in it.
func (one *listing) take(server string, r reading) (differs bool, repaired int) {
	one.read, one.fresh, one.failures, one.none = time.Now(), r.fresh, 0, r.none
	text := mcp.Array(r.raw)
	if one.text != nil && bytes.Equal(one.text, text) {
		return false, 0
	}
	one.text, one.items, one.refused = text, make([]mcp.Object, 0, len(r.raw)), nil
	for _, raw := range r.raw {
		definition, _ := mcp.ObjectOf(raw)
		cleaned, report := sanitize.Definition(definition)
		repaired += report.Total()
		if reason, err := one.judge(definition, cleaned); err != nil {
			one.refuse(server, cleaned.Text(one.key), reason, err)
			continue
		}
		one.items = append(one.items, cleaned)
	}
	return true, repaired
}

// fail keeps what was read before, notes why there is nothing newer, and lets the list be asked for again later and
// later. It tells whether the reason is a new one.
func (one *listing) fail(server string, err error) (differs bool) {
	one.read, one.fresh = time.Now(), freshMax
	if one.failures < 5 {
		one.fresh = min(checkEvery<<one.failures, freshMax)
	}
	one.failures++
	before := one.refused
	one.refused, one.text = nil, nil // so that the next success is taken as a difference, and this reason goes
	one.refuse(server, "", "list", err)
	return len(before) != 1 || before[0].Reason != "list" || before[0].Err.Error() != err.Error()
}

// empty forgets a list that the server no longer has. It tells whether there was anything in it.
func (one *listing) empty() bool {
	had := len(one.items) > 0 || len(one.refused) > 0
	*one = listing{kind: one.kind, method: one.method, member: one.member, key: one.key}
	return had
}

func (one *listing) refuse(server, item, reason string, err error) {
	if len(item) > maxRefused {
		item = strings.ToValidUTF8(item[:maxRefused], "")
	}
	one.refused = append(one.refused, registry.Refusal{Server: server, Kind: one.kind, Item: item, Reason: reason, Err: err})
}

var (
	errName = errors.New("name is missing or holds hidden characters")
	errURI  = errors.New("URI is missing or holds hidden characters")
)

// judge tells why a definition cannot be used at all. What its kind asks beyond that is the catalogue's to say.
func (one *listing) judge(definition, cleaned mcp.Object) (reason string, err error) {
	switch key := definition.Text(one.key); {
	case one.key != "name" && (key == "" || cleaned.Text(one.key) != key):
		return "uri", errURI
	case definition.Text("name") == "", one.key == "name" && cleaned.Text("name") != key:
		return "name", errName
	}
	return "", nil
}
