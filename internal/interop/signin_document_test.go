package interop_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// documentClients are clients that name a document of theirs on the web, and what it says
// by what is known of it: redirect_uris. The address is where each expects it.
var documentClients = []struct {
	name     string
	connect  func(t *testing.T, w *signInWorld, at signInAddress) caller
	document *regexp.Regexp // its address; nil: it knows none, and registers itself
	back     func(path string) []string
}{
	{
		name: "npm SDK 1", connect: npmDocument("1"),
		document: regexp.MustCompile(`^https://sdk\.example/client\.json$`),
		back:     func(string) []string { return []string{"http://127.0.0.1/callback"} },
	},
	{
		name: "npm SDK 2", connect: npmDocument("2"),
		document: regexp.MustCompile(`^https://sdk\.example/client\.json$`),
		back:     func(string) []string { return []string{"http://127.0.0.1/callback"} },
	},
	{name: "Gemini CLI", connect: geminiSignsIn},
	{
		name: "Claude Code", connect: claudeSignsIn,
		document: regexp.MustCompile(`^https://claude\.ai/oauth/claude-code-client-metadata$`),
		back:     func(string) []string { return []string{"http://localhost/callback", "http://127.0.0.1/callback"} },
	},
	{
		name: "Codex", connect: codexSignsIn,
		document: regexp.MustCompile(`^https://chatgpt\.com/oauth/codex/([^/]+/)?client\.json$`),
		back: func(path string) []string {
			id := strings.TrimSuffix(strings.TrimPrefix(path, "/oauth/codex/"), "client.json")
			return []string{"http://127.0.0.1/callback/" + strings.TrimSuffix(id, "/"), "http://127.0.0.1/callback"}
		},
	},
	{
		name: "MCP Inspector",
		connect: func(t *testing.T, w *signInWorld, at signInAddress) caller {
			return inspectorWith(t, w, at, "--client-metadata-url", "https://inspector.example/client.json")
		},
		document: regexp.MustCompile(`^https://inspector\.example/client\.json$`),
		back:     func(string) []string { return []string{"http://127.0.0.1/oauth/callback"} },
	},
	{
		name: "mcp-remote",
		connect: func(t *testing.T, w *signInWorld, at signInAddress) caller {
			return remoteWith(t, w, at, "--client-metadata-url", "https://remote.example/client.json")
		},
		document: regexp.MustCompile(`^https://remote\.example/client\.json$`),
		back:     func(string) []string { return []string{"http://localhost/oauth/callback"} },
	},
}

// npmDocument is npmSDK whose program names a document.
func npmDocument(generation string) func(t *testing.T, w *signInWorld, at signInAddress) caller {
	return func(t *testing.T, w *signInWorld, at signInAddress) caller {
		return npmProgram(t, generation, at.url, w.surf.url, at.tenant, "DOCUMENT=https://sdk.example/client.json")
	}
}

// TestClientsSignInByTheirDocuments has clients name a document of theirs, which this
// authorization server reads over TLS: the sign-in goes from a 401 to a tool's answer,
// and nothing is registered but by the client that knows no documents. The documents are
// those of the clients' makers as far as they are known, served on this machine: the real
// ones are not asked for.
func TestClientsSignInByTheirDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range documentClients {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name != "npm SDK 2" {
				t.Skip("the whole of the tests has all clients")
			}
			t.Parallel()
			var named sync.Map // the addresses of documents that were read
			web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := "https://" + r.Host + r.URL.Path
				named.Store(id, true)
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{ // the gateway's side says what it got
					"client_id": id, "client_name": c.name, "redirect_uris": c.back(r.URL.Path),
					"token_endpoint_auth_method": "none",
					"grant_types":                []string{"authorization_code", "refresh_token"},
				})
			}))
			t.Cleanup(web.Close)
			var registered atomic.Int64
			address := documentServer(t, readingOnly(web), &registered)
			browser := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				to, err := io.ReadAll(r.Body)
				if err == nil {
					err = signInBrowser(r.Context(), string(to))
				}
				if err != nil {
					t.Errorf("the browser: %v", err)
				}
			}))
			t.Cleanup(browser.Close)
			w := &signInWorld{surf: &chromiumBrowser{browser.URL}}
			answers(t, c.connect(t, w, signInAddress{url: address + "/mcp", tenant: "acme"}), "calculate", "42")
			count := 0
			named.Range(func(id, _ any) bool {
				if count++; c.document == nil || !c.document.MatchString(id.(string)) {
					t.Errorf("the client names %s", id)
				}
				return true
			})
			if reads := count > 0; reads == (c.document == nil) || reads == (registered.Load() > 0) {
				t.Errorf("%d documents were read and %d clients registered", count, registered.Load())
			}
		})
	}
}

// readingOnly returns a client for which all hosts of the web are one server.
func readingOnly(web *httptest.Server) *http.Client {
	transport := web.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, web.Listener.Addr().String())
	}
	transport.TLSClientConfig.ServerName = "example.com" // of its certificate
	return &http.Client{Transport: transport}
}

// documentServer starts an MCP server with a tool behind an authorization server that
// reads documents with a client, and counts who registers.
func documentServer(t *testing.T, documents *http.Client, registered *atomic.Int64) string {
	t.Helper()
	return authorizationServer(t, "", documents, func(tokens *auth.Verifier, signIn http.Handler) http.Handler {
		tools := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
		tools.AddTool(&sdk.Tool{Name: "calculate", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "It is 42."}}}, nil
			})
		served := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			const metadata = "/.well-known/oauth-protected-resource/mcp"
			base := "http://" + r.Host
			switch r.URL.Path {
			case "/mcp":
				_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				if _, err := tokens.Verify(r.Context(), token); err != nil {
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base+metadata+`"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				served.ServeHTTP(w, r)
			case metadata:
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{ // the client says what it got
					"resource": base + "/mcp", "authorization_servers": []string{base},
				})
			case "/register":
				registered.Add(1)
				signIn.ServeHTTP(w, r)
			default:
				signIn.ServeHTTP(w, r)
			}
		})
	})
}
