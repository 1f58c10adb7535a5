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

// metadata tells a client which authorization servers give tokens for this gateway. The resource in it is the URL that
// the client uses, since clients refuse metadata about another one. It does not reveal whether the tenant in the path
// exists. If no issuer has an address there is no metadata at all: a client that found some would try to get a token
// there and fail, with an error that hides ours.
// https://www.rfc-editor.org/rfc/rfc9728#section-3.2
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	x := of(w)
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

// register refuses to register a client. The gateway registers nobody; but a client that could get a token by itself,
// and finds no metadata, takes the gateway for its authorization server and comes here, with the token that was refused
// before if it has one. What the user of such a client sees is the answer to this request, if it has the form of OAuth,
// and not the answer to the one before. So this answer says again why the token was refused.
// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
// https://www.rfc-editor.org/rfc/rfc7591#section-3.2.2
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	x := of(w)
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

// metadataURL returns where the metadata is of the endpoint that the request came to, "" if there is none. Paths other
// than endpoints have the metadata of /mcp.
func (x *exchange) metadataURL() string {
	if len(x.settings.AuthorizationServers) == 0 {
		return ""
	}
	path := endpointPath
	if gateway.IsTenantID(x.tenant) {
		path = tenantPath + x.tenant + endpointPath
	}
	return x.settings.base() + metadataPath + path
}

// publicPath returns the path under which clients see the root of this server, "" if that is /.
func (s *Settings) publicPath() string { return strings.TrimPrefix(s.base(), originOf(s.base())) }
