package auth_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// hourOfTokens is what a test does with one hour of an issuer whose config names claims.
type hourOfTokens struct {
	without, with int // how many new tokens lack the claim, and have it
	reused        int // how often the last of them comes again
}

// lived returns what is told at the end of each hour: in the log, and as missing claims.
func lived(t *testing.T, issuer auth.Issuer, claim, value string, hours ...hourOfTokens) (logged []int,
	missing [][]auth.MissingClaim, log string,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		v := runningWith(t, auth.Config{
			Issuers: []auth.Issuer{issuer},
			Logger:  slog.New(slog.NewTextHandler(&lines, nil)),
		})
		subject := 0
		next := func(made members) string {
			subject++
			return mint(secret, header("HS256"), made.with("sub", strconv.Quote(fmt.Sprint("user", subject))))
		}
		time.Sleep(time.Minute)
		for _, h := range hours {
			token := ""
			for range h.without {
				token = next(claims(time.Now()).without(claim))
				_, _ = v.Verify(t.Context(), token)
			}
			for range h.with {
				token = next(claims(time.Now()).with(claim, value))
				_, _ = v.Verify(t.Context(), token)
			}
			for range h.reused {
				_, _ = v.Verify(t.Context(), token)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			logged = append(logged, strings.Count(lines.String(), "no token of an hour had a claim"))
			missing = append(missing, v.MissingClaims())
		}
		log = lines.String()
	})
	return logged, missing, log
}

// byScopes is an issuer with a fixed tenant, whose scopes are in a claim that config
// names.
func byScopes(claim string) auth.Issuer {
	issuer := acme(auth.Key{Public: secret}, "HS256")
	if claim != "" {
		issuer.ScopeClaims = []string{claim}
	}
	return issuer
}

// byTenant is an issuer whose tokens name their tenant.
func byTenant() auth.Issuer {
	issuer := acme(auth.Key{Public: secret}, "HS256")
	issuer.Tenant, issuer.TenantClaim, issuer.TenantsAllowed = "", "team", []string{"acme"}
	return issuer
}

// ofGateway is an issuer that is the gateway itself, whose tokens may have a name.
func ofGateway() auth.Issuer {
	issuer := acme(auth.Key{Public: secret}, "HS256")
	keys := issuer.Keys
	issuer.Own, issuer.Keys = &auth.Own{Keys: func() *auth.PublicKeys { return auth.NewPublicKeys(1, keys...) }}, nil
	issuer.NameClaim = "name"
	return issuer
}

// TestClaimThatNoTokenOfAnHourHadIsTold shows when it is told that tokens lack a claim:
// once in the log, and by MissingClaims for as long as it holds.
func TestClaimThatNoTokenOfAnHourHadIsTold(t *testing.T) {
	type told struct{ logged, missing int }
	for _, test := range []struct {
		name   string
		issuer auth.Issuer
		claim  string
		value  string
		hours  []hourOfTokens
		want   []told
	}{
		{
			"scopes at another path", byScopes("realm_access.roles"), "realm_access",
			`{"groups":["tools.read"]}`,
			[]hourOfTokens{{with: 5}, {with: 7}, {}},
			[]told{{1, 5}, {1, 7}, {1, 7}},
		},
		{"a tenant that no token names", byTenant(), "team", `"acme"`, []hourOfTokens{{without: 6}}, []told{{1, 6}}},
		{
			"until a token has it", byScopes("scp"), "scp", `"tools.read"`,
			[]hourOfTokens{{without: 9}, {without: 9, with: 1}, {without: 5}},
			[]told{{1, 9}, {1, 0}, {2, 5}},
		},
		{"one of many has it", byScopes("scp"), "scp", `""`, []hourOfTokens{{without: 50, with: 1}}, []told{{0, 0}}},
		{
			"too few to tell", byScopes("scp"), "scp", `"x"`,
			[]hourOfTokens{{without: 4}, {without: 4}},
			[]told{{0, 0}, {0, 0}},
		},
		{
			"one token again and again", byScopes("scp"), "scp", `"x"`,
			[]hourOfTokens{{without: 1, reused: 9}},
			[]told{{0, 0}},
		},
		{"the claim of the default", byScopes(""), "scope", `"x"`, []hourOfTokens{{without: 9}}, []told{{0, 0}}},
		{"tokens of machines", ofGateway(), "name", `"x"`, []hourOfTokens{{without: 9}}, []told{{0, 0}}},
	} {
		logged, missing, _ := lived(t, test.issuer, test.claim, test.value, test.hours...)
		for i, want := range test.want {
			got := told{logged: logged[i]}
			for _, m := range missing[i] {
				got.missing += m.Tokens
			}
			if got != want {
				t.Errorf("%s: after hour %d got %+v, want %+v", test.name, i+1, got, want)
			}
		}
	}
}

// TestMissingClaimNamesWhatToDo reads the line of the log and what MissingClaims returns.
func TestMissingClaimNamesWhatToDo(t *testing.T) {
	_, missing, log := lived(t, byScopes("realm_access.roles"), "scope", `"x"`, hourOfTokens{with: 6})
	for _, want := range []string{
		"level=WARN", "issuer=" + issuerName, "claim=realm_access.roles",
		"tokens=6", "let scopes.claims name a claim",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("got log %s, want it to have %q", log, want)
		}
	}
	if len(missing[0]) != 1 || missing[0][0].Issuer != issuerName ||
		missing[0][0].Claim != "realm_access.roles" || missing[0][0].Tokens != 6 {
		t.Errorf("got %+v, want the claim realm_access.roles of %s with 6 tokens", missing[0], issuerName)
	}
	if _, missing, _ := lived(t, byTenant(), "team", `"acme"`,
		hourOfTokens{without: 6}); !strings.Contains(missing[0][0].Advice, "tenants.claim") {
		t.Errorf("got advice %q, want it to name tenants.claim", missing[0][0].Advice)
	}
}

// TestTokensThatAreNotGenuineDoNotCount sends tokens that anybody can make, and those for
// others.
func TestTokensThatAreNotGenuineDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := runningWith(t, auth.Config{Issuers: []auth.Issuer{byScopes("scp")}})
		for i := range 20 {
			made := claims(time.Now()).with("sub", strconv.Quote(fmt.Sprint("user", i)))
			verify(t, v, mint(append([]byte("x"), secret...), header("HS256"), made))
			verify(t, v, mint(secret, header("HS256"), made.with("aud", `"others"`)))
			verify(t, v, mint(secret, header("HS256"),
				made.with("exp", fmt.Sprint(time.Now().Add(-time.Hour).Unix()))))
		}
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if got := v.MissingClaims(); got != nil {
			t.Errorf("got %+v, want nothing", got)
		}
	})
}
