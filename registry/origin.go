package registry

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// defaultTimeout limits one use of a prompt, resource or template when the source sets no
// limit.
const defaultTimeout = 30 * time.Second

func (b *builder) timeout() time.Duration { return cmp.Or(b.source.Timeout, defaultTimeout) }

// origin is what all items of one source share, for as long as the source keeps its
// prefix. Server name and prefix never change. The two pointers do, so that a request
// that holds an item of an older catalogue still uses the newest service and learns that
// the server went down.
type origin struct {
	server, prefix string
	service        atomic.Pointer[service] // what the source offered last; nil: it has offered nothing yet

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
	return &origin{server: server, prefix: prefix, presence: &presence{}}
}

// service says where calls of one source go, and which URIs the server knows. It is
// immutable.
type service struct {
	use       Func // nil: the source has nothing but tools
	subscribe func(ctx context.Context, user share.User, uri string, updated func(uri string)) error
	completes bool
	released  []string
	listed    map[string]bool // own URIs of the listed resources
	templates []*Template
	// own URIs of the listed skills, by the usual spelling of their directories
	skills map[string][]string
	fresh  time.Time // as Source.SkillsFresh
}

// newService makes the service of what a source offers now. It takes URIs from the shelf
// next and not from s, so that items that were left out count as unknown.
func newService(s Source, next *shelf) *service {
	made := &service{
		use: s.Use, completes: s.Completes, released: s.Released, templates: next.templates,
		listed: make(map[string]bool, len(next.resources)),
	}
	if s.Use != nil {
		made.subscribe = s.Subscribe
	}
	if len(next.skills) > 0 {
		made.skills, made.fresh = make(map[string][]string, len(next.skills)), s.SkillsFresh
	}
	for _, skill := range next.skills {
		directory := UsualSpelling(directoryOf(skill.Name))
		made.skills[directory] = append(made.skills[directory], skill.Name)
	}
	for _, r := range next.resources {
		made.listed[r.Name] = true
	}
	return made
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
		if *work -= t.pattern.work(uri); *work < 0 {
			return false
		}
		if t.pattern.matches(uri) {
			return true
		}
	}
	return false
}

// formStart begins the exposed URIs of servers with a prefix. The server's name, a plus
// and the own URI follow, so that file:///a of the server box becomes mcp.box+file:///a.
// Letters, digits, "+", "-" and "." may stand in a scheme, so "mcp.box+file" is one, and
// the whole is a valid URI. URIs whose schemes hosts know keep those, see schemeKept.
// https://www.rfc-editor.org/rfc/rfc3986#section-3.1
const formStart = "mcp."

// exposed returns the exposed form of an own URI or URI template.
func (o *origin) exposed(uri string) string {
	if o.prefix == "" {
		return uri
	}
	if keepsScheme(uri) {
		return schemeKept(o.server, uri)
	}
	return formStart + o.server + "+" + uri
}

// fromForm splits an exposed URI into server name and own URI. ok is false when the URI
// does not have the form of an exposed URI; when it is true, there need not be such a
// server.
func fromForm(exposed string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(exposed, formStart)
	if !ok {
		return fromSchemeKept(exposed)
	}
	if server, uri, ok = strings.Cut(rest, "+"); !ok {
		return "", "", false
	}
	return server, uri, ValidServerName(server)
}

// call runs f, and maps and judges the URIs in its result or error.
func (o *origin) call(ctx context.Context, f Func, c *Call) (mcp.Object, error) {
	result, err := f(ctx, c)
	if err == nil && c.Method == mcp.MethodSkillsGet {
		err = o.judgeSkill(result.Object("skill"))
	}
	switch {
	case o.prefix == "" && (err != nil || c.Judge == nil):
		return result, err
	case err != nil:
		return result, o.exposedError(err)
	}
	return o.exposedResult(result, c), nil
}
