package server

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// metadata tells a client which authorization servers give tokens for the endpoint that
// it uses. The resource in it is the URL of that endpoint, since clients refuse metadata
// about another one. If no issuer has an address there is no metadata at all: a client
// that found some would try to get a token there and fail, with an error that hides ours.
//
// An unknown tenant gets what a known one gets to which no issuer is fixed. So the
// metadata reveals that a tenant exists only by the issuers that are fixed to it.
// https://www.rfc-editor.org/rfc/rfc9728#section-3.2
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	tenant, path := "", endpointPath
	if strings.HasPrefix(r.URL.Path, metadataPath+tenantPath) {
		if tenant = chi.URLParam(r, "tenant"); !gateway.IsTenantID(tenant) {
			x.refuse("", errNotFound)
			return
		}
		path = tenantPath + tenant + endpointPath
	}
	var issuers []mcp.RawJSON
	for _, server := range x.settings.AuthorizationServers {
		if server.serves(tenant) {
			issuers = append(issuers, mcp.String(server.Issuer))
		}
	}
	if len(issuers) == 0 {
		x.refuse("", errNotFound)
		return
	}
	document := mcp.NewObject(
		mcp.Member{Name: "resource", Value: mcp.String(x.settings.base() + path)},
		mcp.Member{Name: "authorization_servers", Value: mcp.Array(issuers)},
		mcp.Member{Name: "bearer_methods_supported", Value: mcp.RawJSON(`["header"]`)},
	)
	x.writeJSON(http.StatusOK, document.JSON())
}

// register refuses to register a client. The gateway registers nobody; but a client that
// could get a token by itself, and finds no metadata, takes the gateway for its
// authorization server and comes here, with the token that was refused before if it has
// one. What the user of such a client sees is the answer to this request, if it has the
// form of OAuth, and not the answer to the one before. So this answer says again why the
// token was refused.
// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
// https://www.rfc-editor.org/rfc/rfc7591#section-3.2.2
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	code, says := "access_denied",
		"Clients are not registered here: get a token from the operator and send it as Authorization: Bearer"
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
