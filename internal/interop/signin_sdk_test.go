package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// argumentsOf are what a tool of the sign-in tests is called with.
func argumentsOf(tool string) map[string]any {
	if strings.HasSuffix(tool, "calculate") {
		return map[string]any{"expression": "6*7"}
	}
	return map[string]any{"timezone": "UTC"}
}

// npmSDK signs in with an SDK from npm, which is a program's own part of it: its
// callback, and where it keeps tokens.
func npmSDK(generation string) func(t *testing.T, w *signInWorld, at signInAddress) caller {
	return func(t *testing.T, w *signInWorld, at signInAddress) caller {
		return npmProgram(t, generation, at.url, w.surf.url, at.tenant)
	}
}

// npmProgram starts the program of an SDK from npm, with more in its environment.
func npmProgram(t *testing.T, generation, address, browser, tenant string, more ...string) caller {
	t.Helper()
	binary, _ := node(t)
	cmd := exec.CommandContext(t.Context(), binary, "clients/signin.mjs", generation, address, browser, tenant)
	cmd.Env = append(os.Environ(), more...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &output{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it was ended
	})
	lines := bufio.NewScanner(out)
	return func(t *testing.T, tool string) string {
		t.Helper()
		if _, err := io.WriteString(in, tool+"\n"); err != nil {
			t.Fatal(err)
		}
		var said struct{ Text, Error string }
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &said) != nil {
			t.Fatalf("the client said %q and %s", lines.Bytes(), cmd.Stderr)
		}
		return said.Text + said.Error
	}
}

// callback is where a client of this very program waits for its browser.
type callback struct {
	url   string
	query chan url.Values
}

func newCallback(t *testing.T) *callback {
	c := &callback{query: make(chan url.Values, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			c.query <- r.URL.Query()
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/callback"
	return c
}

// wait returns what the browser brings.
func (c *callback) wait(t *testing.T) url.Values {
	t.Helper()
	select {
	case query := <-c.query:
		return query
	case <-time.After(patient):
		t.Error("the browser does not come back")
		return nil
	}
}

// goSDK signs in with the official Go SDK.
func goSDK(t *testing.T, w *signInWorld, at signInAddress) caller {
	back := newCallback(t)
	cfg := &sdkauth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.url,
		DynamicClientRegistrationConfig: &sdkauth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "Go SDK", RedirectURIs: []string{back.url}},
		},
		AuthorizationCodeFetcher: func(_ context.Context, args *sdkauth.AuthorizationArgs) (
			*sdkauth.AuthorizationResult, error,
		) {
			w.surf.open(t, args.URL, at.tenant)
			query := back.wait(t)
			return &sdkauth.AuthorizationResult{
				Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss"),
			}, nil
		},
	}
	handler, err := sdkauth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: at.url, OAuthHandler: handler,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return func(t *testing.T, tool string) string {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: argumentsOf(tool)})
		if err != nil {
			return err.Error()
		}
		return result.Content[0].(*sdk.TextContent).Text
	}
}

// shortLived keeps tokens of mcp-go. It refreshes what has expired by its own clock, and
// nothing when a server says so.
type shortLived struct {
	*transport.MemoryTokenStore
	f *recordingProxy
}

func (s shortLived) GetToken(ctx context.Context) (*transport.Token, error) {
	token, err := s.MemoryTokenStore.GetToken(ctx)
	if err != nil || !s.f.isExpired(token.AccessToken) {
		return token, err
	}
	old := *token
	old.ExpiresAt = time.Unix(1, 0)
	return &old, nil
}

// mcpGoOAuth signs in with mcp-go, by the steps of its own example.
func mcpGoOAuth(t *testing.T, w *signInWorld, at signInAddress) caller {
	back := newCallback(t)
	c, err := mcpgoclient.NewOAuthStreamableHttpClient(at.url, mcpgoclient.OAuthConfig{
		RedirectURI: back.url, PKCEEnabled: true,
		TokenStore: shortLived{transport.NewMemoryTokenStore(), w.recordingProxy},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	signIn := func(err error) {
		t.Helper()
		handler := mcpgoclient.GetOAuthHandler(err)
		if handler == nil {
			t.Fatal(err)
		}
		verifier, err := mcpgoclient.GenerateCodeVerifier()
		state, err2 := mcpgoclient.GenerateState()
		if err := errors.Join(err, err2, handler.RegisterClient(t.Context(), "mcp-go")); err != nil {
			t.Fatal(err)
		}
		address, err := handler.GetAuthorizationURL(t.Context(), state, mcpgoclient.GenerateCodeChallenge(verifier))
		if err != nil {
			t.Fatal(err)
		}
		w.surf.open(t, address, at.tenant)
		query := back.wait(t)
		if err := handler.ProcessAuthorizationResponse(t.Context(), query.Get("code"), query.Get("state"),
			verifier); err != nil {
			t.Fatal(err)
		}
	}
	initialize := func() error {
		hello := mcpgo.InitializeRequest{}
		hello.Params.ProtocolVersion = mcpgo.LATEST_PROTOCOL_VERSION
		hello.Params.ClientInfo = mcpgo.Implementation{Name: "mcp-go", Version: "1"}
		_, err := c.Initialize(t.Context(), hello)
		return err
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := initialize(); err != nil {
		signIn(err)
		if err := initialize(); err != nil {
			t.Fatal(err)
		}
	}
	return func(t *testing.T, tool string) string {
		request := mcpgo.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = tool, argumentsOf(tool)
		result, err := c.CallTool(t.Context(), request)
		if mcpgoclient.IsOAuthAuthorizationRequiredError(err) {
			signIn(err) // as a program would
			result, err = c.CallTool(t.Context(), request)
		}
		if err != nil {
			return err.Error()
		}
		return result.Content[0].(mcpgo.TextContent).Text
	}
}
