package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	givenTask = `{"resultType":"task","taskId":"own-1","status":"working","statusMessage":"a\u202Eb","ttlMs":60000,"requestState":"x","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"}}}`
	askedTask = `{"resultType":"task","task":{"taskId":"own-1","status":"working","ttl":60000}}`
)

// newTasks returns a gateway with a library whose tools have tasks of that form: ask may
// become one, other must.
func newTasks(t *testing.T, form mcp.Tasks, tenants ...TenantConfig) (*bench, *library) {
	t.Helper()
	b, l := newLibrary(t, tenants...)
	s := l.source("lib")
	for i, support := range []string{"optional", "required"} {
		s.Tools[i].Tasks = form
		if form == mcp.TasksAsked {
			s.Tools[i].Definition = s.Tools[i].Definition.With("execution",
				mcp.RawJSON(`{"taskSupport":"`+support+`"}`))
		}
	}
	b.replace(t, s)
	return b, l
}

// knowing returns a request of a client that knows that form of tasks.
func knowing(form mcp.Tasks, method, params string) *Request {
	r := ask(method, params)
	r.Tasks = form
	return r
}

// about returns a request about a task.
func about(form mcp.Tasks, method, id, more string) *Request {
	r := knowing(form, method, `{"taskId":`+quote(id)+more+`}`)
	r.ID = "r2"
	return r
}

// made lets a call become a task and returns the id that the client has.
func made(t *testing.T, b *bench, l *library, form mcp.Tasks) string {
	t.Helper()
	l.says(givenTask)
	params := `{"name":"lib__ask","arguments":{"n":1}}`
	if form == mcp.TasksAsked {
		l.says(askedTask)
		params = `{"name":"lib__ask","arguments":{"n":1},"task":{"ttl":60000}}`
	}
	result, failure := b.handle(t, knowing(form, mcp.MethodToolsCall, params))
	if failure != nil || result.Text("resultType") != "task" {
		t.Fatalf("%s, %v; want a task", result.JSON(), failure)
	}
	task := result
	if form == mcp.TasksAsked {
		task = result.Object("task")
	}
	id := task.Text("taskId")
	if id == "" || strings.Contains(id, "own-1") || len(l.uses) != 1 {
		t.Fatalf("taskId = %q, want one of ours", id)
	}
	return id
}

// TestTaskOfTheExtension follows a task from its call to its end.
func TestTaskOfTheExtension(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1}
	tenant.Limits.Tools = map[string]ratelimit.Limit{"*": {Rate: 0.001, Burst: 1}}
	b, l := newTasks(t, mcp.TasksGiven, tenant)
	l.says(givenTask)
	result, _ := b.handle(t, knowing(mcp.TasksGiven, mcp.MethodToolsCall,
		`{"name":"lib__ask","task":{"ttl":1}}`))
	if result.Text("statusMessage") != "ab" || string(result.Value("ttlMs")) != "60000" ||
		result.Has("requestState") {
		t.Errorf("made %s, want it clean and without a state", result.JSON())
	}
	if use := l.uses[0]; use.Tasks != mcp.TasksGiven || use.Task != "" || use.Params.Has("task") {
		t.Errorf("the source got %+v, want that the client knows tasks, and no task asked for", use)
	}
	id := result.Text("taskId")
	steps := []struct{ method, more, says, want string }{
		{
			mcp.MethodTasksGet, ``, `{"taskId":"own-1","status":"working","result":{},"inputRequests":{}}`,
			`"status":"working"`,
		},
		{mcp.MethodTasksGet, ``, `{"taskId":"own-1","status":"input_required","inputRequests":{` + question +
			`}}`, `"message":"who?"`},
		{
			mcp.MethodTasksUpdate, `,"inputResponses":{"q":{"action":"accept"}}`, `{"status":"working","x":1}`,
			`{"resultType":"complete"`,
		},
		{mcp.MethodTasksCancel, ``, `{"x":1}`, `{"resultType":"complete"`},
		{
			mcp.MethodTasksGet, ``,
			`{"taskId":"own-1","status":"completed","result":{"content":[{"type":"text","text":"a\u202Eb"},{"type":"resource_link","uri":"file:///a.txt","name":"a"}]}}`, `"text":"ab"},{"type":"resource_link","uri":"mcp.lib+file:///a.txt"`,
		},
		{
			mcp.MethodTasksGet, ``,
			`{"taskId":"own-1","status":"failed","error":{"code":-32020,"message":"b\u202Ead"}}`,
			`"error":{"code":-32603,"message":"bad","data":{"code":"DB-UPSTREAM-ERROR"}}`,
		},
		{mcp.MethodTasksGet, ``, `{"taskId":"own-1","status":"cancelled"}`, `"status":"cancelled"`},
	}
	for i, step := range steps {
		l.says(step.says)
		result, failure := b.handle(t, about(mcp.TasksGiven, step.method, id, step.more))
		got := string(result.JSON())
		if failure != nil || !strings.Contains(got, step.want) || strings.Contains(got, "own-1") ||
			strings.Contains(got, `"x"`) {
			t.Errorf("step %d: %s, %v; want %s", i, got, failure, step.want)
		}
		if step.method == mcp.MethodTasksGet &&
			(result.Text("taskId") != id || result.Text("status") == "working" && result.Has("result")) {
			t.Errorf("step %d: %s; want the state of the client's task", i, got)
		}
		if use := l.uses[i+1]; use.Task != "own-1" || use.Target != "ask" || use.Method != step.method {
			t.Errorf("step %d: the source got %+v", i, use)
		}
	}
	records := strings.Split(strings.TrimSpace(b.records(t)), "\n")
	if !strings.Contains(records[0], `"outcome":"task"`) || len(records) != 1+len(steps) {
		t.Fatalf("audit = %s", records)
	}
	for i, step := range steps {
		if record := records[i+1]; !strings.Contains(record, `"request_id":"r2","call_id":"r1"`) ||
			!strings.Contains(record, `"method":"`+step.method+`","server":"lib","item":"lib__ask"`) {
			t.Errorf("step %d: audit = %s", i, record)
		}
	}
}

// TestTaskIsItsOwners shows that the id of a task serves who made it, as long as that
// caller may use its tool.
func TestTaskIsItsOwners(t *testing.T) {
	bob, app, elsewhere, carol := alice, alice, alice, alice
	bob.Subject, app.ClientID, elsewhere.Issuer, carol.TenantID = "bob", "other-app",
		"https://elsewhere.test/", "globex"
	tests := []struct {
		name   string
		who    auth.Principal
		token  func(string) string
		form   mcp.Tasks
		rules  []Rule // of the tenant by then; nil: as they were
		reason string // "": it serves
	}{
		{"the same", alice, nil, mcp.TasksGiven, nil, ""},
		{"another user", bob, nil, mcp.TasksGiven, nil, taskForeign},
		{"another client", app, nil, mcp.TasksGiven, nil, taskForeign},
		{"another issuer", elsewhere, nil, mcp.TasksGiven, nil, taskForeign},
		{"another tenant", carol, nil, mcp.TasksGiven, nil, taskForeign},
		{
			"tampered", alice, func(id string) string { return id[:len(id)-4] + "AAAA" }, mcp.TasksGiven, nil,
			taskForged,
		},
		{"the server's own", alice, func(string) string { return "own-1" }, mcp.TasksGiven, nil, taskForged},
		{"empty", alice, func(string) string { return "" }, mcp.TasksGiven, nil, taskForged},
		{"the other form", alice, nil, mcp.TasksAsked, nil, taskMismatch},
		{
			"no longer allowed", alice, nil, mcp.TasksGiven,
			[]Rule{{Allow: []string{"lib__other"}}},
			taskForbidden,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			other := everything()
			other.ID = "globex"
			b, l := newTasks(t, mcp.TasksGiven, everything(), other)
			id := made(t, b, l, mcp.TasksGiven)
			if test.token != nil {
				id = test.token(id)
			}
			if test.rules != nil {
				changed := everything()
				changed.Rules = test.rules
				b.SetPolicy("", []TenantConfig{changed, other})
			}
			l.says(`{"taskId":"own-1","status":"working"}`)
			_, failure := b.handleAs(t, b.caller(t, test.who), about(test.form, mcp.MethodTasksGet, id, ""))
			if test.reason == "" {
				if failure != nil {
					t.Errorf("%v, want it to serve", failure)
				}
				return
			}
			if stable(failure) != "DB-TASK" || failure.Code != mcp.CodeInvalidParams || len(l.uses) != 1 {
				t.Errorf("%v and %d uses, want no such task", failure, len(l.uses))
			}
			if records := b.records(t); !strings.Contains(records, test.reason) {
				t.Errorf("audit = %s, want reason %s", records, test.reason)
			}
		})
	}
}

// TestTaskOfAServerThatIsAway shows what a poll learns while there is nobody to ask, and
// that what has no tasks is not taken for the server that gave one.
func TestTaskOfAServerThatIsAway(t *testing.T) {
	b, l := newTasks(t, mcp.TasksGiven)
	id := made(t, b, l, mcp.TasksGiven)
	poll := func() *mcp.Error {
		_, failure := b.handle(t, about(mcp.TasksGiven, mcp.MethodTasksGet, id, ""))
		return failure
	}
	lost := func(want string) {
		t.Helper()
		if failure := poll(); stable(failure) != "DB-UPSTREAM-DOWN" || failure.RetryAfter == 0 ||
			!strings.Contains(failure.Message, want) {
			t.Errorf("%v, want that the server is away: %s", failure, want)
		}
	}
	b.lose()()
	lost("server lib is down since")
	b.registry.Remove("lib")
	lost("the call was not made")
	b.lose() // as after a restart of the gateway
	lost("server lib could not be reached yet")
	b.replace(t, l.source("lib"))
	if failure := poll(); stable(failure) != "DB-UPSTREAM-DOWN" || len(l.uses) != 1 {
		t.Errorf("%v and %d uses, want that a tool without tasks is not called", failure, len(l.uses))
	}
	s := l.source("lib")
	s.Tools[0].Tasks = mcp.TasksGiven
	b.replace(t, s)
	l.fails(mcp.Errorf(mcp.CodeInvalidParams, "no task own-1"))
	if failure := poll(); stable(failure) != "DB-TASK" || strings.Contains(failure.Message, "own-1") {
		t.Errorf("%v, want that there is no such task", failure)
	}
	l.fails(mcp.Errorf(mcp.CodeInternal, "trouble"))
	if failure := poll(); stable(failure) != "DB-UPSTREAM-ERROR" {
		t.Errorf("%v, want the server's error", failure)
	}
}

// TestTasksThatNobodyCanUse shows what of servers goes no further.
func TestTasksThatNobodyCanUse(t *testing.T) {
	long := strings.Repeat("x", maxTaskID+1)
	for _, says := range []string{
		`{"resultType":"task","status":"working"}`, `{"resultType":"task","taskId":"","status":"working"}`,
		`{"resultType":"task","taskId":1,"status":"working"}`,
		`{"resultType":"task","taskId":"own-1"}`, `{"resultType":"task","taskId":"own-1","status":"done"}`,
		`{"resultType":"task","taskId":"` + long + `","status":"working"}`,
		askedTask,
	} {
		b, l := newTasks(t, mcp.TasksGiven)
		l.says(says)
		if _, failure := b.handle(t, knowing(mcp.TasksGiven, mcp.MethodToolsCall,
			`{"name":"lib__ask"}`)); stable(failure) != "DB-UPSTREAM-PROTOCOL" {
			t.Errorf("%.80s passes: %v", says, failure)
		}
	}
	b, l := newTasks(t, mcp.TasksGiven)
	l.says(givenTask)
	if _, failure := b.handle(t,
		ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`)); stable(failure) != "DB-UPSTREAM-PROTOCOL" {
		t.Errorf("a task for a client that knows none: %v", failure)
	}
	b, l = newTasks(t, mcp.TasksGiven)
	id := made(t, b, l, mcp.TasksGiven)
	for _, says := range []string{
		`{"taskId":"own-2","status":"working"}`, `{"status":"working"}`, `{"taskId":"own-1","status":"done"}`,
		`{"taskId":"own-1","status":"completed"}`,
		`{"taskId":"own-1","status":"completed","result":[]}`, `{"taskId":"own-1","status":"failed"}`,
		`{"taskId":"own-1","status":"failed","error":{"message":"m"}}`,
		`{"taskId":"own-1","status":"input_required"}`,
		`{"taskId":"own-1","status":"input_required","inputRequests":{"q":{"method":"tools/call"}}}`,
		`{"resultType":"input_required","requestState":"s"}`, givenTask,
	} {
		l.says(says)
		if _, failure := b.handle(t, about(mcp.TasksGiven, mcp.MethodTasksGet, id,
			"")); stable(failure) != "DB-UPSTREAM-PROTOCOL" {
			t.Errorf("%s passes: %v", says, failure)
		}
	}
}

// TestTaskAsksOnlyWhatTheClientCanBeAsked polls a task that asks, as a client that cannot
// be asked.
func TestTaskAsksOnlyWhatTheClientCanBeAsked(t *testing.T) {
	b, l := newTasks(t, mcp.TasksGiven)
	id := made(t, b, l, mcp.TasksGiven)
	l.says(`{"taskId":"own-1","status":"input_required","inputRequests":{` + question + `}}`)
	r := about(mcp.TasksGiven, mcp.MethodTasksGet, id, "")
	r.Capabilities = mcp.Object{}
	if _, failure := b.handle(t, r); failure == nil || failure.Code != mcp.CodeMissingCapability {
		t.Errorf("%v, want the missing capability", failure)
	}
	r = about(mcp.TasksGiven, mcp.MethodTasksUpdate, id, `,"inputResponses":[]`)
	if _, failure := b.handle(t, r); stable(failure) != "DB-PARAMS" || len(l.uses) != 2 {
		t.Errorf("%v and %d uses, want answers that are no object refused", failure, len(l.uses))
	}
}

// TestMethodsOfTasks shows which methods clients have by what they know.
func TestMethodsOfTasks(t *testing.T) {
	const unknown, task, capability = "DB-METHOD", "DB-TASK", "DB-CAPABILITY"
	tests := []struct {
		method                string
		without, given, asked string
	}{
		{mcp.MethodTasksGet, capability, task, task},
		{mcp.MethodTasksCancel, capability, task, task},
		{mcp.MethodTasksUpdate, capability, task, unknown},
		{mcp.MethodTasksResult, unknown, unknown, task},
		{mcp.MethodTasksList, unknown, unknown, ""},
	}
	for _, test := range tests {
		for form, want := range map[mcp.Tasks]string{
			0: test.without, mcp.TasksGiven: test.given,
			mcp.TasksAsked: test.asked,
		} {
			b, _ := newTasks(t, mcp.TasksGiven)
			_, failure := b.handle(t, about(form, test.method, "x", ""))
			if stable(failure) != want {
				t.Errorf("%s by a client of form %d: %v, want %s", test.method, form, failure, want)
			}
			if want == capability && !strings.Contains(string(failure.Data),
				`"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
				t.Errorf("%s: %s, want the extension named", test.method, failure.Data)
			}
		}
	}
}

// TestTaskThatWasAskedFor follows a task of 2025-11-25 from its call to its result.
func TestTaskThatWasAskedFor(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 1}
	b, l := newTasks(t, mcp.TasksAsked, tenant)
	id := made(t, b, l, mcp.TasksAsked)
	if use := l.uses[0]; use.Tasks != mcp.TasksAsked || string(use.Params.Value("task")) != `{"ttl":60000}` {
		t.Errorf("the source got %+v, want the task", use)
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel} {
		l.says(`{"taskId":"own-1","status":"cancelled","ttl":null,"result":{}}`)
		result, failure := b.handle(t, about(mcp.TasksAsked, method, id, ""))
		if failure != nil || result.Text("taskId") != id || result.Text("status") != "cancelled" ||
			result.Has("result") {
			t.Errorf("%s: %s, %v", method, result.JSON(), failure)
		}
	}
	l.asksOnce(subjects[0])
	r := about(mcp.TasksAsked, mcp.MethodTasksResult, id, "")
	asks := b.asked(t, r)
	const related = `"io.modelcontextprotocol/related-task":{"taskId":`
	if got := string(asks.Object("inputRequests").Object("q").Object("params").Value("_meta")); got != `{`+
		related+quote(id)+`}}` {
		t.Errorf("the question has _meta %s, want its task", got)
	}
	result, failure := b.handle(t, repeat(r, asks))
	if got := string(result.JSON()); failure != nil || !strings.Contains(got, "done") ||
		!strings.Contains(got, related+quote(id)) {
		t.Errorf("%s, %v; want the result, and whose it is", got, failure)
	}
}

// TestResultOfATaskIsWaitedFor shows that a task may take longer than a call.
func TestResultOfATaskIsWaitedFor(t *testing.T) {
	for after, want := range map[time.Duration]string{
		resultTime - time.Second: "",
		resultTime + time.Second: "DB-TIMEOUT",
	} {
		synctest.Test(t, func(t *testing.T) {
			b, l := newTasks(t, mcp.TasksAsked)
			id := made(t, b, l, mcp.TasksAsked)
			l.reply = func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
				select {
				case <-time.After(after):
					return object(`{"content":[]}`), nil
				case <-ctx.Done():
					return mcp.Object{}, ctx.Err()
				}
			}
			if _, failure := b.handle(t, about(mcp.TasksAsked, mcp.MethodTasksResult, id,
				"")); stable(failure) != want {
				t.Errorf("after %v: %v, want %q", after, failure, want)
			}
		})
	}
}

// TestWhoMayAskForATask calls tools of every kind with and without a task.
func TestWhoMayAskForATask(t *testing.T) {
	b, l := newTasks(t, mcp.TasksAsked)
	s := l.source("plain")
	s.Prefix = "plain"
	b.replace(t, s)
	both := everything()
	both.Servers = []string{"lib", "plain"}
	b.SetPolicy("", []TenantConfig{both})
	tests := []struct {
		params     string
		form       mcp.Tasks
		want       string // the stable code of the refusal; "": it is called
		asksForOne bool
	}{
		{`{"name":"lib__ask","task":{}}`, mcp.TasksAsked, "", true},
		{`{"name":"lib__other","task":{}}`, mcp.TasksAsked, "", true},
		{`{"name":"lib__ask"}`, mcp.TasksAsked, "", false},
		{`{"name":"lib__other"}`, mcp.TasksAsked, "DB-TASK-REQUIRED", false},
		{`{"name":"plain__ask","task":{}}`, mcp.TasksAsked, "DB-TASK-UNSUPPORTED", false},
		{`{"name":"lib__ask","task":5}`, mcp.TasksAsked, "DB-PARAMS", false},
		{`{"name":"lib__ask","task":{}}`, 0, "", false},
		{`{"name":"lib__ask","task":{}}`, mcp.TasksGiven, "", false}, // it can be asked
		{`{"name":"lib__other","task":{}}`, 0, "DB-CAPABILITY", false},
		{`{"name":"lib__other"}`, mcp.TasksGiven, "", true},
	}
	for _, test := range tests {
		l.uses = nil
		l.says(`{"content":[]}`)
		_, failure := b.handle(t, knowing(test.form, mcp.MethodToolsCall, test.params))
		if stable(failure) != test.want || (test.want == "") != (len(l.uses) == 1) {
			t.Errorf("%s by a client of form %d: %v, want %q", test.params, test.form, failure, test.want)
			continue
		}
		if strings.HasPrefix(test.want, "DB-TASK") && failure.Code != mcp.CodeMethodNotFound {
			t.Errorf("%s: code %d", test.params, failure.Code)
		}
		if len(l.uses) == 1 && (l.uses[0].Params.Has("task") != test.asksForOne ||
			(l.uses[0].Tasks == mcp.TasksAsked) != test.asksForOne) {
			t.Errorf("%s by a client of form %d: the source got %s", test.params, test.form,
				l.uses[0].Params.JSON())
		}
	}
}

// TestToolsThatRunAsTasksOnlyAreForThoseWhoKnowThem lists tools as every kind of client.
func TestToolsThatRunAsTasksOnlyAreForThoseWhoKnowThem(t *testing.T) {
	b, _ := newTasks(t, mcp.TasksAsked)
	for form, want := range map[mcp.Tasks][]string{
		0: {"lib__ask"}, mcp.TasksGiven: {"lib__ask", "lib__other"},
		mcp.TasksAsked: {"lib__ask", "lib__other"},
	} {
		result, _ := b.handle(t, knowing(form, mcp.MethodToolsList, `{}`))
		elements, _ := result.Value("tools").Elements()
		var got []string
		for _, element := range elements {
			tool, _ := mcp.ObjectOf(element)
			got = append(got, tool.Text("name"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("form %d: %v, want %v", form, got, want)
		}
	}
	if warnings := b.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

func FuzzTaskID(f *testing.F) {
	g := New(Config{Seal: newBench(f).config.Seal})
	f.Add([]byte("x"), "")
	f.Add(make([]byte, 40), "own")
	f.Fuzz(func(t *testing.T, plain []byte, own string) {
		if id, err := g.config.Seal.SealLong(purposeTask, plain); err == nil {
			_, _ = g.openTask(id) // whatever it says, it says it without a panic
		}
		if len(own) > maxTaskID || !utf8.ValidString(own) {
			return
		}
		written := task{Form: mcp.TasksGiven, Server: "s", Tool: "t", CallID: "c", Own: own}
		id, err := g.seal(purposeTask, &written)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := g.openTask(id); err != nil || *read != written {
			t.Errorf("read %+v, %v; want %+v", read, err, written)
		}
	})
}
