package signin_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// TestRedirectTricks shows which redirect URIs are taken, for what was registered. Each
// that is not taken leads nowhere: the person gets words.
func TestRedirectTricks(t *testing.T) {
	t.Parallel()
	const https = "https://app.example/cb?x=1"
	for _, test := range []struct {
		registered, sent string
		taken            bool
	}{
		{https, https, true},
		{https, "https://app.example/cb", false},
		{https, "https://app.example/cb?x=1&y=2", false},
		{https, "https://app.example/cb/../cb?x=1", false},
		{https, "https://APP.example/cb?x=1", false},
		{https, "HTTPS://app.example/cb?x=1", false},
		{https, "https://app.example:443/cb?x=1", false},
		{https, "https://app.example@evil.example/cb?x=1", false},
		{https, "https://evil.example/https://app.example/cb?x=1", false},
		{https, "https://app.example.evil.example/cb?x=1", false},
		{https, "https://app.example/cb?x=1#frag", false},
		{https, "https://app.example\\@evil.example/cb?x=1", false},
		{https, "https://аpp.example/cb?x=1", false}, // a Cyrillic letter
		{https, "https://app.example/cb?x=1\n", false},
		{https, "http://app.example/cb?x=1", false},
		{https, "//app.example/cb?x=1", false},
		{https, "", false},
		{loopback, loopback, true},
		{loopback, "http://127.0.0.1:1/callback", true},
		{loopback, "http://127.0.0.1/callback", true},
		{"http://localhost/callback", "http://localhost:3118/callback", true},
		{"http://[::1]/callback", "http://[::1]:3118/callback", true},
		{loopback, "http://localhost:33418/callback", false},
		{loopback, "http://127.0.0.1:33418/callback/", false},
		{loopback, "http://127.0.0.1:33418/callback?x=1", false},
		{loopback, "http://127.0.0.1:33418/callback?", false},
		{loopback, "http://127.0.0.1:99999/callback", false},
		{loopback, "http://127.0.0.1:/callback", false},
		{loopback, "http://127.0.0.1.evil.example:33418/callback", false},
		{loopback, "http://127.0.0.1@evil.example/callback", false},
		{loopback, "http://127.0.0.1:33418@evil.example/callback", false},
		{loopback, "http://127.1/callback", false},
		{loopback, "http://0x7f000001/callback", false},
		{loopback, "http://2130706433/callback", false},
		{loopback, "http://127.0.0.2/callback", false},
		{loopback, "http://127.0.0.1%2eevil.example/callback", false},
		{loopback, "https://127.0.0.1:33418/callback", false},
		{loopback, "http://127.0.0.1:33418/%63allback", false},
		{"cursor://anysphere.cursor-mcp/cb", "cursor://anysphere.cursor-mcp/cb", true},
		{"cursor://anysphere.cursor-mcp/cb", "cursor://anysphere.cursor-mcp/cb/x", false},
		{"cursor://anysphere.cursor-mcp/cb", "CURSOR://anysphere.cursor-mcp/cb", false},
		{"com.example.app:/cb", "com.example.app:/cb", true},
		{"com.example.app:cb", "com.example.app:cb", true},
		{"com.example.app:/cb", "com.example.app:/cb2", false},
	} {
		w := newWorld(t)
		b := w.browser(t)
		answer := b.get(base + "/authorize?" + query(b.register(base, test.registered), test.sent).Encode())
		led := answer.StatusCode == http.StatusSeeOther &&
			strings.HasPrefix(answer.Header.Get("Location"), idpIssuer)
		if led != test.taken ||
			!test.taken &&
				(answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Location") != "") {
			t.Errorf("registered %q, sent %q: status %d to %q, want taken: %v",
				test.registered, test.sent, answer.StatusCode, answer.Header.Get("Location"), test.taken)
		}
	}
}

// TestRedirectsThatNobodyMayRegister shows schemes and hosts that are no place for codes.
func TestRedirectsThatNobodyMayRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, uri := range []string{
		"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)",
		"data:text/html,x", "file:///etc/passwd", "vbscript:x", "blob:https://a.example/x", "view-source:https://a.example/",
		"about:blank", "intent://a#Intent;end", "http://app.example/cb", "http://169.254.169.254/cb", "https:///cb",
		"https:app.example", "https://user:pass@app.example/", "https://app.example/#", "cursor:", "://x", "x", "/cb",
		"ftp://a.example/", "ws://127.0.0.1/", "https://app.example:0/", "http://localhost./cb", "https://%65vil.example/",
		"localhost:3000/cb", "https://*.example.com/cb",
	} {
		r := httptest.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			base+"/register",
			strings.NewReader(fmt.Sprintf(`{"redirect_uris":[%q]}`, uri)),
		)
		if answer := w.browser(t).do(r); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d, want 400", uri, answer.StatusCode)
		}
	}
}

// TestRequestsThatAreRefused shows what authorize refuses, and by which word, where the
// client may be told. A client on a server is told only if the person goes there.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(url.Values)
		code   string
	}{
		"no PKCE":            {func(q url.Values) { q.Del("code_challenge"); q.Del("code_challenge_method") }, "invalid_request"},
		"plain":              {func(q url.Values) { q.Set("code_challenge_method", "plain") }, "invalid_request"},
		"no method":          {func(q url.Values) { q.Del("code_challenge_method") }, "invalid_request"},
		"method alone":       {func(q url.Values) { q.Del("code_challenge") }, "invalid_request"},
		"short challenge":    {func(q url.Values) { q.Set("code_challenge", "short") }, "invalid_request"},
		"implicit":           {func(q url.Values) { q.Set("response_type", "token") }, "unsupported_response_type"},
		"hybrid":             {func(q url.Values) { q.Set("response_type", "code id_token") }, "unsupported_response_type"},
		"fragment":           {func(q url.Values) { q.Set("response_mode", "fragment") }, "invalid_request"},
		"other resource":     {func(q url.Values) { q.Set("resource", "https://other.example/mcp") }, "invalid_target"},
		"resource of tenant": {func(q url.Values) { q.Set("resource", base+"/t/acme/mcp") }, "invalid_target"},
		"two resources":      {func(q url.Values) { q["resource"] = []string{base + "/mcp", "https://o.example/"} }, "invalid_target"},
		"no prompt":          {func(q url.Values) { q.Set("prompt", "none") }, "login_required"},
		"request object":     {func(q url.Values) { q.Set("request", "e30.e30.") }, "request_not_supported"},
		"request address":    {func(q url.Values) { q.Set("request_uri", "https://a.example/") }, "request_uri_not_supported"},
		"unknown scopes":     {func(q url.Values) { q.Set("scope", "root openid") }, "invalid_scope"},
	} {
		w := newWorld(t)
		b := w.browser(t)
		q := query(b.register(base, loopback), loopback)
		test.change(q)
		answer := b.get(base + "/authorize?" + q.Encode())
		to := parsed(t, answer.Header.Get("Location"))
		if answer.StatusCode != http.StatusSeeOther || to.Host != "127.0.0.1:33418" ||
			to.Query().Get("error") != test.code ||
			to.Query().Get("iss") != base ||
			to.Query().Get("state") != "client-state" {
			t.Errorf("%s: status %d to %v, want %s", name, answer.StatusCode, to, test.code)
		}
		// Nobody is led to a server, or into a program, that a stranger has registered.
		for _, server := range []string{"https://evil.example/cb", "ms-appinstaller:x/cb"} {
			q = query(b.register(base, server), server)
			test.change(q)
			answer = b.get(base + "/authorize?" + q.Encode())
			text, to := read(answer), answer.Header.Get("Location")
			if answer.StatusCode != http.StatusBadRequest || to != "" ||
				strings.Contains(text, `http-equiv="refresh"`) || !strings.Contains(text, `href="`+server+`?`) ||
				!strings.Contains(text, "REQUEST") {
				t.Errorf("%s: an open redirect, or no number of the request: status %d to %q", name, answer.StatusCode, to)
			}
		}
	}
	// With prompt=consent and the resource in its spellings, all is well.
	for _, resource := range []string{base + "/mcp", base + "/mcp/", base, base + "/"} {
		b := newWorld(t).browser(t)
		q := query(b.register(base, loopback), loopback)
		q.Set("resource", resource)
		q.Set("prompt", "consent")
		b.toProvider(base, q)
	}
	// Parameters that stand twice are read by nobody.
	b := newWorld(t).browser(t)
	q := query(b.register(base, loopback), loopback)
	q["redirect_uri"] = append(q["redirect_uri"], "https://evil.example/")
	if answer := b.get(base + "/authorize?" + q.Encode()); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("redirect_uri twice: status %d", answer.StatusCode)
	}
}

// TestUnknownClientsGetWords shows that an unknown client is never redirected to, in the
// language of the person, with the id of the request and the cure.
func TestUnknownClientsGetWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"nobody", "dbc_AAAA", "https://127.0.0.1/x/../y", "http://a.example/client.json"} {
		for language, words := range map[string]string{"": "not known here", "de-AT,en;q=0.8": "nicht bekannt"} {
			r := httptest.NewRequestWithContext(
				t.Context(),
				http.MethodGet,
				base+"/authorize?"+query(id, loopback).Encode(),
				http.NoBody,
			)
			r.Header.Set("Accept-Language", language)
			answer := w.browser(t).do(r)
			text := read(answer)
			if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, words) ||
				!strings.Contains(text, "REQUEST") ||
				!strings.Contains(text, "Clear authentication") ||
				answer.Header.Get("Location") != "" {
				t.Errorf("%q in %q: status %d: %s", id, language, answer.StatusCode, text)
			}
		}
	}
}

// TestPagesCannotBeFramedOrLeak shows the headers of every page and hop.
func TestPagesCannotBeFramedOrLeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	authorize := b.get(base + "/authorize?" + query(b.register(base, loopback), loopback).Encode())
	callback := b.get(w.idp.signIn(t, "ann", authorize.Header.Get("Location")))
	consent := b.get(base + callback.Header.Get("Location"))
	unknown := b.get(base + "/authorize?client_id=x")
	form := url.Values{"decision": {"allow"}}
	for _, match := range inputs.FindAllStringSubmatch(read(consent), -1) {
		form.Set(match[1], match[2])
	}
	done := b.post(base+"/consent", form)
	for name, answer := range map[string]*http.Response{
		"authorize": authorize, "callback": callback, "consent": consent, "unknown": unknown, "done": done,
	} {
		h := answer.Header
		if h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Cross-Origin-Opener-Policy") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", name, h)
		}
		policy := h.Get("Content-Security-Policy")
		if answer.StatusCode != http.StatusSeeOther && (h.Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "script") || strings.Contains(policy, "unsafe")) {
			t.Errorf("%s: policy %q", name, policy)
		}
	}
	if to := callback.Header.Get("Location"); strings.Contains(to, "code") || strings.Contains(to, "state") {
		t.Errorf("the provider's code stays in the address bar: %s", to)
	}
}

// TestAnswersOfProvidersAreBound shows that the answer of a provider counts only in the
// browser that asked, for the attempt that it was asked for, at that provider, and soon.
func TestAnswersOfProvidersAreBound(t *testing.T) {
	t.Parallel()
	other := newIDP("partner", "https://partner.example/")
	w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
		s.Logins = append(s.Logins, loginOf(t, other))
	})
	start := func(provider string) (*browser, string) {
		b := w.browser(t)
		q := query(b.register(base, loopback), loopback)
		q.Set("drawbridge_login", provider)
		return b, b.toProvider(base, q)
	}
	refused := func(name string, answer *http.Response) {
		t.Helper()
		if answer.StatusCode < 400 || answer.Header.Get("Location") != "" {
			t.Errorf("%s: status %d to %q", name, answer.StatusCode, answer.Header.Get("Location"))
		}
	}
	// An attacker begins, and lets a victim sign in at the provider.
	_, attackers := start("corp")
	victim, victims := start("corp")
	back := w.idp.signIn(t, "ann", attackers)
	refused("consent fixation: another browser", w.browser(t).get(back))
	refused("state swap: a browser with an attempt of its own", victim.get(back))
	// The attacker's code with the victim's state, and the other way round.
	mine, theirs := parsed(t, w.idp.signIn(t, "bob", attackers)), parsed(t, w.idp.signIn(t, "ann", victims))
	q := mine.Query()
	q.Set("state", theirs.Query().Get("state"))
	refused("code injection", victim.get(base+"/callback/corp?"+q.Encode()))
	// Mix-up: the answer of one provider at the callback of the other.
	b, to := start("corp")
	back = w.idp.signIn(t, "ann", to)
	refused("mix-up", b.get(strings.Replace(back, "/callback/corp", "/callback/partner", 1)))
	// A callback that comes twice.
	b, to = start("corp")
	back = w.idp.signIn(t, "ann", to)
	form := b.asked(back)
	if to := b.get(back).Header.Get("Location"); to != "/consent?id="+form.Get("id") {
		t.Errorf("callback replay: led to %q, want the page that asks already", to)
	}
	// State that was changed, or is none.
	b, to = start("corp")
	back = w.idp.signIn(t, "ann", to)
	refused("another state", b.get(back+"x"))
	refused("no state", b.get(base+"/callback/corp?code=x"))
	refused("unknown provider", b.get(strings.Replace(back, "corp", "nobody", 1)))
	refused("state twice", b.get(back+"&state=x"))
	// A cookie of another attempt under the name of this one.
	first, to1 := start("corp")
	second, _ := start("corp")
	for name := range first.cookies {
		for _, value := range second.cookies {
			first.cookies[name] = value
		}
	}
	refused("another cookie", first.get(w.idp.signIn(t, "ann", to1)))
	b, to = start("corp")
	refused("no access", b.get(w.idp.signIn(t, "eve", to)))
	if strings.Contains(w.log.String(), "ann.") {
		t.Error("the log has a code")
	}
}

// TestWhatTheOperatorCanMendIsLogged has a provider send people back with an error: only
// one that is the person's is no fault of the provider's or the config's.
func TestWhatTheOperatorCanMendIsLogged(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		"access_denied": http.StatusSeeOther, "interaction_required": http.StatusSeeOther,
		"invalid_scope": http.StatusServiceUnavailable, "server_error": http.StatusServiceUnavailable,
		"": http.StatusServiceUnavailable,
	} {
		w := newWorld(t)
		b := w.browser(t)
		to := b.toProvider(base, query(b.register(base, loopback), loopback))
		back := url.Values{
			"error": {code}, "error_description": {"no\nsuch " + strings.Repeat("scope", 100)},
			"state": {parsed(t, to).Query().Get("state")},
		}
		answer := b.get(base + "/callback/corp?" + back.Encode())
		failed := status == http.StatusServiceUnavailable
		if answer.StatusCode != status || (answer.Header.Get("Location") == "") != failed {
			t.Errorf("%q: status %d to %q, want %d", code, answer.StatusCode, answer.Header.Get("Location"), status)
		}
		outcome := map[bool]string{true: "failed", false: "denied"}[failed]
		if w.counts.get("signed", "corp", outcome) != 1 {
			t.Errorf("%q: counted as %v, want %s", code, w.counts.of, outcome)
		}
		said := strings.Contains(w.log.String(), "the provider of a sign-in failed")
		if said != failed || failed && !strings.Contains(w.log.String(), "such scopescope") || w.log.Len() > 2000 {
			t.Errorf("%q: the log has %s", code, w.log)
		}
	}
}

// TestAClientLearnsThatAPersonGaveUp has people give up at the provider, or find that
// they have no access: their clients would else wait until their patience ends. Nobody is
// led to a server, or into a program, that a stranger has registered, but for a link. Who
// has no access reads first what to do.
func TestAClientLearnsThatAPersonGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, back := range map[string]func(to string) string{
		"gave up": func(to string) string {
			return base + "/callback/corp?error=access_denied&state=" + parsed(t, to).Query().Get("state")
		},
		"no access": func(to string) string { return w.idp.signIn(t, "eve", to) },
	} {
		for _, client := range []string{loopback, "https://client.example/cb", "app.client:/cb"} {
			b := w.browser(t)
			answer := b.get(back(b.toProvider(base, query(b.register(base, client), client))))
			where, text := answer.Header.Get("Location"), read(answer)
			if moves := client == loopback && name == "gave up"; moves != (where != "") {
				t.Errorf("%s, %s: status %d to %q", name, client, answer.StatusCode, where)
			}
			if link := linkTo.FindStringSubmatch(text); where == "" && link != nil &&
				answer.StatusCode == http.StatusForbidden && !strings.Contains(text, `http-equiv="refresh"`) {
				where = html.UnescapeString(link[1])
			}
			q := parsed(t, where).Query()
			if !strings.HasPrefix(where, client+"?") || q.Get("error") != "access_denied" ||
				q.Get("state") != "client-state" || q.Get("iss") != base {
				t.Errorf("%s, %s: status %d to %q with %s", name, client, answer.StatusCode, where, text)
			}
		}
	}
}

var linkTo = regexp.MustCompile(`<a class="button" href="([^"]+)">`)

// TestStrangersDoNotFillTheLog has strangers cause what the operator is told of, again
// and again: once there are lines enough of a refusal, there is none of what was at
// fault.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, logged := range []bool{true, false} {
			w := newWorld(t, func(cfg *signin.Config, _ *signin.Settings) {
				cfg.Audit = func(context.Context, audit.Record) bool { return logged }
			})
			b := w.browser(t)
			b.get(base + "/authorize?" + query("https://app.example/client.json", loopback).Encode())
			b.get(base + "/authorize?" + query("nobody", loopback).Encode())
			to := b.toProvider(base, query(b.register(base, loopback), loopback))
			b.get(base + "/callback/corp?error=invalid_scope&state=" + parsed(t, to).Query().Get("state"))
			b.post(base+"/logout/corp", url.Values{"logout_token": {"none"}})
			w.store.setAway(errUnavailable)
			b.post(base+"/token", redeem("app", strings.Repeat("A", 26)+".x"))
			for _, line := range []string{
				"sign-in is not possible now", "the provider of a sign-in failed", "a client is not known",
				"a logout of a provider was not believed", "tokens cannot be given out now",
			} {
				if said := strings.Contains(w.log.String(), line); said != logged {
					t.Errorf("the log is to have lines: %t, and has one of %q: %t\n%s", logged, line, said, w.log)
				}
			}
		}
	})
}

// TestOldAnswersOfProvidersAreRefused shows that an attempt ends after ten minutes.
func TestOldAnswersOfProvidersAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.browser(t)
		back := w.idp.signIn(t, "ann", b.toProvider(base, query(b.register(base, loopback), loopback)))
		time.Sleep(11 * time.Minute)
		if answer := b.get(back); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d, want 400", answer.StatusCode)
		}
	})
}

// TestTheEarliestAttemptOfABrowserEnds has a browser that begins one sign-in more than it
// may have under way. Those that a person has left alone go, not the one beside.
func TestTheEarliestAttemptOfABrowserEnds(t *testing.T) {
	w := newWorld(t)
	id := w.browser(t).register(base, loopback)
	var jar []*http.Cookie // the earliest first, as browsers send them
	var begun []string
	for range 5 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			base+"/authorize?"+query(id, loopback).Encode(), http.NoBody)
		for _, cookie := range jar {
			r.AddCookie(cookie)
		}
		recorder := httptest.NewRecorder()
		w.server.ServeHTTP(recorder, r)
		for _, cookie := range recorder.Result().Cookies() {
			jar = slices.DeleteFunc(jar, func(c *http.Cookie) bool { return c.Name == cookie.Name })
			if cookie.MaxAge > 0 {
				jar = append(jar, cookie)
				begun = append(begun, cookie.Name)
			}
		}
	}
	var kept []string
	for _, cookie := range jar {
		kept = append(kept, cookie.Name)
	}
	if len(begun) != 5 || !slices.Equal(kept, begun[2:]) {
		t.Errorf("of the attempts %v the browser has %v, want the last three", begun, kept)
	}
}

// TestConsentIsTheBrowsersOwn shows that nobody but the browser that signed in can
// consent, once, by the form that it was shown.
func TestConsentIsTheBrowsersOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func() (*browser, url.Values) {
		b := w.browser(t)
		return b, b.asked(
			w.idp.signIn(t, "ann", b.toProvider(base, query(b.register(base, loopback), loopback))),
		)
	}
	for name, forge := range map[string]func(*browser, url.Values) *http.Response{
		"without the cookie": func(_ *browser, f url.Values) *http.Response { return w.browser(t).post(base+"/consent", f) },
		"without the proof": func(b *browser, f url.Values) *http.Response {
			f.Del("proof")
			return b.post(base+"/consent", f)
		},
		"with the proof of another": func(b *browser, f url.Values) *http.Response {
			_, other := ask()
			f.Set("proof", other.Get("proof"))
			return b.post(base+"/consent", f)
		},
		"from another site": func(b *browser, f url.Values) *http.Response {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, base+"/consent", strings.NewReader(f.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", "https://evil.example")
			return b.do(r)
		},
		"from another site without its name": func(b *browser, f url.Values) *http.Response {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, base+"/consent", strings.NewReader(f.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", "null")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			return b.do(r)
		},
		"by GET": func(b *browser, f url.Values) *http.Response {
			answer := b.get(base + "/consent?" + f.Encode())
			if text := read(answer); strings.Contains(text, "code=") {
				t.Error("a GET consents")
			}
			answer.StatusCode = http.StatusForbidden
			return answer
		},
	} {
		b, form := ask()
		if answer := forge(b, form); answer.StatusCode < 400 {
			t.Errorf("%s: status %d", name, answer.StatusCode)
		}
	}
	b, form := ask()
	again := b.asked2(form.Get("id"))
	if again.Get("proof") != form.Get("proof") {
		t.Error("a second load of the page voids the first")
	}
	r := httptest.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		base+"/consent",
		strings.NewReader(form.Encode()),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "null") // as browsers send it from a page without Referer
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	movedTo(t, b.do(r))
	b, form = ask()
	form.Set("decision", "deny")
	if to := movedTo(
		t,
		b.post(base+"/consent", form),
	); to.Query().Get("error") != "access_denied" ||
		to.Query().Has("code") {
		t.Errorf("denied: %v", to)
	}
}

// TestASecondClickLeadsWhereTheFirstDid has a person click twice: the browser shows the
// answer to the second click alone. Both lead to the client with one code, until that was
// redeemed, and one consent is on record. Whoever has the code sees nothing of the page.
func TestASecondClickLeadsWhereTheFirstDid(t *testing.T) {
	t.Parallel()
	kept := &lines{}
	w := newWorld(t, kept.keep)
	b := w.browser(t)
	id := b.register(base, loopback)
	form := b.asked(w.idp.signIn(t, "ann", b.toProvider(base, query(id, loopback))))
	first := movedTo(t, b.post(base+"/consent", form))
	if second := movedTo(t, b.post(base+"/consent", form)); second.String() != first.String() {
		t.Errorf("the second click leads to %v, want %v", second, first)
	}
	kept.expect(t, "a consent with two clicks", annOnRecord+"ok consented")
	code := first.Query().Get("code")
	client := w.browser(t)
	_, client.cookies["__Host-drawbridge-"+form.Get("id")], _ = strings.Cut(code, ".")
	if answer := client.get(base + "/consent?id=" + form.Get("id")); answer.StatusCode != http.StatusConflict {
		t.Errorf("the page for whoever has the code: status %d, want 409", answer.StatusCode)
	}
	if answer := b.post(base+"/token", redeem(id, code)); answer.StatusCode != http.StatusOK {
		t.Errorf("token: status %d: %s", answer.StatusCode, read(answer))
	}
	if answer := b.post(base+"/consent", form); answer.StatusCode != http.StatusConflict {
		t.Errorf("a click when the program has its tokens: status %d, want 409", answer.StatusCode)
	}
}

// asked2 loads the page again that asks for consent.
func (b *browser) asked2(id string) url.Values {
	form := url.Values{}
	for _, match := range inputs.FindAllStringSubmatch(read(b.get(base+"/consent?id="+id)), -1) {
		form.Set(match[1], match[2])
	}
	return form
}

// TestCodesAreBound shows that a code is good for its client, redirect, verifier and
// address, once, and for a minute.
func TestCodesAreBound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, change := range map[string]func(w *world, form url.Values){
			"another client":   func(w *world, f url.Values) { f.Set("client_id", w.browser(t).register(base, loopback)) },
			"another redirect": func(_ *world, f url.Values) { f.Set("redirect_uri", "http://127.0.0.1:1/callback") },
			"no redirect":      func(_ *world, f url.Values) { f.Del("redirect_uri") },
			"another verifier": func(_ *world, f url.Values) { f.Set("code_verifier", verifier+"x") },
			"no verifier":      func(_ *world, f url.Values) { f.Del("code_verifier") },
			"the challenge":    func(_ *world, f url.Values) { f.Set("code_verifier", challenge()) },
			"another secret":   func(_ *world, f url.Values) { f.Set("code", f.Get("code")[:27]+rand.Text()) },
			"no code":          func(_ *world, f url.Values) { f.Del("code") },
			"too late":         func(*world, url.Values) { time.Sleep(61 * time.Second) },
			"other resource":   func(_ *world, f url.Values) { f.Set("resource", "https://o.example/") },
			"twice the code":   func(_ *world, f url.Values) { f.Add("code", "x") },
		} {
			w := newWorld(t)
			b := w.browser(t)
			id := b.register(base, loopback)
			form := redeem(id, w.code(t, b, base, "ann", id, nil))
			change(w, form)
			answer := b.post(base+"/token", form)
			if answer.StatusCode != http.StatusBadRequest ||
				answer.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: status %d: %s", name, answer.StatusCode, read(answer))
			}
		}
		// At another address.
		w := newWorld(t)
		b := w.browser(t)
		id := b.register(base, loopback)
		if answer := b.post(
			base+"/t/acme/token",
			redeem(id, w.code(t, b, base, "ann", id, nil)),
		); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("at another address: status %d", answer.StatusCode)
		}
		// Twice: the first tokens end, too.
		code := w.code(t, b, base, "ann", id, nil)
		first := object(t, b.post(base+"/token", redeem(id, code)))
		v := w.verifier(t)
		if _, err := v.Verify(t.Context(), first["access_token"].(string)); err != nil {
			t.Fatal(err)
		}
		if answer := b.post(base+"/token", redeem(id, code)); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("replay: status %d", answer.StatusCode)
		}
		if _, err := v.Verify(t.Context(), first["access_token"].(string)); err == nil {
			t.Error("the tokens of a code that came twice still count")
		}
		if w.counts.get("ended", "code_replay") != 1 {
			t.Errorf("counted %v", w.counts.of)
		}
	})
}

// TestRefreshTokensAreBound shows that a refresh token is good for its client and address
// alone, that one in the hands of another ends the family, and that none can be made.
func TestRefreshTokensAreBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.signIn(t, base, "ann", nil)
	stranger := w.signIn(t, base, "bob", func(v url.Values) { v.Set("tenant", "acme") })
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(c.refreshWith, "dbr_"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := append([]byte{}, raw...)
		changed[i] ^= 1
		token := "dbr_" + base64.RawURLEncoding.EncodeToString(changed)
		if status, _ := c.refresh(w.server, token); status != http.StatusBadRequest {
			t.Errorf("byte %d changed: status %d", i, status)
		}
	}
	for _, token := range []string{"", "dbr_", c.refreshWith + "A", " " + c.refreshWith, c.access, c.refreshWith + "\n"} {
		if status, _ := c.refresh(w.server, token); status != http.StatusBadRequest {
			t.Errorf("%.20q: status %d", token, status)
		}
	}
	if status, got := (&signedIn{b: c.b, at: base + "/t/acme", id: c.id}).refresh(
		w.server,
		c.refreshWith,
	); status != http.StatusBadRequest {
		t.Errorf("at another address: status %d, %v", status, got)
	}
	_, next := c.mustRefresh(w.server, c.refreshWith)
	if status, _ := stranger.refresh(w.server, next); status != http.StatusBadRequest {
		t.Errorf("another client: status %d", status)
	}
	if status, _ := c.refresh(w.server, next); status != http.StatusBadRequest {
		t.Errorf("the client itself after that: status %d, want 400", status)
	}
	if w.counts.get("ended", "other_client") != 1 || !strings.Contains(w.log.String(), "may be stolen") {
		t.Errorf("counted %v", w.counts.of)
	}
	if strings.Contains(w.log.String(), c.refreshWith) || strings.Contains(w.log.String(), "rt-ann") {
		t.Error("the log has a token")
	}
}

// TestTokensOfTenantsStayThere shows that a token names one tenant, and that nobody gets
// one for a tenant that is not theirs.
func TestTokensOfTenantsStayThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	answer := b.get(
		w.idp.signIn(t, "ann", b.toProvider(base+"/t/umbrella", query(b.register(base, loopback), loopback))),
	)
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("ann at umbrella: status %d, want 403", answer.StatusCode)
	}
	unknown := b.get(
		w.idp.signIn(t, "ann", b.toProvider(base+"/t/nobody", query(b.register(base, loopback), loopback))),
	)
	named := strings.ReplaceAll(read(unknown), "%2Ft%2Fnobody", "%2Ft%2Fumbrella") // by the address
	if known := read(answer); unknown.StatusCode != http.StatusForbidden || named != known {
		t.Errorf("an unknown tenant is told apart from one of others")
	}
	c := w.signIn(t, base+"/t/acme", "bob", nil)
	if p, err := w.verifier(t).
		Verify(t.Context(), c.access); err != nil || p.TenantID != "acme" ||
		len(p.Tenants) != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestForgedAccessTokensAreRefused shows that names of keys, keys in the header and other
// algorithms get nobody in.
func TestForgedAccessTokensAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.signIn(t, base, "ann", nil)
	v := w.verifier(t)
	parts := strings.Split(c.access, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	admin := encode(strings.Replace(string(payload), `"read write"`, `"admin"`, 1))
	for name, token := range map[string]string{
		"other claims":  parts[0] + "." + admin + "." + parts[2],
		"none":          encode(`{"alg":"none","typ":"at+jwt"}`) + "." + admin + ".",
		"no signature":  parts[0] + "." + parts[1] + ".",
		"kid of a file": encode(`{"alg":"EdDSA","typ":"at+jwt","kid":"../../etc/passwd"}`) + "." + admin + "." + parts[2],
		"jku":           encode(`{"alg":"EdDSA","typ":"at+jwt","jku":"https://evil.example/keys"}`) + "." + admin + "." + parts[2],
		"HMAC":          encode(`{"alg":"HS256","typ":"at+jwt"}`) + "." + admin + "." + parts[2],
		"a code":        "x",
		"refresh token": c.refreshWith,
	} {
		if _, err := v.Verify(t.Context(), token); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRegistrationFloodTakesUpNothing shows that a flood of registrations and attempts
// leaves no record, and that the clients before it go on.
func TestRegistrationFloodTakesUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.signIn(t, base, "ann", nil)
	before := w.store.puts
	b := w.browser(t)
	for range 500 {
		b.get(base + "/authorize?" + query(b.register(base, loopback), loopback).Encode())
	}
	if w.store.puts != before {
		t.Errorf("the flood wrote %d records", w.store.puts-before)
	}
	if len(b.cookies) > 4 {
		t.Errorf("the browser has %d cookies", len(b.cookies))
	}
	c.mustRefresh(w.server, c.refreshWith)
	// Who signs in often fills their own part alone.
	for range 105 {
		w.signIn(t, base, "ann", nil)
	}
	live := 0
	for _, r := range w.store.records {
		if r.Kind == "family" && strings.Contains(string(r.Value), `"stage":"live"`) {
			live++
		}
	}
	if live > 101 {
		t.Errorf("one person has %d families", live)
	}
}

// TestFullTenantGetsWords shows what a person is told whose tenant has too many records.
func TestFullTenantGetsWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signIn(t, base, "ann", nil)
	w.store.most = 1
	b := w.browser(t)
	answer := b.get(w.idp.signIn(t, "ann", b.toProvider(base, query(b.register(base, loopback), loopback))))
	if text := read(
		answer,
	); answer.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(text, "Too many programs") {
		t.Errorf("status %d: %s", answer.StatusCode, text)
	}
}

// documents answers for clients that have a document.
func documents(answer func(r *http.Request) (int, http.Header, string)) *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		status, header, body := answer(r)
		if status == 0 {
			return nil, errors.New("no connection")
		}
		return &http.Response{
			StatusCode: status,
			Header:     header,
			Body:       io.NopCloser(strings.NewReader(body)),
			Request:    r,
		}, nil
	})}
}

const documentID = "https://app.example/oauth/client.json"

// TestClientsWithDocuments shows which documents make a client, that they are fetched
// once while they are fresh, and that one that cannot be fetched is not an unknown
// client.
func TestClientsWithDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		good := `{"client_id":"` + documentID + `","client_name":"Claude Code","redirect_uris":["http://127.0.0.1/callback"],
			"token_endpoint_auth_method":"none"}`
		json := http.Header{"Content-Type": {"application/json"}}
		for name, test := range map[string]struct {
			id, body string
			status   int
			header   http.Header
			want     int
		}{
			"good":            {documentID, good, 200, json, http.StatusSeeOther},
			"another id":      {documentID, strings.Replace(good, "app.example", "evil.example", 1), 200, json, 400},
			"no redirects":    {documentID, `{"client_id":"` + documentID + `"}`, 200, json, 400},
			"a secret":        {documentID, strings.Replace(good, "{", `{"client_secret":"x",`, 1), 200, json, 400},
			"a secret method": {documentID, strings.Replace(good, "none", "client_secret_basic", 1), 200, json, 400},
			"a key":           {documentID, strings.Replace(good, "none", "private_key_jwt", 1), 200, json, 400},
			"a key or nothing": {documentID, strings.Replace(good, `"none"`,
				`"private_key_jwt","token_endpoint_auth_methods_supported":["none","private_key_jwt"]`, 1), 200, json, 303},
			"a key or a secret": {documentID, strings.Replace(good, `"none"`,
				`"private_key_jwt","token_endpoint_auth_methods_supported":["client_secret_basic"]`, 1), 200, json, 400},
			"too long":       {documentID, strings.Replace(good, "{", `{"x":"`+strings.Repeat("x", 17000)+`",`, 1), 200, json, 400},
			"not found":      {documentID, good, 404, json, 400},
			"a redirect":     {documentID, "", 302, http.Header{"Location": {"https://evil.example/"}}, 400},
			"a page":         {documentID, good, 200, http.Header{"Content-Type": {"text/html"}}, 400},
			"server's fault": {documentID, good, 500, json, 503},
			"too many":       {documentID, good, 429, json, 503},
			"no connection":  {documentID, good, 0, json, 503},
			"http":           {"http://app.example/client.json", good, 200, json, 400},
			"no path":        {"https://app.example/", good, 200, json, 400},
			"user":           {"https://u@app.example/client.json", good, 200, json, 400},
			"dots":           {"https://app.example/a/%2e%2e/client.json", good, 200, json, 400},
			"fragment":       {documentID + "#x", good, 200, json, 400},
		} {
			fetches := 0
			w := newWorld(t, func(c *signin.Config, _ *signin.Settings) {
				c.Documents = documents(func(*http.Request) (int, http.Header, string) {
					fetches++
					return test.status, test.header, test.body
				})
			})
			for range 3 {
				if answer := w.browser(t).
					get(base + "/authorize?" + query(test.id, loopback).Encode()); answer.StatusCode != test.want {
					t.Errorf("%s: status %d, want %d", name, answer.StatusCode, test.want)
				}
			}
			if fetches > 1 {
				t.Errorf("%s: fetched %d times", name, fetches)
			}
			unfit := test.want == http.StatusBadRequest && fetches > 0
			if told := strings.Contains(w.log.String(), "secret or key: "+documentID); told != unfit {
				t.Errorf("%s: that the document is not fit is in the log: %t", name, told)
			}
		}
	})
}

// TestDocumentsShowTheirHostAndServeRefreshes shows what a person reads of a client with
// a document, that its refreshes go on when the document is away, and that a refused one
// does not call the client unknown.
func TestDocumentsShowTheirHostAndServeRefreshes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		away := false
		w := newWorld(t, func(c *signin.Config, _ *signin.Settings) {
			c.Documents = documents(func(*http.Request) (int, http.Header, string) {
				if away {
					return 0, nil, ""
				}
				return 200, http.Header{"Content-Type": {"application/json"}}, `{"client_id":"` + documentID +
					`","client_name":"<b>Bank</b>","redirect_uris":["http://127.0.0.1:33418/callback"]}`
			})
		})
		b := w.browser(t)
		answer := b.get(w.idp.signIn(t, "ann", b.toProvider(base, query(documentID, loopback))))
		page := read(b.get(base + answer.Header.Get("Location")))
		for _, want := range []string{"app.example", "&lt;b&gt;Bank", "127.0.0.1:33418", "Any program on this machine", "acme"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q: %s", want, page)
			}
		}
		code := w.code(t, b, base, "ann", documentID, nil)
		got := object(t, b.post(base+"/token", redeem(documentID, code)))
		c := &signedIn{b, base, documentID, got["access_token"].(string), got["refresh_token"].(string)}
		if p, err := w.verifier(t).Verify(t.Context(), c.access); err != nil || p.ClientID != documentID {
			t.Errorf("got %+v, %v", p, err)
		}
		away = true
		time.Sleep(25 * time.Hour)
		c.mustRefresh(w.server, c.refreshWith)
		if status, got := c.refresh(w.server, "none"); got["error"] != "invalid_grant" {
			t.Errorf("a token that is none: got %d, %v, want invalid_grant", status, got)
		}
	})
}

// TestSlowDocumentsKeepNoKnownClientOut has a stranger whose documents never come, as
// many as are fetched at once. A client whose document was fetched in the last day goes
// on.
func TestSlowDocumentsKeepNoKnownClientOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *signin.Config, _ *signin.Settings) {
			c.Documents = documents(func(r *http.Request) (int, http.Header, string) {
				if r.URL.String() != documentID {
					<-r.Context().Done()
					return 0, nil, ""
				}
				header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"max-age=60"}}
				return 200, header, `{"client_id":"` + documentID + `","redirect_uris":["` + loopback + `"]}`
			})
		})
		status := func(id string) int {
			return w.browser(t).get(base + "/authorize?" + query(id, loopback).Encode()).StatusCode
		}
		// flooded returns the status of the client while all fetches are busy.
		flooded := func() int {
			var all sync.WaitGroup
			defer all.Wait()
			for i := range 16 {
				all.Go(func() { status(fmt.Sprintf("https://slow.example/%d", i)) })
			}
			time.Sleep(time.Second)
			return status(documentID)
		}
		if got := status(documentID); got != http.StatusSeeOther {
			t.Fatalf("status %d, want 303", got)
		}
		time.Sleep(23 * time.Hour)
		if got := flooded(); got != http.StatusSeeOther {
			t.Errorf("fetched 23 hours ago: status %d, want 303", got)
		}
		time.Sleep(2 * time.Hour)
		if got := flooded(); got != http.StatusServiceUnavailable {
			t.Errorf("fetched 25 hours ago: status %d, want 503", got)
		}
	})
}

// TestDocumentsOfThePrivateNetworkAreNotFetched shows that the id of a client leads this
// gateway to no address that only it can reach.
func TestDocumentsOfThePrivateNetworkAreNotFetched(t *testing.T) {
	t.Parallel()
	asked := 0
	private := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer private.Close()
	w := newWorld(t, func(c *signin.Config, _ *signin.Settings) { c.Documents = dial.Client(dial.Config{}) })
	port := private.Listener.Addr().String()[len("127.0.0.1:"):]
	for _, host := range []string{
		"127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "10.0.0.1", "169.254.169.254", "[64:ff9b::7f00:1]",
		"2130706433", "0x7f.1",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet,
			base+"/authorize?"+query("https://"+host+":"+port+"/client.json", loopback).Encode(), http.NoBody)
		if answer := w.browser(t).do(r); answer.StatusCode < 400 {
			t.Errorf("%s: status %d", host, answer.StatusCode)
		}
		cancel()
	}
	if asked != 0 {
		t.Errorf("the private server was asked %d times", asked)
	}
}
