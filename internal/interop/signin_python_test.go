package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// python sends what Python's SDK sends, for which there is no package here: the requests
// of its OAuthClientProvider, in its order and with its members. It holds a lock over all
// of a sign-in, refreshes with resource and without scope, and takes every answer to a
// refresh but 200 for the end of its tokens.
type python struct {
	t      *testing.T
	w      *signInWorld
	at     signInAddress
	back   *callback
	id     string
	tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	resource string
	endpoint map[string]any // the metadata of the authorization server
}

func pythonWire(t *testing.T, w *signInWorld, at signInAddress) caller {
	p := &python{t: t, w: w, at: at, back: newCallback(t)}
	return p.call
}

// ask sends a request with the header that the SDK has in all of them, and reads JSON.
func (p *python) ask(method, address, kind, body string, into any) int {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("MCP-Protocol-Version", "2025-11-25")
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || into != nil && json.Unmarshal(text, into) != nil {
		p.t.Fatalf("%s: status %d: %s", address, response.StatusCode, text)
	}
	return response.StatusCode
}

// discover reads where to sign in. The type of the SDK for addresses puts a slash behind
// one that has no path, so that it knows the server by another name than it has.
func (p *python) discover(challenge string) (scope string) {
	p.t.Helper()
	named := func(name string) string {
		_, rest, _ := strings.Cut(challenge, name+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	var resource struct {
		Resource             string
		AuthorizationServers []string `json:"authorization_servers"`
	}
	p.ask(http.MethodGet, named("resource_metadata"), "", "", &resource)
	p.resource = resource.Resource
	server, err := url.Parse(resource.AuthorizationServers[0])
	if err != nil || p.resource != p.at.url {
		p.t.Fatalf("the resource is %+v, %v, want %s", resource, err, p.at.url)
	}
	server.Path = "/.well-known/oauth-authorization-server" + strings.TrimSuffix(server.Path, "/")
	p.ask(http.MethodGet, server.String(), "", "", &p.endpoint)
	return named("scope")
}

func (p *python) signIn(challenge string) {
	p.t.Helper()
	scope := p.discover(challenge)
	registration, err := json.Marshal(map[string]any{
		"redirect_uris": []string{p.back.url}, "token_endpoint_auth_method": "none", "client_name": "Python SDK",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "scope": scope,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	var client struct {
		ID string `json:"client_id"`
	}
	p.ask(http.MethodPost, p.endpoint["registration_endpoint"].(string), "application/json", string(registration), &client)
	p.id = client.ID
	verifier, state := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	p.w.surf.open(p.t, p.endpoint["authorization_endpoint"].(string)+"?"+url.Values{
		"response_type": {"code"}, "client_id": {p.id}, "redirect_uri": {p.back.url}, "state": {state},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"},
		"resource": {p.resource}, "scope": {scope},
	}.Encode(), p.at.tenant)
	answer := p.back.wait(p.t)
	if answer.Get("state") != state || answer.Get("iss") != p.endpoint["issuer"] {
		p.t.Fatalf("the browser brought %v", answer)
	}
	p.redeem(url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {p.back.url},
		"client_id": {p.id}, "code_verifier": {verifier}, "resource": {p.resource},
	})
}

// redeem asks for tokens, and tells whether they came.
func (p *python) redeem(form url.Values) bool {
	p.t.Helper()
	return p.ask(http.MethodPost, p.endpoint["token_endpoint"].(string), "application/x-www-form-urlencoded",
		form.Encode(), &p.tokens) == http.StatusOK
}

func (p *python) call(t *testing.T, tool string) string {
	t.Helper()
	arguments, err := json.Marshal(argumentsOf(tool))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,%s}}`, tool,
		arguments, modernMeta)
	for range 2 {
		if p.w.isExpired(p.tokens.Access) && !p.redeem(url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {p.tokens.Refresh}, "client_id": {p.id},
			"resource": {p.resource},
		}) {
			p.tokens.Access = ""
		}
		headers := []string{"MCP-Protocol-Version", modernRevision, "Mcp-Method", "tools/call", "Mcp-Name", tool}
		if p.tokens.Access != "" {
			headers = append(headers, "Authorization", "Bearer "+p.tokens.Access)
		}
		got := post(t, p.at.url, body, headers...)
		challenge := got.header.Get("WWW-Authenticate")
		if got.status != http.StatusUnauthorized && !strings.Contains(challenge, `error="insufficient_scope"`) {
			return string(got.body)
		}
		p.signIn(challenge)
	}
	return "401 with new tokens"
}
