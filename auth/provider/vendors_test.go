package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// entra returns a provider that behaves as Microsoft Entra does: the subject differs for
// each client, userinfo is for tokens of Graph alone, and the text of an error begins
// with a number.
func entra() *fake {
	f := newFake("https://login.microsoftonline.com/0c5a/v2.0")
	f.claims = map[string]any{
		"sub": "pairwise-1", "oid": "object-1", "tid": "0c5a", "preferred_username": "alice@corp.example",
		"groups": []string{"5c6f-guid", "9f1b-guid"},
	}
	f.document["token_endpoint_auth_methods_supported"] = []string{
		"client_secret_post", "private_key_jwt", "client_secret_basic",
	}
	f.document["userinfo_endpoint"] = "https://graph.microsoft.com/oidc/userinfo"
	f.rotates = true
	return f
}

func TestEntra(t *testing.T) {
	f := entra()
	p, log := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimsOf(t, id)
	if claims["oid"] != "object-1" || cmp.Diff([]any{"5c6f-guid", "9f1b-guid"}, claims["groups"]) != "" {
		t.Errorf("claims %v", claims)
	}
	if !strings.Contains(log.String(), "only the ID token counts") {
		t.Errorf("log %q does not say that userinfo was of no use", log)
	}
	// Who leaves the last group has no claim of that name any more.
	delete(f.claims, "groups")
	if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if groups, there := claimsOf(t, id)["groups"]; there {
		t.Errorf("groups that were left stay: %v", groups)
	}
}

// TestEntraOverage has somebody in more groups than a token may have: what stands in
// their place is left for the mapping, which knows the cure.
func TestEntraOverage(t *testing.T) {
	f := entra()
	delete(f.claims, "groups")
	f.claims["_claim_names"] = map[string]string{"groups": "src1"}
	f.claims["_claim_sources"] = map[string]any{
		"src1": map[string]string{"endpoint": "https://graph.microsoft.com/v1.0/users/object-1/getMemberObjects"},
	}
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if claimsOf(t, id)["_claim_names"] == nil {
		t.Error("nobody can see that groups were left out")
	}
	if f.calls["/v1.0/users/object-1/getMemberObjects"] != 0 {
		t.Error("an address of a token was asked")
	}
}

func TestEntraErrors(t *testing.T) {
	for text, anew := range map[string]bool{
		`{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided.\r\nTrace ID: 1"}`: false,
		`{"error":"invalid_target","error_description":"AADSTS9010010: The resource parameter does not match."}`:         false,
		`{"error":"invalid_grant","error_description":"AADSTS700082: The refresh token has expired.","suberror":"x"}`:    true,
		`{"error":"interaction_required","error_description":"AADSTS50076: You must use multi-factor authentication."}`:  true,
	} {
		f := entra()
		p, _ := f.provider(t, nil)
		id, err := f.redeem(t, p)
		if err != nil {
			t.Fatal(err)
		}
		f.bad = func(path string, _ url.Values) (int, string) {
			if path == "/token" {
				return 400, text
			}
			return 0, ""
		}
		_, err = p.Refresh(t.Context(), id.RefreshToken)
		if err == nil || !strings.Contains(err.Error(), "AADSTS") || errors.Is(err, signin.ErrSignInAgain) != anew ||
			strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q, want the number, on one line, a new sign-in %t", err, anew)
		}
	}
}

// TestEntraCommon has the address for all organisations, whose document has a placeholder
// in its issuer.
func TestEntraCommon(t *testing.T) {
	f := newFake("https://login.microsoftonline.com/common/v2.0")
	f.document["issuer"] = "https://login.microsoftonline.com/{tenantid}/v2.0"
	p, _ := f.provider(t, nil)
	if _, err := p.AuthURL(t.Context(), attempt); err == nil || !strings.Contains(err.Error(), "{tenantid}") {
		t.Errorf("%v, want both issuers in it", err)
	}
}

// TestGoogle has refresh tokens only for access_type=offline with prompt=consent, and
// scopes that Google refuses.
func TestGoogle(t *testing.T) {
	f := newFake("https://accounts.google.com")
	f.claims = map[string]any{"sub": "1084", "email": "a@corp.example", "email_verified": true, "hd": "corp.example", "azp": clientID}
	f.userinfo = map[string]any{"email_verified": "true", "picture": "x"}
	p, _ := f.provider(t, nil)
	code, asked := f.signIn(t, p)
	if asked.Get("access_type") != "offline" || asked.Get("prompt") != "consent" || asked.Get("scope") != "openid email" {
		t.Errorf("asked for %v", asked)
	}
	id, err := p.Exchange(t.Context(), attempt, code, "https://accounts.google.com")
	if err != nil {
		t.Fatal(err)
	}
	if claims := claimsOf(t, id); claims["hd"] != "corp.example" || claims["email_verified"] != true {
		t.Errorf("claims %v", claims)
	}
	if _, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Error(err)
	}
	// go-oidc would let this one pass.
	f.claims["iss"] = "accounts.google.com"
	if _, err = f.redeem(t, p); err == nil {
		t.Error("an issuer without a scheme passes")
	}
}

// TestOkta has groups in the ID token alone, and refresh tokens that rotate.
func TestOkta(t *testing.T) {
	f := newFake("https://acme.okta.com")
	f.rotates = true
	f.claims["groups"] = []string{"Payments"}
	f.userinfo = map[string]any{"name": "Alice"}
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	spent := id.RefreshToken
	f.claims["groups"] = []string{"Search"}
	if id, err = p.Refresh(t.Context(), spent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"Search"}, claimsOf(t, id)["groups"]); diff != "" {
		t.Error(diff)
	}
	if id.RefreshToken == spent {
		t.Error("the refresh token was not replaced")
	}
}

// TestCognito has a claim with a colon in its name, and a truth value as a text.
func TestCognito(t *testing.T) {
	f := newFake("https://cognito-idp.eu-central-1.amazonaws.com/pool-1")
	f.claims["cognito:groups"] = []string{"payments"}
	f.userinfo = map[string]any{"email": "a@corp.example", "email_verified": "true"}
	p, _ := f.provider(t, func(cfg *provider.Config) { cfg.Scopes = []string{"openid", "email"} })
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimsOf(t, id)
	if claims["email_verified"] != "true" || cmp.Diff([]any{"payments"}, claims["cognito:groups"]) != "" {
		t.Errorf("claims %v", claims)
	}
}

// github answers as GitHub does: errors have the status 200, and a form is the answer of
// the token endpoint.
type github struct {
	token  string // the answer of the token endpoint
	user   string
	status int // of the API
	orgs   func(page string) string
	sent   []url.Values
	bearer string
	sso    string
}

func (g *github) RoundTrip(r *http.Request) (*http.Response, error) {
	return handled(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host + r.URL.Path {
		case "github.com/login/oauth/access_token":
			if err := r.ParseForm(); err != nil {
				panic(err)
			}
			g.sent = append(g.sent, r.PostForm)
			w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			w.Write([]byte(g.token))
			return
		case "api.github.com/user", "api.github.com/user/orgs":
			g.bearer = r.Header.Get("Authorization")
			if r.Header.Get("User-Agent") == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("X-Github-Sso", g.sso)
			w.WriteHeader(g.status)
			if r.URL.Path == "/user" {
				w.Write([]byte(g.user))
				return
			}
			w.Write([]byte(g.orgs(r.URL.Query().Get("page"))))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}).RoundTrip(r)
}

func newGitHub(t *testing.T) (*github, *provider.GitHub) {
	t.Helper()
	g := &github{
		token: "access_token=gho_1&scope=read%3Aorg&token_type=bearer", status: 200,
		user: `{"id":7,"login":"alice","name":"Alice","email":null}`,
		orgs: func(string) string { return `[{"id":1,"login":"acme"},{"id":2,"login":"globex"}]` },
	}
	return g, newOverGitHub(g)
}

func TestGitHub(t *testing.T) {
	g, p := newGitHub(t)
	address := must(url.Parse(must(p.AuthURL(t.Context(), attempt))))
	asked := address.Query()
	if address.Host != "github.com" || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("scope") != "read:user read:org" || asked.Get("state") != attempt.State {
		t.Errorf("sent to %s", address)
	}
	if _, err := p.Exchange(t.Context(), attempt, "code-1", "https://evil.example"); err == nil || len(g.sent) > 0 {
		t.Errorf("the code of another provider was sent: %v", err)
	}
	id, err := p.Exchange(t.Context(), attempt, "code-1", provider.GitHubIssuer)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"iss": provider.GitHubIssuer, "sub": "7", "login": "alice", "name": "Alice",
		"orgs": []any{"acme", "globex"}, "org_ids": []any{"1", "2"},
	}
	if diff := cmp.Diff(want, claimsOf(t, id)); diff != "" || id.Subject != "7" {
		t.Errorf("subject %q, claims: %s", id.Subject, diff)
	}
	if g.sent[0].Get("code_verifier") != attempt.Verifier || g.sent[0].Get("client_secret") != secret {
		t.Errorf("sent %v", g.sent[0])
	}

	// Tokens that do not expire: the access token itself is asked with later.
	g.orgs = func(string) string { return `[]` }
	if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if len(g.sent) != 1 || g.bearer != "Bearer gho_1" || len(claimsOf(t, id)["orgs"].([]any)) != 0 {
		t.Errorf("sent %v, bearer %s, claims %s", g.sent, g.bearer, id.Claims)
	}
	g.status = http.StatusUnauthorized
	if _, err = p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a token that was taken back: %v", err)
	}
	if _, err = p.Refresh(t.Context(), "rt-0"); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a token of nobody: %v", err)
	}
	g.status = http.StatusBadGateway
	if _, err = p.Refresh(t.Context(), id.RefreshToken); err == nil || errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("GitHub is away: %v", err)
	}
}

// TestGitHubTokensExpire has an app with expiring tokens.
func TestGitHubTokensExpire(t *testing.T) {
	g, p := newGitHub(t)
	g.token = "access_token=ghu_1&expires_in=28800&refresh_token=ghr_1&token_type=bearer"
	id, err := p.Exchange(t.Context(), attempt, "code-1", "")
	if err != nil {
		t.Fatal(err)
	}
	g.token = "access_token=ghu_2&expires_in=28800&refresh_token=ghr_2&token_type=bearer"
	if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if g.sent[1].Get("refresh_token") != "ghr_1" || g.bearer != "Bearer ghu_2" {
		t.Errorf("sent %v, asked with %s", g.sent[1], g.bearer)
	}
	g.token, g.status = "access_token=ghu_3&expires_in=28800&refresh_token=ghr_3&token_type=bearer", 502
	if id, err = p.Refresh(t.Context(), id.RefreshToken); err == nil || !strings.Contains(id.RefreshToken, "ghr_3") {
		t.Errorf("GitHub failed after it gave a token: got %+v and error %v", id, err)
	}
	g.status = http.StatusOK
	g.user = `{"id":8,"login":"alice"}`
	if _, err = p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("the login is somebody else's now: %v", err)
	}
	g.token = "error=bad_refresh_token&error_description=The+refresh+token+passed+is+incorrect+or+expired."
	if _, err = p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("an error with status 200: %v", err)
	}
	g.token = "error=incorrect_client_credentials"
	if _, err = p.Refresh(t.Context(), id.RefreshToken); err == nil || errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a wrong client secret: %v", err)
	}
}

func TestGitHubOrganisations(t *testing.T) {
	g, p := newGitHub(t)
	page := `[` + strings.TrimSuffix(strings.Repeat(`{"id":1,"login":"acme"},`, 100), ",") + `]`
	g.orgs = func(n string) string {
		if n == "3" {
			return `[{"id":3,"login":"last"}]`
		}
		return page
	}
	id, err := p.Exchange(t.Context(), attempt, "code-1", "")
	if err != nil {
		t.Fatal(err)
	}
	if orgs := claimsOf(t, id)["orgs"].([]any); len(orgs) != 201 || orgs[200] != "last" {
		t.Errorf("%d organisations, want 201", len(orgs))
	}
	g.orgs = func(string) string { return page }
	if _, err = p.Exchange(t.Context(), attempt, "code-1", ""); err == nil {
		t.Error("somebody of a thousand organisations passes with some of them")
	}
	g.orgs = func(string) string { return `[]` }
	for _, user := range []string{`{"login":"alice"}`, `{"id":7}`, `{"id":"7","login":"alice"}`, `[]`, ``} {
		g.user = user
		if id, err = p.Exchange(t.Context(), attempt, "code-1", ""); err == nil {
			t.Errorf("%s is %s", user, id.Claims)
		}
	}
}

// TestSentTwice has what is sent again when the connection breaks.
func TestSentTwice(t *testing.T) {
	for _, c := range []struct {
		name string
		path string
		want int
	}{
		{"the document", "/.well-known/openid-configuration", 2},
		{"a code", "/token", 1},
	} {
		f := newFake(plainIssuer)
		tries := 0
		p, _ := f.provider(t, func(cfg *provider.Config) { cfg.Client.Transport = broken{f, c.path, &tries, false} })
		if _, err := p.Exchange(t.Context(), attempt, "code-1", ""); err == nil || tries != c.want {
			t.Errorf("%s: sent %d times, want %d: %v", c.name, tries, c.want, err)
		}
	}
}

// TestLostAnswerOfRefresh has that a refresh whose answer is lost is told from one that
// was not sent.
func TestLostAnswerOfRefresh(t *testing.T) {
	for _, sent := range []bool{true, false} {
		f := newFake(plainIssuer)
		p, _ := f.provider(t, nil)
		id, err := f.redeem(t, p)
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		lost, _ := f.provider(t, func(cfg *provider.Config) { cfg.Client.Transport = broken{f, "/token", &tries, !sent} })
		_, err = lost.Refresh(t.Context(), id.RefreshToken)
		if err == nil || errors.Is(err, signin.ErrUnanswered) != sent {
			t.Errorf("sent %t: %v", sent, err)
		}
	}
}

// broken loses the answers of one path.
type broken struct {
	inner http.RoundTripper
	path  string
	tries *int
	early bool // nothing is sent
}

func (b broken) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.inner.RoundTrip(r)
	if r.URL.Path != b.path {
		return response, err
	}
	*b.tries++
	if !b.early {
		httptrace.ContextClientTrace(r.Context()).WroteHeaders()
	}
	return nil, errors.New("connection reset")
}
