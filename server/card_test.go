package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

const cardPath, catalogPath = "/mcp/server-card", "/.well-known/ai-catalog.json"

// newCardWorld makes a gateway with a card, for the endpoint of acme too.
func newCardWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, func(w *world) {
		w.config.Card = server.Card{Name: "test.mcp/tools", Title: "Tools", Description: "Tools of a team"}
		w.settings.PublicTenants = []string{"acme"}
	})
}

// anonymous sends a request without a token.
func anonymous(t *testing.T, w *world, method, path string, headers map[string]string,
) *httptest.ResponseRecorder {
	t.Helper()
	return record(w.Handler(), message{method: method, path: path, headers: headers}.request(t.Context(), ""))
}

func TestNoCardIsServedUnlessItIsWanted(t *testing.T) {
	w := newWorld(t)
	nowhere := nameless(t, anonymous(t, w, http.MethodGet, "/nowhere", nil))
	for _, path := range []string{cardPath, catalogPath, "/t/acme" + cardPath} {
		if got := nameless(t, anonymous(t, w, http.MethodGet, path, nil)); got != nowhere {
			t.Errorf("%s: got %s, want what any path gives that is not there", path, got)
		}
	}
	w = newCardWorld(t)
	nowhere = nameless(t, anonymous(t, w, http.MethodGet, "/nowhere", nil))
	for _, path := range []string{"/t/globex" + cardPath, "/t/nobody" + cardPath, "/sse/server-card"} {
		if got := nameless(t, anonymous(t, w, http.MethodGet, path, nil)); got != nowhere {
			t.Errorf("%s: got %s, want what any path gives that is not there", path, got)
		}
	}
}

// documentSchema compiles the facts of a document that is served to everybody.
func documentSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	facts, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(name+".json", facts); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile(name + ".json")
}

// TestCardsFitTheOfficialSchema holds for the facts of schema.json of
// https://github.com/modelcontextprotocol/experimental-ext-server-card, 8924e08.
func TestCardsFitTheOfficialSchema(t *testing.T) {
	schema := documentSchema(t, "server-card")
	for name, c := range map[string]struct {
		issuers []exchange.AuthorizationServer
		signIn  bool
		asks    []string // at which endpoints clients are asked for a token
	}{
		"no issuer": {asks: []string{"/mcp", "/t/acme/mcp"}},
		"an issuer": {issuers: []exchange.AuthorizationServer{{Issuer: "https://issuer.test"}}},
		"of one tenant": {
			issuers: []exchange.AuthorizationServer{{Issuer: "https://issuer.test", Tenant: "globex"}},
			asks:    []string{"/t/acme/mcp"},
		},
		"a sign-in": {signIn: true},
	} {
		w := newCardWorld(t)
		w.settings.AuthorizationServers, w.settings.SignIn = c.issuers, c.signIn
		w.settings.Scopes = map[string][]string{"acme": nil, "globex": nil}
		for _, endpoint := range []string{"/mcp", "/t/acme/mcp"} {
			got := anonymous(t, w, http.MethodGet, endpoint+"/server-card", nil)
			card, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Body.String()))
			if err == nil {
				err = schema.Validate(card)
			}
			remotes, _ := object(got.Body.String()).Value("remotes").Elements()
			if err != nil || len(remotes) != 1 {
				t.Fatalf("%s: %d %s: %v", endpoint, got.Code, got.Body, err)
			}
			if url, _ := remotes[0].Member("url").Text(); url != "https://mcp.test"+endpoint {
				t.Errorf("%s: leads to %s", endpoint, url)
			}
			if asks := remotes[0].Member("headers") != nil; asks != slices.Contains(c.asks, endpoint) {
				t.Errorf("%s: %s: asks for a token: %t", name, endpoint, asks)
			}
			if kind := got.Header().Get("Content-Type"); kind != "application/mcp-server-card+json" {
				t.Errorf("%s: is %s", endpoint, kind)
			}
			if text := got.Body.String(); strings.Contains(text, "globex") || strings.Contains(text, "box") {
				t.Errorf("%s: tells of tenants or servers: %s", endpoint, text)
			}
		}
	}
}

// TestCatalogNamesTheCardsThatAreServed holds for the facts of
// specification/ai-catalog.md of https://github.com/Agent-Card/ai-catalog, 0379c86, which
// has no schema of its own.
func TestCatalogNamesTheCardsThatAreServed(t *testing.T) {
	w := newCardWorld(t)
	got := anonymous(t, w, http.MethodGet, catalogPath, nil)
	catalog, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Body.String()))
	if err == nil {
		err = documentSchema(t, "ai-catalog").Validate(catalog)
	}
	if err != nil {
		t.Errorf("%s: %v", got.Body, err)
	}
	const want = `{"specVersion":"1.0","entries":[` +
		`{"identifier":"urn:air:mcp.test:mcp:tools","type":"application/mcp-server-card+json","url":"https://mcp.test/mcp/server-card"},` +
		`{"identifier":"urn:air:mcp.test:mcp:tools-acme","type":"application/mcp-server-card+json","url":"https://mcp.test/t/acme/mcp/server-card"}]}`
	if kind := got.Header().Get("Content-Type"); got.Body.String() != want ||
		kind != "application/ai-catalog+json" {
		t.Errorf("got %s %s", kind, got.Body)
	}
}

func TestCardsAgreeWithDiscovery(t *testing.T) {
	w := newCardWorld(t)
	card := object(anonymous(t, w, http.MethodGet, cardPath, nil).Body.String())
	remotes, _ := card.Value("remotes").Elements()
	answer := record(w.Handler(), message{
		method: http.MethodPost, path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607, mcp.HeaderMethod: mcp.MethodDiscover,
		},
	}.request(t.Context(), ""))
	result := object(answer.Body.String()).Object("result")
	told := result.Object("_meta").Object(mcp.MetaServerInfo)
	if card.Text("name") != told.Text("name") || card.Text("version") != told.Text("version") ||
		string(remotes[0].Member("supportedProtocolVersions")) != string(result.Value("supportedVersions")) {
		t.Errorf("the card is %s, discovery says %s", card.JSON(), answer.Body)
	}
	opened := record(w.Handler(), message{
		method: http.MethodPost, path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
	}.request(t.Context(), ""))
	if !strings.Contains(opened.Body.String(), `"serverInfo":{"name":"test.mcp/tools","version":"test"}`) {
		t.Errorf("the handshake says %s", opened.Body)
	}
}

// TestCardsAreForEveryPage holds for pages of any origin, whose browsers ask first where
// they have a tag.
func TestCardsAreForEveryPage(t *testing.T) {
	w := newCardWorld(t)
	for _, path := range []string{cardPath, catalogPath, "/t/acme" + cardPath} {
		page := map[string]string{"Origin": "https://elsewhere.test"}
		got := anonymous(t, w, http.MethodGet, path, page)
		tag := got.Header().Get("ETag")
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "ETag",
			"Cache-Control": "public, max-age=3600",
		} {
			if value := got.Header().Get(name); value != want || got.Code != http.StatusOK || tag == "" {
				t.Errorf("%s: %d %s: %q, want %q", path, got.Code, name, value, want)
			}
		}
		page["If-None-Match"] = `"other", W/` + tag
		if again := anonymous(t, w, http.MethodGet, path, page); again.Code != http.StatusNotModified ||
			again.Body.Len() > 0 || again.Header().Get("ETag") != tag {
			t.Errorf("%s: with its tag: %d %s", path, again.Code, again.Body)
		}
		page["Access-Control-Request-Method"] = http.MethodGet
		if asked := anonymous(t, w, http.MethodOptions, path, page); asked.Code != http.StatusNoContent ||
			asked.Header().Get("Access-Control-Allow-Headers") != "Content-Type, If-None-Match" {
			t.Errorf("%s: preflight: %d %v", path, asked.Code, asked.Header())
		}
	}
	request := message{method: http.MethodGet, path: cardPath}.request(t.Context(), "")
	request.Host = "evil.test"
	if got := record(w.Handler(), request); got.Code != http.StatusForbidden {
		t.Errorf("under a foreign host: %d", got.Code)
	}
}

// TestDocumentsForEverybodyHaveAHead asks for each by HEAD, as programs do that look
// whether it is there.
func TestDocumentsForEverybodyHaveAHead(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.config.Card = server.Card{Name: "test.mcp/tools"}
		w.config.KeySet = func() []byte { return []byte(`{"keys":[]}`) }
		w.settings.AuthorizationServers = issuers("https://issuer.test")
	})
	base := w.serve(t)
	for _, path := range []string{
		cardPath, catalogPath, server.KeysPath, "/.well-known/oauth-protected-resource",
		"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/t/acme/mcp",
	} {
		var headers [2]http.Header
		for i, method := range []string{http.MethodGet, http.MethodHead} {
			got := call(t.Context(), t, base, message{method: method, path: path})
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != http.StatusOK || (len(body) > 0) != (method == http.MethodGet) {
				t.Errorf("%s %s: status %d, %q, %v", method, path, got.StatusCode, body, err)
			}
			headers[i] = got.Header
			headers[i].Del("Date")
			headers[i].Del("X-Request-Id")
		}
		if diff := cmp.Diff(headers[0], headers[1]); diff != "" {
			t.Errorf("%s: headers by GET and by HEAD differ:\n%s", path, diff)
		}
	}
}
