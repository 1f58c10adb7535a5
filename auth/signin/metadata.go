package signin

import (
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// metadata tells clients what the authorization server at this address can do. Documents
// of known and unknown tenants differ in the name alone. It needs no store: a client that
// got an error here would take another server for ours.
// https://www.rfc-editor.org/rfc/rfc8414#section-2
func (s *core) metadata(x *exchange) error {
	issuer := x.at.issuer()
	document := map[string]any{
		"issuer":                   issuer,
		"authorization_endpoint":   issuer + "/authorize",
		"token_endpoint":           issuer + "/token",
		"revocation_endpoint":      issuer + "/revoke",
		"jwks_uri":                 issuer + "/jwks",
		"response_types_supported": []string{"code"},
		"response_modes_supported": []string{"query"},
		"grant_types_supported": []string{
			"authorization_code",
			"refresh_token",
			"client_credentials",
		},
		"code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{
			"none",
			"client_secret_basic",
			"client_secret_post",
		},
		"revocation_endpoint_auth_methods_supported": []string{
			"none",
			"client_secret_basic",
			"client_secret_post",
		},
		"authorization_response_iss_parameter_supported": true,
		// OpenID Connect requires these two; no ID tokens are given out.
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"EdDSA"},
	}
	if x.at.settings.mayRegister() {
		document["registration_endpoint"] = issuer + "/register"
	}
	if x.at.settings.Registration == clients.RegistrationOn {
		document["client_id_metadata_document_supported"] = true
	}
	if len(x.at.settings.Advertised) > 0 {
		document["scopes_supported"] = x.at.settings.Advertised
	}
	x.Header().Set("Cache-Control", "public, max-age=60")
	return x.writeJSON(http.StatusOK, document)
}

// jwks tells with which keys tokens are signed. Clients need not know them.
// https://www.rfc-editor.org/rfc/rfc8037#section-2
func (s *core) jwks(x *exchange) error {
	var list []map[string]any
	for _, key := range s.signer.keys().keys {
		list = append(list, map[string]any{
			"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": key.ID,
			"x": base64.RawURLEncoding.EncodeToString(key.Public.(ed25519.PublicKey)),
		})
	}
	x.Header().Set("Cache-Control", "public, max-age=60")
	return x.writeJSON(http.StatusOK, map[string]any{"keys": list})
}

// register registers a client. The answer has what was kept of what it asked for, and no
// empty members, which some clients cannot read.
// https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1
func (s *core) register(x *exchange) error {
	if !x.at.settings.mayRegister() {
		return &fault{
			code:   "access_denied",
			says:   "clients do not register themselves here: ask the operator for a client id",
			status: http.StatusForbidden,
		}
	}
	body, err := io.ReadAll(x.request.Body)
	if err != nil {
		return &fault{code: "invalid_client_metadata", says: "the registration is too long"}
	}
	client, err := s.registry.Register(body)
	if err != nil {
		return &fault{code: clients.Code(err), says: err.Error()}
	}
	s.config.Records.ClientRegistered()
	return x.writeJSON(http.StatusCreated, registrationAnswer{
		ID: client.ID, Issued: client.Issued, Name: client.Name, Redirects: client.Redirects,
		Grants:    []string{"authorization_code", "refresh_token"},
		Responses: []string{"code"}, Method: "none",
	})
}

// registrationAnswer is what a client reads that has registered itself.
type registrationAnswer struct {
	ID        string   `json:"client_id"`
	Issued    int64    `json:"client_id_issued_at"`
	Name      string   `json:"client_name,omitzero"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Method    string   `json:"token_endpoint_auth_method"`
}
