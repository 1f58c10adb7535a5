package signin_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// lines are the lines of an audit.
type lines struct {
	mu  sync.Mutex // guards the field below
	all []audit.Record
}

// keep makes a server keep its lines here.
func (l *lines) keep(cfg *signin.Config, _ *signin.Settings) {
	cfg.Audit = func(_ context.Context, r audit.Record) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, r)
		return true
	}
}

// take returns the lines since the last call, each as tenant, person, name, outcome and
// reason.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var said []string
	for _, r := range l.all {
		said = append(said, strings.TrimSpace(strings.Join(
			[]string{r.TenantID, r.Issuer + "#" + r.Subject, r.Name, r.Outcome, r.Reason}, " ")))
	}
	l.all = nil
	return said
}

func (l *lines) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("%s is on record as\n%q, want\n%q", what, got, want)
	}
}

const (
	annOnRecord  = "acme " + idpIssuer + "#ann ann@acme.example "
	nobodyKnown  = "#  "
	robotOfAcme  = "acme " + base + "#robot  "
	aSecretAsSet = "0123456789abcdef"
)

// TestSignInsAreOnRecord shows what the audit says of a sign-in from its beginning to its
// end: the consent, the tokens, each end before its time with the reason, at the replica
// that ended it and, when the operator did, at the first that hears of it.
func TestSignInsAreOnRecord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, heard := &lines{}, &lines{}
		robot := func(_ *signin.Config, s *signin.Settings) {
			s.Clients = []clients.Fixed{fixed("robot", clients.Fixed{
				Secret: aSecretAsSet, Grants: []string{"client_credentials"}, Tenant: "acme",
			})}
		}
		w := newWorld(t, kept.keep, robot)
		ctx, end := contextOf(t)
		var running sync.WaitGroup
		for range 3 {
			other := w.replica(t, heard.keep, robot)
			running.Go(func() { _ = other.Run(ctx) })
		}
		defer running.Wait()
		defer end()
		synctest.Wait()

		c := w.signIn(t, base, "ann", nil)
		kept.expect(t, "a sign-in", annOnRecord+"ok consented", annOnRecord+"ok signed_in")
		_, next := c.mustRefresh(w.server, c.refreshWith)
		kept.expect(t, "a refresh that succeeds")
		time.Sleep(2 * time.Hour)
		c.mustRefresh(w.server, next)
		c.refresh(w.server, c.refreshWith)
		kept.expect(t, "a replay", annOnRecord+"ended token_replay", nobodyKnown+"invalid_request invalid_grant")

		c = w.signIn(t, base, "ann", nil)
		kept.take()
		c.b.post(base+"/revoke", url.Values{"token": {c.refreshWith}, "client_id": {c.id}})
		kept.expect(t, "a revocation by the client", annOnRecord+"ended revoked")

		c = w.signIn(t, base, "ann", nil)
		kept.take()
		w.idp.set(func() { w.idp.claims["ann"] = `{"sub":"ann","groups":["nobody"],"email":"ann@acme.example"}` })
		time.Sleep(time.Hour)
		c.refresh(w.server, c.refreshWith)
		if line := kept.all[0]; line.Outcome != "ended" || line.Reason != "no_access" || line.Claim != "groups" ||
			line.Found != `["nobody"]` || !slices.Equal(line.Expected, []string{"acme", "umbrella"}) {
			t.Errorf("a person who lost the group: %+v", line)
		}
		w.idp.set(func() { w.idp.claims["ann"] = `{"sub":"ann","groups":["acme"],"email":"ann@acme.example"}` })

		w.signIn(t, base, "ann", nil)
		kept.take()
		command := w.replica(t, robot)
		if n, err := command.SignOut(t.Context(), idpIssuer, "ann"); n == 0 || err != nil {
			t.Fatalf("signed out of %d, %v", n, err)
		}
		time.Sleep(time.Minute)
		heard.expect(t, "a sign-out by the operator, at one of three replicas", annOnRecord+"ended signed_out")

		w.browser(t).post(base+"/token", url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"robot"}, "client_secret": {aSecretAsSet},
		})
		kept.expect(t, "a client's own token", robotOfAcme+"ok client_credentials")
	})
}

// TestRefusedSignInsAreOnRecord shows what the audit says of who gets no tokens, and
// which claim of a person was why.
func TestRefusedSignInsAreOnRecord(t *testing.T) {
	kept := &lines{}
	w := newWorld(t, kept.keep)
	b := w.browser(t)
	id := b.register(base, loopback)

	form := b.asked(w.idp.signIn(t, "ann", b.toProvider(base, query(id, loopback))))
	form.Set("decision", "deny")
	b.post(base+"/consent", form)
	kept.expect(t, "a consent that is denied", annOnRecord+"forbidden denied")

	b.get(base + "/authorize?" + query("nobody", loopback).Encode())
	kept.expect(t, "an unknown client", nobodyKnown+"invalid_request unknown_client")

	b.post(base+"/token", redeem(id, "made-up"))
	kept.expect(t, "a code that was made up", nobodyKnown+"invalid_request invalid_grant")

	b.get(w.idp.signIn(t, "eve", b.toProvider(base, query(id, loopback))))
	if len(kept.all) != 1 {
		t.Fatalf("a person without a tenant: %+v", kept.all)
	}
	line := kept.all[0]
	if line.Outcome != "forbidden" || line.Reason != "no_access" || line.Claim != "groups" ||
		line.Found != `["nobody"]` || !slices.Equal(line.Expected, []string{"acme", "umbrella"}) ||
		line.Issuer != idpIssuer || line.Subject != "eve" {
		t.Errorf("a person without a tenant: %+v", line)
	}
	kept.take()

	at := base + "/t/umbrella"
	b.get(w.idp.signIn(t, "ann", b.toProvider(at, query(id, loopback))))
	kept.expect(t, "a person at the address of another tenant", strings.TrimPrefix(annOnRecord, "acme ")+"forbidden no_access")
}

// TestFloodsOfRefusalsAreNotLogged shows that what the audit sums up is not in the log
// line by line either.
func TestFloodsOfRefusalsAreNotLogged(t *testing.T) {
	w := newWorld(t, func(cfg *signin.Config, _ *signin.Settings) {
		cfg.Audit = func(context.Context, audit.Record) bool { return false }
	})
	answer := w.browser(t).get(base + "/authorize?" + query("nobody", loopback).Encode())
	if answer.StatusCode != http.StatusBadRequest || strings.Contains(w.log.String(), "refused") {
		t.Errorf("status %d, log %s", answer.StatusCode, w.log)
	}
}
