package signin

import (
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
)

// endpoint is what a path leads to.
type endpoint struct {
	// serve answers, or returns an error that fail answers with
	serve    func(*core, *exchange) error
	name     string // in records; "": it is a document
	methods  string
	exposure exposure
}

// exposure is where an endpoint is, and who may ask it.
type exposure int

const (
	// everywhere is at the address of each tenant, too, for browsers that somebody has
	// sent.
	everywhere exposure = iota
	// public is everywhere, for pages of any origin, too, because what it answers does
	// not depend on what a browser sends by itself.
	public
	// root is at the address of all tenants alone: a provider knows one callback.
	root
)

const (
	metadataPath = "/.well-known/oauth-authorization-server"
	openIDPath   = "/.well-known/openid-configuration"
	tenantPath   = "/t/"
)

// endpoints are what paths lead to, behind the address that they belong to. Behind a
// slash at the end stands the name of a provider.
var endpoints = map[string]endpoint{
	metadataPath: {(*core).metadata, "", "GET, HEAD", public},
	openIDPath:   {(*core).metadata, "", "GET, HEAD", public},
	"/jwks":      {(*core).jwks, "", "GET, HEAD", public},
	"/register":  {(*core).register, "register", "POST", public},
	"/token":     {(*core).token, "token", "POST", public},
	"/revoke":    {(*core).revoke, "revoke", "POST", public},
	"/authorize": {(*core).authorize, "authorize", "GET, HEAD", everywhere},
	"/consent":   {(*core).consent, "consent", "GET, HEAD, POST", root},
	CallbackPath: {(*core).callback, "callback", "GET", root},
	"/logout/":   {(*core).logout, "logout", "POST", root},
}

// Routes returns the routes of a Server, with names in braces where a path has the name
// of a tenant or a provider. Each has the name of what it leads to, "" for a document.
func Routes() map[string]string {
	const tenant = tenantPath + "{tenant}"
	routes := make(map[string]string)
	for path, e := range endpoints {
		if strings.HasSuffix(path, "/") {
			path += "{provider}"
		}
		routes[path] = e.name
		if e.exposure != root {
			routes[tenant+path] = e.name
		}
		if path == metadataPath || path == openIDPath {
			routes[path+tenant] = e.name
		}
	}
	return routes
}

// find returns what a path leads to, and the tenant or provider that it names. Metadata
// of a tenant stands where RFC 8414 wants it, with the tenant at the end, and where
// OpenID Connect wants it, with the tenant in front.
// https://www.rfc-editor.org/rfc/rfc8414#section-3.1
func (s *Server) find(path string) (e endpoint, tenant, name string, ok bool) {
	for _, document := range []string{metadataPath, openIDPath} {
		if tenant, is := strings.CutPrefix(path, document+tenantPath); is {
			return endpoints[document], tenant, "", s.core.config.IsTenant(tenant)
		}
	}
	if rest, is := strings.CutPrefix(path, tenantPath); is {
		tenant, rest, _ := strings.Cut(rest, "/")
		e, ok = endpoints["/"+rest]
		return e, tenant, "", ok && e.exposure != root && s.core.config.IsTenant(tenant)
	}
	last := strings.LastIndexByte(path, '/') + 1
	if e, ok = endpoints[path[:last]]; ok {
		return e, "", path[last:], path[last:] != ""
	}
	e, ok = endpoints[path]
	return e, "", "", ok
}

// Serves tells whether a path is one of this server. It says itself which origins may
// come there.
func (s *Server) Serves(path string) bool {
	_, _, _, ok := s.find(path)
	return ok
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, tenant, name, ok := s.find(r.URL.Path)
	if !ok || r.URL.RawPath != "" {
		http.NotFound(w, r)
		return
	}
	x := &exchange{w, r, address{s.core.config.Settings(), tenant}, name}
	pages.SetHeader(x.Header())
	if e.exposure == public {
		shareWithAll(x.Header())
	}
	if !strings.Contains(e.methods, r.Method) {
		x.Header().Set("Allow", e.methods)
		if r.Method == http.MethodOptions && e.exposure == public {
			x.WriteHeader(http.StatusNoContent)
			return
		}
		x.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	if len(r.URL.RawQuery) > maxQuery {
		s.core.fail(x, e.name, newProblem(http.StatusBadRequest, pages.BadRequest, "long_query"))
		return
	}
	if err := e.serve(s.core, x); err != nil {
		s.core.fail(x, e.name, err)
	}
}

// shareWithAll lets pages of every origin read the answer. Such pages are clients, too.
// No cookie has a meaning at these addresses.
func shareWithAll(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
	h.Set("Access-Control-Max-Age", "600")
}
