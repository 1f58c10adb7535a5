package signin_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// The tests of this file try very many things of the kinds that the tests of attacks try
// one by one. They tell how many they tried, for the scoreboard.

// attempts are what a stranger makes of good values.
type attempts struct {
	*rand.Rand
	t     *testing.T
	tried int
}

func newAttempts(t *testing.T) *attempts {
	t.Helper()
	a := &attempts{Rand: rand.New(rand.NewPCG(28, uint64(len(t.Name())))), t: t}
	t.Cleanup(func() { t.Attr("attempts", fmt.Sprint(a.tried)) })
	return a
}

// one returns one of several.
func (a *attempts) one(of ...string) string { return of[a.IntN(len(of))] }

// slip returns a text with something else in it than before: a letter changed, cut, added
// or moved, or its halves from two texts.
func (a *attempts) slip(text, other string) string {
	const letters = "ABCXYZabcxyz0189-_.~=+/ "
	for {
		at := a.IntN(len(text) + 1)
		letter := string(letters[a.IntN(len(letters))])
		made := text
		switch a.IntN(6) {
		case 0:
			made = text[:at]
		case 1:
			made = text[:at] + letter + text[at:]
		case 2:
			made = text[:at] + letter + text[min(at+1, len(text)):]
		case 3:
			made = text[:at] + other[min(at, len(other)):]
		case 4:
			made = text[at:] + text[:at]
		case 5:
			made = strings.ToUpper(text[:at]) + text[at:]
		}
		if made != text && made != other {
			return made
		}
	}
}

// tries returns how often a test tries: a tenth where there is little time.
func tries(all int) int {
	if testing.Short() {
		return all / 10
	}
	return all
}

// quiet is a world whose log nobody reads.
func quiet(t *testing.T, change func(*signin.Config, *signin.Settings)) *world {
	t.Helper()
	began := time.Now()
	return newWorld(t, func(c *signin.Config, s *signin.Settings) {
		c.Now = func() time.Time { return began } // codes live for a minute, and tests take longer
		c.Logger = slog.New(slog.DiscardHandler)
		if change != nil {
			change(c, s)
		}
	})
}

// ask sends a request without a browser, and returns the status and where it leads.
func ask(t *testing.T, server http.Handler, method, address string, form url.Values, cookies map[string]string) (
	status int, location, text string,
) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value, Quoted: false})
	}
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, r)
	answer := recorder.Result()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Location"), string(body)
}

// TestNoSpellingOfARedirectLeadsAway asks for codes at 40,000 spellings of what three
// clients have registered. Nothing leads away but to the very text, and on the person's
// machine to another port.
func TestNoSpellingOfARedirectLeadsAway(t *testing.T) {
	t.Parallel()
	a := newAttempts(t)
	w := quiet(t, nil)
	b := w.browser(t)
	registered := []string{"https://app.example/cb?x=1", loopback, "com.example.app:/cb"}
	var ids []string
	for _, uri := range registered {
		ids = append(ids, b.register(base, uri))
	}
	hosts := []string{
		"evil.example", "app.example.evil.example", "app.example@evil.example", "evil.example\\@app.example", "аpp.example",
		"app.example%2eevil.example", "127.0.0.1.evil.example", "127.1", "0x7f.1", "[::ffff:127.0.0.1]", "localhost.", "localhost",
		"[::1]", "127.0.0.1:80@evil.example", "app.example:443", "APP.example", "app.example\t", "127.0.0.1#", "127.0.0.1?",
	}
	tails := []string{"/cb?x=1", "/callback", "/cb", "/%63b?x=1", "/../callback", "//callback", "/callback/", "/callback#", "/cb?x=1&y", ""}
	schemes := []string{"https://", "http://", "HTTPS://", "//", "/\\", "javascript://", "com.example.app:/", "data:", "https:", " https://"}
	led := 0
	for range tries(40_000) {
		i := a.IntN(len(ids))
		uri := a.slip(registered[i], registered[(i+1)%len(registered)])
		switch a.IntN(3) {
		case 0:
			uri = a.one(schemes...) + a.one(hosts...) + a.one(tails...)
		case 1:
			uri = strings.Replace(registered[i], "://", "://"+a.one(hosts...)+a.one("", "/", "@", "\\"), 1)
		}
		status, to, text := ask(t, w.server, http.MethodGet, base+"/authorize?"+query(ids[i], uri).Encode(), nil, nil)
		a.tried++
		port, _ := strings.CutPrefix(uri, "http://127.0.0.1")
		port = strings.TrimSuffix(port, "/callback")
		same := uri == registered[i] || i == 1 && (port == "" || port[0] == ':' && strings.Trim(port[1:], "0123456789") == "")
		if to != "" && same && strings.HasPrefix(to, idpIssuer) {
			led++
			continue
		}
		if status != http.StatusBadRequest || to != "" || strings.Contains(text, `http-equiv="refresh"`) {
			t.Fatalf("registered %q, sent %q: status %d to %q", registered[i], uri, status, to)
		}
	}
	if led == 0 {
		t.Error("nothing led anywhere: the tries show nothing")
	}
}

// TestNoTokenIsGuessed brings 40,000 codes, refresh tokens and access tokens that were
// never given out: good ones with something changed, those of two people mixed, and those
// of others. Nobody gets a token, and those who have some keep them.
func TestNoTokenIsGuessed(t *testing.T) {
	t.Parallel()
	a := newAttempts(t)
	secret := strings.Repeat("s5", 16)
	w := quiet(t, func(_ *signin.Config, s *signin.Settings) {
		s.Clients = []clients.Fixed{fixed("ci", clients.Fixed{
			Secret: secret, Grants: []string{"client_credentials"}, Tenant: "acme",
		})}
	})
	ann := w.signIn(t, base, "ann", nil)
	bob := w.signIn(t, base, "bob", func(v url.Values) { v.Set("tenant", "acme") })
	code := func(person string) (id, code string) {
		b := w.browser(t)
		id = b.register(base, loopback)
		return id, w.code(t, b, base, person, id, func(v url.Values) { v.Set("tenant", "acme") })
	}
	id, waits := code("ann")
	_, others := code("bob")
	v := w.verifier(t)
	ids := []string{ann.id, bob.id, id, "", "nobody"}
	for range tries(40_000) {
		form := url.Values{}
		switch a.IntN(4) {
		case 0: // A code that was changed in its secret is nobody's, and does not end the family.
			family := waits[:strings.IndexByte(waits, '.')+1]
			form = redeem(a.one(id, a.one(ids...)), family+a.slip(waits[len(family):], others[len(family):]))
			if a.IntN(2) == 0 {
				form.Set("code_verifier", a.slip(verifier, challenge()))
			}
		case 1:
			form = url.Values{
				"grant_type": {"refresh_token"}, "client_id": {a.one(ids...)},
				"refresh_token": {a.slip(ann.refreshWith, bob.refreshWith)},
			}
		case 2:
			form = url.Values{
				"grant_type": {"client_credentials"}, "client_id": {"ci"},
				"client_secret": {a.slip(secret, ann.refreshWith)},
			}
		case 3:
			token := a.slip(ann.access, bob.access)
			if header, _, _ := strings.Cut(ann.access, "."); a.IntN(2) == 0 {
				_, rest, _ := strings.Cut(ann.access, ".")
				head, _ := base64.RawURLEncoding.DecodeString(header)
				token = base64.RawURLEncoding.EncodeToString([]byte(a.slip(string(head), `{"alg":"none"}`))) + "." + rest
			}
			a.tried++
			if _, err := v.Verify(t.Context(), token); err == nil {
				t.Fatalf("taken: %q", token)
			}
			continue
		}
		a.tried++
		status, _, text := ask(t, w.server, http.MethodPost, base+"/token", form, nil)
		if status < 400 || status >= 500 || strings.Contains(text, "access_token") {
			t.Fatalf("%v: status %d: %s", form, status, text)
		}
	}
	ann.mustRefresh(w.server, ann.refreshWith)
	bob.mustRefresh(w.server, bob.refreshWith)
	if status, _, text := ask(t, w.server, http.MethodPost, base+"/token", redeem(id, waits), nil); status != http.StatusOK {
		t.Errorf("the code after that: status %d: %s", status, text)
	}
}

// TestNoAnswerOfAnotherBrowserCounts brings 25,000 answers of providers and forms of
// consent in which cookies, states, proofs and ids of three browsers are mixed or
// changed. Nothing goes on but in the browser that each part belongs to.
func TestNoAnswerOfAnotherBrowserCounts(t *testing.T) {
	t.Parallel()
	a := newAttempts(t)
	w := quiet(t, nil)
	type begun struct {
		cookies map[string]string // of the browser
		form    url.Values        // to consent
		state   string            // of another attempt of it
		begun   map[string]string // cookies of that
	}
	var all []begun
	for range 3 {
		b := w.browser(t)
		id := b.register(base, loopback)
		form := b.asked(w.idp.signIn(t, "ann", b.toProvider(base, query(id, loopback))))
		one := begun{cookies: maps.Clone(b.cookies), form: form}
		b.cookies = map[string]string{}
		one.state = parsed(t, b.toProvider(base, query(id, loopback))).Query().Get("state")
		one.begun = b.cookies
		all = append(all, one)
	}
	// mixed returns the cookies of a browser with the value of another's, or a changed
	// one.
	mixed := func(mine, others map[string]string) map[string]string {
		made := map[string]string{}
		other := slices.Collect(maps.Values(others))[0]
		for name, value := range mine {
			switch a.IntN(3) {
			case 0:
				made[name] = other
			case 1:
				made[name] = strings.ReplaceAll(a.slip(value, other), " ", "")
			}
			if made[name] == value {
				delete(made, name)
			}
		}
		return made
	}
	for range tries(25_000) {
		i := a.IntN(len(all))
		mine, other := all[i], all[(i+1)%len(all)]
		method, address, form, cookies := http.MethodPost, base+"/consent", maps.Clone(mine.form), mine.cookies
		switch a.IntN(5) {
		case 0:
			form.Set("proof", a.slip(mine.form.Get("proof"), other.form.Get("proof")))
		case 1:
			form.Set("proof", other.form.Get("proof"))
		case 2:
			form.Set("id", a.one(other.form.Get("id"), a.slip(mine.form.Get("id"), other.form.Get("id"))))
		case 3:
			cookies = mixed(mine.cookies, other.cookies)
		case 4:
			state := mine.state
			cookies = mixed(mine.begun, other.begun)
			if a.IntN(2) == 0 {
				state, cookies = a.one(other.state, a.slip(mine.state, other.state)), mine.begun
			}
			back := url.Values{"code": {"ann.1"}, "state": {state}}
			method, form, address = http.MethodGet, nil, base+"/callback/"+a.one("corp", "corp", "other", "..")+"?"+back.Encode()
		}
		a.tried++
		status, to, text := ask(t, w.server, method, address, form, cookies)
		if status < 400 || status >= 500 || to != "" || strings.Contains(text, "code=") {
			t.Fatalf("%s %s %v with %v: status %d to %q", method, address, form, cookies, status, to)
		}
	}
	for _, one := range all {
		status, _, text := ask(t, w.server, http.MethodPost, base+"/consent", one.form, one.cookies)
		if status != http.StatusOK || !strings.Contains(text, "code=") {
			t.Errorf("the form itself after that: status %d: %s", status, text)
		}
	}
}
