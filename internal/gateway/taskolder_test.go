package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// newerTask has a client of 2025-11-25 call a tool of a server of 2026-07-28, which gives
// a task, and returns the id that the client has.
func newerTask(t *testing.T, b *bench, l *library) string {
	t.Helper()
	l.uses = nil
	l.says(givenTask)
	result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
		`{"name":"lib__ask","arguments":{"n":1},"task":{"ttl":5}}`))
	task := result.Object("task")
	if failure != nil || task.Text("taskId") == "" {
		t.Fatalf("%s, %v; want a task", result.JSON(), failure)
	}
	want := `{"taskId":` + quote(task.Text("taskId")) + `,"status":"working","statusMessage":"ab","ttl":60000}`
	if got := string(task.JSON()); got != want {
		t.Errorf("made %s, want %s", got, want)
	}
	if use := l.uses[0]; use.Tasks != mcp.TasksGiven || use.Task != "" {
		t.Errorf("the source got %+v, want that the client knows tasks of the extension", use)
	}
	return task.Text("taskId")
}

// TestTaskOfANewerServer asks for what a client of 2025-11-25 may ask of a task.
func TestTaskOfANewerServer(t *testing.T) {
	const (
		working   = `{"taskId":"own-1","status":"working","ttlMs":null,"pollIntervalMs":2000,"createdAt":"c","lastUpdatedAt":"u"}`
		completed = `{"taskId":"own-1","status":"completed","ttlMs":1,"result":{"resultType":"complete","content":[{"type":"text","text":"a\u202Eb"},{"type":"resource_link","uri":"file:///a.txt","name":"a"}]}}`
		broke     = `{"taskId":"own-1","status":"completed","result":{"content":[],"isError":true}}`
		failed    = `{"taskId":"own-1","status":"failed","error":{"code":-32020,"message":"b\u202Ead"}}`
		cancelled = `{"taskId":"own-1","status":"cancelled"}`
	)
	for _, test := range []struct {
		method, says string
		want         string // in the answer
		asked        string // of the server
	}{
		{
			mcp.MethodTasksGet, working,
			`"status":"working","createdAt":"c","lastUpdatedAt":"u","ttl":null,"pollInterval":2000}`, "tasks/get",
		},
		{mcp.MethodTasksGet, completed, `"status":"completed","ttl":1}`, "tasks/get"},
		{mcp.MethodTasksGet, broke, `"status":"failed","ttl":null}`, "tasks/get"},
		{mcp.MethodTasksGet, failed, `"status":"failed","ttl":null}`, "tasks/get"},
		{mcp.MethodTasksCancel, working, `"status":"working"`, "tasks/get tasks/cancel tasks/get"},
		{mcp.MethodTasksCancel, cancelled, `-32602`, "tasks/get"},
		{
			mcp.MethodTasksResult, completed,
			`{"content":[{"type":"text","text":"ab"},{"type":"resource_link","uri":"mcp.lib+file:///a.txt","name":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":`,
			"tasks/get",
		},
		{mcp.MethodTasksResult, broke, `"isError":true`, "tasks/get"},
		{mcp.MethodTasksResult, failed, `-32603 bad DB-UPSTREAM-ERROR`, "tasks/get"},
		{mcp.MethodTasksResult, cancelled, `was cancelled`, "tasks/get"},
		{mcp.MethodTasksResult, `{"taskId":"own-1","status":"completed"}`, "DB-UPSTREAM-PROTOCOL", "tasks/get"},
		{mcp.MethodTasksResult, `{"taskId":"own-1","status":"failed","error":{}}`, "DB-UPSTREAM-PROTOCOL", "tasks/get"},
	} {
		b, l := newTasks(t, mcp.TasksGiven)
		id := newerTask(t, b, l)
		l.uses = nil
		l.says(test.says)
		r := about(mcp.TasksAsked, test.method, id, "")
		r.InSession = true
		result, failure := b.handle(t, r)
		got := string(result.JSON())
		if failure != nil {
			got = string(mcp.Int(int64(failure.Code))) + " " + failure.Message + " " + failure.StableCode()
		}
		if !strings.Contains(got, test.want) || strings.Contains(got, "own-1") {
			t.Errorf("%s of %s: got %s, want %s", test.method, test.says, got, test.want)
		}
		if test.method != mcp.MethodTasksResult && failure == nil && result.Text("taskId") != id {
			t.Errorf("%s: got %s, want the client's task", test.method, got)
		}
		var asked []string
		for _, use := range l.uses {
			asked = append(asked, use.Method)
			if use.Task != "own-1" || use.Tasks != mcp.TasksGiven {
				t.Errorf("%s: the source got %+v", test.method, use)
			}
		}
		if got := strings.Join(asked, " "); got != test.asked {
			t.Errorf("%s of %s: the server was asked %s, want %s", test.method, test.says, got, test.asked)
		}
		if records := strings.Count(b.records(t), `"method":"`+test.method+`"`); records != 1 {
			t.Errorf("%s: %d records, want one for the whole request", test.method, records)
		}
	}
}

// TestNewerTaskIsAwaited waits for the result of a task that asks something meanwhile.
// Its server names the question for a while after it was answered.
func TestNewerTaskIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newTasks(t, mcp.TasksGiven)
		b.tasks.memory = share.New(1 << 20)
		id, began := newerTask(t, b, l), time.Now()
		var updates, answers []string
		state := func(more string) string { return `{"taskId":"own-1","pollIntervalMs":2000,"status":` + more + `}` }
		l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			passed := time.Since(began)
			switch {
			case c.Method == mcp.MethodTasksUpdate:
				answers = append(answers, string(c.Params.Value("inputResponses")))
				return mcp.Object{}, nil
			case passed < 3*time.Second:
				return object(state(`"working"`)), nil
			case passed < 9*time.Second:
				return object(state(`"input_required","inputRequests":{` + question + `}`)), nil
			}
			return object(state(`"completed","result":{"content":[]}`)), nil
		}
		r := about(mcp.TasksAsked, mcp.MethodTasksResult, id, "")
		r.OnTaskStatus = func(of string, n mcp.Notification) {
			if of != id || n.Params.Text("taskId") != id {
				t.Errorf("told of %s in %s", of, n.Params.JSON())
			}
			updates = append(updates, n.Params.Text("status"))
		}
		asks := b.asked(t, r)
		if got := string(asks.Value("inputRequests")); !strings.Contains(got, `"message":"who?"`) ||
			!strings.Contains(got, `"io.modelcontextprotocol/related-task":{"taskId":`+quote(id)) {
			t.Errorf("asked %s, want the question, and whose it is", got)
		}
		result, failure := b.handle(t, repeat(r, asks))
		if failure != nil || !result.Value("content").IsArray() {
			t.Errorf("%s, %v; want the result", result.JSON(), failure)
		}
		if want := []string{`{"q":{"action":"accept"}}`}; !slices.Equal(answers, want) {
			t.Errorf("the server was answered %q, want %q", answers, want)
		}
		if want := []string{"working", "input_required", "input_required", "completed"}; !slices.Equal(updates, want) {
			t.Errorf("told %q, want %q", updates, want)
		}
		if passed := time.Since(began); passed != 10*time.Second {
			t.Errorf("it took %v, want the first look after nine seconds", passed)
		}
		if got := tasksListed(t, b, "alice"); !slices.Equal(got, []string{id + " completed"}) {
			t.Errorf("listed %q", got)
		}
	})
}

// TestWhatIsNoStateOfATaskIsNotAwaited waits for the result of a task whose server says
// something else than how the task is.
func TestWhatIsNoStateOfATaskIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			state string
			err   error
			want  string
		}{
			"of another task": {`{"taskId":"own-2","status":"completed","result":{"content":[]}}`, nil, "DB-UPSTREAM-PROTOCOL"},
			"of no task":      {`{"status":"working"}`, nil, "DB-UPSTREAM-PROTOCOL"},
			"no status":       {`{"taskId":"own-1","status":"paused"}`, nil, "DB-UPSTREAM-PROTOCOL"},
			"no such task":    {`{}`, mcp.Errorf(mcp.CodeInvalidParams, "no task own-1"), "DB-TASK"},
		} {
			for _, method := range []string{mcp.MethodTasksResult, mcp.MethodTasksCancel} {
				b, l := newTasks(t, mcp.TasksGiven)
				id, began := newerTask(t, b, l), time.Now()
				l.uses = nil
				l.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
					return object(test.state), test.err
				}
				result, failure := b.handle(t, about(mcp.TasksAsked, method, id, ""))
				if stable(failure) != test.want || len(l.uses) != 1 || time.Since(began) > 0 {
					t.Errorf("%s, %s: %s, %v after %d uses and %v; want %s at once", method, name, result.JSON(),
						failure, len(l.uses), time.Since(began), test.want)
				}
			}
		}
	})
}

// TestResultInPlaceOfATask has a client ask for a task of a server that answers at once.
func TestResultInPlaceOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newTasks(t, mcp.TasksGiven)
		b.config.Memory = share.New(1 << 20)
		b.tasks.memory = b.config.Memory
		for _, test := range []struct{ says, ttl, status, kept string }{
			{`{"content":[{"type":"text","text":"a\u202Eb"}]}`, `5000`, "completed", "5000"},
			{`{"content":[{"type":"text","text":"ab"}],"isError":true}`, `9000000`, "failed", "600000"},
			{`{"content":[{"type":"text","text":"ab"}]}`, `null`, "completed", "600000"},
		} {
			l.uses = nil
			l.says(test.says)
			result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
				`{"name":"lib__ask","task":{"ttl":`+test.ttl+`}}`))
			made := result.Object("task")
			id := made.Text("taskId")
			if failure != nil || id == "" || made.Text("status") != test.status || result.Has("content") ||
				string(made.Value("ttl")) != test.kept || made.Text("createdAt") != made.Text("lastUpdatedAt") {
				t.Fatalf("%s: got %s, %v", test.says, result.JSON(), failure)
			}
			for method, want := range map[string]string{
				mcp.MethodTasksGet: `"status":"` + test.status + `"`, mcp.MethodTasksResult: `"text":"ab"`,
			} {
				got, failure := b.handle(t, about(mcp.TasksAsked, method, id, ""))
				if failure != nil || !strings.Contains(string(got.JSON()), want) ||
					!strings.Contains(string(got.JSON()), id) {
					t.Errorf("%s: got %s, %v; want %s", method, got.JSON(), failure, want)
				}
			}
			if _, failure := b.handle(t, about(mcp.TasksAsked, mcp.MethodTasksCancel, id, "")); failure == nil ||
				failure.Code != mcp.CodeInvalidParams {
				t.Errorf("tasks/cancel: %v, want that it is at its end", failure)
			}
			bob := alice
			bob.Subject = "bob"
			if _, failure := b.handleAs(t, b.caller(t, bob),
				about(mcp.TasksAsked, mcp.MethodTasksResult, id, "")); stable(failure) != "DB-TASK" {
				t.Errorf("another user: %v, want no such task", failure)
			}
			if got := tasksListed(t, b, "alice"); !slices.Contains(got, id+" "+test.status) || len(l.uses) != 1 {
				t.Errorf("listed %q after %d uses of the tool", got, len(l.uses))
			}
			time.Sleep(resultLife)
			if _, failure := b.handle(t, about(mcp.TasksAsked, mcp.MethodTasksResult, id,
				"")); stable(failure) != "DB-TASK" {
				t.Errorf("when its time is over: %v, want no such task", failure)
			}
		}
		synctest.Wait()
		if held := b.config.Memory.InUse(); held != 0 { // though nobody has looked at the list
			t.Errorf("%d bytes are held for tasks whose time is over", held)
		}
	})
}

// TestWhoAsksForATaskGetsOne asks servers of both forms for tasks, with arguments that
// are refused and with some that the server of 2025-11-25 answers with a result. Programs
// that ask for a task cannot read anything else.
func TestWhoAsksForATaskGetsOne(t *testing.T) {
	for _, test := range []struct {
		form                           mcp.Tasks
		arguments, status, text, first string // the first outcome on record
		uses                           int
	}{
		{mcp.TasksGiven, `{"n":"one"}`, "failed", "n: must be an integer", outcomeInvalid, 0},
		{mcp.TasksAsked, `{"n":"one"}`, "failed", "n: must be an integer", outcomeInvalid, 0},
		{mcp.TasksAsked, `{"n":1}`, "completed", "at once", "ok", 1},
	} {
		b, l := newTasks(t, test.form)
		l.says(`{"content":[{"type":"text","text":"at once"}]}`)
		result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
			`{"name":"lib__ask","arguments":`+test.arguments+`,"task":{}}`))
		made := result.Object("task")
		if failure != nil || made.Text("status") != test.status || result.Has("content") ||
			len(l.uses) != test.uses {
			t.Fatalf("%s: got %s, %v after %d uses", test.arguments, result.JSON(), failure, len(l.uses))
		}
		if records := b.records(t); !strings.Contains(records, `"outcome":"`+test.first+`"`) {
			t.Errorf("%s: on record is %s, want %s", test.arguments, records, test.first)
		}
		got, failure := b.handle(t, about(mcp.TasksAsked, mcp.MethodTasksResult, made.Text("taskId"), ""))
		if failure != nil || !strings.Contains(string(got.JSON()), test.text) || len(l.uses) != test.uses {
			t.Errorf("%s: the result is %s, %v; want %s", test.arguments, got.JSON(), failure, test.text)
		}
	}
}

// TestHeldResultsOfAClientHaveABound makes calls with large results that are to become
// tasks, until no more are held, and once more when the time of these is over.
func TestHeldResultsOfAClientHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newTasks(t, mcp.TasksGiven)
		b.tasks.memory = share.New(1 << 30)
		l.says(`{"content":[{"type":"text","text":"` + strings.Repeat("a", 1<<20) + `"}]}`)
		for range 2 {
			held := 0
			for range 20 {
				result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
					`{"name":"lib__ask","task":{}}`))
				if failure != nil || result.Has("task") == result.Has("content") {
					t.Fatalf("%v, want a task or the result", failure)
				}
				if result.Has("task") {
					held++
				}
			}
			if held != 15 {
				t.Errorf("%d results of a little more than 1 MiB are held, want those that take 16 MiB at most", held)
			}
			time.Sleep(resultLife)
			synctest.Wait()
		}
	})
}

// TestResultThatCannotBeHeldIsTold has no memory for the result of a call that was to
// become a task.
func TestResultThatCannotBeHeldIsTold(t *testing.T) {
	b, l := newTasks(t, mcp.TasksGiven)
	b.tasks.memory = share.New(100)
	l.says(`{"content":[{"type":"text","text":"done"}]}`)
	result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall, `{"name":"lib__ask","task":{}}`))
	if failure != nil || result.Has("task") || !result.Has("content") {
		t.Errorf("got %s, %v; want the result", result.JSON(), failure)
	}
}
