package interop_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestSDKSignsInByItsDocument has the SDK of npm name a document of its own, which this
// authorization server reads over TLS: the sign-in goes from a 401 to a tool's answer, and
// nothing is registered. Only here may the address of a document be of this machine.
func TestSDKSignsInByItsDocument(t *testing.T) {
	t.Parallel()
	var fetched, registered atomic.Int64
	document := map[string]any{
		"client_name": "SDK 2", "redirect_uris": []string{"http://127.0.0.1/callback"},
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"},
	}
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document) // the gateway's side says what it got
	}))
	t.Cleanup(web.Close)
	document["client_id"] = web.URL + "/client.json"
	address := authorizationServer(t, "", web.Client(), func(tokens *auth.Verifier, signIn http.Handler) http.Handler {
		tools := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
		sdk.AddTool(tools, &sdk.Tool{Name: "calculate"}, func(context.Context, *sdk.CallToolRequest, map[string]any) (
			*sdk.CallToolResult, any, error,
		) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "42"}}}, nil, nil
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
	call := npmProgram(t, "2", address+"/mcp", browser.URL, "acme", "DOCUMENT="+document["client_id"].(string))
	if got := call(t, "calculate"); got != "42" {
		t.Errorf("the call gave %q, want 42", got)
	}
	if fetched.Load() == 0 || registered.Load() != 0 {
		t.Errorf("the document was read %d times and %d clients registered, want it read and none", fetched.Load(),
			registered.Load())
	}
}
