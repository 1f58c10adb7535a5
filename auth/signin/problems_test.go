package signin_test

import (
	"context"
	"html"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// TestAnAddressThatWasCutSaysSo has a person who copied an address out of a terminal, and
// not all of it. Nobody wants to mislead that person, and the program is known.
func TestAnAddressThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	whole := query(b.register(base, loopback), loopback)
	for _, cut := range []string{"client_id", "redirect_uri"} {
		q := maps.Clone(whole)
		q.Del(cut)
		answer := b.get(base + "/authorize?" + q.Encode())
		if text := read(answer); answer.StatusCode != http.StatusBadRequest ||
			!strings.Contains(text, "not complete") || !strings.Contains(text, "copied") {
			t.Errorf("without %s: status %d: %s", cut, answer.StatusCode, text)
		}
	}
}

// TestProblemsLeadBackToTheProgram shows that the page of a sign-in that failed at the
// provider, or after it, has a link by which the program learns of it: it waits for an
// answer, some for ever. Who has no access reads which account that is.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
func TestProblemsLeadBackToTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.idp.claims["eve"] = `{"sub":"eve","groups":["nobody"],"email":"eve@acme.example"}`
	sentBack := func(code string) func(to string) string {
		return func(to string) string {
			return base + "/callback/corp?error=" + code + "&state=" + parsed(t, to).Query().Get("state")
		}
	}
	for name, test := range map[string]struct {
		at          string
		back        func(to string) string
		code, words string
	}{
		"no access": {
			base, func(to string) string { return w.idp.signIn(t, "eve", to) }, "access_denied", "eve@acme.example",
		},
		"no access to this tenant": {
			base + "/t/umbrella", func(to string) string { return w.idp.signIn(t, "ann", to) }, "access_denied",
			"ann@acme.example",
		},
		"the provider failed": {base, sentBack("server_error"), "temporarily_unavailable", "does not answer"},
	} {
		b := w.browser(t)
		answer := b.get(test.back(b.toProvider(test.at, query(b.register(test.at, loopback), loopback))))
		text := html.UnescapeString(read(answer))
		link, _, _ := strings.Cut(after(text, `href="`), `"`)
		to := parsed(t, link)
		if answer.StatusCode < 400 || !strings.HasPrefix(link, loopback+"?") || to.Query().Get("error") != test.code ||
			to.Query().Get("state") != "client-state" || to.Query().Get("iss") != test.at ||
			strings.Contains(text, `http-equiv="refresh"`) || !strings.Contains(text, test.words) {
			t.Errorf("%s: status %d: %s", name, answer.StatusCode, text)
		}
	}
}

// unfound is a provider whose document cannot be had, so that nobody is led there.
type unfound struct{ *idp }

func (unfound) AuthURL(context.Context, signin.Attempt) (string, error) { return "", errUnavailable }

// TestWhoIsNotLedToTheProviderIsLedBack shows the same of a sign-in that cannot begin.
func TestWhoIsNotLedToTheProviderIsLedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
		s.Logins[0].Provider = unfound{newIDP("corp", idpIssuer)}
	})
	b := w.browser(t)
	answer := b.get(base + "/authorize?" + query(b.register(base, loopback), loopback).Encode())
	if text := read(answer); answer.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(text, `href="`+loopback+`?error=temporarily_unavailable`) {
		t.Errorf("status %d: %s", answer.StatusCode, text)
	}
}

// after returns what stands behind a mark in a text.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// TestASecondClickAtTheProviderGoesOn has a person click twice at the provider, which
// gives a code for each click, and somebody else's answer come after that. All come to
// the page that the first click has led to: a state is good for once, and no other code
// is redeemed.
func TestASecondClickAtTheProviderGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	to := b.toProvider(base, query(b.register(base, loopback), loopback))
	form := b.asked(w.idp.signIn(t, "ann", to))
	for _, person := range []string{"ann", "bob"} {
		back := w.idp.signIn(t, person, to)
		if again := b.asked(back); again.Get("id") != form.Get("id") {
			t.Errorf("%s comes to another page than the first click", person)
		}
		if _, good := w.idp.nonces[parsed(t, back).Query().Get("code")]; !good {
			t.Errorf("the second code of %s was redeemed", person)
		}
		if answer := w.browser(t).get(back); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s in another browser: status %d", person, answer.StatusCode)
		}
	}
	if text := read(b.get(base + "/consent?id=" + form.Get("id"))); !strings.Contains(text, "ann@acme.example") ||
		!strings.Contains(text, "another account") {
		t.Errorf("the page does not speak of who came first, or how to be another: %s", text)
	}
	if answer := b.post(base+"/consent", form); answer.StatusCode != http.StatusOK {
		t.Errorf("consent: status %d", answer.StatusCode)
	}
}
