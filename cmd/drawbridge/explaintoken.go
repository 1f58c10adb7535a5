package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// ofToken is principal for a token or an access key. Where the keys of the issuer have to
// be fetched and -online is not given, the claims are judged as if the signature were
// good.
func (w *walk) ofToken(ctx context.Context) (p auth.Principal, refused *auth.Error, err error) {
	file, err := input(w.tokenFile)
	if err != nil {
		return p, nil, err
	}
	defer closeQuietly(file)
	data, err := io.ReadAll(io.LimitReader(file, maxReadBytes))
	if err != nil {
		return p, nil, err
	}
	own, err := w.givenOut(ctx)
	if err != nil {
		return p, nil, err
	}
	defer own.close()
	v := spoken{text: strings.TrimSpace(string(data)), entry: -1}
	if strings.HasPrefix(v.text, accesskey.Prefix) {
		v.principal, err = own.key(ctx, w.cfg, v.text)
	} else {
		err = w.verify(ctx, own, &v)
	}
	if refused, ok := errors.AsType[*auth.Error](err); ok {
		w.refusedToken(refused, v.entry)
		return p, refused, nil
	}
	if err != nil {
		return p, nil, err
	}
	return w.caller(&v)
}

// spoken is a token or an access key, and whom it speaks for.
type spoken struct {
	text      string
	principal auth.Principal
	entry     int    // of the issuer in the config; beyond them: the gateway gave the token out; -1: no token
	checked   string // how far a token was verified
}

// verify finds out whom a token speaks for. Keys are fetched with -online alone. Without
// it the verifier's Run ends before it fetches anything, so that nothing waits for keys.
func (w *walk) verify(ctx context.Context, own *givenOut, v *spoken) error {
	all, err := newVerifiers(own.issuers, keySetStorage{}, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		return err
	}
	verifier := all.current.Load()
	fetched, end := context.WithCancel(ctx)
	defer end()
	if !w.online {
		end()
	}
	all.start(fetched)
	defer all.wait()
	v.entry, v.checked = verifier.Entry(v.text), "its signature is good"
	v.principal, err = verifier.Verify(ctx, v.text)
	if unavailable, ok := errors.AsType[*auth.Error](err); ok && unavailable.Reason == "unavailable" {
		v.checked = "its signature was not checked, for the keys are fetched: see -online"
		if w.online {
			w.line("keys", "cannot be fetched: %v", unavailable.Err)
			v.checked = "its signature was not checked"
		}
		v.principal, err = verifier.Unverified(v.text)
	}
	if v.entry >= len(w.cfg.Issuers) && !own.ended {
		v.checked += ", and whether its sign-in has ended is not known here: see -online"
	}
	return err
}

// caller writes whom a token or key speaks for, and at which of its tenants.
func (w *walk) caller(v *spoken) (auth.Principal, *auth.Error, error) {
	p, by := v.principal, "the key"
	switch {
	case v.entry < 0:
		w.line("key", "%s is an access key of this gateway", strings.TrimPrefix(p.ClientID, "access-key-"))
	case v.entry >= len(w.cfg.Issuers):
		by = "the sign-in"
		w.line("token", "this gateway gave it out, %s", v.checked)
		w.line("issuer", "%s (%s)", p.Issuer, w.loginLocation(p.Issuer))
	default:
		by = tenantSource(&w.cfg.Issuers[v.entry])
		w.line("issuer", "%s (%s), %s", p.Issuer, w.entryLocation(v.entry), v.checked)
	}
	all := p.Tenants
	if len(all) == 0 {
		all = []string{p.TenantID}
	}
	w.line("tenant", "%s, by %s", strings.Join(all, ", "), by)
	w.line("caller", "%s#%s%s%s, until %s", p.Issuer, p.Subject, named(p.Name), scopesIn(p.Scopes),
		p.Expiry.UTC().Format("2006-01-02 15:04:05 MST"))
	if w.tenant == "" {
		return p, nil, nil
	}
	chosen, is := p.At(w.tenant)
	if !is {
		return p, nil, fmt.Errorf("the token is not for tenant %q, so /t/%s/mcp answers DB-NOT-FOUND",
			w.tenant, w.tenant)
	}
	return chosen, nil, nil
}

// entryLocation says where an issuer stands of which the config has that many before it.
func (w *walk) entryLocation(i int) string {
	if i < 0 || i >= len(w.cfg.Issuers) {
		return "this gateway"
	}
	return location(w.cfg.Position(config.EntryName(i)))
}

// loginLocation says where the login stands at which people of an issuer sign in.
// Machines sign in at the gateway itself.
func (w *walk) loginLocation(issuer string) string {
	for i := range w.cfg.Logins {
		if l := &w.cfg.Logins[i]; l.Issuer.Issuer == issuer {
			return location(w.cfg.Position("login " + l.Name))
		}
	}
	return "this gateway"
}

// named is a person's name behind the subject, "" for none.
func named(name string) string {
	return when(name != "", " (%q)", name)
}

// refusedToken writes why a token is refused, in words that a client never reads.
func (w *walk) refusedToken(refused *auth.Error, entry int) {
	code := gateway.CodeOf(outcomeUnauthenticated, refused.Reason, "")
	w.putFirst(fmt.Sprintf("refused: %s, %s (the client reads %s)", outcomeUnauthenticated, refused.Reason,
		code))
	detail := when(refused.Err != nil, ": %v", refused.Err)
	// the cure of a code may lead to the log of a gateway, which nobody has here
	cure := cmp.Or(map[string]string{
		"missing":   "the file, which is empty: it wants the token alone",
		"malformed": "the token alone, as it was given out: three parts with dots between",
		"issuer":    "add the issuer that the token names to issuers, or get a token of one that is there",
		"algorithm": "algorithms of the entry, or how the issuer signs",
		"key":       "the keys of the entry, or a token that the issuer has signed with one of them",
		"signature": "the keys of the entry, or a token that the issuer has signed with one of them",
		"audience":  "audiences of the entry, or a token for this gateway",
		"claims":    "what the issuer says in the claim, or what the entry says of it",
	}[refused.Reason], meaningOf(code).cure)
	switch {
	case errors.Is(refused.Err, accesskey.ErrOff):
		cure = "turn access keys on with access_keys: on, or send a token"
	case entry < 0 && refused.Reason == "key":
		cure = "the key: drawbridge keys list says which there are, and keys create makes one"
	}
	w.out.WriteString(linesAbout([][2]string{
		{"token", meaningOf(outcomeUnauthenticated+", "+refused.Reason).says + detail},
		{"claimed", when(refused.Claimed != "", "the token names the issuer %q", refused.Claimed)},
		{"issuer", when(refused.Issuer != "", "%s (%s)", refused.Issuer, w.entryLocation(entry))},
		{"audience", audienceAtFault(refused.Audience, refused.Expected)},
		{"claim", claimAtFault(refused)},
		{"change", cure},
	}))
}

// audienceAtFault says whom a token is for that is not for us, "" if that is no fault.
func audienceAtFault(audience, expected []string) string {
	return when(len(audience) > 0, "the token is for %q, expected is %q", audience, expected)
}

// claimAtFault says which claim was the fault, what stands there and what was expected;
// "" if none was.
func claimAtFault(refused *auth.Error) string {
	found := "is not there"
	if refused.Found != "" {
		found = fmt.Sprintf("is %q", refused.Found)
	}
	return when(refused.Claim != "", "%s %s%s", refused.Claim, found,
		when(len(refused.Expected) > 0, ", expected is one of %q", refused.Expected))
}

// givenOut is what the gateway itself gives out, as far as explain looks at it.
type givenOut struct {
	db      store.Database  // nil: nothing is kept yet, or a server keeps it that was not asked
	issuers []config.Issuer // of all tokens; those for people who signed in are the last
	ended   bool            // it is known which sign-ins have ended
}

// givenOut opens what the config says that the gateway keeps, and makes nothing that is
// not there. A server is asked with -online alone.
func (w *walk) givenOut(ctx context.Context) (*givenOut, error) {
	g := &givenOut{issuers: w.cfg.Issuers}
	if !w.cfg.AccessKeys && !w.cfg.SignsIn() {
		return g, nil
	}
	ring, db, err := openThere(w.cfg, w.online)
	g.db = db
	if err == nil && w.cfg.SignsIn() {
		err = g.signIns(ctx, w.cfg, ring)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// openThere opens what a config keeps, and the keys that seal it, if both are there: it
// makes nothing. A server is asked only if that is wanted. A nil database is that there
// is none.
func openThere(cfg *config.Config, server bool) (ring *seal.Ring, db store.Database, err error) {
	dir := cfg.Data.Dir
	ring = seal.RandomRing() // without keys a gateway that starts makes new ones
	if len(cfg.Sessions.Keys) > 0 || isThere(filepath.Join(dir, ringFile)) {
		ring, err = newRing(cfg)
	}
	if err == nil && (dir == "" && server || dir != "" && isThere(filepath.Join(dir, storeFile))) {
		db, err = openStore(cfg, ring, slog.New(slog.DiscardHandler))
	}
	return ring, db, err
}

// signIns finds out how tokens for people who signed in are verified.
func (g *givenOut) signIns(ctx context.Context, cfg *config.Config, ring *seal.Ring) error {
	s, err := newSignIns(cfg, settingsOf(cfg, cfg.Listen), signInParts{
		ring: ring, db: g.db, log: slog.New(slog.DiscardHandler),
		metrics: metrics.New(prometheus.NewRegistry()), changed: func() {},
	})
	if err != nil {
		return err
	}
	g.issuers = s.issuers(cfg, s.settings.Load(), cfg.TenantIDs())
	g.ended = cfg.Data.Dir != "" || g.db != nil
	if g.db == nil {
		return nil
	}
	return s.server.Learn(ctx)
}

// key returns whom an access key speaks for.
func (g *givenOut) key(ctx context.Context, cfg *config.Config, text string) (auth.Principal, error) {
	switch {
	case g.db != nil || !accesskey.IsKey(text) || !cfg.AccessKeys:
	case cfg.Data.Dir == "":
		return auth.Principal{}, errors.New("a server keeps the access keys, and is asked with -online")
	default:
		return auth.Principal{}, &auth.Error{Reason: "key", Err: errors.New("no access key was made yet")}
	}
	return accesskey.New(accesskey.Config{
		Store: g.db, Log: slog.New(slog.DiscardHandler), Now: time.Now, Revoked: func() {},
		Taken:  func() bool { return cfg.AccessKeys },
		Issuer: func() string { return settingsOf(cfg, cfg.Listen).Base() },
	}).Verify(ctx, text)
}

func (g *givenOut) close() {
	if g.db != nil {
		_ = g.db.Close() // it was only read
	}
}
