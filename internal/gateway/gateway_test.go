package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestCallAnswersInTheStatelessForm(t *testing.T) {
	b := newBench(t)
	result, err := b.Handle(t.Context(), b.caller(t, alice), request("box__echo", `{"message":"hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := firstText(result); got != "hi" {
		t.Errorf("text = %q, want hi", got)
	}
	if got := result.Text("resultType"); got != "complete" {
		t.Errorf("resultType = %q, want complete", got)
	}
	if got := result.Object("_meta").Object(mcp.MetaServerInfo).Text("name"); got != "drawbridge" {
		t.Errorf("serverInfo.name = %q, want drawbridge", got)
	}
}

func TestErrorsTellTheClientNothingInternal(t *testing.T) {
	tests := []struct {
		tool, arguments string
		code            int
		stable, outcome string
	}{
		{"box__nobody", `{}`, mcp.CodeInvalidParams, "DB-TOOL", "unknown"},
		{"box__plain", `[]`, mcp.CodeInvalidParams, "DB-PARAMS", "invalid_request"},
		{"box__lost", `{}`, mcp.CodeInternal, "DB-UPSTREAM-LOST", `unavailable","reason":"lost`},
		{"box__broken", `{}`, mcp.CodeInternal, "DB-INTERNAL", "internal"},
		{"box__words", `{}`, mcp.CodeInternal, "DB-UPSTREAM-ERROR", "upstream_error"},
		{"box__poses", `{}`, mcp.CodeInternal, "DB-UPSTREAM-ERROR", "upstream_error"},
		// -32042 is not of all revisions
		{"box__opens", `{}`, mcp.CodeInternal, "DB-UPSTREAM-ERROR", "upstream_error"},
		{"box__panics", `{}`, mcp.CodeInternal, "DB-INTERNAL", "internal"},
	}
	for _, test := range tests {
		t.Run(test.tool, func(t *testing.T) {
			b := newBench(t)
			_, _, failure := b.run(t, test.tool, test.arguments)
			if failure == nil || failure.Code != test.code || failure.StableCode() != test.stable {
				t.Fatalf("error = %+v, want code %d %q", failure, test.code, test.stable)
			}
			told := string(failure.Object().JSON())
			for _, secret := range []string{"secret-host", "10.1.2.3", "0xc000", "\u202E"} {
				if strings.Contains(told, secret) {
					t.Errorf("the client is told %q in %s", secret, told)
				}
			}
			if records := b.records(t); !strings.Contains(records, `"outcome":"`+test.outcome+`"`) {
				t.Errorf("audit = %s, want outcome %s", records, test.outcome)
			}
		})
	}
}

func TestUnknownAndForbiddenToolsLookTheSame(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"},
		Rules: []Rule{
			{Allow: []string{"box__echo"}},
			{Scopes: []string{"admin"}, Allow: []string{"box__plain"}},
		},
	})
	_, _, forbidden := b.run(t, "box__plain", `{}`)
	_, _, unknown := b.run(t, "box__xxxxx", `{}`)
	got := strings.ReplaceAll(string(forbidden.Object().JSON()), "plain", "xxxxx")
	if want := string(unknown.Object().JSON()); got != want {
		t.Errorf("forbidden = %s, unknown = %s; want the same", got, want)
	}
	if b.calls != 0 {
		t.Errorf("%d tools ran, want none", b.calls)
	}
	for _, want := range []string{
		`"item":"box__plain","outcome":"forbidden"`,
		`"item":"box__xxxxx","outcome":"unknown"`,
	} {
		if records := b.records(t); !strings.Contains(records, want) {
			t.Errorf("audit = %s, want %s in it", records, want)
		}
	}
}

func TestScopesThatWouldNotHelpAreNotAnnounced(t *testing.T) {
	both := Rule{
		Scopes: []string{"admin"}, Allow: []string{"box__*"}, Deny: []string{"box__plain"}, Announce: true,
	}
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}, Rules: []Rule{both}})
	for tool, want := range map[string]string{"box__echo": "DB-SCOPE", "box__plain": "DB-TOOL"} {
		if _, _, failure := b.run(t, tool, `{}`); failure.StableCode() != want {
			t.Errorf("%s: got %v, want %s", tool, failure, want)
		}
	}
}

func TestRules(t *testing.T) {
	admin := alice
	admin.Scopes = []string{"tools.read", "admin"}
	other := alice
	other.Issuer = "https://elsewhere.test/"
	team, overlapping := alice, alice
	team.Subject, overlapping.Issuer = "team#alice", "https://login.test/#team"
	tests := []struct {
		name  string
		rules []Rule
		who   auth.Principal
		want  []string // of echo, fails, plain
	}{
		{"nothing is allowed by default", nil, alice, nil},
		{"a rule for everyone", []Rule{{Allow: []string{"box__p*n"}}}, alice, []string{"box__plain"}},
		{
			"scopes that the caller has",
			[]Rule{{Scopes: []string{"tools.read"}, Allow: []string{"*__echo"}}},
			alice,
			[]string{"box__echo"},
		},
		{
			"one scope of two",
			[]Rule{{Scopes: []string{"tools.read", "admin"}, Allow: []string{"*__echo"}}},
			alice, nil,
		},
		{
			"a subject of this issuer",
			[]Rule{{Subjects: []string{"https://login.test/#alice"}, Allow: []string{"*__echo"}}},
			alice,
			[]string{"box__echo"},
		},
		{
			"the same subject of another issuer",
			[]Rule{{Subjects: []string{"https://login.test/#alice"}, Allow: []string{"*__echo"}}},
			other,
			nil,
		},
		{
			"a subject with a # in it",
			[]Rule{{Subjects: []string{"https://login.test/#team#alice"}, Allow: []string{"*__echo"}}},
			team,
			[]string{"box__echo"},
		},
		{
			"an issuer that begins like another's user",
			[]Rule{{Subjects: []string{"https://login.test/#team#alice"}, Allow: []string{"*__echo"}}},
			overlapping, nil,
		},
		{"deny wins, whatever the order", []Rule{
			{Deny: []string{"*__echo"}},
			{Allow: []string{"*"}},
			{Deny: []string{"*fails"}},
		}, alice, []string{"box__plain"}},
		{"a deny for others", []Rule{
			{Allow: []string{"*echo"}},
			{Scopes: []string{"admin"}, Deny: []string{"*"}},
		}, alice, []string{"box__echo"}},
		{"a deny for this caller", []Rule{
			{Allow: []string{"*echo"}},
			{Scopes: []string{"admin"}, Deny: []string{"*"}},
		}, admin, nil},
		{"other kinds allow no tool", []Rule{{Allow: []string{"prompt:*", "resource:box:*"}}}, alice, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}, Rules: test.rules})
			caller := b.caller(t, test.who)
			listed := names(t, b, caller)
			for _, name := range []string{"box__echo", "box__fails", "box__plain"} {
				want := slices.Contains(test.want, name)
				if got := slices.Contains(listed, name); got != want {
					t.Errorf("%s listed: %v, want %v", name, got, want)
				}
				_, err := b.Handle(t.Context(), caller, request(name, `{"message":"m"}`))
				if got := err == nil; got != want {
					t.Errorf("%s callable: %v (%v), want %v", name, got, err, want)
				}
			}
		})
	}
}

func names(t *testing.T, b *bench, c Caller) []string {
	t.Helper()
	var all []string
	params := mcp.Object{}
	for range 100 {
		result, err := b.Handle(t.Context(), c, &Request{Method: mcp.MethodToolsList, Params: params})
		if err != nil {
			t.Fatal(err)
		}
		tools, _ := result.Value("tools").Elements()
		for _, raw := range tools {
			tool, _ := mcp.ObjectOf(raw)
			all = append(all, tool.Text("name"))
		}
		next := result.Value("nextCursor")
		if next == nil {
			return all
		}
		params = mcp.NewObject(mcp.Member{Name: "cursor", Value: next})
	}
	t.Fatal("the list does not end")
	return nil
}

func TestAnnouncedRuleNamesTheMissingScope(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}, Rules: []Rule{
		{Scopes: []string{"admin"}, Allow: []string{"box__plain"}, Announce: true},
		{Scopes: []string{"admin"}, Allow: []string{"box__echo"}},
	}})
	_, _, failure := b.run(t, "box__plain", `{}`)
	if failure == nil || failure.Code != mcp.CodeForbidden || !strings.Contains(string(failure.Data),
		`"scope":"admin"`) {
		t.Errorf("error = %+v, want forbidden with scope admin", failure)
	}
	if _, _, failure = b.run(t, "box__echo", `{}`); failure == nil || failure.Code != mcp.CodeInvalidParams {
		t.Errorf("error = %+v, want unknown tool", failure)
	}
	if _, _, failure = b.run(t, "box__absent", `{}`); failure == nil ||
		failure.Code != mcp.CodeInvalidParams {
		t.Errorf("error = %+v, want unknown tool", failure)
	}
}

func TestAnnouncedItemsAreListedAndNotUsable(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}, Rules: []Rule{
		{Allow: []string{"box__echo"}},
		{Scopes: []string{"admin"}, Allow: []string{"box__plain", "box__fails"}, Announce: true},
		{
			Subjects: []string{alice.Issuer + "#somebody"}, Scopes: []string{"admin"}, Allow: []string{"box__slow"},
			Announce: true,
		},
		{Deny: []string{"box__fails"}},
	}})
	caller, err := b.Admit(t.Context(), alice, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, b, caller), []string{"box__echo", "box__plain"}; !slices.Equal(got, want) {
		t.Errorf("listed = %q, want %q: what is allowed, and what is announced to this caller", got, want)
	}
	_, err = b.Handle(t.Context(), caller, request("box__plain", `{}`))
	var failure *mcp.Error
	if !errors.As(err, &failure) || failure.StableCode() != "DB-SCOPE" {
		t.Errorf("the call of what is only announced: %v, want DB-SCOPE", err)
	}
	if b.calls != 0 {
		t.Errorf("%d tools ran, want none", b.calls)
	}
}

func TestTenantThatIsNotServedIsRefused(t *testing.T) {
	b := newBench(t)
	stranger := alice
	stranger.TenantID = "globex"
	_, err := b.Admit(t.Context(), stranger, 1)
	var failure *mcp.Error
	if !errors.As(err, &failure) || failure.Code != mcp.CodeForbidden ||
		strings.Contains(failure.Message, "globex") {
		t.Errorf("Admit = %v, want a refusal that names no tenant", err)
	}
}

// TestWhatIsNoPatternComesIntoForceNowhere: it would deny nothing, and nobody would
// notice.
func TestWhatIsNoPatternComesIntoForceNowhere(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"", "tool:x", "prompt:"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken for a pattern", text)
				}
			}()
			b.SetPolicy("", []TenantConfig{{ID: "good"}, {ID: "worse", Rules: []Rule{{Deny: []string{text}}}}})
		}()
	}
	for id, want := range map[string]bool{"acme": true, "good": false} {
		if _, err := b.Resolve(auth.Principal{TenantID: id}); (err == nil) != want {
			t.Errorf("tenant %s: served %v, want acme alone as before", id, err == nil)
		}
	}
}

// TestATenantThatDidNotChangeStaysTheSame: of thousands of tenants a reload changes one,
// and all the others keep what is known of what they see.
func TestATenantThatDidNotChangeStaysTheSame(t *testing.T) {
	b := newBench(t)
	tenants := func(rate float64) []TenantConfig {
		return []TenantConfig{
			{
				ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}},
				Limits: Limits{Calls: &ratelimit.Limit{Rate: 1, Burst: 1}},
			},
			{
				ID: "globex", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}},
				Limits: Limits{Calls: &ratelimit.Limit{Rate: rate, Burst: 1}},
			},
		}
	}
	serve := func(rate float64) (acme, globex *Tenant) {
		t.Helper()
		b.SetPolicy("", tenants(rate))
		found := make([]*Tenant, 2)
		for i, id := range []string{"acme", "globex"} {
			c, err := b.Resolve(auth.Principal{TenantID: id})
			if err != nil {
				t.Fatal(err)
			}
			found[i] = c.Tenant
		}
		return found[0], found[1]
	}
	acme, globex := serve(1)
	sameAcme, other := serve(2)
	if acme != sameAcme {
		t.Error("a tenant with an equal config was compiled anew")
	}
	if globex == other || other.calls.Limit.Rate != 2 {
		t.Errorf("the tenant that changed has the rate %v, want 2", other.calls.Limit.Rate)
	}
}

// TestAThousandRulesCostARequestNoMoreThanTen: to whom rules apply was worked out rule by
// rule for every request.
func TestAThousandRulesCostARequestNoMoreThanTen(t *testing.T) {
	b := newBench(t)
	looks := func(rules int) (sets int, size float64) {
		cfg := TenantConfig{
			ID: "acme", Servers: []string{"box"},
			Rules: []Rule{{Scopes: []string{"read"}, Allow: []string{"*"}}},
		}
		for i := range rules {
			cfg.Rules = append(cfg.Rules, Rule{Allow: []string{fmt.Sprintf("box__%d", i)}},
				Rule{Scopes: []string{"admin"}, Deny: []string{fmt.Sprintf("box__%d", i)}})
		}
		b.SetPolicy("", []TenantConfig{cfg})
		p := auth.Principal{TenantID: "acme", Scopes: []string{"read"}}
		c, err := b.Resolve(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(c.rules), "\x01\x01\x00"; got != want {
			t.Errorf("%d rules: the caller fits %q, want %q", rules, got, want)
		}
		return len(c.rules), testing.AllocsPerRun(100, func() { _, _ = b.Resolve(p) })
	}
	few, cheap := looks(10)
	many, dear := looks(1000)
	if few != many || dear > cheap {
		t.Errorf("a thousand rules: %d bytes and %.0f allocations, want %d and %.0f as of ten", many, dear,
			few, cheap)
	}
}

func TestListPagesAndCursors(t *testing.T) {
	b := newBench(t)
	b.config.PageSize = 5
	caller := b.caller(t, alice)
	if got := names(t, b, caller); len(got) != 15 || !slices.IsSorted(got) {
		t.Errorf("tools over all pages = %v, want 15 in order", got)
	}
	first, err := b.Handle(t.Context(), caller, &Request{Method: mcp.MethodToolsList})
	if err != nil {
		t.Fatal(err)
	}
	params := mcp.NewObject(mcp.Member{Name: "cursor", Value: first.Value("nextCursor")})
	bob := alice
	bob.Subject = "bob"
	if _, err := b.Handle(t.Context(), b.caller(t, bob), &Request{
		Method: mcp.MethodToolsList,
		Params: params,
	}); err == nil {
		t.Error("another user's cursor was accepted")
	}
	for _, bad := range []string{`"x"`, `5`, `{}`} {
		params := mcp.NewObject(mcp.Member{Name: "cursor", Value: mcp.RawJSON(bad)})
		_, err := b.Handle(t.Context(), caller, &Request{Method: mcp.MethodToolsList, Params: params})
		var failure *mcp.Error
		if !errors.As(err, &failure) || failure.Code != mcp.CodeInvalidParams {
			t.Errorf("cursor %s: %v, want invalid params", bad, err)
		}
	}
}

func TestTwoTenantsSeeOnlyTheirOwn(t *testing.T) {
	b := newBench(t,
		TenantConfig{ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}}},
		TenantConfig{ID: "globex", Servers: []string{"cellar"}, Rules: []Rule{{Allow: []string{"*"}}}},
	)
	b.registry.Replace(b.source("cellar"))
	carol := auth.Principal{Issuer: "https://login.test/", Subject: "carol", TenantID: "globex"}
	for _, name := range names(t, b, b.caller(t, carol)) {
		if !strings.HasPrefix(name, "cellar__") {
			t.Errorf("globex sees %s", name)
		}
	}
	if _, err := b.Handle(t.Context(), b.caller(t, carol), request("box__plain", `{}`)); err == nil {
		t.Error("globex called a tool of acme's server")
	}
}

func TestLimitsAreKeptApart(t *testing.T) {
	one := ratelimit.Limit{Rate: 0.001, Burst: 1}
	many := ratelimit.Limit{Rate: 1000, Burst: 1000}
	single := 1
	tests := []struct {
		name   string
		limits Limits
		stable string
		words  string // that name the limit, and whose it is
	}{
		{
			"calls of the tenant",
			Limits{Calls: &one, UserCalls: &many},
			"DB-LIMIT-TENANT",
			"This tenant makes more requests than limits.calls allows: try again in 1000 s",
		},
		{
			"calls of the user",
			Limits{Calls: &many, UserCalls: &one},
			"DB-LIMIT-USER",
			"You make more requests than limits.user_calls allows one user: try again in 1000 s",
		},
		{
			"share of the only user",
			Limits{Calls: &ratelimit.Limit{Rate: 0.001, Burst: 2}, UserCalls: &many},
			"DB-LIMIT-USER", "You have used your share of limits.calls, which for one user is at most half of the burst: try again in 667 s",
		},
		{
			"calls of the tool",
			Limits{Tools: map[string]ratelimit.Limit{"box__*": one}},
			"DB-LIMIT-TOOL",
			"This tool is called more often than limits.tools allows: try again in 1000 s",
		},
		{
			"calls at once",
			Limits{Concurrency: &single},
			"DB-LIMIT-CONCURRENCY",
			"You have half of the calls that limits.concurrency allows this tenant, which is the most for one user: end some, or try again in 1 s",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, TenantConfig{
				ID: "acme", Servers: []string{"box"},
				Rules: []Rule{{Allow: []string{"*"}}}, Limits: test.limits,
			})
			if test.limits.Concurrency != nil { // another call of the user is in work
				if err := take(b.inflight, share.User(alice.User()), single, single); err != nil {
					t.Fatal(err)
				}
			}
			var failure *mcp.Error
			for range 2 {
				_, _, failure = b.run(t, "box__plain", `{}`)
			}
			if failure == nil || failure.Code != mcp.CodeLimited || failure.StableCode() != test.stable ||
				failure.RetryAfter <= 0 {
				t.Errorf("second call: %+v, want %s with a time to come back", failure, test.stable)
			} else if !strings.HasSuffix(failure.Message, test.words) {
				t.Errorf("got %q, want it to say %q", failure.Message, test.words)
			}
		})
	}
}

func TestRequestsAreCharged(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID:     "acme",
		Limits: Limits{Requests: &ratelimit.Limit{Rate: 0.001, Burst: 3}},
	})
	bob, carol := alice, alice
	bob.Subject, carol.Subject = "bob", "carol"
	if err := b.Charge(t.Context(), b.caller(t, alice), 1); err != nil { // the caller has cost one
		t.Fatal(err)
	}
	for i, test := range []struct {
		who  auth.Principal
		want string
	}{{alice, "DB-LIMIT-USER"}, {bob, ""}, {carol, "DB-LIMIT-TENANT"}} {
		if _, err := b.Admit(t.Context(), test.who, 1); err != nil && stable(asError(t, err)) != test.want ||
			(err == nil) != (test.want == "") {
			t.Errorf("request %d, of %s: got %v, want %q", i+3, test.who.Subject, err, test.want)
		}
	}
}

// TestOneUserLeavesCallsOfATenantToOthers lets one user ask as often as it can, and a
// colleague every now and then.
func TestOneUserLeavesCallsOfATenantToOthers(t *testing.T) {
	limit, plenty := ratelimit.Limit{Rate: 100, Burst: 200}, ratelimit.Limit{Rate: 1e6, Burst: 1e6}
	for name, test := range map[string]struct {
		limits Limits
		code   string
	}{
		"requests": {Limits{Requests: &limit, Calls: &plenty, UserCalls: &plenty}, "DB-LIMIT-USER"},
		"calls":    {Limits{Requests: &plenty, Calls: &limit, UserCalls: &plenty}, "DB-LIMIT-USER"},
		"tools": {Limits{
			Requests: &plenty, Calls: &plenty, UserCalls: &plenty,
			Tools: map[string]ratelimit.Limit{"lib__*": limit},
		}, "DB-LIMIT-TOOL"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenant := everything()
				tenant.Limits = test.limits
				b, l := newLibrary(t, tenant)
				l.reply = func(context.Context, *registry.Call) (mcp.Object,
					error,
				) {
					return object(`{"content":[]}`), nil
				}
				bob := alice
				bob.Subject = "bob"
				use := func(p auth.Principal) error {
					c, err := b.Admit(t.Context(), p, 1)
					if err != nil {
						return err
					}
					_, err = b.Handle(t.Context(), c, ask(mcp.MethodToolsCall, subjects[0].params))
					return err
				}
				served, refused := 0, 0
				for range 48 {
					for range 100 {
						switch err := use(alice); {
						case err == nil:
							served++
						case stable(asError(t, err)) != test.code ||
							asError(t, err).RetryAfter > time.Second ||
							!strings.Contains(err.Error(), "your share"):
							t.Fatalf(
								"alice: %v, want %s that speaks of the share, with the time until the next request", err, test.code)
						}
					}
					if err := use(bob); err != nil {
						refused++
					}
					time.Sleep(time.Second / 8)
				}
				if refused > 0 {
					t.Errorf("%d of 48 requests of bob were refused", refused)
				}
				if served < 100+500 { // in six seconds
					t.Errorf(
						"%d requests of alice were served, want half of the burst and what the rate leaves",
						served)
				}
			})
		})
	}
}

// TestSizeIsCharged: a body costs one token for each 64 KiB that it begins, and never
// more than one user may take at once.
func TestSizeIsCharged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		burst int
		size  int64
		left  int // after Admit and the charge
	}{
		{10, 0, 9},
		{10, 1, 9},
		{10, ChargedSize, 9},
		{10, ChargedSize + 1, 8},
		{10, 5 * ChargedSize, 5},
		{10, 10 * ChargedSize, 5},
		{10, 1 << 40, 5},
		{1, 1 << 40, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, TenantConfig{
				ID:     "acme",
				Limits: Limits{Requests: &ratelimit.Limit{Rate: 0.001, Burst: test.burst}},
			})
			caller, err := b.Admit(t.Context(), alice, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.ChargeSize(t.Context(), caller, test.size); err != nil {
				t.Errorf("%d bytes of a burst of %d: %v", test.size, test.burst, err)
			}
			left := 0
			charge := func(subject string) error {
				other := alice
				other.Subject = subject
				_, err := b.Admit(t.Context(), other, 1)
				return err
			}
			for charge(strconv.Itoa(left)) == nil { // each time another user
				left++
			}
			if left != test.left {
				t.Errorf("%d bytes of a burst of %d: %d tokens are left, want %d", test.size, test.burst,
					left, test.left)
			}
		})
	}
}

func TestOneUserLeavesHalfOfTheTenantsSlotsToOthers(t *testing.T) {
	four := 4
	b := newBench(t, TenantConfig{ID: "acme", Limits: Limits{Streams: &four}})
	bob := alice
	bob.Subject = "bob"
	open := func(p auth.Principal) error {
		_, err := b.OpenStream(t.Context(), b.caller(t, p), "get")
		return err
	}
	for i, want := range []bool{true, true, false} {
		if err := open(alice); (err == nil) != want {
			t.Errorf("stream %d of alice: %v, want it open: %v", i+1, err, want)
		}
	}
	if err := open(bob); err != nil {
		t.Errorf("stream of bob: %v", err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	one := 1
	b := newBench(t, TenantConfig{ID: "acme", Limits: Limits{Streams: &one}})
	caller := b.caller(t, alice)
	closed, err := b.OpenStream(t.Context(), caller, "get")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.OpenStream(t.Context(), caller, "get"); err == nil {
		t.Error("a second stream was opened, want a refusal")
	}
	closed()
	if closed, err = b.OpenStream(t.Context(), caller, "get"); err != nil {
		t.Errorf("after the first closed: %v", err)
	} else {
		closed()
	}
}

func TestDigestChangesWithTheCallersListAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, TenantConfig{
			ID: "acme", Servers: []string{"box", "cellar"},
			Rules: []Rule{{Allow: []string{"box__*"}}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		var told atomic.Int64
		b.OnChange(func() { told.Add(1) })
		before := b.Lists(b.caller(t, alice))
		b.registry.Replace(b.source("cellar"))
		synctest.Wait()
		if n := told.Load(); n != 1 {
			t.Errorf("a change of the catalogue was told %d times, want once", n)
		}
		if got := b.Lists(b.caller(t, alice)); got != before {
			t.Error("the digest changed with a server that the caller does not see")
		}
		b.registry.Remove("box")
		synctest.Wait()
		if got := b.Lists(b.caller(t, alice)); got == before {
			t.Error("the digest stayed although the tools are gone")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCollisionIsAWarningWithItsCure(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box", "twin"},
		Rules: []Rule{{Allow: []string{"*"}}},
	})
	twin := b.source("twin")
	twin.Prefix = "box"
	b.registry.Replace(twin)
	warnings := strings.Join(b.Warnings(), "\n")
	for _, want := range []string{"tenant acme", "box__echo", "twin", "prefix"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings = %q, want %s in them", warnings, want)
		}
	}
}

func TestCollisionsOfOtherTenantsAreCountedAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		twin := b.source("twin")
		twin.Prefix = "box"
		b.registry.Replace(twin)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		for _, test := range []struct {
			servers []string
			want    float64
		}{
			{[]string{"box"}, 0},
			{[]string{"box", "twin"}, float64(len(twin.Tools))},
			{[]string{"twin"}, 0},
		} {
			b.SetPolicy("", []TenantConfig{{ID: "acme", Servers: test.servers}})
			time.Sleep(reportAfter) // in a bubble
			synctest.Wait()
			if got := metricstest.Sum(t, b.metrics, "drawbridge_upstream_items_refused"); got != test.want {
				t.Errorf("servers %v: %v tools counted as left out, want %v", test.servers, got, test.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	limit := ratelimit.Limit{Rate: 1e9, Burst: 1 << 30}
	bench := newBench(b, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{
			{Allow: []string{"box__*"}},
			{Deny: []string{"*delete*"}},
		},
		Limits: Limits{
			Requests: &limit, Calls: &limit, UserCalls: &limit,
			Tools: map[string]ratelimit.Limit{"box__*": limit},
		},
	})
	ctx, r := context.Background(), request("box__echo",
		`{"message":"The quick brown fox jumps over the lazy dog"}`)
	b.ReportAllocs()
	for b.Loop() {
		caller, err := bench.Admit(ctx, alice, 1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := bench.Handle(ctx, caller, r); err != nil {
			b.Fatal(err)
		}
	}
}
