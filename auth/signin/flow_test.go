package signin_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// TestClientSignsIn shows the whole way of a client that nobody knows, from registration
// to a token that means the provider's person, at the address of a tenant and at that of
// all.
func TestClientSignsIn(t *testing.T) {
	t.Parallel()
	for at, aud := range map[string]string{base: base + "/mcp", base + "/t/acme": base + "/t/acme/mcp"} {
		w := newWorld(t)
		c := w.signIn(t, at, "ann", nil)
		p, err := w.verifier(t).Verify(t.Context(), c.access)
		if err != nil {
			t.Fatalf("at %s: %v", at, err)
		}
		if p.Issuer != idpIssuer || p.Subject != "ann" || p.TenantID != "acme" || p.Name != "ann@acme.example" ||
			!slices.Equal(p.Scopes, []string{"read", "write"}) ||
			!strings.HasPrefix(p.ClientID, "registered-") {
			t.Errorf("at %s: got %+v", at, p)
		}
		header, claims := parts(t, c.access)
		if header["typ"] != "at+jwt" || header["alg"] != "EdDSA" || claims["aud"] != aud ||
			claims["iss"] != at ||
			claims["exp"].(float64)-claims["iat"].(float64) != 900 {
			t.Errorf("at %s: header %v, claims %v", at, header, claims)
		}
		if w.counts.get("signed", "corp", "ok") != 1 || w.counts.get("issued", "authorization_code") != 1 ||
			w.counts.get("registered") != 1 {
			t.Errorf("counted %v", w.counts.of)
		}
	}
}

// parts returns header and claims of a token.
func parts(t testing.TB, token string) (header, claims map[string]any) {
	t.Helper()
	for i, into := range []*map[string]any{&header, &claims} {
		data, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
		if err != nil || json.Unmarshal(data, into) != nil {
			t.Fatalf("no token: %q", token)
		}
	}
	return header, claims
}

// TestPersonOfSeveralTenantsChooses shows that at the address of all tenants a person of
// two chooses one, that the token is for that one, and that no other can be chosen.
func TestPersonOfSeveralTenantsChooses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.signIn(t, base, "bob", func(v url.Values) { v.Set("tenant", "umbrella") })
	p, err := w.verifier(t).Verify(t.Context(), c.access)
	if err != nil || p.TenantID != "umbrella" || len(p.Tenants) != 0 {
		t.Errorf("got %+v, %v; want umbrella alone", p, err)
	}
	for _, tenant := range []string{"", "other"} {
		b := w.browser(t)
		form := b.asked(
			w.idp.signIn(t, "bob", b.toProvider(base, query(b.register(base, loopback), loopback))),
		)
		form.Set("tenant", tenant)
		if answer := b.post(base+"/consent", form); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("tenant %q: status %d, want 400", tenant, answer.StatusCode)
		}
	}
}

// TestTokensHaveTheScopesAskedFor shows which scopes a token has.
func TestTokensHaveTheScopesAskedFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ asked, got string }{
		{"", "read write"},
		{"openid profile email offline_access", "read write"},
		{"read", "read"},
		{"read unknown", "read"},
		{"admin", ""}, // ann has it not
		{"write read openid", "read write"},
	} {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", func(v url.Values) { v.Set("scope", test.asked) })
		if _, claims := parts(t, c.access); scopeOf(claims) != test.got {
			t.Errorf("asked for %q: got %q, want %q", test.asked, scopeOf(claims), test.got)
		}
	}
}

func scopeOf(claims map[string]any) string {
	scope, _ := claims["scope"].(string)
	return scope
}

// TestMetadataIsWhereClientsLook shows that every address that clients try has the
// document of the right issuer, for GET and HEAD, with the store away, and that the
// document of an unknown tenant differs in the name alone.
func TestMetadataIsWhereClientsLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.setAway(errUnavailable)
	b := w.browser(t)
	for path, issuer := range map[string]string{
		"/.well-known/oauth-authorization-server":          base,
		"/.well-known/openid-configuration":                base,
		"/.well-known/oauth-authorization-server/t/acme":   base + "/t/acme",
		"/.well-known/openid-configuration/t/acme":         base + "/t/acme",
		"/t/acme/.well-known/openid-configuration":         base + "/t/acme",
		"/t/acme/.well-known/oauth-authorization-server":   base + "/t/acme",
		"/.well-known/oauth-authorization-server/t/nobody": base + "/t/nobody",
	} {
		answer := b.get(base + path)
		document := object(t, answer)
		if answer.StatusCode != http.StatusOK || document["issuer"] != issuer ||
			document["token_endpoint"] != issuer+"/token" ||
			answer.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: status %d, %v", path, answer.StatusCode, document)
		}
		if head := b.do(
			httptest.NewRequestWithContext(t.Context(), http.MethodHead, base+path, http.NoBody),
		); head.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: status %d", path, head.StatusCode)
		}
	}
	known := read(b.get(base + "/.well-known/oauth-authorization-server/t/acme"))
	unknown := read(b.get(base + "/.well-known/oauth-authorization-server/t/nobody"))
	if strings.ReplaceAll(known, "acme", "nobody") != unknown {
		t.Errorf("the documents differ: %s and %s", known, unknown)
	}
	var document map[string]any
	_ = json.Unmarshal([]byte(known), &document)
	methods, _ := json.Marshal(document["code_challenge_methods_supported"])
	auths, _ := json.Marshal(document["token_endpoint_auth_methods_supported"])
	if string(methods) != `["S256"]` || !strings.Contains(string(auths), `"none"`) ||
		document["client_id_metadata_document_supported"] != true {
		t.Errorf("got %s", known)
	}
	for _, path := range []string{"/t/ACME!/token", "/t/acme/callback/corp", "/authorize/", "/callback/", "/token/x"} {
		if w.server.Serves(path) {
			t.Errorf("%s is served", path)
		}
	}
}

// TestRegistrationKeepsWhatIsGood shows what is kept of a registration, that unknown
// members are ignored and empty ones omitted, and what is refused.
func TestRegistrationKeepsWhatIsGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	register := func(body string) *http.Response {
		r := httptest.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			base+"/register",
			strings.NewReader(body),
		)
		return b.do(r)
	}
	answer := object(t, register(`{"client_name":"Cursor\u202e","resource":"x","contacts":null,"logo_uri":"",
		"token_endpoint_auth_method":"client_secret_basic","redirect_uris":[
		"cursor://anysphere.cursor-mcp/oauth/callback","javascript:alert(1)",
		"https://www.cursor.com/agents/mcp/oauth/callback","http://evil.example/",7,"http://localhost:8787/callback"]}`))
	got, _ := json.Marshal(answer["redirect_uris"])
	if string(got) != `["cursor://anysphere.cursor-mcp/oauth/callback",`+
		`"https://www.cursor.com/agents/mcp/oauth/callback","http://localhost:8787/callback"]` ||
		answer["client_name"] != "Cursor" || answer["token_endpoint_auth_method"] != "none" {
		t.Errorf("got %v", answer)
	}
	for name, value := range answer {
		if value == nil || value == "" {
			t.Errorf("%s is empty", name)
		}
	}
	if w.store.puts != 0 {
		t.Errorf("a registration wrote %d records, want none", w.store.puts)
	}
	for body, code := range map[string]string{
		`{"redirect_uris":["javascript:1"]}`:     "invalid_redirect_uri",
		`{"redirect_uris":[]}`:                   "invalid_redirect_uri",
		`{}`:                                     "invalid_redirect_uri",
		`[]`:                                     "invalid_client_metadata",
		`{"redirect_uris":"https://a.example/"}`: "invalid_client_metadata",
		`{"redirect_uris":["` + strings.Repeat("a", 40000) + `"]}`: "invalid_client_metadata",
	} {
		answer := register(body)
		if got := object(t, answer)["error"]; answer.StatusCode != http.StatusBadRequest || got != code {
			t.Errorf("%.40s: status %d, error %v, want %s", body, answer.StatusCode, got, code)
		}
	}
}

// TestDynamicRegistrationReadsNoDocument has a gateway that does not reach the web:
// clients are told to register themselves, and one that names a document is unknown.
func TestDynamicRegistrationReadsNoDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *signin.Config, s *signin.Settings) {
		s.Registration = clients.RegistrationDynamic
		c.Documents = documents(func(r *http.Request) (int, http.Header, string) {
			t.Errorf("%s was fetched", r.URL)
			return http.StatusNotFound, nil, ""
		})
	})
	b := w.browser(t)
	document := object(t, b.get(base+"/.well-known/oauth-authorization-server"))
	if _, says := document["client_id_metadata_document_supported"]; says || document["registration_endpoint"] == nil {
		t.Errorf("got %v, want registration alone", document)
	}
	id := b.register(base, loopback)
	if answer := b.get(base + "/authorize?" + query(id, loopback).Encode()); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("a client that registered itself: status %d", answer.StatusCode)
	}
	for _, id := range []string{"https://client.example/document.json", "dbc_forged"} {
		answer := b.get(base + "/authorize?" + query(id, loopback).Encode())
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(read(answer), "not known here") {
			t.Errorf("%s: status %d, want that it is unknown", id, answer.StatusCode)
		}
	}
}

// TestConfiguredClients shows what clients can do that the operator has configured: sign
// people in with a secret and without consent, and have tokens of their own.
func TestConfiguredClients(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s3+/cr%t=", 6)
	w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
		s.Registration = clients.RegistrationOff
		s.Clients = []clients.Fixed{
			fixed("ci", clients.Fixed{
				Secret: secret,
				Grants: []string{"client_credentials"},
				Tenant: "acme",
				Scopes: []string{"read", "write"},
			}),
			fixed("cron", clients.Fixed{Secret: secret, Grants: []string{"client_credentials"}, Tenant: "acme"}),
			fixed("web", clients.Fixed{Secret: secret, Redirects: []string{loopback}}),
		}
	})
	b := w.browser(t)
	own := url.Values{
		"grant_type":    {"client_credentials"},
		"scope":         {"read"},
		"client_id":     {"ci"},
		"client_secret": {secret},
	}
	answer := b.post(base+"/token", own)
	got := object(t, answer)
	if answer.StatusCode != http.StatusOK || got["refresh_token"] != nil {
		t.Fatalf("status %d: %v", answer.StatusCode, got)
	}
	p, err := w.verifier(t).Verify(t.Context(), got["access_token"].(string))
	if err != nil || p.Issuer != base || p.Subject != "ci" || p.TenantID != "acme" ||
		!slices.Equal(p.Scopes, []string{"read"}) {
		t.Errorf("got %+v, %v", p, err)
	}
	if got := object(t, b.post(base+"/revoke", url.Values{
		"token": {got["access_token"].(string)}, "client_id": {"ci"}, "client_secret": {secret},
	})); got["error"] != "unsupported_token_type" {
		t.Errorf("revoked: %v, though the token goes on", got)
	}
	for name, test := range map[string]struct {
		change func(url.Values)
		code   string
	}{
		"wrong secret":   {func(v url.Values) { v.Set("client_secret", secret+"x") }, "invalid_client"},
		"no secret":      {func(v url.Values) { v.Del("client_secret") }, "invalid_client"},
		"other grant":    {func(v url.Values) { v.Set("client_id", "web") }, "unauthorized_client"},
		"other scope":    {func(v url.Values) { v.Set("scope", "admin") }, "invalid_scope"},
		"no client":      {func(v url.Values) { v.Del("client_id") }, "invalid_request"},
		"unknown client": {func(v url.Values) { v.Set("client_id", "robot") }, "invalid_client"},
		"without scopes": {func(v url.Values) { v.Set("client_id", "cron") }, ""},
	} {
		form, _ := url.ParseQuery(own.Encode())
		test.change(form)
		answer := b.post(base+"/token", form)
		got, _ := object(t, answer)["error"].(string)
		if unknown := test.code == "invalid_client"; got != test.code ||
			unknown != (answer.StatusCode == http.StatusUnauthorized) {
			t.Errorf("%s: status %d, %v, want %s", name, answer.StatusCode, got, test.code)
		}
	}
	if answer := b.post(base+"/t/umbrella/token", own); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("at another tenant: status %d", answer.StatusCode)
	}
	// Basic is encoded by some programs, and by others not.
	for sent, want := range map[string]int{
		url.QueryEscape(secret): http.StatusOK, secret: http.StatusOK, "": http.StatusUnauthorized,
		url.QueryEscape(url.QueryEscape(secret)): http.StatusUnauthorized, secret + "%": http.StatusUnauthorized,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, base+"/token",
			strings.NewReader("grant_type=client_credentials"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("ci", sent)
		if answer := b.do(r); answer.StatusCode != want {
			t.Errorf("%q by Basic: status %d, want %d", sent, answer.StatusCode, want)
		}
	}
	// No consent is asked for.
	answer = b.get(w.idp.signIn(t, "ann", b.toProvider(base, query("web", loopback))))
	code := parsed(t, answer.Header.Get("Location")).Query().Get("code")
	form := redeem("web", code)
	form.Del("client_id")
	r := httptest.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		base+"/token",
		strings.NewReader(form.Encode()),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("web", url.QueryEscape(secret))
	if answer := b.do(r); answer.StatusCode != http.StatusOK {
		t.Errorf("web: status %d: %s", answer.StatusCode, read(answer))
	}
	// Nobody else may come.
	r = httptest.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		base+"/register",
		strings.NewReader(`{"redirect_uris":["https://a.example/"]}`),
	)
	if answer := b.do(r); answer.StatusCode != http.StatusForbidden {
		t.Errorf("register: status %d", answer.StatusCode)
	}
	if document := object(
		t,
		b.get(base+"/.well-known/oauth-authorization-server"),
	); document["registration_endpoint"] != nil ||
		document["client_id_metadata_document_supported"] != nil {
		t.Errorf("the metadata offers registration: %v", document)
	}
}

// TestAClientThatMayNotRefreshGetsNoRefreshToken signs people in with configured clients.
func TestAClientThatMayNotRefreshGetsNoRefreshToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		grants []string
		may    bool
	}{
		{nil, true}, {[]string{"authorization_code", "refresh_token"}, true}, {[]string{"authorization_code"}, false},
	} {
		w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
			s.Clients = []clients.Fixed{
				fixed("web", clients.Fixed{Redirects: []string{loopback}, Grants: test.grants}),
			}
		})
		b := w.browser(t)
		answer := b.get(w.idp.signIn(t, "ann", b.toProvider(base, query("web", loopback))))
		code := parsed(t, answer.Header.Get("Location")).Query().Get("code")
		got := object(t, b.post(base+"/token", redeem("web", code)))
		if has := got["refresh_token"] != nil; got["access_token"] == nil || has != test.may {
			t.Errorf("grants %v: got %v, want a refresh token: %t", test.grants, got, test.may)
		}
	}
}

// TestProviderIsChosenWhereThereAreSeveral shows that a person chooses among the
// providers of an address by links, and that the provider follows from the address of a
// tenant where that has one.
func TestProviderIsChosenWhereThereAreSeveral(t *testing.T) {
	t.Parallel()
	other := newIDP("partner", "https://partner.example/")
	w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
		partner := loginOf(t, other)
		partner.Tenants, partner.Title = []string{"umbrella"}, "Partner & Co"
		s.Logins[0].Tenants = []string{"acme"}
		s.Logins = append(s.Logins, partner)
	})
	b := w.browser(t)
	id := b.register(base, loopback)
	page := b.get(base + "/authorize?" + query(id, loopback).Encode())
	text := read(page)
	if page.StatusCode != http.StatusOK || !strings.Contains(text, "Partner &amp; Co") ||
		!strings.Contains(text, "drawbridge_login=corp") {
		t.Fatalf("status %d: %s", page.StatusCode, text)
	}
	q := query(id, loopback)
	q.Set("drawbridge_login", "partner")
	if to := b.toProvider(base, q); !strings.HasPrefix(to, "https://partner.example/") {
		t.Errorf("chosen partner, sent to %s", to)
	}
	if to := b.toProvider(
		base+"/t/umbrella",
		query(id, loopback),
	); !strings.HasPrefix(
		to,
		"https://partner.example/",
	) {
		t.Errorf("at the address of umbrella, sent to %s", to)
	}
}

// TestTokensAreRevoked shows that a revoked family gives nothing any more and its access
// token is refused, and that unknown tokens and those of others are answered alike.
func TestTokensAreRevoked(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"access", "refresh"} {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		v := w.verifier(t)
		token := map[string]string{"access": c.access, "refresh": c.refreshWith}[kind]
		stranger := c.b.register(base, loopback)
		for name, form := range map[string]url.Values{
			"unknown":  {"token": {"dbr_x"}, "client_id": {c.id}},
			"of other": {"token": {token}, "client_id": {stranger}},
		} {
			if answer := c.b.post(base+"/revoke", form); answer.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d", name, answer.StatusCode)
			}
		}
		p, err := v.Verify(t.Context(), c.access)
		if err != nil {
			t.Fatalf("before: %v", err)
		}
		if answer := c.b.post(
			base+"/revoke",
			url.Values{"token": {token}, "client_id": {c.id}},
		); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", kind, answer.StatusCode)
		}
		if _, err := v.Verify(t.Context(), c.access); err == nil || v.Recheck(p) == nil {
			t.Errorf("%s: the access token is taken after the end", kind)
		}
		if status, got := c.refresh(
			w.server,
			c.refreshWith,
		); status != http.StatusBadRequest ||
			got["error"] != "invalid_grant" {
			t.Errorf("%s: refresh: status %d, %v", kind, status, got)
		}
	}
}

// TestTokensSayWhatAnotherSignInBrings shows that a token of fewer scopes than the person
// has names the others, so that a client is sent for those and no more, and that a token
// of all scopes names none.
func TestTokensSayWhatAnotherSignInBrings(t *testing.T) {
	w := newWorld(t)
	for asked, want := range map[string]string{"read": "write", "read admin": "write", "": ""} {
		c := w.signIn(t, base, "ann", func(q url.Values) {
			if q.Has("response_type") && asked != "" {
				q.Set("scope", asked)
			}
		})
		p, err := w.verifier(t).Verify(t.Context(), c.access)
		if got := strings.Join(p.Spare, " "); err != nil || got != want {
			t.Errorf("asked for %q: the token spares %q, %v; want %q", asked, got, err, want)
		}
	}
}
