package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// olderTask has a client of 2026-07-28 call a tool of a server of 2025-11-25 that runs
// only as a task, and returns the id that the client has.
func olderTask(t *testing.T, b *bench, l *library) string {
	t.Helper()
	l.uses = nil
	l.says(`{"resultType":"task","task":{"taskId":"own-1","status":"input_required","statusMessage":"a\u202Eb","createdAt":"c","lastUpdatedAt":"u","ttl":60000,"pollInterval":5},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1"},"x":1}}`)
	result, failure := b.handle(t, knowing(mcp.TasksGiven, mcp.MethodToolsCall, `{"name":"lib__other"}`))
	id := result.Text("taskId")
	want := `{"taskId":` + quote(id) + `,"status":"working","statusMessage":"ab","createdAt":"c","lastUpdatedAt":"u","ttlMs":60000,"pollIntervalMs":5,"resultType":"task","_meta":{"x":1,`
	if got := string(result.JSON()); failure != nil || id == "" || !strings.HasPrefix(got, want) {
		t.Fatalf("made %s, %v; want %s", got, failure, want)
	}
	if use := l.uses[0]; use.Tasks != mcp.TasksAsked || string(use.Params.Value("task")) != "{}" ||
		use.Capabilities.Len() == 0 || use.OnTaskStatus != nil {
		t.Errorf("the source got %+v, want that a task is asked for, and that its client can be asked", use)
	}
	return id
}

// TestTaskOfAnOlderServer asks for what a client of 2026-07-28 may ask of a task.
func TestTaskOfAnOlderServer(t *testing.T) {
	const (
		working   = `{"taskId":"own-1","status":"working","ttl":null}`
		waiting   = `{"taskId":"own-1","status":"input_required","statusMessage":"w\u202Eait"}`
		completed = `{"taskId":"own-1","status":"completed","ttl":1}`
		failed    = `{"taskId":"own-1","status":"failed"}`
		cancelled = `{"taskId":"own-1","status":"cancelled"}`
		done      = `{"content":[{"type":"text","text":"a\u202Eb"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1"}}}`
		broke     = `{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1"},"x":1}}`
	)
	over := mcp.Errorf(mcp.CodeInvalidParams, "task own-1 is over")
	for name, test := range map[string]struct {
		method, state, result string
		failed                *mcp.Error // of tasks/result or tasks/cancel
		want, asked           string
	}{
		"it works": {mcp.MethodTasksGet, working, "", nil, `"status":"working","ttlMs":null,"resultType"`, "tasks/get"},
		"it asks": {
			mcp.MethodTasksGet, waiting, "", nil,
			`"status":"input_required","statusMessage":"wait","ttlMs":null,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{}}}},"resultType"`,
			"tasks/get tasks/update",
		},
		"it is done": {
			mcp.MethodTasksGet, completed, done, nil,
			`"status":"completed","ttlMs":1,"result":{"content":[{"type":"text","text":"ab"}],"resultType":"complete"},"resultType"`,
			"tasks/get tasks/result",
		},
		"its tool failed": {
			mcp.MethodTasksGet, failed, broke, nil,
			`"status":"completed","ttlMs":null,"result":{"content":[],"isError":true,"_meta":{"x":1},"resultType":"complete"},"resultType"`,
			"tasks/get tasks/result",
		},
		"it failed": {
			mcp.MethodTasksGet, failed, "", mcp.Errorf(-32020, "b\u202Ead"),
			`"status":"failed","ttlMs":null,"error":{"code":-32603,"message":"bad","data":{"code":"DB-UPSTREAM-ERROR"}},"resultType"`,
			"tasks/get tasks/result",
		},
		"it was cancelled": {mcp.MethodTasksGet, cancelled, "", nil, `"status":"cancelled","ttlMs":null,"resultType"`, "tasks/get"},
		"answers":          {mcp.MethodTasksUpdate, working, "", nil, `{"resultType":"complete"`, "tasks/update"},
		"a cancellation":   {mcp.MethodTasksCancel, working, "", nil, `{"resultType":"complete"`, "tasks/cancel"},
		"one too late":     {mcp.MethodTasksCancel, completed, "", over, `{"resultType":"complete"`, "tasks/cancel tasks/get"},
		"one in vain":      {mcp.MethodTasksCancel, working, "", over, `-32602`, "tasks/cancel tasks/get"},
		"one that fails":   {mcp.MethodTasksCancel, working, "", mcp.Errorf(mcp.CodeInternal, "no"), `-32603`, "tasks/cancel"},
	} {
		b, l := newTasks(t, mcp.TasksAsked)
		id := olderTask(t, b, l)
		l.uses = nil
		l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			answers := string(c.Params.Value("inputResponses"))
			asks := c.Method == mcp.MethodTasksUpdate && answers == ""
			if use := c; use.Task != "own-1" || use.Tasks != mcp.TasksAsked ||
				(use.Capabilities.Len() > 0) != asks || (use.Hold != nil) != asks {
				t.Errorf("%s: the source got %+v", name, use)
			}
			switch {
			case asks:
				return object(`{"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"w\u202Eho?","requestedSchema":{}}}}}`), nil
			case c.Method == mcp.MethodTasksUpdate && answers != `{"q":{}}`:
				t.Errorf("%s: the source got the answers %s", name, answers)
			case c.Method == mcp.MethodTasksGet:
				return object(test.state), nil
			case test.failed != nil:
				return mcp.Object{}, test.failed
			case c.Method == mcp.MethodTasksResult:
				return object(test.result), nil
			}
			return object(cancelled), nil
		}
		result, failure := b.handle(t, about(mcp.TasksGiven, test.method, id, `,"inputResponses":{"q":{}}`))
		got := string(result.JSON())
		if failure != nil {
			got = string(mcp.Int(int64(failure.Code)))
		}
		if !strings.Contains(got, test.want) || strings.Contains(got, "own-1") {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		if test.method == mcp.MethodTasksGet && result.Text("taskId") != id {
			t.Errorf("%s: got %s, want the client's task", name, got)
		}
		var asked []string
		for _, use := range l.uses {
			asked = append(asked, use.Method)
		}
		if got := strings.Join(asked, " "); got != test.asked {
			t.Errorf("%s: the server was asked %s, want %s", name, got, test.asked)
		}
		if records := strings.Count(b.records(t), `"method":"`+test.method+`"`); records != 1 {
			t.Errorf("%s: %d records, want one for the whole request", name, records)
		}
	}
}

// TestWhatAnOlderServerAsksOfATask is told to a client that can be asked it, and to no
// other.
func TestWhatAnOlderServerAsksOfATask(t *testing.T) {
	const asks = `{"inputRequests":{"k":{"method":"roots/list","params":{}}}}`
	lost := &registry.UnavailableError{Server: "lib"}
	for name, test := range map[string]struct {
		can, asks string
		failed    error
		want      string
	}{
		"it can be asked":           {`{"roots":{}}`, asks, nil, `"inputRequests":{"k":`},
		"it can be asked nothing":   {`{}`, asks, nil, `"status":"working"`},
		"it can be asked other":     {`{"sampling":{}}`, asks, nil, "DB-CAPABILITY"},
		"nothing is asked":          {`{"roots":{}}`, `{}`, nil, `"status":"working"`},
		"what the protocol has not": {`{"roots":{}}`, `{"inputRequests":{"k":{"method":"x"}}}`, nil, "DB-UPSTREAM-PROTOCOL"},
		"the server is away":        {`{"roots":{}}`, `{}`, lost, "DB-UPSTREAM-DOWN"},
	} {
		b, l := newTasks(t, mcp.TasksAsked)
		id := olderTask(t, b, l)
		l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			if c.Method == mcp.MethodTasksUpdate {
				return object(test.asks), test.failed
			}
			// what stands in the state itself is none of a server's of 2025-11-25
			return object(`{"taskId":"own-1","status":"input_required","inputRequests":{"own":{}}}`), nil
		}
		r := about(mcp.TasksGiven, mcp.MethodTasksGet, id, "")
		r.Capabilities = object(test.can)
		result, failure := b.handle(t, r)
		if got := string(result.JSON()) + stable(failure); !strings.Contains(got, test.want) || strings.Contains(got, `"own"`) {
			t.Errorf("%s: got %s, %v; want %s", name, got, failure, test.want)
		}
	}
}

// TestCallsThatTasksWouldCostSomethingStayCalls calls a tool that may run as a task, as
// clients of 2026-07-28 that know tasks.
func TestCallsThatTasksWouldCostSomethingStayCalls(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *Request)
		params string
		isTask bool
	}{
		"it can be asked nothing":     {func(*Request) {}, `{"name":"lib__ask"}`, true},
		"it wants progress":           {func(*Request) {}, `{"name":"lib__ask","_meta":{"progressToken":1}}`, false},
		"it wants log lines":          {func(r *Request) { r.LogLevel = 1 }, `{"name":"lib__ask"}`, false},
		"it can be asked":             {func(r *Request) { r.Capabilities = object(`{"roots":{}}`) }, `{"name":"lib__ask"}`, false},
		"the tool must run as a task": {func(r *Request) { r.Capabilities = object(`{"roots":{}}`) }, `{"name":"lib__other"}`, true},
	} {
		b, l := newTasks(t, mcp.TasksAsked)
		r := knowing(mcp.TasksGiven, mcp.MethodToolsCall, test.params)
		r.Capabilities = mcp.Object{}
		test.change(r)
		l.says(`{"content":[]}`)
		result, failure := b.handle(t, r)
		if failure != nil || !result.Has("content") {
			t.Errorf("%s: got %s, %v; want the result that the server gave", name, result.JSON(), failure)
			continue
		}
		use := l.uses[0]
		if use.Params.Has("task") != test.isTask || (use.Tasks == mcp.TasksAsked) != test.isTask ||
			!test.isTask && use.Capabilities.Len() != r.Capabilities.Len() {
			t.Errorf("%s: the source got %s with tasks %d and %s", name, use.Params.JSON(), use.Tasks,
				use.Capabilities.JSON())
		}
	}
}

// TestToolsThatRunAsTasksOnlyAreRefusedInWords calls such a tool as clients that know no
// tasks.
func TestToolsThatRunAsTasksOnlyAreRefusedInWords(t *testing.T) {
	for _, test := range []struct {
		inSession bool
		rules     []string
		want      string
	}{
		{false, []string{"*"}, "DB-CAPABILITY"},
		{true, []string{"*"}, "DB-TOOL"},
		{false, []string{"lib__ask"}, "DB-TOOL"},
		{true, []string{"lib__ask"}, "DB-TOOL"},
	} {
		tenant := everything()
		tenant.Rules = []Rule{{Allow: test.rules}}
		b, l := newTasks(t, mcp.TasksAsked, tenant)
		r := knowing(0, mcp.MethodToolsCall, `{"name":"lib__other"}`)
		r.InSession = test.inSession
		if _, failure := b.handle(t, r); stable(failure) != test.want || len(l.uses) > 0 {
			t.Errorf("in a session: %v, allowed: %s: %v, want %s", test.inSession, test.rules, failure, test.want)
		} else if test.want == "DB-CAPABILITY" && (failure.Code != mcp.CodeMissingCapability ||
			!strings.Contains(string(failure.Data), `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)) {
			t.Errorf("%v %s, want the extension named", failure, failure.Data)
		}
	}
}

// TestTaskOfAnOlderServerIsFollowed follows one that is at its end.
func TestTaskOfAnOlderServerIsFollowed(t *testing.T) {
	b, l := newTasks(t, mcp.TasksAsked)
	id := olderTask(t, b, l)
	l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		if c.Method == mcp.MethodTasksResult {
			return object(`{"content":[]}`), nil
		}
		return object(`{"taskId":"own-1","status":"completed","ttl":null}`), nil
	}
	var told []string
	followed, err := b.FollowTask(context.Background(), b.caller(t, alice), knowing(mcp.TasksGiven, "", `{}`), id,
		func(state mcp.Object) bool {
			told = append(told, strings.ReplaceAll(string(state.JSON()), id, "ID"))
			return true
		})
	if err != nil {
		t.Fatal(err)
	}
	followed.Stop()
	want := `{"taskId":"ID","status":"completed","ttlMs":null,"result":{"content":[],"resultType":"complete"}}`
	if len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %s", told, want)
	}
}
