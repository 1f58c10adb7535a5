package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const question = `"q":{"method":"elicitation/create","params":{"mode":"form","message":"wh\u202Eo?","requestedSchema":{"type":"object"}}}`

// asksOnce makes a library ask until the state that it gives out comes back, and answer
// then.
func (l *library) asksOnce(s subject) {
	l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		if c.Params.Text("requestState") == "inner" {
			return object(s.answer("done")), nil
		}
		return object(`{"resultType":"input_required","inputRequests":{` + question +
			`},"requestState":"inner","ttlMs":5,"cacheScope":"public"}`), nil
	}
}

// repeat returns the request again, with answers and the state of a result.
func repeat(r *Request, result mcp.Object) *Request {
	again := *r
	again.ID = "r2"
	again.Params = r.Params.With("inputResponses",
		mcp.RawJSON(`{"q":{"action":"accept"}}`)).With("requestState", result.Value("requestState"))
	return &again
}

// asked makes a request that asks for input.
func (b *bench) asked(t *testing.T, r *Request) mcp.Object {
	t.Helper()
	result, failure := b.handle(t, r)
	if failure != nil || result.Text("resultType") != "input_required" {
		t.Fatalf("%s: %s, %v; want a question", r.Method, result.JSON(), failure)
	}
	return result
}

// TestAnswersInAWrongFormUseNothingUp sends answers that are none, which the server does
// not get, and then better ones.
func TestAnswersInAWrongFormUseNothingUp(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 4}
	b, l := newLibrary(t, tenant)
	l.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	asks := b.asked(t, r)
	for _, bad := range []string{`[]`, `"x"`, `{"q":1}`} {
		wrong := repeat(r, asks)
		wrong.Params = wrong.Params.With("inputResponses", mcp.RawJSON(bad))
		if _, failure := b.handle(t, wrong); stable(failure) != "DB-PARAMS" || len(l.uses) != 1 {
			t.Errorf("%s: %v and %d uses, want invalid params and no further use", bad, failure, len(l.uses))
		}
	}
	// no token is left: what was refused has cost one each, and the state is good
	if result, failure := b.handle(t, repeat(r, asks)); failure != nil || len(l.uses) != 2 {
		t.Errorf("got %s, %v after %d uses, want the result", result.JSON(), failure, len(l.uses))
	}
}

// TestRoundsOfACall shows what a call with a question looks like to the client, the
// source and the audit.
func TestRoundsOfACall(t *testing.T) {
	for _, s := range subjects[:3] {
		tenant := everything()
		tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1}
		tenant.Limits.Tools = map[string]ratelimit.Limit{"*": {Rate: 0.001, Burst: 1}}
		b, l := newLibrary(t, tenant)
		l.asksOnce(s)
		r := ask(s.method, s.params)
		result := b.asked(t, r)
		if state := result.Text("requestState"); state == "inner" || strings.Contains(state, "inner") ||
			result.Has("ttlMs") || result.Has("cacheScope") {
			t.Errorf("%s: asked with %s, want a sealed state and no hints", s.method, result.JSON())
		}
		if got := result.Object("inputRequests").Object("q").Object("params").Text("message"); got != "who?" {
			t.Errorf("%s: the question is %q, want it clean", s.method, got)
		}
		result, failure := b.handle(t, repeat(r, result))
		if failure != nil || !strings.Contains(string(result.JSON()), "done") {
			t.Fatalf("%s: the repeat: %s, %v; want it free of charge", s.method, result.JSON(), failure)
		}
		if last := l.uses[1]; last.Params.Object("inputResponses").Object("q").Text("action") != "accept" {
			t.Errorf("%s: the source got %s, want the answers", s.method, last.Params.JSON())
		}
		records := strings.Split(b.records(t), "\n")
		if !strings.Contains(records[0], `"request_id":"r1","call_id":"r1"`) ||
			!strings.Contains(records[0], `"outcome":"input_required"`) ||
			!strings.Contains(records[1], `"request_id":"r2","call_id":"r1"`) ||
			!strings.Contains(records[1], `"outcome":"ok"`) {
			t.Errorf("%s: audit = %s", s.method, records)
		}
	}
}

func TestStateWithoutAnInnerOne(t *testing.T) {
	b, l := newLibrary(t)
	l.says(`{"resultType":"input_required","inputRequests":{` + question + `}}`)
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	if _, failure := b.handle(t, repeat(r, b.asked(t, r))); failure != nil {
		t.Fatal(failure)
	}
	if l.uses[1].Params.Has("requestState") {
		t.Errorf("the source got a state that it never gave out: %s", l.uses[1].Params.JSON())
	}
}

// TestTrap14_StateServesItsOwnRequest shows that a state is good for one client of one
// tenant, for the same request.
func TestTrap14_StateServesItsOwnRequest(t *testing.T) {
	bob, app, elsewhere, carol := alice, alice, alice, alice
	bob.Subject, app.ClientID, elsewhere.Issuer, carol.TenantID = "bob", "other-app",
		"https://elsewhere.test/", "globex"
	with := func(params string) func(*Request) { return func(r *Request) { r.Params = object(params) } }
	tests := []struct {
		name   string
		change func(r *Request)
		token  func(string) string
		reason string // "": it serves
	}{
		{"the same", nil, nil, ""},
		{"other spaces", with(`{"name":"lib__ask","arguments":{ "n": 1 }}`), nil, ""},
		{"other _meta", with(`{"name":"lib__ask","arguments":{"n":1},"_meta":{"progressToken":5}}`), nil, ""},
		{"other arguments", with(`{"name":"lib__ask","arguments":{"n":2}}`), nil, stateMismatch},
		{"no arguments", with(`{"name":"lib__ask"}`), nil, stateMismatch},
		{"another tool", with(`{"name":"lib__other","arguments":{"n":1}}`), nil, stateMismatch},
		{"another method", func(r *Request) { r.Method = mcp.MethodPromptsGet }, nil, stateMismatch},
		{"a method that never asks", func(r *Request) { r.Method = mcp.MethodComplete }, nil, stateMismatch},
		{"a tampered state", nil, func(s string) string { return s + "-TAMPERED" }, stateForged},
		{"no state of ours", nil, func(string) string { return "inner" }, stateForged},
		{"an empty state", nil, func(string) string { return "" }, stateForged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, l := newLibrary(t)
			l.asksOnce(subjects[0])
			r := ask(mcp.MethodToolsCall, subjects[0].params)
			result := b.asked(t, r)
			if test.change != nil {
				test.change(r)
			}
			if test.token != nil {
				result = result.With("requestState", mcp.String(test.token(result.Text("requestState"))))
			}
			_, failure := b.handle(t, repeat(r, result))
			b.expectState(t, failure, test.reason, len(l.uses)-1)
		})
	}
	for _, who := range []Caller{
		{Principal: bob},
		{Principal: app},
		{Principal: elsewhere},
		{Principal: carol},
	} {
		b, l := newLibrary(t, everything(), TenantConfig{
			ID: "globex", Servers: []string{"lib"},
			Rules: everything().Rules,
		})
		l.asksOnce(subjects[0])
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result := b.asked(t, r)
		_, failure := b.handleAs(t, b.caller(t, who.Principal), repeat(r, result))
		b.expectState(t, failure, stateForeign, len(l.uses)-1)
	}
}

// expectState checks how a repeat ended: with a use of its source, or refused for a
// reason that only the audit tells.
func (b *bench) expectState(t *testing.T, failure *mcp.Error, reason string, uses int) {
	t.Helper()
	if reason == "" {
		if failure != nil || uses != 1 {
			t.Errorf("%v and %d uses, want the state to serve", failure, uses)
		}
		return
	}
	if failure == nil || failure.Code != mcp.CodeInvalidParams ||
		string(failure.Data) != `{"code":"DB-STATE"}` || uses != 0 {
		t.Errorf("%v and %d uses, want the state refused", failure, uses)
	}
	if records := b.records(t); !strings.Contains(records, `"outcome":"invalid_request","reason":"`+reason+
		`"`) {
		t.Errorf("audit = %s, want %s", records, reason)
	}
}

func TestStateThatIsNoText(t *testing.T) {
	b, l := newLibrary(t)
	for _, state := range []string{`5`, `null`, `{}`} {
		_, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":"lib__ask","requestState":`+state+`}`))
		b.expectState(t, failure, stateForged, len(l.uses))
	}
}

func TestStateOfAnotherServersItem(t *testing.T) {
	tenant := everything()
	tenant.Servers = []string{"lib", "heir"}
	b, l := newLibrary(t, tenant)
	l.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	result := b.asked(t, r)
	b.registry.Remove("lib")
	b.replace(t, l.source("heir")) // whose tool has the same name now
	_, failure := b.handle(t, repeat(r, result))
	b.expectState(t, failure, stateMismatch, len(l.uses)-1)
}

func TestStateExpires(t *testing.T) {
	for _, test := range []struct {
		after  time.Duration
		reason string
	}{{stateLife - time.Second, ""}, {stateLife, stateExpired}} {
		synctest.Test(t, func(t *testing.T) {
			b, l := newLibrary(t)
			l.asksOnce(subjects[0])
			r := ask(mcp.MethodToolsCall, subjects[0].params)
			result := b.asked(t, r)
			time.Sleep(test.after)
			_, failure := b.handle(t, repeat(r, result))
			b.expectState(t, failure, test.reason, len(l.uses)-1)
		})
	}
}

func TestPolicyIsCheckedAgainOnARepeat(t *testing.T) {
	b, l := newLibrary(t)
	l.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	result := b.asked(t, r)
	tenant := everything()
	tenant.Rules = []Rule{{Allow: []string{"*other"}}}
	b.SetPolicy("", []TenantConfig{tenant})
	if _, failure := b.handle(t, repeat(r, result)); stable(failure) != "DB-TOOL" || len(l.uses) != 1 {
		t.Errorf("%v and %d uses, want the tool unknown now", failure, len(l.uses))
	}
}

func TestReplayIsCharged(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 2}
	b, l := newLibrary(t, tenant)
	l.asksOnce(subjects[0])
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	again := repeat(r, b.asked(t, r))
	for i, want := range []string{"", "", "DB-LIMIT-USER"} {
		if _, failure := b.handle(t, again); stable(failure) != want {
			t.Errorf("use %d of the state: %v, want %q", i+1, failure, want)
		}
	}
}

func TestRefusedStateIsCharged(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1}
	b, _ := newLibrary(t, tenant)
	for i, want := range []string{"DB-STATE", "DB-LIMIT-USER"} {
		if _, failure := b.handle(t,
			ask(mcp.MethodToolsCall, `{"name":"lib__ask","requestState":"x"}`)); stable(failure) != want {
			t.Errorf("forged state %d: %v, want %s", i+1, failure, want)
		}
	}
}

func TestEndlessRoundsAreCharged(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 2}
	b, l := newLibrary(t, tenant)
	l.says(`{"resultType":"input_required","requestState":"inner"}`)
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	result := b.asked(t, r)
	for range freeRounds + 1 { // all but the last are free, which takes the second token
		result = b.asked(t, repeat(r, result))
	}
	if _, failure := b.handle(t, repeat(r, result)); stable(failure) != "DB-LIMIT-USER" {
		t.Errorf("one more round: %v, want DB-LIMIT-USER", failure)
	}
}

// TestACallLetsGoHoweverManyRoundsItHad has a caller leave after more rounds than are
// free, with no token left: the source, which keeps the call open, is told all the same.
func TestACallLetsGoHoweverManyRoundsItHad(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1}
	b, l := newLibrary(t, tenant)
	var release func()
	l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		if ctx.Err() != nil {
			release()
			return mcp.Object{}, ctx.Err()
		}
		if c.Hold != nil {
			release = c.Hold(func() {})
		}
		return object(`{"resultType":"input_required","requestState":"inner"}`), nil
	}
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	result := b.asked(t, r)
	for range freeRounds {
		result = b.asked(t, repeat(r, result))
	}
	caller := b.caller(t, alice)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := b.Handle(ended, caller, repeat(r, result))
	if got := asError(t, err).StableCode(); got != "DB-CANCELLED" {
		t.Errorf("got %s, want DB-CANCELLED", got)
	}
	if got := b.inflight.InUse(); got != 0 {
		t.Errorf("%d slots taken, want none", got)
	}
}

func TestWhatIsUsedIsBounded(t *testing.T) {
	now := time.Now()
	u := newUsed()
	if !u.first(nonce{1}, now) || u.first(nonce{1}, now) || u.first(nonce{1}, now.Add(stateLife)) {
		t.Error("a state was used twice for the first time while it was good")
	}
	if !u.first(nonce{1}, now.Add(3*stateLife)) {
		t.Error("a state is remembered for ever")
	}
	u = newUsed()
	u.first(nonce{}, now)
	for i := range maxUsed {
		u.spans.Now[nonce{1, byte(i), byte(i >> 8), byte(i >> 16)}] = struct{}{}
	}
	if u.first(nonce{2}, now) {
		t.Error("what cannot be remembered counts as unused")
	}
}

// TestHeldPlace shows that a parked call keeps its one place among the calls at once
// until it lets go, whatever its repeats and a reload do.
func TestHeldPlace(t *testing.T) {
	two := 2 // one for each user
	tenant := everything()
	tenant.Limits.Concurrency = &two
	b, l := newLibrary(t, tenant)
	var release func()
	l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		if c.Params.Text("requestState") == "done" {
			return object(`{"content":[]}`), nil
		}
		next := `"more"`
		if c.Hold != nil {
			release = c.Hold(func() {})
		} else {
			next = `"done"`
		}
		return object(`{"resultType":"input_required","requestState":` + next + `}`), nil
	}
	taken := func(step string, want int) {
		t.Helper()
		if got := b.inflight.InUse(); got != int64(want) {
			t.Errorf("%s: %d places taken, want %d", step, got, want)
		}
		if got := b.bulkhead.active[counter{"acme", "lib"}]; got != want {
			t.Errorf("%s: %d places taken at the server, want %d", step, got, want)
		}
	}
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	first := b.asked(t, r)
	taken("parked", 1)
	if _, failure := b.handle(t, r); stable(failure) != "DB-LIMIT-CONCURRENCY" {
		t.Errorf("another call: %v, want no place for it", failure)
	}
	b.SetPolicy("", []TenantConfig{tenant})
	second := b.asked(t, repeat(r, first)) // in the place of the parked call
	taken("asked again", 1)
	if _, failure := b.handle(t, repeat(r, first)); stable(failure) != "DB-LIMIT-CONCURRENCY" {
		t.Errorf("a replay: %v, want no place for it", failure)
	}
	if _, failure := b.handle(t, repeat(r, second)); failure != nil {
		t.Errorf("the last round: %v", failure)
	}
	taken("answered, not let go", 1)
	release()
	release()
	taken("let go twice", 0)
}

func TestPlaceIsNotHeldAfterTheCall(t *testing.T) {
	b, l := newLibrary(t)
	var hold func(func()) func()
	l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		hold = c.Hold
		return object(`{"content":[]}`), nil
	}
	if _, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params)); failure != nil {
		t.Fatal(failure)
	}
	hold(func() {})()
	if got := b.inflight.InUse(); got != 0 {
		t.Errorf("%d places taken, want none", got)
	}
}

// TestClockStopsWhileAHumanAnswers shows that rounds share the time of one use, and the
// human's time is not in it.
func TestClockStopsWhileAHumanAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		l.reply = func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
			select {
			case <-time.After(libraryTime * 2 / 5):
				return object(`{"resultType":"input_required","requestState":"inner"}`), nil
			case <-ctx.Done():
				return mcp.Object{}, ctx.Err()
			}
		}
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result := b.asked(t, r)
		time.Sleep(stateLife / 2)
		result = b.asked(t, repeat(r, result))
		started := time.Now()
		if _, failure := b.handle(t, repeat(r, result)); stable(failure) != "DB-TIMEOUT" ||
			time.Since(started) != libraryTime/5 {
			t.Errorf("third round: %v after %v, want its time over after %v", failure, time.Since(started),
				libraryTime/5)
		}
	})
}

func TestCallWhoseTimeIsSpentDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		l.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
			time.Sleep(libraryTime) // it does not listen
			return object(`{"resultType":"input_required","requestState":"inner"}`), nil
		}
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result := b.asked(t, r)
		if _, failure := b.handle(t, repeat(r, result)); stable(failure) != "DB-TIMEOUT" || len(l.uses) != 1 {
			t.Errorf("%v and %d uses, want no second one", failure, len(l.uses))
		}
	})
}

// TestQuestionsThatWouldRunCodeAreNotAsked has a server ask to open pages.
func TestQuestionsThatWouldRunCodeAreNotAsked(t *testing.T) {
	for url, want := range map[string]string{
		"https://x.test/javascript:": "", "javascript:alert(1)": "DB-UPSTREAM-PROTOCOL",
		`Java\tScript:alert(1)`: "DB-UPSTREAM-PROTOCOL", "data:text/html,x": "DB-UPSTREAM-PROTOCOL",
	} {
		b, l := newLibrary(t)
		l.says(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create",` +
			`"params":{"mode":"url","url":"` + url + `","elicitationId":"1","message":"m"}}}}`)
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		r.Capabilities = object(`{"elicitation":{"url":{}}}`)
		if _, failure := b.handle(t, r); stable(failure) != want {
			t.Errorf("%s: got %v, want %q", url, failure, want)
		}
	}
}

// TestQuestionsThatTheClientCannotBeAsked shows that they never leave, and which
// capability would have let them.
func TestQuestionsThatTheClientCannotBeAsked(t *testing.T) {
	tests := []struct{ declared, questions, required string }{
		{
			`{}`, `{"q":{"method":"elicitation/create","params":{"message":"m"}}}`,
			`{"elicitation":{"form":{}}}`,
		},
		{
			`{"elicitation":{"form":{}}}`,
			`{"q":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.test/"}}}`,
			`{"elicitation":{"url":{}}}`,
		},
		{
			`{"elicitation":{"form":{}}}`,
			`{"a":{"method":"elicitation/create","params":{}},"b":{"method":"roots/list"}}`, `{"roots":{}}`,
		},
		{
			`{"sampling":{}}`, `{"q":{"method":"sampling/createMessage","params":{"tools":[]}}}`,
			`{"sampling":{"tools":{}}}`,
		},
		{
			`{}`, `{"a":{"method":"sampling/createMessage","params":{"toolChoice":{}}},"b":{"method":"sampling/createMessage"},"c":{"method":"elicitation/create"}}`,
			`{"sampling":{"tools":{}},"elicitation":{"form":{}}}`,
		},
		{
			`{"elicitation":{},"sampling":{},"roots":{}}`,
			`{"a":{"method":"elicitation/create"},"b":{"method":"sampling/createMessage"},"c":{"method":"roots/list"}}`, ``,
		},
	}
	for _, test := range tests {
		b, l := newLibrary(t)
		l.says(`{"resultType":"input_required","inputRequests":` + test.questions + `}`)
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		r.Capabilities = mcp.CapabilitiesOf(mcp.Revision2607, object(test.declared))
		_, failure := b.handle(t, r)
		if test.required == "" {
			if failure != nil {
				t.Errorf("%s asks %s: %v, want it to pass", test.declared, test.questions, failure)
			}
			continue
		}
		want := `{"code":"DB-CAPABILITY","requiredCapabilities":` + test.required + `}`
		if failure == nil || failure.Code != mcp.CodeMissingCapability || string(failure.Data) != want {
			t.Errorf("%s asks %s: %+v, want %s", test.declared, test.questions, failure, want)
		}
		if records := b.records(t); !strings.Contains(records, `"outcome":"missing_capability"`) {
			t.Errorf("audit = %s, want missing_capability", records)
		}
	}
}

func TestMissingCapabilityOfAnUpstreamPasses(t *testing.T) {
	for data, want := range map[string]string{
		`{"requiredCapabilities":{"roots":{}}}`: `{"requiredCapabilities":{"roots":{}}}`,
		`{"requiredCapabilities":["roots"]}`:    `{"requiredCapabilities":{}}`,
		`"roots"`:                               `{"requiredCapabilities":{}}`,
	} {
		b, l := newLibrary(t)
		l.fails(&mcp.Error{Code: mcp.CodeMissingCapability, Message: "I need roots", Data: mcp.RawJSON(data)})
		_, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params))
		if failure == nil || failure.Code != mcp.CodeMissingCapability || string(failure.Data) != want {
			t.Errorf("%s: %+v, want %s", data, failure, want)
		}
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	questions := func(n, key int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%0*d":{"method":"roots/list"}`, key, i))
		}
		return `"inputRequests":{` + strings.Join(all, ",") + `}`
	}
	state := func(n int) string { return `"requestState":"` + strings.Repeat("s", n) + `"` }
	tests := []struct {
		name, members string
		good          bool
	}{
		{"as many as allowed", questions(maxQuestions, maxQuestionKey), true},
		{"too many", questions(maxQuestions+1, 3), false},
		{"a long key", questions(1, maxQuestionKey+1), false},
		{"a long state", state(maxInner), true},
		{"a long state of quotes", `"requestState":"` + strings.Repeat(`\"`, maxInner) + `"`, true},
		{"a long state of control characters", `"requestState":"` + strings.Repeat(`\u0001`, maxInner) + `"`, true},
		{"too long a state", state(maxInner + 1), false},
		{"neither", `"x":1`, false},
		{"a list", `"inputRequests":[]`, false},
		{"no object", `"inputRequests":{"q":5}`, false},
		{"a state that is no text", `"requestState":5`, false},
		{"an unknown method", `"inputRequests":{"q":{"method":"tools/call"}}`, false},
		{
			"an unknown mode", `"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"voice"}}}`,
			false,
		},
	}
	for _, test := range tests {
		b, l := newLibrary(t)
		l.says(`{"resultType":"input_required",` + test.members + `}`)
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		result, failure := b.handle(t, r)
		if test.good && failure != nil || !test.good && stable(failure) != "DB-UPSTREAM-PROTOCOL" {
			t.Errorf("%s: %v, want it to pass: %v", test.name, failure, test.good)
		}
		if test.good {
			if _, failure := b.handle(t, repeat(r, result)); failure != nil {
				t.Errorf("%s: the repeat: %v", test.name, failure)
			}
		}
	}
}

func TestPanicOfARepeatGivesItsPlaceBack(t *testing.T) {
	b, l := newLibrary(t)
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) { panic(errors.New("inside")) }
	for range 2 {
		if _, failure := b.handle(t,
			ask(mcp.MethodResourcesRead, subjects[2].params)); stable(failure) != "DB-INTERNAL" {
			t.Errorf("got %v, want DB-INTERNAL", failure)
		}
	}
	if got := b.inflight.InUse(); got != 0 {
		t.Errorf("%d places taken, want none", got)
	}
}

// FuzzDecodeState shows that what is read is sealed so that it is read again.
func FuzzDecodeState(f *testing.F) {
	g := New(Config{Seal: newBench(f).config.Seal})
	for _, s := range []state{
		{Expires: time.Unix(1e9, 0), Spent: 1e9, Rounds: 2, SlotRetained: true, Inner: mcp.String("inner")},
		{Server: "lib", CallID: "r1", Home: "0123456789abcdef"},
	} {
		text, err := strictjson.Marshal(&s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:90])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		sealed, err := g.config.Seal.SealLong(purposeState, text)
		var first, again state
		if err != nil || !g.open(purposeState, sealed, &first) {
			return
		}
		if sealed, err = g.seal(purposeState, &first); err != nil || !g.open(purposeState, sealed, &again) ||
			!reflect.DeepEqual(first, again) {
			t.Errorf("%s is read as %+v, and that, %v, as %+v", text, first, err, again)
		}
	})
}
