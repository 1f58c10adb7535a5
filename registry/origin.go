package registry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// defaultTimeout limits one use of a prompt, resource or template when the source sets no
// limit.
const defaultTimeout = 30 * time.Second

// origin is what all items of one source share, for as long as the source keeps its
// prefix. Server name and prefix never change. What the two pointers lead to does, so
// that a request that holds an item of an older catalogue still uses the newest service
// and learns that the server went down. The origin under another prefix shares both.
type origin struct {
	server, prefix string
	service        *atomic.Pointer[service] // what the source offered last; never nil

	*presence
}

// presence says whether a server is there. What a server offers to some users alone has
// an origin of its own, and the presence of the server.
type presence struct {
	wantsSignIn atomic.Bool // see Registry.WantsSignIn
	// nil: the server is there. Stored with Registry.mu held, loaded without
	outage atomic.Pointer[Outage]
}

func newOrigin(server, prefix string) *origin {
	o := &origin{
		server: server, prefix: prefix, service: &atomic.Pointer[service]{}, presence: &presence{},
	}
	o.service.Store(&service{})
	return o
}

// under returns the origin of the same source under a prefix: o itself if that is its
// own. A nil o is none yet, of a source with that server name.
func (o *origin) under(server, prefix string) *origin {
	switch {
	case o == nil:
		return newOrigin(server, prefix)
	case o.prefix == prefix:
		return o
	}
	return &origin{server: server, prefix: prefix, service: o.service, presence: o.presence}
}

// service says where calls of one source go, and which URIs the server knows. It is
// immutable.
type service struct {
	use       Func // nil: the source has nothing but tools
	subscribe func(ctx context.Context, user share.User, uri string, updated func(uri string),
		over func()) error
	completes bool
	released  []string
	listed    map[string]bool // own URIs of the listed resources
	templates []*uriPattern
	// the names of the listed skills in patterns, by the usual spelling of their
	// directories, and how many bytes the longest of these has
	skills  map[string][]string
	longest int
	fresh   time.Time // as Source.SkillsFresh
}

// knows tells whether the server lists the own URI or has a template that matches it.
// Each template that is tried costs some of *work, in the unit of maxMatching. When no
// work is left, the answer is false: a server must not occupy a processor by sending many
// links beside many slow templates.
func (s *service) knows(uri string, work *int) bool {
	if s.listed[uri] {
		return true
	}
	for _, t := range s.templates {
		if *work -= t.work(uri); *work < 0 {
			return false
		}
		if t.matches(uri) {
			return true
		}
	}
	return false
}

// exposed returns the exposed form of an own URI or URI template.
func (o *origin) exposed(uri string) string {
	if o.prefix == "" {
		return uri
	}
	if keepsScheme(uri) {
		return withScheme(o.server, uri)
	}
	return formStart + o.server + "+" + uri
}

// Outage is a period in which a server is down. It is immutable, and its address
// identifies it: every outage is a new value.
type Outage struct {
	Since   time.Time
	Reached bool // the server was there before Since; false: it was never reached since it was configured
}
