package provider_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

const plainIssuer = "https://login.example.com"

func TestSignInAndRefresh(t *testing.T) {
	f := newFake(plainIssuer)
	f.claims["sid"] = "session-1"
	f.userinfo = map[string]any{"email": "alice@example.com", "sub": "alice"}
	f.rotates = true
	p, _ := f.provider(t, nil)
	code, asked := f.signIn(t, p)
	want := map[string]string{
		"response_type": "code", "client_id": clientID, "redirect_uri": callback, "state": "state-1",
		"nonce": "nonce-1", "scope": "openid email offline_access", "code_challenge_method": "S256",
		// RFC 7636, appendix B
		"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
	}
	for name, value := range want {
		if asked.Get(name) != value {
			t.Errorf("asked for %s=%q, want %q", name, asked.Get(name), value)
		}
	}
	id, err := p.Exchange(t.Context(), attempt, code, plainIssuer)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimsOf(t, id)
	if claims["sub"] != "alice" || claims["email"] != "alice@example.com" || claims["nonce"] != nil {
		t.Errorf("claims %v", claims)
	}
	if id.Subject != "alice" || id.SessionID != "session-1" || id.AccessToken == "" ||
		id.Expiry.Before(time.Now()) {
		t.Errorf("identity %+v", id)
	}
	if f.basic[0] != clientID || f.forms[0].Has("client_secret") {
		t.Error("the client did not prove itself by client_secret_basic alone")
	}
	f.claims["groups"] = []string{"search"}
	again, err := p.Refresh(t.Context(), id.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"search"}, claimsOf(t, again)["groups"]); diff != "" {
		t.Error(diff)
	}
	if _, err = p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a spent refresh token: %v, want ErrSignInAgain", err)
	}
	if _, err = p.Refresh(t.Context(), again.RefreshToken); err != nil {
		t.Errorf("the next refresh token: %v", err)
	}
	if _, err = p.Exchange(t.Context(), attempt, code, ""); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a spent code: %v, want ErrSignInAgain", err)
	}
}

// TestIDTokenIsRefused has what must not pass for the word of the provider.
func TestIDTokenIsRefused(t *testing.T) {
	for name, other := range map[string]map[string]any{
		"no subject":            {"sub": nil},
		"another issuer":        {"iss": "https://evil.example"},
		"another client":        {"aud": "other"},
		"several, no party":     {"aud": []string{clientID, "other"}},
		"another party":         {"azp": "other"},
		"expired":               {"exp": time.Now().Add(-time.Minute).Unix()},
		"from the future":       {"iat": time.Now().Add(time.Hour).Unix()},
		"nonce of another":      {"nonce": "nonce-2"},
		"no nonce":              {"nonce": nil},
		"sub in other capitals": {"SUB": "bob"},
		"a subject too long":    {"sub": strings.Repeat("a", 300)},
		"too many claims":       {"groups": strings.Repeat("a", 70_000)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(plainIssuer)
			p, _ := f.provider(t, nil)
			code, _ := f.signIn(t, p)
			f.bad = func(path string, _ url.Values) (int, string) {
				if path != "/token" {
					return 0, ""
				}
				return 200, `{"access_token":"at-1","token_type":"Bearer","id_token":"` +
					f.sign("nonce-1", other) + `"}`
			}
			if id, err := p.Exchange(t.Context(), attempt, code, ""); err == nil {
				t.Errorf("accepted: %s", id.Claims)
			}
		})
	}
}

func TestSignatureIsChecked(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	p.SetKeysGap(time.Millisecond)
	other := newFake(plainIssuer)
	other.key.ID = f.key.ID
	for name, token := range map[string]string{
		"of another key": other.sign("nonce-1", nil),
		"none": "eyJhbGciOiJub25lIn0." +
			strings.Split(f.sign("nonce-1", nil), ".")[1] + ".",
	} {
		code, _ := f.signIn(t, p)
		f.bad = func(path string, _ url.Values) (int, string) {
			if path != "/token" {
				return 0, ""
			}
			return 200, `{"access_token":"at-1","token_type":"Bearer","id_token":"` + token + `"}`
		}
		if _, err := p.Exchange(t.Context(), attempt, code, ""); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestIssuerParameter has RFC 9207: iss is required where the document has it, and
// compared wherever it comes.
func TestIssuerParameter(t *testing.T) {
	for _, c := range []struct {
		name, iss string
		tells     bool
		ok        bool
	}{
		{"absent, not promised", "", false, true},
		{"absent, promised", "", true, false},
		{"right", plainIssuer, true, true},
		{"right, not promised", plainIssuer, false, true},
		{"another", "https://evil.example", false, false},
		{"with a slash", plainIssuer + "/", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(plainIssuer)
			f.document["authorization_response_iss_parameter_supported"] = c.tells
			p, _ := f.provider(t, nil)
			code, _ := f.signIn(t, p)
			if _, err := p.Exchange(t.Context(), attempt, code, c.iss); (err == nil) != c.ok {
				t.Errorf("error %v, want success %t", err, c.ok)
			}
			if !c.ok && f.calls["/token"] > 0 {
				t.Error("the code of another provider was sent to this one")
			}
		})
	}
}

// TestKeysRotate has a key that is new since the last fetch.
func TestKeysRotate(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	p.SetKeysGap(0) // the keys change in no time
	for _, name := range []string{"key-1", "key-2", "key-3"} {
		f.key = newKey(name)
		if _, err := f.redeem(t, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneKeyCostsNoOther has keys beside the one that signs that cannot be read, or that
// other libraries do not read, and parts of that one which nobody needs.
func TestOneKeyCostsNoOther(t *testing.T) {
	f := newFake(plainIssuer)
	f.userinfo = map[string]any{}
	good := string(must(json.Marshal(jose.JSONWebKey{Key: f.key.Public, KeyID: f.key.ID, Use: "sig"})))
	modulus := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 5000/8))
	for name, keys := range map[string]string{
		"a long RSA key":     `{"kty":"RSA","kid":"long","e":"AQAB","n":"` + modulus + `"},` + good,
		"an RSA key without": `{"kty":"RSA","kid":"empty"},` + good,
		"no point":           `{"kty":"EC","kid":"off","crv":"P-256","x":"AQAB","y":"AQAB"},` + good,
		"no key":             `7,` + good,
		"a certificate":      strings.TrimSuffix(good, "}") + `,"x5c":["AAAA"]}`,
	} {
		f.bad = func(path string, _ url.Values) (int, string) {
			if path != "/keys" {
				return 0, ""
			}
			return 200, `{"keys":[` + keys + `]}`
		}
		p, _ := f.provider(t, func(cfg *provider.Config) {
			cfg.Client = &http.Client{Transport: signedUserinfo{f}}
		})
		if _, err := f.redeem(t, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnknownKeysAskSeldom has strangers who send logout tokens with keys that nobody
// has, however the document spells the address of the keys.
func TestUnknownKeysAskSeldom(t *testing.T) {
	for _, address := range []string{
		plainIssuer + "/keys", plainIssuer + ":/keys",
		strings.Replace(plainIssuer, "https", "HTTPS", 1) + "/keys",
	} {
		f := newFake(plainIssuer)
		f.document["jwks_uri"] = address
		p, _ := f.provider(t, nil)
		stranger := newFake(plainIssuer)
		for i := range 200 {
			stranger.key.ID = strings.Repeat("x", i+1)
			if _, err := p.VerifyLogout(t.Context(), stranger.logout(nil)); err == nil {
				t.Fatal("accepted the logout token of a stranger")
			}
		}
		if n := f.calls["/keys"]; n != 1 {
			t.Errorf("%s: %d fetches of keys for 200 tokens of strangers, want 1", address, n)
		}
	}
}

// TestKeysInForceAreAskedForSeldom has the document lead to other keys, which whoever
// looks whether the provider is reached finds, again and again.
func TestKeysInForceAreAskedForSeldom(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	stranger := newFake(plainIssuer)
	ask := func() {
		if _, err := p.VerifyLogout(t.Context(), stranger.logout(nil)); err == nil {
			t.Fatal("accepted the logout token of a stranger")
		}
	}
	ask()
	f.document["jwks_uri"] = plainIssuer + "/other"
	for i := range 20 {
		if err := p.Reach(t.Context()); err != nil {
			t.Fatal(err)
		}
		stranger.key.ID = strings.Repeat("x", i+1)
		ask()
	}
	if before, after := f.calls["/keys"], f.calls["/other"]; before != 1 || after != 1 {
		t.Errorf("%d and %d fetches of keys for 21 tokens of strangers, want 1 of each", before, after)
	}
}

func TestUserinfo(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		ok     bool
	}{
		{"somebody else", 200, `{"sub":"bob"}`, false},
		{"nobody", 200, `{"email":"a@b"}`, false},
		{"not for this token", 401, `{"error":"no"}`, true},
		{"away", 503, `down`, false},
		{"no JSON", 200, `<html>`, false},
		{"twice the same", 200, `{"sub":"alice","sub":"bob"}`, false},
		{"too much", 200, `{"sub":"alice","x":"` + strings.Repeat("a", 1<<20) + `"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(plainIssuer)
			f.userinfo = map[string]any{}
			f.bad = func(path string, _ url.Values) (int, string) {
				if path == "/userinfo" {
					return c.status, c.body
				}
				return 0, ""
			}
			p, _ := f.provider(t, nil)
			id, err := f.redeem(t, p)
			if (err == nil) != c.ok {
				t.Errorf("identity %s, error %v, want success %t", id.Claims, err, c.ok)
			}
			if errors.Is(err, signin.ErrSignInAgain) {
				t.Errorf("%v ends what may go on later", err)
			}
		})
	}
}

// signedUserinfo is a provider that signs what its userinfo says.
type signedUserinfo struct{ *fake }

func (f signedUserinfo) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.fake.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/userinfo") {
		answer.Header.Set("Content-Type", "application/jwt")
		answer.Body = io.NopCloser(strings.NewReader(f.sign("", map[string]any{"email": "alice@example.com"})))
	}
	return answer, err
}

// TestUserinfoMayBeSigned has userinfo signed by the key of the ID token that was
// verified just now.
func TestUserinfoMayBeSigned(t *testing.T) {
	f := newFake(plainIssuer)
	f.userinfo = map[string]any{}
	p, _ := f.provider(t, func(cfg *provider.Config) { cfg.Client = &http.Client{Transport: signedUserinfo{f}} })
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if claims := claimsOf(t, id); claims["email"] != "alice@example.com" {
		t.Errorf("claims %v, want those that userinfo has signed", claims)
	}
}

func TestIDTokenWinsOverUserinfo(t *testing.T) {
	f := newFake(plainIssuer)
	f.claims["email"] = "alice@example.com"
	f.userinfo = map[string]any{"email": "chosen@evil.example", "iss": "https://evil.example", "name": "Alice"}
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimsOf(t, id)
	if claims["email"] != "alice@example.com" || claims["iss"] != plainIssuer || claims["name"] != "Alice" {
		t.Errorf("claims %v", claims)
	}
}

// TestRefreshWithoutIDToken has what OpenID Connect Core 12.2 allows.
func TestRefreshWithoutIDToken(t *testing.T) {
	f := newFake(plainIssuer)
	f.withheld = true
	f.claims["groups"], f.claims["sid"] = []string{"payments"}, "session-1"
	f.userinfo = map[string]any{"email": "old@example.com"}
	p, log := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	f.userinfo["email"] = "new@example.com"
	for range 2 {
		if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
			t.Fatal(err)
		}
	}
	claims := claimsOf(t, id)
	if diff := cmp.Diff([]any{"payments"}, claims["groups"]); diff != "" || id.SessionID != "session-1" {
		t.Errorf("session %q, groups %s", id.SessionID, diff)
	}
	if claims["email"] != "new@example.com" {
		t.Errorf("what userinfo said at the sign-in stays: %v", claims["email"])
	}
	if n := strings.Count(log.String(), "gives no ID token"); n != 1 {
		t.Errorf("told %d times that claims stay, want once", n)
	}
}

// TestUserinfoWinsOverAnEarlierIDToken has a provider that says the groups of somebody in
// ID tokens and userinfo, and gives no ID token at a refresh: a group that was lost is
// lost.
func TestUserinfoWinsOverAnEarlierIDToken(t *testing.T) {
	f := newFake(plainIssuer)
	f.withheld = true
	f.claims["groups"], f.claims["acr"] = []string{"admins", "staff"}, "mfa"
	f.userinfo = map[string]any{"groups": []string{"admins", "staff"}}
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	f.userinfo = map[string]any{"groups": []string{"staff"}, "iss": "https://evil.example", "acr": "none"}
	for range 2 {
		if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
			t.Fatal(err)
		}
		claims := claimsOf(t, id)
		if diff := cmp.Diff([]any{"staff"}, claims["groups"]); diff != "" {
			t.Errorf("groups %s", diff)
		}
		if claims["iss"] != plainIssuer || claims["acr"] != "mfa" {
			t.Errorf("userinfo speaks of the token: iss %v, acr %v", claims["iss"], claims["acr"])
		}
	}
}

// TestANewAddressIsNotVerifiedByAnEarlierIDToken has a provider whose userinfo does not
// say whether addresses are verified, and somebody who has another address than at the
// sign-in.
func TestANewAddressIsNotVerifiedByAnEarlierIDToken(t *testing.T) {
	f := newFake(plainIssuer)
	f.withheld = true
	f.claims["email"], f.claims["email_verified"] = "ann@acme.example", true
	f.userinfo = map[string]any{"email": "ann@acme.example"}
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		email    string
		verified any
	}{{"ann@acme.example", true}, {"boss@acme.example", nil}, {"ann@acme.example", true}} {
		f.userinfo = map[string]any{"email": tc.email}
		if id, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
			t.Fatal(err)
		}
		claims := claimsOf(t, id)
		if claims["email"] != tc.email || claims["email_verified"] != tc.verified {
			t.Errorf("%s: email %v, verified %v, want %v", tc.email, claims["email"], claims["email_verified"],
				tc.verified)
		}
	}
}

func TestRefreshedTokenIsOfTheSamePerson(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	f.claims["sub"] = "bob"
	if _, err = p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a refresh gave somebody else: %v", err)
	}
}

// TestRefreshTokenIsOfOneClient has a config whose client changed after a sign-in.
func TestRefreshTokenIsOfOneClient(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := f.provider(t, func(cfg *provider.Config) { cfg.ClientID = "other" })
	before := f.calls["/token"]
	for _, text := range []string{id.RefreshToken, "", "{}", "rt-0"} {
		if _, err = other.Refresh(t.Context(), text); !errors.Is(err, signin.ErrSignInAgain) {
			t.Errorf("%.20s: %v, want ErrSignInAgain", text, err)
		}
	}
	if f.calls["/token"] != before {
		t.Error("a refresh token was sent for another client")
	}
}

// TestOnlyRefusalsEnd has that nobody must sign in again because a provider is away.
func TestOnlyRefusalsEnd(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		anew   bool
		unsure bool // whether the token was taken
	}{
		{400, `{"error":"invalid_grant"}`, true, false},
		{400, `{"error":"interaction_required"}`, true, false},
		{400, `{"error":"temporarily_unavailable"}`, false, false},
		{401, `{"error":"invalid_client"}`, false, false},
		{429, `{"error":"slow_down"}`, false, false},
		{503, `{"error":"temporarily_unavailable"}`, false, false},
		{500, `{"error":"server_error"}`, false, true},
		{502, `<html>invalid_grant</html>`, false, true},
		{200, `not JSON`, false, true},
	} {
		f := newFake(plainIssuer)
		p, _ := f.provider(t, nil)
		id, err := f.redeem(t, p)
		if err != nil {
			t.Fatal(err)
		}
		f.bad = func(path string, _ url.Values) (int, string) {
			if path == "/token" {
				return c.status, c.body
			}
			return 0, ""
		}
		before := f.calls["/token"]
		_, err = p.Refresh(t.Context(), id.RefreshToken)
		if err == nil || errors.Is(err, signin.ErrSignInAgain) != c.anew {
			t.Errorf("%d %s: %v, want a new sign-in %t", c.status, c.body, err, c.anew)
		}
		if errors.Is(err, signin.ErrUnanswered) != c.unsure {
			t.Errorf("%d %s: %v, want unsure %t", c.status, c.body, err, c.unsure)
		}
		if n := f.calls["/token"] - before; n != 1 {
			t.Errorf("%d %s: the refresh token was sent %d times", c.status, c.body, n)
		}
	}
}

// TestNextTokenIsNotLost has a provider that gives the next refresh token and fails then.
// The one before is spent.
func TestNextTokenIsNotLost(t *testing.T) {
	for _, failing := range []string{"/userinfo", "/keys"} {
		t.Run(failing[1:], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testNextToken(t, failing) })
		})
	}
}

func testNextToken(t *testing.T, failing string) {
	f := newFake(plainIssuer)
	f.rotates, f.userinfo = true, map[string]any{"groups": []string{"acme"}}
	f.document["userinfo_endpoint"] = f.base() + "/userinfo"
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // until the keys may be fetched again
	f.key = newKey("key-2")
	f.bad = func(path string, _ url.Values) (int, string) {
		if path == failing {
			return http.StatusServiceUnavailable, ""
		}
		return 0, ""
	}
	id, err = p.Refresh(t.Context(), id.RefreshToken)
	if err == nil || id.RefreshToken == "" || errors.Is(err, signin.ErrUnanswered) {
		t.Fatalf("got %+v and error %v, want an error with the next token", id, err)
	}
	f.bad = nil
	time.Sleep(time.Minute)
	if _, err := p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Errorf("with the next token: %v", err)
	}
}

// TestErrorsHaveNoSecrets has a provider that repeats what it was sent.
func TestErrorsHaveNoSecrets(t *testing.T) {
	f := newFake(plainIssuer)
	p, log := f.provider(t, nil)
	code, _ := f.signIn(t, p)
	f.bad = func(path string, form url.Values) (int, string) {
		if path == "/token" {
			return 400, `{"error":"invalid_grant","error_description":"no code ` + form.Get("code") + `"}`
		}
		return 0, ""
	}
	_, err := p.Exchange(t.Context(), attempt, code, "")
	for _, hidden := range []string{code, secret, attempt.Verifier} {
		if strings.Contains(err.Error()+log.String(), hidden) {
			t.Errorf("%q is told in %v", hidden, err)
		}
	}
}

// TestDocumentIsFetchedOnce has many who sign in at once.
func TestDocumentIsFetchedOnce(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := p.AuthURL(t.Context(), attempt); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.calls["/.well-known/openid-configuration"]; n != 1 {
		t.Errorf("the document was fetched %d times", n)
	}
}

// TestOldDocumentServes has a provider that goes away for a day.
func TestOldDocumentServes(t *testing.T) {
	f := newFake(plainIssuer)
	now := time.Now()
	p, _ := f.provider(t, func(cfg *provider.Config) { cfg.Now = func() time.Time { return now } })
	if _, err := p.AuthURL(t.Context(), attempt); err != nil {
		t.Fatal(err)
	}
	f.bad = func(string, url.Values) (int, string) { return 503, "down" }
	now = now.Add(23 * time.Hour)
	if err := p.Reach(t.Context()); err == nil {
		t.Error("a provider that is down counts as reached")
	}
	for range 3 {
		if _, err := p.AuthURL(t.Context(), attempt); err != nil {
			t.Error(err)
		}
	}
	if n := f.calls["/.well-known/openid-configuration"]; n != 3 { // one, and one that is tried again once
		t.Errorf("the document was asked for %d times, want 3", n)
	}
	now = now.Add(24 * time.Hour)
	if _, err := p.AuthURL(t.Context(), attempt); err == nil {
		t.Error("a document of yesterday serves")
	}
}

// TestNewDocumentCounts has a provider whose document and keys are others than before.
// Who looks whether it is reached finds the document, and an hour after keys were fetched
// they are fetched again, so that one that was taken back does not stay.
func TestNewDocumentCounts(t *testing.T) {
	f := newFake(plainIssuer)
	now := time.Now()
	f.claims["exp"] = now.Add(24 * time.Hour).Unix()
	p, _ := f.provider(t, func(cfg *provider.Config) { cfg.Now = func() time.Time { return now } })
	if _, err := f.redeem(t, p); err != nil {
		t.Fatal(err)
	}
	f.document["authorization_response_iss_parameter_supported"] = true
	reached := func() {
		t.Helper()
		if err := p.Reach(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reached()
	if _, err := f.redeem(t, p); err == nil {
		t.Error("the document of before counts still")
	}
	delete(f.document, "authorization_response_iss_parameter_supported")
	reached()
	if _, err := f.redeem(t, p); err != nil || f.calls["/keys"] != 1 {
		t.Errorf("with the same keys: error %v after %d fetches of keys, want 1", err, f.calls["/keys"])
	}
	now = now.Add(time.Hour)
	reached()
	if _, err := f.redeem(t, p); err != nil || f.calls["/keys"] != 2 {
		t.Errorf("after an hour: error %v after %d fetches of keys, want 2", err, f.calls["/keys"])
	}
	now = now.Add(time.Hour)
	f.bad = func(path string, _ url.Values) (int, string) {
		if path == "/keys" {
			return 200, `{"keys":[]}`
		}
		return 0, ""
	}
	reached()
	if _, err := f.redeem(t, p); err == nil {
		t.Error("an hour after a key was taken back, a token of it is taken")
	}
}

// TestDocumentIsRefused has documents that would send secrets somewhere else.
func TestDocumentIsRefused(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"another issuer":     {"issuer": plainIssuer + "/"},
		"plain http":         {"token_endpoint": "http://login.example.com/token"},
		"no token endpoint":  {"token_endpoint": ""},
		"a user in it":       {"jwks_uri": "https://a:b@login.example.com/keys"},
		"no way in for us":   {"token_endpoint_auth_methods_supported": []string{"none"}},
		"of the wrong types": {"authorization_response_iss_parameter_supported": "yes"},
	} {
		f := newFake(plainIssuer)
		f.document = change
		p, _ := f.provider(t, nil)
		if address, err := p.AuthURL(t.Context(), attempt); err == nil {
			t.Errorf("%s: sent to %s", name, address)
		}
	}
}

func TestClientMethods(t *testing.T) {
	f := newFake(plainIssuer)
	f.document["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
	p, _ := f.provider(t, nil)
	if _, err := f.redeem(t, p); err != nil {
		t.Fatal(err)
	}
	if f.forms[0].Get("client_secret") != secret || f.basic[0] != "" {
		t.Error("the client did not prove itself by client_secret_post alone")
	}

	key := newKey("client-key")
	f.document["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"}
	p, _ = f.provider(t, func(cfg *provider.Config) { cfg.ClientSecret, cfg.ClientKey = "", &key })
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Refresh(t.Context(), id.RefreshToken); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, form := range f.forms[1:] {
		assertion := form.Get("client_assertion")
		v := must(auth.New(auth.Config{Issuers: []auth.Issuer{{
			Issuer: clientID, Algorithms: []string{"ES256"}, Audiences: []string{plainIssuer + "/token"},
			Tenant: "any", Keys: []auth.Key{{ID: key.ID, Public: key.Public}},
		}}}))
		who, err := v.Verify(t.Context(), assertion)
		if err != nil || who.Subject != clientID || seen[assertion] {
			t.Errorf("assertion of %q, seen before %t: %v", who.Subject, seen[assertion], err)
		}
		seen[assertion] = true
	}
	if len(seen) != 2 {
		t.Errorf("%d requests with an assertion, want 2", len(seen))
	}
}

func (f *fake) logout(other map[string]any) string {
	all := map[string]any{
		"jti": "logout-1", "sid": "session-1", "exp": time.Now().Add(time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	maps.Copy(all, other)
	return f.sign("", all)
}

func TestVerifyLogout(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	p.SetKeysGap(0)
	got, err := p.VerifyLogout(t.Context(), f.logout(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := signin.Logout{Subject: "alice", SessionID: "session-1", Issued: got.Issued}
	if diff := cmp.Diff(want, got); diff != "" || time.Since(got.Issued) > time.Minute {
		t.Errorf("%s, issued %s", diff, got.Issued)
	}
	stranger := newFake(plainIssuer)
	for name, token := range map[string]string{
		"an ID token":     f.sign("nonce-1", nil),
		"with a nonce":    f.logout(map[string]any{"nonce": "n"}),
		"without events":  f.logout(map[string]any{"events": nil}),
		"another event":   f.logout(map[string]any{"events": map[string]any{"http://other": map[string]any{}}}),
		"event no object": f.logout(map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": true}}),
		"of nobody":       f.logout(map[string]any{"sub": nil, "sid": nil}),
		"another client":  f.logout(map[string]any{"aud": "other"}),
		"another issuer":  f.logout(map[string]any{"iss": "https://evil.example"}),
		"of yesterday": f.logout(map[string]any{
			"iat": time.Now().Add(-24 * time.Hour).Unix(),
		}),
		"expired":       f.logout(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"without an id": f.logout(map[string]any{"jti": nil}),
		"of a stranger": stranger.logout(nil),
		"no token":      "a.b.c",
		"too long":      strings.Repeat("a", 100_000),
	} {
		if got, err := p.VerifyLogout(t.Context(), token); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}
