package signin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// inBubble runs a test whose time is exact.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// mustRefresh brings a token that must be answered, and returns the answer's tokens.
func (c *signedIn) mustRefresh(server http.Handler, token string) (access, next string) {
	c.b.t.Helper()
	status, got := c.refresh(server, token)
	if status != http.StatusOK {
		c.b.t.Fatalf("refresh: status %d, %v", status, got)
	}
	return got["access_token"].(string), got["refresh_token"].(string)
}

// TestSpentTokenIsAnsweredForAnHour shows that a spent token of any generation is
// answered with the present one, at another replica too, for an hour after it was spent;
// and that a later use ends the family.
func TestSpentTokenIsAnsweredForAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.replica(t)
		c := w.signIn(t, base, "ann", nil)
		generations := []string{c.refreshWith}
		for range 3 {
			time.Sleep(10 * time.Minute)
			_, next := c.mustRefresh(w.server, generations[len(generations)-1])
			generations = append(generations, next)
		}
		present := generations[3]
		time.Sleep(39 * time.Minute) // the first was spent 59 minutes ago
		for i, token := range generations[:3] {
			if _, next := c.mustRefresh(other, token); next != present {
				t.Errorf("generation %d: got another token than the present one", i)
			}
		}
		time.Sleep(2 * time.Minute)
		access, _ := c.mustRefresh(w.server, present)
		if status, got := c.refresh(
			other,
			generations[0],
		); status != http.StatusBadRequest ||
			got["error"] != "invalid_grant" {
			t.Errorf("an hour later: status %d, %v", status, got)
		}
		if status, _ := c.refresh(w.server, present); status != http.StatusBadRequest {
			t.Errorf("the present token after a replay: status %d, want 400", status)
		}
		if w.counts.get("ended", "token_replay") != 1 {
			t.Errorf("counted %v", w.counts.of)
		}
		_ = access
	})
}

// TestRefreshTakesTheScopesOfAuthorize has clients that name scopes at a refresh, also
// those that mean nothing here.
func TestRefreshTakesTheScopesOfAuthorize(t *testing.T) {
	w := newWorld(t)
	c := w.signIn(t, base, "ann", func(v url.Values) { v.Set("scope", "openid offline_access") })
	for asked, want := range map[string]string{
		"": "200 read write ", "openid offline_access": "200 read write ", "read openid": "200 read ",
		"read root": "200 read ", "root": "400  invalid_scope",
	} {
		answer := c.b.post(base+"/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {c.refreshWith}, "client_id": {c.id}, "scope": {asked},
		})
		got := object(t, answer)
		scopes, _ := got["scope"].(string)
		fault, _ := got["error"].(string)
		if have := fmt.Sprint(answer.StatusCode, " ", scopes, " ", fault); have != want {
			t.Errorf("scope %q: got %q, want %q", asked, have, want)
		}
	}
}

// TestTheTimeForSpentTokensIsASetting shows that a reload changes for how long a spent
// token is answered, also for sign-ins that are there.
func TestTheTimeForSpentTokensIsASetting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		_, present := c.mustRefresh(w.server, c.refreshWith)
		time.Sleep(2 * time.Hour)
		settings := *w.settings.Load()
		settings.SpentWindow = 3 * time.Hour
		w.settings.Store(&settings)
		if _, next := c.mustRefresh(w.server, c.refreshWith); next != present {
			t.Error("within the longer time: got another token than the present one")
		}
		settings.SpentWindow = 10 * time.Minute
		w.settings.Store(&settings)
		if status, got := c.refresh(w.server, c.refreshWith); status != http.StatusBadRequest {
			t.Errorf("after the shorter time: status %d, %v; want 400", status, got)
		}
	})
}

// TestRefreshTokensAreCleanedFromOutput shows that output cleaning knows what this
// package gives out.
func TestRefreshTokensAreCleanedFromOutput(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		c := w.signIn(t, base, "ann", nil)
		result := mcp.NewObject(mcp.Member{
			Name: "structuredContent", Value: mcp.String(c.refreshWith + " and " + c.access),
		})
		cleaned, _, err := sanitize.Policy{}.Result(result)
		if got, want := cleaned.Text("structuredContent"), "[REDACTED:drawbridge-secret] and [REDACTED:jwt]"; err != nil ||
			got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

// TestParallelRefreshesGetOneToken shows that refreshes in parallel at two replicas give
// one new token to all, and ask the provider once, whose token is good for once.
func TestParallelRefreshesGetOneToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.replica(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		w.idp.set(func() { w.idp.hold = make(chan struct{}) })
		var all sync.WaitGroup
		answers := make([]string, 20)
		for i := range answers {
			all.Go(func() {
				server := w.server
				if i%2 == 1 {
					server = other
				}
				status, got := c.refresh(server, c.refreshWith)
				answers[i] = fmt.Sprint(status, got["refresh_token"])
			})
		}
		time.Sleep(2 * time.Second)
		close(w.idp.hold)
		all.Wait()
		for _, answer := range answers {
			if answer != answers[0] || answer[:3] != "200" {
				t.Fatalf("got %q and %q", answers[0], answer)
			}
		}
		if w.idp.lookups != 1 {
			t.Errorf("the provider was asked %d times, want once", w.idp.lookups)
		}
	})
}

// TestRefreshTakesWhatTheProviderSays shows that scopes and names follow the provider at
// a refresh, and that a person without access has to sign in again.
func TestRefreshTakesWhatTheProviderSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		w.idp.set(func() { w.idp.claims["ann"] = `{"sub":"ann","groups":["acme"],"scope":"admin"}` })
		access, next := c.mustRefresh(w.server, c.refreshWith)
		if _, claims := parts(t, access); scopeOf(claims) != "admin" {
			t.Errorf("got scope %q", scopeOf(claims))
		}
		for name, claims := range map[string]string{
			"no tenant":      `{"sub":"ann","groups":[]}`,
			"another tenant": `{"sub":"ann","groups":["umbrella"]}`,
			"another person": `{"sub":"bob","groups":["acme"]}`,
			"gone":           ``,
		} {
			w := newWorld(t)
			c := w.signIn(t, base, "ann", nil)
			time.Sleep(time.Hour)
			w.idp.set(func() { w.idp.claims["ann"] = claims })
			if status, got := c.refresh(
				w.server,
				c.refreshWith,
			); status != http.StatusBadRequest ||
				got["error"] != "invalid_grant" {
				t.Errorf("%s: status %d, %v", name, status, got)
			}
			if _, err := w.verifier(t).Verify(t.Context(), c.access); err == nil {
				t.Errorf("%s: the access token still counts", name)
			}
		}
		_ = next
	})
}

// TestRefreshIsHeldWhileSomethingIsAway shows that a refresh waits for the store and the
// provider, and that the answer after that lets clients keep their tokens.
func TestRefreshIsHeldWhileSomethingIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, away := range map[string]func(*world, error){
			"store":    func(w *world, err error) { w.store.setAway(err) },
			"provider": func(w *world, err error) { w.idp.set(func() { w.idp.away = err }) },
		} {
			w := newWorld(t)
			c := w.signIn(t, base, "ann", nil)
			time.Sleep(time.Hour)
			away(w, errUnavailable)
			began := time.Now()
			status, got := c.refresh(w.server, c.refreshWith)
			if status != http.StatusServiceUnavailable || got["error"] != "temporarily_unavailable" {
				t.Errorf("%s: status %d, %v", name, status, got)
			}
			if took := time.Since(began); took < 4*time.Second || took > 8*time.Second {
				t.Errorf("%s: held for %v", name, took)
			}
			time.AfterFunc(2*time.Second, func() { away(w, nil) })
			if status, got := c.refresh(w.server, c.refreshWith); status != http.StatusOK {
				t.Errorf("%s came back: status %d, %v", name, status, got)
			}
		}
	})
}

// TestWordOfTheProviderSurvivesTheStore shows that what a provider said is written though
// the store is away for a moment just then: its token is good for once.
func TestWordOfTheProviderSurvivesTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		w.idp.set(func() { w.idp.hold = make(chan struct{}) })
		time.AfterFunc(time.Second, func() {
			w.store.setAway(errUnavailable)
			close(w.idp.hold)
		})
		time.AfterFunc(3*time.Second, func() { w.store.setAway(nil) })
		_, next := c.mustRefresh(w.server, c.refreshWith)
		time.Sleep(time.Hour)
		c.mustRefresh(w.server, next)
	})
}

// TestDeadReplicaHoldsUpNobodyForLong shows that a family whose replica died while it
// asked the provider is free again after the time of a question.
func TestDeadReplicaHoldsUpNobodyForLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		// The replica writes that it asks, and dies.
		puts := 0
		w.store.onPut = func(store.Record) error {
			if puts++; puts > 1 {
				return errUnavailable
			}
			return nil
		}
		w.idp.set(func() { w.idp.away = errUnavailable })
		if status, _ := c.refresh(w.server, c.refreshWith); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
		w.store.onPut = nil
		w.idp.set(func() { w.idp.away = nil })
		time.Sleep(16 * time.Second)
		c.mustRefresh(w.replica(t), c.refreshWith)
	})
}

// TestSlowAnswerOfTheProviderIsKept has a provider that takes nearly as long as it may,
// and a store that is away when the answer comes. Another replica leaves the provider
// alone until the answer is written: the provider's refresh token is good for once.
func TestSlowAnswerOfTheProviderIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.replica(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Minute + 900*time.Millisecond) // times on record are cut to seconds
		answered := make(chan struct{})
		w.idp.set(func() { w.idp.hold = answered })
		var both sync.WaitGroup
		both.Go(func() { c.mustRefresh(w.server, c.refreshWith) })
		time.Sleep(9500 * time.Millisecond)
		w.store.setAway(errUnavailable)
		w.idp.set(func() { w.idp.hold = nil })
		close(answered)
		time.Sleep(4700 * time.Millisecond)
		both.Go(func() { c.mustRefresh(other, c.refreshWith) })
		time.Sleep(100 * time.Millisecond)
		w.store.setAway(nil)
		both.Wait()
		if n := w.counts.get("ended", "provider_refused"); n != 0 {
			t.Errorf("%d sign-ins have ended, want none", n)
		}
	})
}

// TestFamilyWithoutProviderTokenEndsAfterEightHours shows how long a family lives whose
// person cannot be looked up, and how long one that nobody uses.
func TestFamilyWithoutProviderTokenEndsAfterEightHours(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.idp.silent = true
		c := w.signIn(t, base, "ann", nil)
		token := c.refreshWith
		for range 7 {
			time.Sleep(time.Hour)
			_, token = c.mustRefresh(w.server, token)
		}
		time.Sleep(time.Hour)
		if status, got := c.refresh(w.server, token); got["error"] != "invalid_grant" {
			t.Errorf("after eight hours: status %d, %v", status, got)
		}
		w.idp.silent = false
		c = w.signIn(t, base, "ann", nil)
		time.Sleep(29 * 24 * time.Hour)
		_, token = c.mustRefresh(w.server, c.refreshWith)
		time.Sleep(31 * 24 * time.Hour)
		if status, got := c.refresh(
			w.server,
			token,
		); got["error"] != "invalid_grant" &&
			got["error"] != "invalid_client" {
			t.Errorf("after a month: status %d, %v", status, got)
		}
	})
}

// TestSignOutEndsAllOfAPerson shows that a sign-out, and a logout at the provider, end
// all that a person has and nothing else, and that other replicas know it within a
// second.
func TestSignOutEndsAllOfAPerson(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, end := range map[string]func(*world) error{
			"sign-out": func(w *world) error {
				n, err := w.server.SignOut(t.Context(), idpIssuer, "ann")
				again, twice := w.server.SignOut(t.Context(), idpIssuer, "ann")
				if n != 2 || again != 0 {
					return errors.Join(err, twice, fmt.Errorf("ended %d, and then %d", n, again))
				}
				return errors.Join(err, twice)
			},
			"sign-out at a machine that is behind": func(w *world) error {
				behind := w.replica(t, func(c *signin.Config, _ *signin.Settings) {
					c.Now = func() time.Time { return time.Now().Add(-59 * time.Second) }
				})
				_, err := behind.SignOut(t.Context(), idpIssuer, "ann")
				return err
			},
			"logout by subject": func(w *world) error { return w.logout(t, "sub:ann") },
			"logout by session": func(w *world) error { return w.logout(t, "sid:s1") },
		} {
			var changed atomic.Int64
			w := newWorld(t)
			other := w.replica(
				t,
				func(c *signin.Config, _ *signin.Settings) { c.Changed = func() { changed.Add(1) } },
			)
			ctx, cancel := contextOf(t)
			var running sync.WaitGroup
			running.Go(func() { _ = other.Run(ctx) })
			w.idp.sessions = "s1"
			ann := []*signedIn{w.signIn(t, base, "ann", nil), w.signIn(t, base+"/t/acme", "ann", nil)}
			w.idp.sessions = "s2"
			bob := w.signIn(t, base+"/t/acme", "bob", nil)
			there := (&world{server: other, settings: w.settings}).verifier(t)
			time.Sleep(time.Minute)
			if err := end(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(time.Second)
			for _, c := range ann {
				if _, err := there.Verify(t.Context(), c.access); err == nil {
					t.Errorf("%s: an access token of ann counts at another replica", name)
				}
				if status, _ := c.refresh(other, c.refreshWith); status != http.StatusBadRequest {
					t.Errorf("%s: refresh: status %d", name, status)
				}
			}
			if _, err := there.Verify(t.Context(), bob.access); err != nil {
				t.Errorf("%s: bob: %v", name, err)
			}
			bob.mustRefresh(other, bob.refreshWith)
			if changed.Load() == 0 {
				t.Errorf("%s: nobody was told at the other replica", name)
			}
			again := w.signIn(t, base, "ann", nil)
			if _, err := there.Verify(t.Context(), again.access); err != nil {
				t.Errorf("%s: a new sign-in: %v", name, err)
			}
			cancel()
			running.Wait()
		}
	})
}

// logout brings a logout token of the provider.
func (w *world) logout(t testing.TB, token string) error {
	answer := w.browser(t).post(base+"/logout/corp", url.Values{"logout_token": {token}})
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", answer.StatusCode, read(answer))
	}
	return nil
}

// TestALogoutFindsSignInsAndNoMoreIsKept shows that a logout at the provider ends a
// sign-in in use for however long, also if the provider calls its session by another name
// by then, and that of sign-ins that have ended nothing is kept to find them.
func TestALogoutFindsSignInsAndNoMoreIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		kept := func() int {
			found, err := w.store.List(t.Context(), store.Query{Kind: "logout"})
			if err != nil {
				t.Error(err)
			}
			return len(found)
		}
		w.idp.sessions = "s1"
		c := w.signIn(t, base, "ann", nil)
		for range 10 { // 200 days
			time.Sleep(20 * 24 * time.Hour)
			_, c.refreshWith = c.mustRefresh(w.server, c.refreshWith)
		}
		w.idp.sessions = "s2"
		for range 2 {
			time.Sleep(time.Hour)
			_, c.refreshWith = c.mustRefresh(w.server, c.refreshWith)
		}
		if err := w.logout(t, "sid:s2"); err != nil {
			t.Error(err)
		}
		if status, _ := c.refresh(w.server, c.refreshWith); status != http.StatusBadRequest {
			t.Errorf("after the logout: status %d, want 400", status)
		}
		if n := kept(); n != 0 {
			t.Errorf("%d records lead to a family that has ended", n)
		}
		for range 110 {
			w.signIn(t, base, "ann", nil)
		}
		if n := kept(); n != 2*100 {
			t.Errorf("%d records lead to the hundred families that a person may have, want 200", n)
		}
		time.Sleep(34 * 24 * time.Hour)
		w.idp.silent = true
		w.signIn(t, base, "ann", nil)
		if n := kept(); n != 2 {
			t.Errorf("%d records lead to one family, want 2", n)
		}
		time.Sleep(9 * time.Hour)
		if n := kept(); n != 0 {
			t.Errorf("%d records lead to a family that could not be refreshed", n)
		}
	})
}

// TestALogoutIsHeldWhileTheStoreIsAway has a provider tell of a logout once, while the
// store is away for a moment.
func TestALogoutIsHeldWhileTheStoreIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		w.store.setAway(errUnavailable)
		time.AfterFunc(2*time.Second, func() { w.store.setAway(nil) })
		if err := w.logout(t, "sub:ann"); err != nil {
			t.Error(err)
		}
		if status, _ := c.refresh(w.server, c.refreshWith); status != http.StatusBadRequest {
			t.Errorf("after the logout: status %d, want 400", status)
		}
	})
}

// TestALogoutEndsASignInHalfway has a person who signs out at the provider before the
// client has its tokens: while the page still asks, or before the code is redeemed.
func TestALogoutEndsASignInHalfway(t *testing.T) {
	w := newWorld(t)
	w.idp.sessions = "s1"
	b := w.browser(t)
	id := b.register(base, loopback)
	form := b.asked(w.idp.signIn(t, "ann", b.toProvider(base, query(id, loopback))))
	code := w.code(t, w.browser(t), base, "ann", id, nil)
	if err := w.logout(t, "sid:s1"); err != nil {
		t.Error(err)
	}
	if answer := b.post(base+"/consent", form); answer.StatusCode != http.StatusConflict {
		t.Errorf("a consent after the logout: status %d, want 409", answer.StatusCode)
	}
	answer := b.post(base+"/token", redeem(id, code))
	if got := object(t, answer); got["error"] != "invalid_grant" {
		t.Errorf("a code after the logout: status %d, %v, want invalid_grant", answer.StatusCode, got["error"])
	}
}

// TestRegistrationOutlivesItsFirstWeekOnlyWhenUsed shows how long a registration holds
// that nobody consented to, such as that of a person who had to ask for access first, and
// one that is in use.
func TestRegistrationOutlivesItsFirstWeekOnlyWhenUsed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		unused := w.browser(t).register(base, loopback)
		c := w.signIn(t, base, "ann", nil)
		status := func(id string) int {
			return w.browser(t).get(base + "/authorize?" + query(id, loopback).Encode()).StatusCode
		}
		time.Sleep(6 * 24 * time.Hour)
		if got := status(unused); got != http.StatusSeeOther {
			t.Errorf("unused for six days: status %d, want 303", got)
		}
		time.Sleep(2 * 24 * time.Hour)
		if got := status(unused); got != http.StatusBadRequest {
			t.Errorf("unused for eight days: status %d, want 400", got)
		}
		if got := status(c.id); got != http.StatusSeeOther {
			t.Errorf("used: status %d, want 303", got)
		}
		token := c.refreshWith
		for range 20 { // 400 days
			time.Sleep(20 * 24 * time.Hour)
			_, token = c.mustRefresh(w.server, token)
		}
		time.Sleep(170 * 24 * time.Hour)
		if got := status(c.id); got != http.StatusSeeOther {
			t.Errorf("used 170 days ago: status %d, want 303", got)
		}
		time.Sleep(20 * 24 * time.Hour)
		if got := status(c.id); got != http.StatusBadRequest {
			t.Errorf("used 190 days ago: status %d, want 400", got)
		}
		// A client that is gone is told to register again.
		if status, got := c.refresh(
			w.server,
			token,
		); status != http.StatusUnauthorized ||
			got["error"] != "invalid_client" {
			t.Errorf("refresh of a client that is gone: status %d, %v", status, got)
		}
	})
}

// TestAPersonKeepsAHundredRegistrations has a program that registers anew at each
// connect. The registration that was not used for longest goes, and no more of it than
// that.
func TestAPersonKeepsAHundredRegistrations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		status := func(c *signedIn) int {
			return w.browser(t).get(base + "/authorize?" + query(c.id, loopback).Encode()).StatusCode
		}
		inUse := w.signIn(t, base, "ann", nil)
		other := w.signIn(t, base+"/t/acme", "bob", nil)
		shared := w.signIn(t, base, "ann", nil)
		w.code(t, w.browser(t), base+"/t/acme", "bob", shared.id, nil)
		time.Sleep(time.Hour)
		first := w.signIn(t, base, "ann", nil)
		time.Sleep(15 * 24 * time.Hour)
		_, inUse.refreshWith = inUse.mustRefresh(w.server, inUse.refreshWith)
		for range 99 {
			w.signIn(t, base, "ann", nil)
		}
		kept, err := w.store.List(t.Context(), store.Query{Kind: "client"})
		if err != nil || len(kept) != 102 {
			t.Errorf("%d registrations are kept, %v; want 100 of ann, one of bob, one of both", len(kept), err)
		}
		for name, c := range map[string]*signedIn{
			"in use": inUse, "of somebody else": other, "also of somebody else": shared,
		} {
			if got := status(c); got != http.StatusSeeOther {
				t.Errorf("%s: status %d, want 303", name, got)
			}
		}
		if got := status(first); got != http.StatusBadRequest {
			t.Errorf("the one that was not used for longest: status %d, want 400", got)
		}
	})
}

// TestARegistrationInUseStays has a program that somebody uses each day, and another one
// that registers anew all the time: the first is older, and is used.
func TestARegistrationInUseStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		inUse := w.signIn(t, base, "ann", nil)
		for range 6 {
			time.Sleep(25 * time.Hour)
			_, inUse.refreshWith = inUse.mustRefresh(w.server, inUse.refreshWith)
			for range 18 {
				w.signIn(t, base, "ann", nil)
			}
		}
		got := w.browser(t).get(base + "/authorize?" + query(inUse.id, loopback).Encode()).StatusCode
		if got != http.StatusSeeOther {
			t.Errorf("a client that was used today: status %d, want 303", got)
		}
	})
}

// TestCallbacksOfStrangersLeaveRefreshesAPlace has browsers come back from a provider
// that is slow, as many as questions may be under way. Anybody can do that; who is signed
// in goes on.
func TestCallbacksOfStrangersLeaveRefreshesAPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		slow := make(chan struct{})
		w.idp.set(func() { w.idp.slow = slow })
		var strangers sync.WaitGroup
		for range 128 {
			b := w.browser(t)
			back := w.idp.signIn(t, "eve", b.toProvider(base, query(c.id, loopback)))
			strangers.Go(func() { b.get(back) })
		}
		synctest.Wait()
		c.mustRefresh(w.server, c.refreshWith)
		close(slow)
		strangers.Wait()
	})
}

// TestProviderIsNotAskedAgainInVain shows that a refresh token of a provider is not sent
// again at once if the provider may have taken it, or refuses the gateway as its client,
// and that the family goes on.
func TestProviderIsNotAskedAgainInVain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, failed := range []error{signin.ErrUnanswered, signin.ErrClientRefused} {
			w := newWorld(t)
			c := w.signIn(t, base, "ann", nil)
			time.Sleep(time.Hour)
			w.idp.set(func() { w.idp.away = failed })
			status, got := c.refresh(w.server, c.refreshWith)
			if status != http.StatusServiceUnavailable || got["error"] != "temporarily_unavailable" || w.idp.lookups != 1 {
				t.Errorf("%v: status %d, %v after %d questions, want 503 after one", failed, status, got, w.idp.lookups)
			}
			w.idp.set(func() { w.idp.away = nil })
			c.mustRefresh(w.server, c.refreshWith)
		}
	})
}

// TestNextTokenOfAProviderSurvivesItsFailure shows that the refresh token is kept that a
// provider gave before it failed to say who the person is: the one before it is spent.
func TestNextTokenOfAProviderSurvivesItsFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		w.idp.set(func() { w.idp.mute = 1 })
		c.mustRefresh(w.server, c.refreshWith)
		if w.idp.lookups != 2 {
			t.Errorf("the provider was asked %d times, want 2", w.idp.lookups)
		}
	})
}
