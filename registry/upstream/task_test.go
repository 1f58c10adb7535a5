package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const givingTasks = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// TestTasksThatServersGive calls modern servers with and without tasks, as clients with
// and without them.
func TestTasksThatServersGive(t *testing.T) {
	t.Parallel()
	const declared = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	for _, test := range []struct {
		declares string
		knows    mcp.Tasks
		given    bool
	}{
		{givingTasks, mcp.TasksGiven, true},
		{givingTasks, 0, false},
		{givingTasks, mcp.TasksAsked, false},
		{`{"tools":{}}`, mcp.TasksGiven, false},
		// those of the other era
		{`{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, mcp.TasksAsked, false},
	} {
		s := serve(t, &web{
			modern: true, declares: test.declares,
			call: func(w http.ResponseWriter, _ *http.Request, m wire) {
				sendJSON(
					w, m.ID, `{"resultType":"task","taskId":"own","status":"working","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"web"}}}`)
			},
		})
		r := start(t, s.config())
		r.untilTool("tool")
		tool := r.tool("tool")
		if got := tool.Tasks == mcp.TasksGiven; got != (test.declares == givingTasks) {
			t.Errorf("%s: the tool has tasks: %v", test.declares, got)
		}
		call := request(t, `{"name":"tool"}`, nil)
		call.Tasks = test.knows
		result, err := r.use(&tool.Item, call, "tools/call")
		if passed := err == nil && result.Text("resultType") == "task" &&
			!result.Has("_meta"); passed != test.given {
			t.Errorf("%s, client %d: got %s, %v", test.declares, test.knows, result.JSON(), err)
		}
		if got := s.sights("tools/call")[0].body; strings.Contains(got, declared) != test.given {
			t.Errorf("%s, client %d: the server saw %s", test.declares, test.knows, got)
		}
	}
}

// TestMethodsOfTasksThatServersGive follows a task of a modern server.
func TestMethodsOfTasksThatServersGive(t *testing.T) {
	t.Parallel()
	answer := ""
	tasks := func(w http.ResponseWriter, _ *http.Request, m wire) { sendJSON(w, m.ID, answer) }
	s := serve(t, &web{modern: true, declares: givingTasks, other: map[string]func(http.ResponseWriter,
		*http.Request, wire){
		"tasks/get": tasks, "tasks/update": tasks, "tasks/cancel": tasks,
	}})
	r := start(t, s.config())
	r.untilTool("tool")
	tool := r.tool("tool")
	for _, test := range []struct{ method, params, answer, sees, want string }{
		{
			"tasks/get", `{}`, `{"resultType":"complete","taskId":"öwn","status":"working"}`, `{"taskId":"öwn"}`,
			`{"taskId":"öwn","status":"working"}`,
		},
		{
			"tasks/get", `{}`, `{"resultType":"task","taskId":"öwn","status":"failed","error":{"code":1}}`,
			`{"taskId":"öwn"}`, `{"taskId":"öwn","status":"failed","error":{"code":1}}`,
		},
		{
			"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"resultType":"complete","toolResult":"x","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`, `{"taskId":"öwn"}`,
			`{"taskId":"öwn","status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"x"}]}}`,
		},
		{
			"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1}}}`,
			`{"taskId":"öwn"}`, `{"taskId":"öwn","status":"completed","result":{"content":[],"_meta":{"x":1}}}`,
		},
		{"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"resultType":"input_required","inputRequests":{}}}`, `{"taskId":"öwn"}`, ""},
		{
			"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"content":5}}`,
			`{"taskId":"öwn"}`, "",
		},
		{"tasks/get", `{}`, `{"resultType":"input_required","requestState":"s"}`, `{"taskId":"öwn"}`, ""},
		{
			"tasks/update", `{"taskId":"exposed","inputResponses":{"q":{"x":1.0}}}`, `{"resultType":"complete"}`,
			`{"taskId":"öwn","inputResponses":{"q":{"x":1.0}}}`, `{}`,
		},
		{"tasks/cancel", `{"taskId":"exposed"}`, `{"resultType":"complete"}`, `{"taskId":"öwn"}`, `{}`},
	} {
		answer = test.answer
		before := len(s.sights(test.method))
		call := request(t, test.params, nil)
		call.Tasks, call.Task = mcp.TasksGiven, "öwn"
		result, err := useTask(r, tool, call, test.method)
		if got := string(result.JSON()); (err == nil) != (test.want != "") || err == nil && got != test.want {
			t.Errorf("%s %s: got %s, %v (%s); want %s", test.method, test.answer, got, err, cause(err),
				test.want)
		}
		one := s.sights(test.method)[before]
		if got := string(params(t, one).Without("_meta").JSON()); got != test.sees {
			t.Errorf("%s: the server saw %s, want %s", test.method, got, test.sees)
		}
		if !strings.Contains(one.body, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			t.Errorf("%s: the extension is not declared in %s", test.method, one.body)
		}
		if got := one.header.Get("Mcp-Name"); got != mcp.EncodeHeader("öwn") {
			t.Errorf("%s: Mcp-Name is %s", test.method, got)
		}
	}
}

// useTask uses a task of a tool.
func useTask(r *rig, tool *registry.Tool, c *registry.Call, method string) (mcp.Object, error) {
	c.Method = method
	return tool.Call(r.t.Context(), c)
}

// job lets a call become a task, and returns the id that the caller has.
func (r *rig) job(p person, token, ttl string) (id string, err error) {
	c := p.call(r.t, token, "", "", nil)
	c.Params, c.Tasks = c.Params.With("task", mcp.RawJSON(`{"ttl":`+ttl+`}`)), mcp.TasksAsked
	result, err := r.tool("job").Call(r.t.Context(), c)
	if err != nil {
		return "", err
	}
	id = result.Object("task").Text("taskId")
	if result.Text("resultType") != "task" || id == "" || strings.Contains(id, token) ||
		!result.Object("_meta").Has("x") {
		r.t.Errorf("got %s, want a task with an id of ours", result.JSON())
	}
	return id, nil
}

// ofJob is a request about a task.
func (r *rig) ofJob(p person, method, id, responses, state string) (mcp.Object, error) {
	c := p.call(r.t, "", responses, state, nil)
	c.Tasks, c.Task = mcp.TasksAsked, id
	return useTask(r, r.tool("job"), c, method)
}

func isUnavailable(err error) bool {
	var unavailable *registry.UnavailableError
	return errors.As(err, &unavailable) && !unavailable.Sent
}

// TestTasksStayInTheirSession follows tasks of several callers, one of whom is asked.
func TestTasksStayInTheirSession(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() upstream.Config{
		"HTTP":  func() upstream.Config { return (&chat{streams: true}).config() },
		"stdio": func() upstream.Config { return command("chat") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, cfg())
			r.untilTool("job")
			if got := r.tool("job"); got.Tasks != mcp.TasksAsked || !got.Definition.Has("execution") ||
				r.tool("who").Tasks != 0 {
				t.Fatalf("job: %+v, want its tasks", got)
			}
			if _, _, got, err := r.round(t.Context(), "job", person{tenant: "a"}.call(t, "x", "", "",
				nil)); err != nil || got != "at once" {
				t.Fatalf("without a task: got %q, %v", got, err)
			}
			ann, bob := person{tenant: "a", name: "ann", asks: anyQuestion}, person{tenant: "b", name: "bob"}
			ids := map[string]person{}
			for i := range 3 {
				for _, p := range []person{ann, bob} {
					id, err := r.job(p, fmt.Sprintf("%s%d", p.name, i), "60000")
					if err != nil {
						t.Fatal(err)
					}
					ids[id] = p
				}
			}
			for id, p := range ids {
				for _, method := range []string{"tasks/get", "tasks/cancel"} {
					result, err := r.ofJob(p, method, id, "", "")
					if err != nil || result.Text("taskId") != id || result.Text("status") != "working" {
						t.Errorf("%s: got %s, %v (%s)", method, result.JSON(), err, cause(err))
					}
				}
			}
			for id, p := range ids {
				result, err := r.ofJob(p, "tasks/result", id, "", "")
				asked := result.Object("inputRequests")
				if canAsk := p.asks != "" && name == "HTTP"; (asked.Len() == 1) != canAsk ||
					strings.Contains(string(asked.JSON()), "related-task") {
					t.Fatalf("tasks/result of %s: got %s, %v (%s)", p.name, result.JSON(), err, cause(err))
				}
				if asked.Len() > 0 {
					result, err = r.ofJob(p, "tasks/result", id, accept(asked, p.name),
						result.Text("requestState"))
					if err != nil || !strings.Contains(text(result), `{"is":"ann"}`) {
						t.Errorf("tasks/result: got %s, %v (%s)", result.JSON(), err, cause(err))
					}
				}
			}
			if _, err := r.ofJob(ann, "tasks/get", "nobody's", "", ""); !isInvalidParams(err) {
				t.Errorf("an id that nobody has: %v", err)
			}
		})
	}
}

// TestSessionOfATaskIsKept waits: for a task's time, within bounds, its session stays;
// then both are gone.
func TestSessionOfATaskIsKept(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ttl  string
		kept time.Duration
	}{
		{"1200000", 20 * time.Minute},
		{"null", time.Hour},
		{"9000000000", time.Hour},
		{"-5", 5 * time.Minute},
	} {
		s := &chat{}
		inBubble(t, s, nil, func(t *testing.T, r *rig) {
			p := person{tenant: "a"}
			id, err := r.job(p, "x", test.ttl)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(test.kept - time.Minute)
			synctest.Wait()
			if got := len(s.sights("DELETE")); got != 0 {
				t.Errorf("ttl %s: closed before its time", test.ttl)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := len(s.sights("DELETE")); got != 1 {
				t.Errorf("ttl %s: %d sessions closed after its time, want 1", test.ttl, got)
			}
			if _, err := r.ofJob(p, "tasks/get", id, "", ""); !isInvalidParams(err) {
				t.Errorf("ttl %s: after that %v, want that it is lost", test.ttl, err)
			}
		})
	}
}

// TestTaskIsLostWithItsSession lets a server forget a session, and others make room.
func TestTaskIsLostWithItsSession(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		p := person{tenant: "a"}
		id, err := r.job(p, "x", "3600000")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 64 { // the first of these leaves before the session with the task does
			if _, _, _, err := r.round(t.Context(), "answers", person{tenant: fmt.Sprint(i)}.call(t, "", "",
				"", nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := s.sights("DELETE"); len(got) != 1 || got[0].session != "session-3" {
			t.Errorf("closed: got %v, want the oldest without a task", got)
		}
		if _, err := r.ofJob(p, "tasks/get", id, "", ""); err != nil {
			t.Errorf("among many: %v (%s)", err, cause(err))
		}
		s.forget()
		if _, err := r.ofJob(p, "tasks/get", id, "", ""); !isInvalidParams(err) {
			t.Errorf("forgotten: %v, want that it is lost", err)
		}
	})
}

// TestTasksOfASharedSession uses tasks where the connection for lists serves everyone.
func TestTasksOfASharedSession(t *testing.T) {
	t.Parallel()
	s := &chat{}
	shared := func(cfg *upstream.Config) { cfg.Shared = true }
	inBubble(t, s, shared, func(t *testing.T, r *rig) {
		id, err := r.job(person{tenant: "a", name: "ann"}, "x", "1000")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.ofJob(person{tenant: "a", name: "ann"}, "tasks/get", id, "", ""); err != nil ||
			s.born != 1 {
			t.Errorf("%v in %d sessions, want the only one to serve it", err, s.born)
		}
	})
}

// TestWhatServersSayOfTasksIsTold hears of tasks of two callers on the streams of their
// sessions, and in a session for all. Of what is said of tasks that a session does not
// have, nothing is told.
func TestWhatServersSayOfTasksIsTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*upstream.Config){
		"pooled": nil, "shared": func(cfg *upstream.Config) { cfg.Shared = true },
	} {
		s := &chat{streams: true}
		inBubble(t, s, change, func(t *testing.T, r *rig) {
			told := map[string][]string{}
			for _, token := range []string{"ann", "bob"} {
				c := person{tenant: token, name: token}.call(t, token, "", "", nil)
				c.Params, c.Tasks = c.Params.With("task", mcp.RawJSON(`{"ttl":60000}`)), mcp.TasksAsked
				c.OnTaskStatus = func(state mcp.Object) {
					told[token] = append(told[token], state.Text("taskId")+" "+state.Text("status"))
				}
				result, err := r.tool("job").Call(t.Context(), c)
				id := result.Object("task").Text("taskId")
				if err != nil || id == "" {
					t.Fatal(err)
				}
				told["want "+token] = []string{id + " working", id + " completed"}
			}
			for _, status := range []string{"working", "working", "completed"} {
				for i := range 3 * 6 {
					own := fmt.Sprintf("%s of session-%d", []string{"ann", "bob", ""}[i%3], i/3)
					s.push(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"` + own +
						`","status":"` + status + `"}}`)
				}
				synctest.Wait()
			}
			for _, token := range []string{"ann", "bob"} {
				if got, want := told[token], told["want "+token]; !slices.Equal(got, want) {
					t.Errorf("%s: %s was told %q, want %q", name, token, got, want)
				}
			}
		})
	}
}

// TestTasksHaveALimit opens as many as one user may have, and as many as its tenant gets.
// The users of one tenant could take all places once.
func TestTasksHaveALimit(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		all := 0
		for user := range 20 {
			for n := range 101 {
				before := len(s.sights("tools/call"))
				_, err := r.job(person{tenant: "a", name: fmt.Sprint(user)}, "x", "3600000")
				if err == nil {
					all++
					continue
				}
				if !isUnavailable(err) || len(s.sights("tools/call")) != before {
					t.Errorf("one too many: %v, want it not to be called", err)
				}
				if user == 0 && n != 100 {
					t.Errorf("one user has %d tasks, want 100", n)
				}
				break
			}
		}
		if all < 400 || all > 600 {
			t.Errorf("a tenant alone has %d tasks, want about half of 1000", all)
		}
		if _, err := r.job(person{tenant: "b", name: "else"}, "x", "3600000"); err != nil {
			t.Errorf("another tenant: %v (%s)", err, cause(err))
		}
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if _, err := r.job(person{tenant: "a", name: "0"}, "x", "1"); err != nil {
			t.Errorf("when their time is over: %v (%s)", err, cause(err))
		}
	})
}

// TestTasksWhoseResultWasReadMakeRoom opens as many as one user may have, reads the
// results of two, and cancels one. In the end the time of most is over, but not that of
// all in their session.
func TestTasksWhoseResultWasReadMakeRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		ann := person{tenant: "a", name: "ann"}
		made := make([]string, 100)
		for n := range made {
			var err error
			if made[n], err = r.job(ann, "obeys", fmt.Sprint(3000000-n)); err != nil {
				t.Fatal(err, cause(err))
			}
		}
		if _, err := r.ofJob(ann, "tasks/cancel", made[0], "", ""); err != nil {
			t.Fatal(err, cause(err))
		}
		for _, n := range []int{3, 7} {
			if _, err := r.ofJob(ann, "tasks/result", made[n], "", ""); err != nil {
				t.Fatal(err, cause(err))
			}
		}
		if _, err := r.job(ann, "x", "3600000"); err != nil {
			t.Errorf("one more: %v (%s), want room for it", err, cause(err))
		}
		for n, gone := range map[int]bool{3: false, 4: false, 7: true, 99: false} {
			if _, err := r.ofJob(ann, "tasks/get", made[n], "", ""); (err != nil) != gone {
				t.Errorf("task %d: %v, want it gone: %v", n, err, gone)
			}
		}
		for _, room := range []bool{true, true, false} { // of the other two, and none
			if _, err := r.job(ann, "x", "3600000"); room != (err == nil) || !room && !isUnavailable(err) {
				t.Errorf("got %v (%s), want room for one more: %v", err, cause(err), room)
			}
		}
		time.Sleep(51 * time.Minute)
		if _, err := r.job(ann, "x", "3600000"); err != nil {
			t.Errorf("when the time of most is over: %v (%s), want room", err, cause(err))
		}
	})
}

// TestFailedCallsTakeNoPlaceOfTasks fails more often than there are places.
func TestFailedCallsTakeNoPlaceOfTasks(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{
		declares: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`,
		list: func(w http.ResponseWriter, m wire) {
			sendJSON(
				w, m.ID, `{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`)
		},
		call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendError(w, http.StatusOK, m.ID, -32603, "no")
		},
	})
	r := start(t, s.config())
	r.untilTool("job")
	for range 101 {
		var answered *mcp.Error
		if _, err := r.job(person{tenant: "a"}, "x", "1"); !errors.As(err, &answered) {
			t.Fatalf("got %v (%s), want the server's error", err, cause(err))
		}
	}
}

// TestTasksAreOfServersThatDeclareThem shows what of a definition stays, by what the
// server says of tasks.
func TestTasksAreOfServersThatDeclareThem(t *testing.T) {
	t.Parallel()
	const tasks = `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`
	for _, test := range []struct {
		modern           bool
		speaks, declares string
		support          string
		form             mcp.Tasks
		execution        bool
	}{
		{false, "2025-11-25", tasks, "optional", mcp.TasksAsked, true},
		{false, "2025-11-25", tasks, "required", mcp.TasksAsked, true},
		{false, "2025-11-25", tasks, "forbidden", 0, false},
		{false, "2025-11-25", `{"tools":{},"tasks":{}}`, "optional", 0, false},
		// then nobody can call it, which operators are told
		{false, "2025-11-25", `{"tools":{}}`, "required", 0, true},
		{false, "2025-06-18", tasks, "optional", 0, false},
		{true, "", givingTasks, "required", mcp.TasksGiven, true}, // an optional one
		{true, "", `{"tools":{}}`, "required", 0, false},
	} {
		s := serve(t, &web{
			modern: test.modern, speaks: test.speaks, declares: test.declares,
			list: func(w http.ResponseWriter, m wire) {
				sendJSON(
					w, m.ID, `{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"`+test.support+`"}}]}`)
			},
		})
		r := start(t, s.config())
		r.untilTool("job")
		if got := r.tool("job"); got.Tasks != test.form || got.Definition.Has("execution") != test.execution {
			t.Errorf("%+v: tasks of form %d, definition %s", test, got.Tasks, got.Raw)
		}
	}
}

// TestLogLinesOfASessionOfSeveralUsersReachNoTask has a client want log lines only after
// a call of its became a task, in the session of its tenant: what a server tells there
// may be of anybody's call. Only lines in a session of the client's own reach it.
func TestLogLinesOfASessionOfSeveralUsersReachNoTask(t *testing.T) {
	t.Parallel()
	const state = `"taskId":"own","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":60000`
	s := serve(t, &web{
		session: "s", declares: `{"tools":{},"logging":{},"tasks":{"requests":{"tools":{"call":{}}}}}`,
		list: func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
		},
		call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendJSON(w, m.ID, `{"task":{`+state+`},"_meta":{"x":1}}`)
		},
		other: map[string]handler{"tasks/result": func(w http.ResponseWriter, _ *http.Request, m wire) {
			send := events(w)
			send("%s", data(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"line"}}`))
			send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		}},
	})
	r := start(t, s.config())
	r.untilTool("job")
	for _, test := range []struct{ before, asks, want string }{
		{"", "", ""}, {"info", "", "line"}, {"", anyQuestion, "line"},
	} {
		id, err := r.job(person{"a", "ann", test.asks, test.before}, "x", "60000")
		if err != nil {
			t.Fatal(err)
		}
		heard := &notes{}
		c := person{"a", "ann", test.asks, "info"}.call(t, "", "", "", heard)
		c.Tasks, c.Task = mcp.TasksAsked, id
		if result, err := useTask(r, r.tool("job"), c, "tasks/result"); err != nil || text(result) != "ok" {
			t.Errorf("%+v: got %s, %v", test, result.JSON(), err)
		}
		if got := heard.text(); got != test.want {
			t.Errorf("%+v: heard %q, want %q", test, got, test.want)
		}
	}
}
