package auth_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// newSecret returns a secret that is not the common one.
func newSecret() auth.Key {
	other := bytes.Clone(secret)
	slices.Reverse(other)
	return auth.Key{Public: other, Private: other}
}

// TestJudgeAsVerify changes an issuer in every way that a config can, and asks of each
// pair of states whether a principal made in the one is judged in the other as its token
// is verified there.
func TestJudgeAsVerify(t *testing.T) {
	ed, hmac := newEd(), auth.Key{Public: secret, Private: secret}
	base := acme(keyOf("k1", ed), "EdDSA", "ES256", "HS256")
	changes := map[string]func(*auth.Issuer){
		"as it was":              func(*auth.Issuer) {},
		"another name":           func(i *auth.Issuer) { i.Issuer = "https://other.example/" },
		"one algorithm less":     func(i *auth.Issuer) { i.Algorithms = []string{"EdDSA"} },
		"another key, same kid":  func(i *auth.Issuer) { i.Keys = []auth.Key{keyOf("k1", newEd())} },
		"another type, same kid": func(i *auth.Issuer) { i.Keys = []auth.Key{keyOf("k1", newEC())} },
		"same key, another kid":  func(i *auth.Issuer) { i.Keys = []auth.Key{keyOf("k2", ed)} },
		"one key more": func(
			i *auth.Issuer,
		) {
			i.Keys = []auth.Key{keyOf("k1", ed), keyOf("k2", newEd())}
		},
		"a secret":        func(i *auth.Issuer) { i.Keys = []auth.Key{hmac} },
		"another secret":  func(i *auth.Issuer) { i.Keys = []auth.Key{newSecret()} },
		"a set in a file": func(i *auth.Issuer) { i.Keys, i.JWKS = nil, keySet(keyOf("k1", ed)) },
		"another audience": func(
			i *auth.Issuer,
		) {
			i.Audiences = []string{"https://elsewhere.example/mcp"}
		},
		"one audience more": func(
			i *auth.Issuer,
		) {
			i.Audiences = []string{"https://elsewhere.example/mcp", audience}
		},
		"another tenant": func(i *auth.Issuer) { i.Tenant = "globex" },
		"tenant by claim": func(i *auth.Issuer) {
			i.Tenant, i.TenantClaim, i.TenantsAllowed = "", "org", []string{"acme", "globex"}
		},
		"tenant taken from the list": func(
			i *auth.Issuer,
		) {
			i.Tenant, i.TenantClaim, i.TenantsAllowed = "", "org", []string{"globex"}
		},
		"tenant by another claim": func(
			i *auth.Issuer,
		) {
			i.Tenant, i.TenantClaim, i.TenantsAllowed = "", "team", []string{"acme"}
		},
		"scopes by another claim": func(i *auth.Issuer) { i.ScopeClaims = []string{"scp"} },
	}
	said := claims(at).with("org", `"acme"`).with("team", `"umbrella"`).with("scp", `"other"`)
	tokens := []string{
		mint(ed, header("EdDSA").with("kid", `"k1"`), said),
		mint(secret, header("HS256").with("kid", `"k1"`), said),
	}
	agreed := map[bool]int{}
	for before, change := range changes {
		first := base
		change(&first)
		for after, next := range changes {
			second := base
			next(&second)
			if before == after {
				second = first
			}
			now := verifier(t, second)
			for _, token := range tokens {
				p, err := verifier(t, first).Verify(t.Context(), token)
				if err != nil {
					continue
				}
				then, err := now.Verify(t.Context(), token)
				same := err == nil && then.TenantID == p.TenantID && slices.Equal(then.Scopes, p.Scopes)
				judged := now.Recheck(p)
				// A claim that tells the same tenant as before may do so by chance, and
				// is not asked again.
				strict := first.TenantClaim != second.TenantClaim
				if why := reason(t, token, judged); (why == "") != same && (!strict || why != "tenant") {
					t.Errorf("%s, then %s: judged %q; its token is verified anew: %v (%v)", before, after,
						why, same, err)
				}
				agreed[same]++
			}
		}
	}
	if agreed[true] < 20 || agreed[false] < 50 {
		t.Errorf("compared %d that still hold and %d that do not, want more", agreed[true], agreed[false])
	}
}

// TestJudgeByTime shows that a principal holds as long as its token does, and that one
// that was not verified never does.
func TestJudgeByTime(t *testing.T) {
	now := at
	issuer := acme(auth.Key{Public: secret}, "HS256")
	v, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	token := mint(secret, header("HS256"), claims(at))
	p, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]string{
		0: "", time.Hour + 29*time.Second: "",
		time.Hour + 30*time.Second: "expired", 48 * time.Hour: "expired",
	} {
		now = at.Add(after)
		if got := reason(t, token, v.Recheck(p)); got != want {
			t.Errorf("after %v: got %q, want %q", after, got, want)
		}
	}
	now = at
	forged := auth.Principal{Issuer: p.Issuer, Subject: p.Subject, TenantID: p.TenantID, Expiry: p.Expiry}
	if err := v.Recheck(forged); err == nil {
		t.Error("a principal that was not verified: accepted")
	}
}

// TestNobodyIsRefusedForKeysThatAreAwaited judges a principal by a verifier whose first
// fetch of its issuer's keys has not ended: all but the key is judged meanwhile, and the
// key once that is known.
func TestNobodyIsRefusedForKeysThatAreAwaited(t *testing.T) {
	key := keyOf("k1", newEd())
	for _, test := range []struct {
		name   string
		answer func(*provider)
		want   string
	}{
		{"the same key", func(p *provider) { p.publish(key) }, ""},
		{"another key", func(p *provider) { p.publish(keyOf("k1", newEd())) }, "key"},
		{"no keys", func(p *provider) { p.setDown(true) }, "unavailable"},
	} {
		synctest.Test(t, func(t *testing.T) {
			token, idp := tokenLiving(key, time.Hour), &provider{}
			before, err := auth.New(auth.Config{Issuers: []auth.Issuer{acme(key, "EdDSA")}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := before.Verify(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			test.answer(idp)
			elsewhere := remoteIssuer()
			elsewhere.Audiences = []string{"https://elsewhere.example/mcp"}
			judged := func(issuer auth.Issuer) (now func() string, told *atomic.Int64) {
				told = new(atomic.Int64)
				v := runningWith(t, auth.Config{
					Issuers: []auth.Issuer{fetched(issuer, clientOf(slowly(idp.answer, time.Second)))},
					Changed: func() { told.Add(1) },
				})
				return func() string { return reason(t, token, v.Recheck(p)) }, told
			}
			now, told := judged(remoteIssuer())
			other, _ := judged(elsewhere)
			synctest.Wait()
			if got := now(); got != "" || told.Load() != 0 {
				t.Errorf("%s: while the keys are fetched: got %q and told %d times, want neither", test.name,
					got, told.Load())
			}
			if got := other(); got != "audience" {
				t.Errorf("for another audience: got %q, want audience", got)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := now(); got != test.want || told.Load() != 1 {
				t.Errorf("%s: got %q and told %d times, want %q and once", test.name, got, told.Load(),
					test.want)
			}
		})
	}
}

// TestJudgeAllocatesNothing: each open stream is judged whenever lists have changed, so
// with thousands of them whatever that allocates is megabytes at once.
func TestJudgeAllocatesNothing(t *testing.T) {
	v, err := auth.New(auth.Config{
		Issuers: []auth.Issuer{acme(auth.Key{Public: secret}, "HS256")},
		Now:     func() time.Time { return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Verify(t.Context(), mint(secret, header("HS256"), claims(at)))
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(100, func() { err = v.Recheck(p) }); got != 0 || err != nil {
		t.Errorf("got %v allocations and error %v, want none", got, err)
	}
}
