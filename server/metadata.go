package server

import (
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// The paths that are served.
const (
	endpointPath = "/mcp"
	tenantPath   = "/t/"
	ssePath      = "/sse"
	messagesPath = "/messages"
	metadataPath = "/.well-known/oauth-protected-resource"
)

// metadata says which authorization servers give tokens for this gateway.
// https://www.rfc-editor.org/rfc/rfc9728#section-3.2
func (s *Server) metadata(_ http.ResponseWriter, r *http.Request) {
	x := of(r)
	issuers := make([]mcp.RawJSON, 0, len(x.settings.Issuers))
	for _, issuer := range x.settings.Issuers {
		issuers = append(issuers, mcp.String(issuer))
	}
	document := mcp.NewObject(
		mcp.Member{Name: "resource", Value: mcp.String(x.settings.base() + endpointPath)},
		mcp.Member{Name: "authorization_servers", Value: mcp.Array(issuers)},
		mcp.Member{Name: "bearer_methods_supported", Value: mcp.RawJSON(`["header"]`)},
	)
	x.writeJSON(http.StatusOK, document.JSON())
}

// base returns the public URL without a slash at its end.
func (s *Settings) base() string { return strings.TrimSuffix(s.PublicURL, "/") }

func (s *Settings) metadataURL() string { return s.base() + metadataPath + endpointPath }

// publicPath returns the path under which clients see the root of this server, "" when it is the root.
func (s *Settings) publicPath() string { return strings.TrimPrefix(s.base(), originOf(s.base())) }
