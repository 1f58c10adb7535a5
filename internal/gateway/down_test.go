package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// lose takes the library away as its upstream does: at once, and after the grace out of
// the lists.
func (b *bench) lose() (graceOver func()) {
	outage := b.registry.Lose("lib", "lib")
	return func() { b.registry.Unlist("lib", outage) }
}

func refusals(t *testing.T, b *bench) float64 {
	return metricstest.Sum(t, b.metrics, "drawbridge_refusals_total")
}

// TestItemsOfALostServerAreNotUnknown uses every item of a server that is down, within
// the grace and after it.
func TestItemsOfALostServerAreNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		began := time.Now()
		graceOver := b.lose()
		uses := requests()
		uses["subscription"] = nil
		for _, after := range []time.Duration{0, 10 * time.Second, time.Hour} {
			time.Sleep(after)
			if after > 0 {
				graceOver()
			}
			for _, name := range slices.Sorted(maps.Keys(uses)) {
				var failure *mcp.Error
				if r := uses[name]; r != nil {
					_, failure = b.handle(t, r)
				} else {
					_, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "s1"},
						"mcp.lib+file:///a.txt", nil)
					failure, _ = errors.AsType[*mcp.Error](err)
				}
				if stable(failure) != "DB-UPSTREAM-DOWN" || failure.Code != mcp.CodeInternal {
					t.Fatalf("%s after %v: %v, want that the server is down", name, after, failure)
				}
				if want := min(max(time.Since(began), time.Second),
					30*time.Second); failure.RetryAfter != want {
					t.Errorf("%s after %v: to be tried again after %v (%s), want %v", name, after,
						failure.RetryAfter, failure.Data, want)
				}
				for _, want := range []string{
					strings.TrimPrefix(name, "complete "), "server lib",
					began.UTC().Format(time.RFC3339), "Nothing was sent",
				} {
					if name != "subscription" && !strings.Contains(failure.Message, want) {
						t.Errorf("%s after %v: %q, want %q in it", name, after, failure.Message, want)
					}
				}
				time.Sleep(time.Second) // for the bucket of the user
			}
		}
		if len(l.uses) > 0 {
			t.Errorf("%d uses reached the server", len(l.uses))
		}
		records := b.records(t)
		if lines := strings.Count(records, "\n"); lines == 0 ||
			strings.Count(records, `"server":"lib"`) != lines ||
			strings.Count(records, `"outcome":"unavailable","reason":"down"`) != lines {
			t.Errorf("audit = %s, want every line of lib, unavailable", records)
		}
		if got := refusals(t, b); got != 0 {
			t.Errorf("%v refusals are counted, by which the alert for probing goes; want none", got)
		}
	})
}

// TestListsLoseALostServerAfterItsGrace follows all lists and their digests through an
// outage.
func TestListsLoseALostServerAfterItsGrace(t *testing.T) {
	b, l := newLibrary(t)
	caller := b.caller(t, alice)
	all, digests := listed(t, b, caller), b.Lists(caller)
	graceOver := b.lose()
	if got := listed(t, b, caller); !slices.Equal(got, all) || b.Lists(caller) != digests {
		t.Errorf("within the grace: got %q, want %q and the same digests", got, all)
	}
	graceOver()
	if got := listed(t, b, caller); len(got) != 0 || b.Lists(caller) == digests {
		t.Errorf("after the grace: got %q, want nothing and other digests", got)
	}
	b.replace(t, l.source("lib"))
	if got := listed(t, b, caller); !slices.Equal(got, all) || b.Lists(caller) != digests {
		t.Errorf("back again: got %q, want %q and the first digests", got, all)
	}
}

// TestForbiddenItemsOfALostServerLookUnknown lets a caller who may use one tool ask for
// what else a lost server has, and for what a server may have that was not reached.
func TestForbiddenItemsOfALostServerLookUnknown(t *testing.T) {
	tenant := everything()
	tenant.Servers = []string{"lib", "new"}
	tenant.Rules = []Rule{{Allow: []string{"lib__other"}}}
	b, _ := newLibrary(t, tenant)
	b.registry.Lose("new", "new")
	ask := func(s subject, params string) string {
		_, failure := b.handle(t, ask(s.method, params))
		if failure == nil {
			t.Fatalf("%s %s: got a result", s.method, params)
		}
		return strings.NewReplacer("greet", "none", "ask", "none", "new", "lib", "a.txt", "none", "//logs/",
			"//none/").Replace(string(failure.Object().JSON()))
	}
	for _, s := range append(slices.Clone(subjects), subject{
		method:  mcp.MethodComplete,
		params:  `{"ref":{"type":"ref/resource","uri":"mcp.lib+file:///logs/{day}"},"argument":{"name":"day","value":"y"}}`,
		unknown: `{"ref":{"type":"ref/resource","uri":"mcp.lib+file:///none/{day}"},"argument":{"name":"day","value":"y"}}`,
	}) {
		unknown := strings.ReplaceAll(s.unknown, "mcp.none+file:///a.txt", "mcp.lib+file:///none")
		if s.method == mcp.MethodComplete && strings.Contains(s.params, "greet") {
			unknown = `{"ref":{"type":"ref/prompt","name":"lib__none"},"argument":{"name":"who","value":"y"}}`
		}
		want := ask(s, unknown)
		graceOver := b.lose()
		graceOver()
		for _, params := range []string{s.params, unknown, strings.NewReplacer("lib__", "new__", "mcp.lib",
			"mcp.new").Replace(s.params)} {
			if got := ask(s, params); got != want {
				t.Errorf("%s %s: got %s, want %s", s.method, params, got, want)
			}
		}
	}
	if records := b.records(t); strings.Contains(records, "unavailable") {
		t.Errorf("audit = %s, want nothing unavailable", records)
	}
}

// TestArgumentsAreJudgedWhileTheServerIsDown shows that the model can mend its call
// meanwhile.
func TestArgumentsAreJudgedWhileTheServerIsDown(t *testing.T) {
	b, _ := newLibrary(t)
	b.lose()
	result, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].wrong))
	if failure != nil || string(result.Value("isError")) != "true" {
		t.Errorf("a tool: got %s, %v; want a result that says what is wrong", result.JSON(), failure)
	}
	if _, failure = b.handle(t,
		ask(mcp.MethodPromptsGet, subjects[1].wrong)); stable(failure) != "DB-PARAMS" {
		t.Errorf("a prompt: got %v, want DB-PARAMS", failure)
	}
}

// TestACallOfALostServerCostsWhatACallCosts empties the buckets of a user and of a tool.
func TestACallOfALostServerCostsWhatACallCosts(t *testing.T) {
	for code, limits := range map[string]Limits{
		"DB-LIMIT-USER": {UserCalls: &ratelimit.Limit{Rate: 0.001, Burst: 2}},
		"DB-LIMIT-TOOL": {Tools: map[string]ratelimit.Limit{"lib__*": {Rate: 0.001, Burst: 4}}},
	} {
		tenant := everything()
		tenant.Limits = limits
		b, _ := newLibrary(t, tenant)
		b.lose()()
		for i, want := range []string{"DB-UPSTREAM-DOWN", "DB-UPSTREAM-DOWN", code} {
			if _, failure := b.handle(t,
				ask(mcp.MethodToolsCall, subjects[0].params)); stable(failure) != want {
				t.Errorf("call %d: got %v, want %s", i+1, failure, want)
			}
		}
	}
}

// TestAServerThatWasNotReachedYetIsNotAvailable asks for items of a server of which
// nothing is known: it is starting, or was down when the gateway started.
func TestAServerThatWasNotReachedYetIsNotAvailable(t *testing.T) {
	tenant := everything()
	tenant.Servers = []string{"lib", "new", "bare"}
	b, l := newLibrary(t, tenant)
	b.registry.Lose("new", "new")
	b.registry.Lose("bare", "")
	for _, s := range subjects {
		params := strings.NewReplacer("lib__", "new__", "mcp.lib", "mcp.new").Replace(s.params)
		_, failure := b.handle(t, ask(s.method, params))
		if stable(failure) != "DB-UPSTREAM-DOWN" || failure.RetryAfter == 0 ||
			!strings.Contains(failure.Message, "could not be reached yet") {
			t.Errorf("%s %s: got %v, want that the server could not be reached yet", s.method, params,
				failure)
		}
	}
	b.registry.WantsSignIn("new", true)
	_, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":"new__x"}`))
	if stable(failure) != "DB-UPSTREAM-DOWN" ||
		!strings.Contains(failure.Message, "its server new wants a sign-in, and the operator") {
		t.Errorf("got %v, want that the server wants a sign-in", failure)
	}
	b.registry.WantsSignIn("new", false)
	if got := refusals(t, b); got != 0 {
		t.Errorf("%v refusals are counted, want none", got)
	}
	records := b.records(t)
	if lines := strings.Count(records, "\n"); strings.Count(records, `"server":"new"`) != lines ||
		strings.Count(records, `"unavailable"`) != lines {
		t.Errorf("audit = %s, want every line of new, unavailable", records)
	}
	before := seriesOf(t, b.metrics, "drawbridge_calls_total")
	for _, name := range []string{"new__x", "new__y", "new__z"} {
		b.handle(t, ask(mcp.MethodToolsCall, `{"name":"`+name+`"}`))
	}
	if got := seriesOf(t, b.metrics, "drawbridge_calls_total"); got != before {
		t.Errorf("names that only the client knows made %d series, want none", got-before)
	}
	// a server without prefix claims no name
	for _, name := range []string{"greet", "lib__none", "neu__ask"} {
		if _, failure := b.handle(t,
			ask(mcp.MethodToolsCall, `{"name":"`+name+`"}`)); stable(failure) != "DB-TOOL" {
			t.Errorf("%s: got %v, want an unknown tool", name, failure)
		}
	}
	if len(l.uses) > 0 {
		t.Errorf("%d uses reached a server", len(l.uses))
	}
}

// TestNoServerTakesOverTheNamesOfALostOne puts a second server with the same names behind
// the lost one.
func TestNoServerTakesOverTheNamesOfALostOne(t *testing.T) {
	tenant := everything()
	tenant.Servers = []string{"lib", "heir"}
	b, l := newLibrary(t, tenant)
	l.answers()
	b.replace(t, l.source("heir")) // with the prefix of lib
	warned := strings.Join(b.Warnings(), "\n")
	b.lose()()
	for _, s := range subjects[:2] {
		if _, failure := b.handle(t, ask(s.method, s.params)); stable(failure) != "DB-UPSTREAM-DOWN" {
			t.Errorf("%s: got %v, want that the server is down", s.method, failure)
		}
	}
	if len(l.uses) > 0 {
		t.Error("the other server was called")
	}
	if got := strings.Join(b.Warnings(), "\n"); got != warned {
		t.Errorf("warnings: got %s, want those of before: %s", got, warned)
	}
	tenant.Servers = []string{"heir"} // the tenant has the lost server no more
	b.SetPolicy("", []TenantConfig{tenant})
	if _, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params)); failure != nil ||
		len(l.uses) != 1 {
		t.Errorf("without the lost server: got %v and %d uses, want the other one called", failure,
			len(l.uses))
	}
}

// TestARemovedServerIsUnknown is a reload that takes a lost server out.
func TestARemovedServerIsUnknown(t *testing.T) {
	b, _ := newLibrary(t)
	b.lose()
	b.registry.Remove("lib")
	if _, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params)); stable(failure) != "DB-TOOL" {
		t.Errorf("got %v, want an unknown tool", failure)
	}
}

// TestARepeatAtALostServerDoesNotSayThatNothingWasSent repeats calls that asked
// something: one that the server kept open, and one of which it keeps nothing.
func TestARepeatAtALostServerDoesNotSayThatNothingWasSent(t *testing.T) {
	for _, test := range []struct {
		held bool
		want string
	}{{true, "DB-UPSTREAM-LOST"}, {false, "DB-UPSTREAM-DOWN"}} {
		b, l := newLibrary(t)
		l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			if test.held {
				c.Hold(func() {})
			}
			return object(`{"resultType":"input_required","inputRequests":{` + question +
				`},"requestState":"inner"}`), nil
		}
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result := b.asked(t, r)
		b.lose()
		_, failure := b.handle(t, repeat(r, result))
		if stable(failure) != test.want || test.held == (failure.RetryAfter > 0) {
			t.Errorf("held %v: got %v, want %s", test.held, failure, test.want)
		}
		b.replace(t, l.source("lib")) // the moment before the loss is known: only the source sees it
		l.fails(&registry.UnavailableError{Server: "lib", Err: errors.New("gone")})
		_, failure = b.handle(t, repeat(r, result))
		if stable(failure) != test.want || test.held == (failure.RetryAfter > 0) {
			t.Errorf("held %v, before the loss is known: got %v, want %s", test.held, failure, test.want)
		}
	}
}

// TestTheAuditTellsACallThatWasNotMadeFromALostOne calls a tool whose server refuses to
// start a session for it, and one whose server goes away in its course: only the second
// call may have taken effect. What a server said to the gateway alone, as in a handshake,
// is no answer to the call.
func TestTheAuditTellsACallThatWasNotMadeFromALostOne(t *testing.T) {
	for _, test := range []struct {
		sent, signIn bool
		status       int
		code, reason string
		text         string
	}{
		{false, false, 0, "DB-UPSTREAM-DOWN", "start", "The server lib is not available now"},
		{
			false, false, http.StatusRequestEntityTooLarge, "DB-UPSTREAM-DOWN", "start",
			"The server lib refused the request with the HTTP status 413; the call was not made",
		},
		{
			false, true, http.StatusUnauthorized, "DB-UPSTREAM-DOWN", "start",
			"The server lib did not make the call: it wants a sign-in, and the operator",
		},
		{true, false, 0, "DB-UPSTREAM-LOST", "lost", "The server went away"},
	} {
		for _, cause := range []error{
			errors.New("child ended"), mcp.Errorf(mcp.CodeInvalidParams, "no such revision"),
		} {
			b, l := newLibrary(t)
			l.fails(&registry.UnavailableError{
				Server: "lib", Sent: test.sent, SignIn: test.signIn, Status: test.status, Err: cause,
			})
			_, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params))
			if stable(failure) != test.code || !strings.HasPrefix(failure.Message, test.text) {
				t.Errorf("sent %v, %v: got %v, want %s: %s", test.sent, cause, failure, test.code, test.text)
			}
			if records, want := b.records(t), `"outcome":"unavailable","reason":"`+test.reason+
				`"`; !strings.Contains(records, want) {
				t.Errorf("sent %v, %v: audit = %s, want %s in it", test.sent, cause, records, want)
			}
		}
	}
}

// TestEachFaultOfACredentialIsToldInItsOwnWords looks up what a client is told of each,
// and of one that the table does not have.
func TestEachFaultOfACredentialIsToldInItsOwnWords(t *testing.T) {
	const (
		operator = "; the operator of this gateway must look at it (auth of the server)"
		goOn     = ". The call was not made. Go on without it."
	)
	for fault, want := range map[credential.Fault]struct {
		code, text string
		again      time.Duration
	}{
		credential.FaultMissing: {
			"DB-UPSTREAM-CREDENTIAL", "This gateway has no usable credential for the server lib" + operator + goOn,
			downRetryMax,
		},
		"a new one": {
			"DB-UPSTREAM-CREDENTIAL", "This gateway has no usable credential for the server lib" + operator + goOn,
			downRetryMax,
		},
		credential.FaultRefused: {
			"DB-UPSTREAM-CREDENTIAL",
			"The server lib refused the credential with which this gateway calls it" + operator + goOn, downRetryMax,
		},
		credential.FaultClock: {
			"DB-UPSTREAM-CREDENTIAL",
			"The credential for the server lib was refused, and the clocks there and here differ" + operator + goOn,
			downRetryMax,
		},
		credential.FaultExchange: {
			"DB-UPSTREAM-TOKEN",
			"The service that gives tokens for the server lib refused one" + operator + goOn, downRetryMax,
		},
		credential.FaultAway: {
			"DB-UPSTREAM-TOKEN-DOWN",
			"The service that gives tokens for the server lib does not answer now. The call was not made. " +
				"Try again later, or go on without it.", time.Second,
		},
		credential.FaultSignIn: {
			"DB-UPSTREAM-SIGN-IN",
			"This gateway has no token of its user for the server lib. A new sign-in of the user to this " +
				"gateway may bring one" + goOn, downRetryMax,
		},
	} {
		got := failureOf(&registry.UnavailableError{Server: "lib", Credential: fault, Err: errors.New("secret")})
		if got.rpcErr.StableCode() != want.code || got.rpcErr.Message != want.text ||
			got.rpcErr.RetryAfter != want.again || got.reason != string(fault) {
			t.Errorf("%s: got %+v of reason %q, want %+v", fault, got.rpcErr, got.reason, want)
		}
	}
}

// TestACrashOfAServerIsNoFaultOfTheGateway ends calls by what their server did, and one
// by a fault inside.
func TestACrashOfAServerIsNoFaultOfTheGateway(t *testing.T) {
	cause := errors.New("child ended: exit status 1")
	for want, err := range map[string]error{
		`level=WARN msg="a call's server was lost" request_id=r1 tenant=acme server=lib item=lib__ask error=` +
			`"server lib is not available: child ended: exit status 1"`: &registry.UnavailableError{Server: "lib", Sent: true, Err: cause},
		`level=WARN msg="a call could not start at its server"`:               &registry.UnavailableError{Server: "lib", Err: cause},
		`level=WARN msg="a call's server gave an answer that cannot be used"`: &registry.ProtocolError{Server: "lib", Err: cause},
		`level=WARN msg="a call had no credential that its server takes"`: &registry.UnavailableError{
			Server: "lib", Credential: credential.FaultExchange, Err: cause,
		},
		`level=ERROR msg="call failed inside"`: cause,
	} {
		var log strings.Builder
		b, l := newLibrary(t)
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		l.fails(err)
		b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params))
		if got := log.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("got %swant one line with %s", got, want)
		}
	}
}
