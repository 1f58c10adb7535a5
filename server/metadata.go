package server

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// metadata tells a client which authorization servers give tokens for the endpoint that
// it uses. The resource in it is the URL of that endpoint, since clients refuse metadata
// about another one. If no issuer has an address there is no metadata at all: a client
// that found some would try to get a token there and fail, with an error that hides ours.
//
// With a sign-in of its own the gateway names itself, for any tenant, and documents of
// known and unknown ones differ in that name alone. Where issuers are named directly, an
// unknown tenant has those of /mcp, so that names of tenants can be probed there.
// https://www.rfc-editor.org/rfc/rfc9728#section-3.2
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	tenant, path := "", exchange.EndpointPath
	if strings.HasPrefix(r.URL.Path, exchange.MetadataPath+exchange.TenantPath) {
		if tenant = chi.URLParam(r, "tenant"); !gateway.IsTenantID(tenant) {
			x.Refuse("", exchange.ErrNotFound)
			return
		}
		path = exchange.TenantPath + tenant + exchange.EndpointPath
	}
	issuers := x.Settings.IssuersOf(tenant)
	if len(issuers) == 0 {
		x.Refuse("", exchange.ErrNotFound)
		return
	}
	members := []mcp.Member{
		{Name: "resource", Value: mcp.String(x.Settings.Base() + path)},
		{Name: "authorization_servers", Value: mcp.Strings(issuers)},
		{Name: "bearer_methods_supported", Value: mcp.RawJSON(`["header"]`)},
	}
	if scopes := x.Settings.ScopesOf(tenant); len(scopes) > 0 {
		members = append(members, mcp.Member{Name: "scopes_supported", Value: mcp.Strings(scopes)})
	}
	x.WriteJSON(http.StatusOK, mcp.NewObject(members...).JSON())
}

// KeysPath is where servers find the keys by which they know who calls.
const KeysPath = "/identity/jwks"

// keySet tells servers by which keys they can check the tokens that say who calls. A
// server that keeps the set for as long as it may knows a new key before that signs.
func (s *Server) keySet(w http.ResponseWriter, _ *http.Request) {
	x := exchange.Of(w)
	set := s.config.KeySet()
	if set == nil {
		x.Refuse("", exchange.ErrNotFound)
		return
	}
	x.Header().Set("Cache-Control", "public, max-age=300")
	x.WriteAs([]string{"application/jwk-set+json"}, http.StatusOK, set)
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
	x := exchange.Of(w)
	code, says := "access_denied",
		"Clients are not registered here: get a token from the operator and send it as Authorization: Bearer"
	if refused := s.login(x, r); refused != nil {
		if refusal := exchange.RefusedLogin(refused); refusal != exchange.ErrNoToken &&
			refusal != exchange.ErrScheme {
			s.recordLogin(x, refused)
			code, says = "invalid_token", refusal.Err.Message
		}
	}
	x.Outcome = exchange.ErrNotFound.Err.StableCode()
	x.WriteJSON(http.StatusNotFound, mcp.NewObject(
		mcp.Member{Name: "error", Value: mcp.String(code)},
		mcp.Member{Name: "error_description", Value: mcp.String(says)},
	).JSON())
}
