package registry

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// defaultTimeout is the limit of one use of prompts and resources, where the source names none.
const defaultTimeout = 30 * time.Second

func (b *builder) timeout() time.Duration { return cmp.Or(b.source.Timeout, defaultTimeout) }

// origin is what the items of one source share, for as long as the source keeps its prefix. It is immutable but for
// its service, which is the one that the source offered last, and whether the source is there: whoever holds an item of
// an older catalogue must learn of that too.
type origin struct {
	server, prefix string
	service        atomic.Pointer[service] // nil: the source has offered nothing yet
	outage         atomic.Pointer[Outage]  // that lasts; nil: the source is there. Stored with the registry's mutex held
}

// service is where the calls of one source go.
type service struct {
	use       Func
	subscribe func(ctx context.Context, tenantID, uri string, updated func(uri string)) error
	completes bool
	listed    map[string]bool // own URIs
	templates []*Template
}

func newService(s Source, next *shelf) *service {
	made := &service{use: s.Use, completes: s.Completes, templates: next.templates}
	if s.Use != nil {
		made.subscribe = s.Subscribe
	}
	if s.Prefix == "" {
		return made // nothing is mapped
	}
	made.listed = make(map[string]bool, len(next.resources))
	for _, r := range next.resources {
		made.listed[r.Name] = true
	}
	return made
}

// knows tells whether the source lists the own URI or has a template for it. It spends work, and looks at no more
// templates when there is none left.
func (s *service) knows(uri string, work *int) bool {
	if s.listed[uri] {
		return true
	}
	for _, t := range s.templates {
		if *work -= t.pattern.work(uri); *work < 0 {
			return false
		}
		if t.pattern.matches(uri) {
			return true
		}
	}
	return false
}

// Exposed URIs of servers with a prefix begin with this, the server's name and a plus. The scheme of what follows ends
// the new scheme, so that the whole is a URI again.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.1
const formStart = "mcp."

// exposed returns the form of an own URI or URI template that clients use.
func (o *origin) exposed(uri string) string {
	if o.prefix == "" {
		return uri
	}
	return formStart + o.server + "+" + uri
}

// fromForm takes apart an exposed URI of a server with a prefix; ok is false when it has not the form of one.
func fromForm(exposed string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(exposed, formStart)
	if !ok {
		return "", "", false
	}
	if server, uri, ok = strings.Cut(rest, "+"); !ok {
		return "", "", false
	}
	return server, uri, ValidServerName(server)
}

// call runs f and maps the names in what it returns.
func (o *origin) call(ctx context.Context, f Func, c *Call) (mcp.Object, error) {
	result, err := f(ctx, c)
	if o.prefix == "" {
		return result, err
	}
	if err != nil {
		return result, o.exposedError(err)
	}
	return o.exposedResult(result), nil
}
