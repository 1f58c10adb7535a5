package server

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// The paths that are served.
const (
	endpointPath = "/mcp"
	tenantPath   = "/t/"
	ssePath      = "/sse"
	messagesPath = "/messages"
	metadataPath = "/.well-known/oauth-protected-resource"
	registerPath = "/register"
)

// metadata says which authorization servers give tokens for this gateway. The resource is the URL that the client uses,
// or it would refuse the answer. Whether there is such a tenant, it does not say. Where no issuer has an address there
// is no metadata: a client that finds some would try to get a token, and fail with an error that hides ours.
// https://www.rfc-editor.org/rfc/rfc9728#section-3.2
func (s *Server) metadata(_ http.ResponseWriter, r *http.Request) {
	x := of(r)
	servers := x.settings.AuthorizationServers
	if len(servers) == 0 {
		x.refuse("", errNotFound)
		return
	}
	path := endpointPath
	if strings.HasPrefix(r.URL.Path, metadataPath+tenantPath) {
		tenant := chi.URLParam(r, "tenant")
		if !gateway.IsTenantID(tenant) {
			x.refuse("", errNotFound)
			return
		}
		path = tenantPath + tenant + endpointPath
	}
	issuers := make([]mcp.RawJSON, 0, len(servers))
	for _, issuer := range servers {
		issuers = append(issuers, mcp.String(issuer))
	}
	document := mcp.NewObject(
		mcp.Member{Name: "resource", Value: mcp.String(x.settings.base() + path)},
		mcp.Member{Name: "authorization_servers", Value: mcp.Array(issuers)},
		mcp.Member{Name: "bearer_methods_supported", Value: mcp.RawJSON(`["header"]`)},
	)
	x.writeJSON(http.StatusOK, document.JSON())
}

// register refuses to register a client. Nothing is registered here, but a client that can get tokens for itself and
// finds no metadata takes the gateway for its authorization server and comes here next, with the token that was refused
// before if it was given one. What its user then sees is this answer and not the one before, if it has the form of
// OAuth. So it says again why the token was refused.
// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
// https://www.rfc-editor.org/rfc/rfc7591#section-3.2.2
func (s *Server) register(_ http.ResponseWriter, r *http.Request) {
	x := of(r)
	code, says := "access_denied", "Clients are not registered here: get a token from the operator and send it as Authorization: Bearer"
	if refused := s.login(x, r); refused != nil {
		if told := refusedLogin(refused); told != errNoToken && told != errScheme {
			s.recordLogin(x, refused)
			code, says = "invalid_token", told.told.Message
		}
	}
	x.outcome = errNotFound.told.StableCode()
	x.writeJSON(http.StatusNotFound, mcp.NewObject(
		mcp.Member{Name: "error", Value: mcp.String(code)},
		mcp.Member{Name: "error_description", Value: mcp.String(says)},
	).JSON())
}

// base returns the public URL without a slash at its end.
func (s *Settings) base() string { return strings.TrimSuffix(s.PublicURL, "/") }

// metadataURL returns where the metadata of the endpoint is that the request came to, "" when there is none. Other
// paths have that of the first.
func (x *exchange) metadataURL(r *http.Request) string {
	if len(x.settings.AuthorizationServers) == 0 {
		return ""
	}
	path := endpointPath
	if tenant := chi.URLParam(r, "tenant"); gateway.IsTenantID(tenant) {
		path = tenantPath + tenant + endpointPath
	}
	return x.settings.base() + metadataPath + path
}

// publicPath returns the path under which clients see the root of this server, "" when it is the root.
func (s *Settings) publicPath() string { return strings.TrimPrefix(s.base(), originOf(s.base())) }
