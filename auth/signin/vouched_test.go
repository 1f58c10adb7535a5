package signin_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

func keepingTokens(_ *signin.Config, s *signin.Settings) { s.KeepTokens = true }

// TestProvidersTokenStandsForOurs signs somebody in. What is exchanged for a token of a
// server is the provider's token of that person, and never the one of this gateway. When
// it is about to end, the provider is asked once, however many want it at two replicas.
func TestProvidersTokenStandsForOurs(t *testing.T) {
	w := newWorld(t, keepingTokens)
	w.idp.life = time.Hour
	other := w.replica(t, keepingTokens)
	client := w.signIn(t, base, "ann", nil)
	verify := func(server *signin.Server) auth.Principal {
		t.Helper()
		v, err := auth.New(auth.Config{Issuers: server.Issuers(*w.settings.Load(), []string{"acme", "umbrella"})})
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.Verify(t.Context(), client.access)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	here, there := verify(w.server), verify(other)
	for range 3 {
		if got, err := here.SubjectToken(t.Context()); err != nil || got != "at-ann-1" {
			t.Fatalf("got %q, %v, want the token that came with the sign-in", got, err)
		}
	}
	if w.idp.lookups != 0 {
		t.Errorf("got the provider asked %d times, want never", w.idp.lookups)
	}
	one, has := here.SubjectDigest()
	if again, _ := there.SubjectDigest(); !has || one != again {
		t.Error("got different places at two replicas, want one for each sign-in")
	}
	w.idp.set(func() { w.idp.life = 30 * time.Second }) // it ends too soon to be given out
	client = w.signIn(t, base, "ann", nil)
	here, there = verify(w.server), verify(other)
	if digest, _ := here.SubjectDigest(); digest == one {
		t.Error("got one place for two sign-ins, want two")
	}
	before := w.idp.lookups
	w.idp.set(func() { w.idp.life = time.Hour })
	var all sync.WaitGroup
	for range 10 {
		for _, p := range []auth.Principal{here, there} {
			all.Go(func() {
				if got, err := p.SubjectToken(t.Context()); err != nil || !strings.HasPrefix(got, "at-ann-") {
					t.Errorf("got %q, %v, want another token of ann", got, err)
				}
			})
		}
	}
	all.Wait()
	if got := w.idp.lookups - before; got != 1 {
		t.Errorf("got the provider asked %d times for twenty at two replicas, want once", got)
	}
}

// TestTokenOfAnEndedSignInIsGone asks for the provider's token where there is none any
// more, and where none is kept.
func TestTokenOfAnEndedSignInIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		keeps  bool
	}{
		"signed out": {func(w *world) {
			if _, err := w.server.SignOut(t.Context(), idpIssuer, "ann"); err != nil {
				t.Fatal(err)
			}
		}, true},
		"the provider refuses":         {func(w *world) { w.idp.claims["ann"] = "" }, true},
		"the person is of nobody here": {func(w *world) { w.idp.claims["ann"] = `{"sub":"ann","groups":["nobody"]}` }, true},
		"there is no refresh token":    {func(*world) {}, true},
		"nothing is kept":              {func(*world) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *signin.Config, s *signin.Settings) { s.KeepTokens = test.keeps })
			w.idp.life, w.idp.silent = 30*time.Second, name == "there is no refresh token"
			client := w.signIn(t, base, "ann", nil)
			p, err := w.verifier(t).Verify(t.Context(), client.access)
			if err != nil {
				t.Fatal(err)
			}
			w.idp.set(func() { test.change(w) })
			if got, err := p.SubjectToken(t.Context()); !errors.Is(err, auth.ErrSubjectGone) || got != "" {
				t.Errorf("got %q, %v, want that it is gone", got, err)
			}
		})
	}
}

// TestProviderThatIsAwayEndsNoSignIn has the provider not answer: the token cannot be had
// now, and can later.
func TestProviderThatIsAwayEndsNoSignIn(t *testing.T) {
	w := newWorld(t, keepingTokens, func(c *signin.Config, _ *signin.Settings) { c.Hold = time.Millisecond })
	w.idp.life = 30 * time.Second
	client := w.signIn(t, base, "ann", nil)
	p, err := w.verifier(t).Verify(t.Context(), client.access)
	if err != nil {
		t.Fatal(err)
	}
	w.idp.set(func() { w.idp.away = errors.New("away") })
	if got, err := p.SubjectToken(t.Context()); err == nil || errors.Is(err, auth.ErrSubjectGone) {
		t.Errorf("got %q, %v, want an error that passes", got, err)
	}
	w.idp.set(func() { w.idp.away, w.idp.life = nil, time.Hour })
	if got, err := p.SubjectToken(t.Context()); err != nil || got == "" {
		t.Errorf("got %q, %v, want a token", got, err)
	}
}

// TestTokenOfAProviderSurvivesACallThatEnds has the call end that wants the provider's
// token, while the provider is asked for it. What the provider gives is kept: its refresh
// token is good for once.
func TestTokenOfAProviderSurvivesACallThatEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, keepingTokens)
		w.idp.life = 30 * time.Second
		client := w.signIn(t, base, "ann", nil)
		p, err := w.verifier(t).Verify(t.Context(), client.access)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		w.idp.set(func() { w.idp.hold, w.idp.life = answered, time.Hour })
		call, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		time.AfterFunc(2*time.Second, func() { close(answered) })
		_, _ = p.SubjectToken(call) // whatever a call gets that has ended
		if got, err := p.SubjectToken(t.Context()); err != nil || got != "at-ann-2" {
			t.Errorf("got %q, %v, want the token that the provider gave", got, err)
		}
		time.Sleep(time.Minute)
		client.mustRefresh(w.server, client.refreshWith)
	})
}

// TestClaimsThatServersAreToldComeFromTheProvider signs somebody in. The gateway knows
// the claims that servers are to be told by her access token, the client does not, and
// after a refresh they are those that the provider says then.
func TestClaimsThatServersAreToldComeFromTheProvider(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keeping := func(_ *signin.Config, s *signin.Settings) { s.KeepClaims = []string{"department", "level", "tenant"} }
		w := newWorld(t, keeping)
		say := func(claims string) {
			w.idp.set(func() { w.idp.claims["ann"] = `{"sub":"ann","groups":["acme"],"scope":"read",` + claims + `}` })
		}
		told := func(access string) string {
			t.Helper()
			v, err := auth.New(auth.Config{Issuers: w.server.Issuers(*w.settings.Load(), []string{"acme", "umbrella"})})
			if err != nil {
				t.Fatal(err)
			}
			p, err := v.Verify(t.Context(), access)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, c := range p.Claims() {
				all = append(all, c.Name+" "+string(c.Value))
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		say(`"department":"payments","level":3,"office":"Basel"`)
		c := w.signIn(t, base, "ann", nil)
		if got := told(c.access); got != `department "payments", level 3` {
			t.Errorf("got %s, want what the operator chose", got)
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(c.access, ".")[1])
		if err != nil || strings.Contains(string(payload), "payments") || strings.Contains(string(payload), "Basel") {
			t.Errorf("got %s, %v, want nothing that the client can read", payload, err)
		}
		time.Sleep(20 * time.Minute)
		say(`"level":"` + strings.Repeat("x", 3<<10) + `","department":"search"`)
		access, present := c.mustRefresh(w.server, c.refreshWith)
		if got := told(access); got != `department "search"` {
			t.Errorf("got %s, want what the provider says now, but for what is too long", got)
		}
		w.signIn(t, base, "ann", nil)
		if want := "claims=[level]"; strings.Count(w.log.String(), want) != 1 {
			t.Errorf("the log has not one line with %s:\n%s", want, w.log)
		}
		time.Sleep(20 * time.Minute)
		say(`"office":"Basel"`)
		access, present = c.mustRefresh(w.server, present)
		if got := told(access); got != "" {
			t.Errorf("got %s, want nothing of the gateway's own where the provider says nothing", got)
		}
		time.Sleep(20 * time.Minute)
		settings := *w.settings.Load()
		settings.KeepClaims = nil
		w.settings.Store(&settings)
		access, _ = c.mustRefresh(w.server, present)
		if got := told(access); got != "" {
			t.Errorf("got %s, want nothing after the config names none", got)
		}
	})
}
