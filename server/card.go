package server

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// Card is what the gateway says of itself to whoever has not connected: the same of each
// endpoint, and nothing of tenants, servers or items.
// https://github.com/modelcontextprotocol/experimental-ext-server-card/blob/main/docs/discovery.md
type Card struct {
	// as com.example/tools, which clients of the endpoint are told too; "": there is no
	// card
	Name        string
	Title       string // "": none
	Description string
}

// Where cards are, and what they are.
const (
	cardSuffix  = "/server-card" // behind the path of an endpoint
	catalogPath = "/.well-known/ai-catalog.json"

	mediaCard    = "application/mcp-server-card+json"
	mediaCatalog = "application/ai-catalog+json"
	cardSchema   = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
)

// isPublic tells whether the path is that of a document for everybody: of the catalogue,
// or of the card of an endpoint that has one.
func (s *Server) isPublic(path string, settings *exchange.Settings) bool {
	if s.config.Card.Name == "" {
		return false
	}
	endpoint, isCard := strings.CutSuffix(path, cardSuffix)
	return path == catalogPath || isCard && slices.Contains(cardEndpoints(settings), endpoint)
}

// cardEndpoints returns the paths of the endpoints that have a card.
func cardEndpoints(s *exchange.Settings) []string {
	paths := []string{exchange.EndpointPath}
	for _, tenant := range s.PublicTenants {
		paths = append(paths, exchange.TenantPath+tenant+exchange.EndpointPath)
	}
	return paths
}

// tenantOf returns the tenant that the path of an endpoint names, "" for none.
func tenantOf(endpoint string) string {
	return strings.TrimSuffix(strings.TrimPrefix(endpoint, exchange.TenantPath), exchange.EndpointPath)
}

// public serves the documents for everybody. Any page in a browser may read them.
func (s *Server) public(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	switch {
	case !s.isPublic(r.URL.Path, &x.Settings):
		x.Refuse("", exchange.ErrNotFound)
	case r.URL.Path == catalogPath:
		writePublic(x, r, mediaCatalog, s.catalog(&x.Settings))
	default:
		writePublic(x, r, mediaCard, s.card(&x.Settings, strings.TrimSuffix(r.URL.Path, cardSuffix)))
	}
}

// card returns the card of an endpoint. It agrees with what server/discover answers
// there.
func (s *Server) card(settings *exchange.Settings, endpoint string) mcp.RawJSON {
	card := s.config.Card
	remote := mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("streamable-http")},
		mcp.Member{Name: "url", Value: mcp.String(settings.Base() + endpoint)},
		mcp.Member{Name: "supportedProtocolVersions", Value: mcp.Strings(mcp.Revisions())},
	)
	if len(settings.IssuersOf(tenantOf(endpoint))) == 0 { // else clients get a token by themselves
		remote = remote.With("headers", mcp.RawJSON(`[{"name":"Authorization",`+
			`"description":"Bearer and a token of the operator","isRequired":true,"isSecret":true}]`))
	}
	document := mcp.NewObject(
		mcp.Member{Name: "$schema", Value: mcp.String(cardSchema)},
		mcp.Member{Name: "name", Value: mcp.String(card.Name)},
		mcp.Member{Name: "version", Value: mcp.String(s.config.Version)},
		mcp.Member{Name: "description", Value: mcp.String(card.Description)},
		mcp.Member{Name: "remotes", Value: mcp.Array([]mcp.RawJSON{remote.JSON()})},
	)
	if card.Title != "" {
		document = document.With("title", mcp.String(card.Title))
	}
	return document.JSON()
}

// catalog returns the list of the cards.
func (s *Server) catalog(settings *exchange.Settings) mcp.RawJSON {
	domain, name, _ := strings.Cut(s.config.Card.Name, "/")
	labels := strings.Split(domain, ".")
	slices.Reverse(labels)
	identifier := "urn:air:" + strings.Join(labels, ".") + ":mcp:" + name
	var entries []mcp.RawJSON
	for _, endpoint := range cardEndpoints(settings) {
		id := identifier
		if tenant := tenantOf(endpoint); tenant != "" {
			id += "-" + tenant
		}
		entries = append(entries, mcp.NewObject(
			mcp.Member{Name: "identifier", Value: mcp.String(id)},
			mcp.Member{Name: "type", Value: mcp.String(mediaCard)},
			mcp.Member{Name: "url", Value: mcp.String(settings.Base() + endpoint + cardSuffix)},
		).JSON())
	}
	return mcp.NewObject(
		mcp.Member{Name: "specVersion", Value: mcp.String("1.0")},
		mcp.Member{Name: "entries", Value: mcp.Array(entries)},
	).JSON()
}

// writePublic answers with a document for everybody, or says that the client has it
// already.
func writePublic(x *exchange.Exchange, r *http.Request, media string, body mcp.RawJSON) {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	maps.Copy(x.Header(), http.Header{"Etag": {tag}, "Cache-Control": {"public, max-age=3600"}})
	for known := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			x.WriteStatus(http.StatusNotModified)
			return
		}
	}
	x.WriteAs([]string{media}, http.StatusOK, body)
}

// shareWithAll tells the browser that every page may read the answer.
func shareWithAll(x *exchange.Exchange) {
	maps.Copy(x.Header(), http.Header{
		"Access-Control-Allow-Origin":   {"*"},
		"Access-Control-Allow-Methods":  {"GET"},
		"Access-Control-Allow-Headers":  {"Content-Type, If-None-Match"},
		"Access-Control-Expose-Headers": {"ETag"},
	})
}
