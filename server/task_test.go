package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const tasksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// newTasksWorld returns a world with a server whose tool "given" becomes a task of the
// extension, and one whose tool "asked" runs as a task of 2025-11-25 only.
func newTasksWorld(t *testing.T, change ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, append(change, func(w *world) {
		w.tenants[0].Servers = []string{"box", "given", "asked"}
		w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*"}}}
	})...)
	offer := func(name, more string, form mcp.Tasks, use registry.Func) {
		tool := registry.Offer{
			Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"}` + more + `}`),
			Timeout:    time.Minute, Tasks: form, Call: use,
		}
		for _, refusal := range w.registry.Replace(registry.Source{
			Name:  name,
			Tools: []registry.Offer{tool},
		}) {
			t.Fatalf("refused: %+v", refusal)
		}
	}
	offer("given", "", mcp.TasksGiven, func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		switch {
		case c.Task == "own":
			return object(`{"taskId":"own","status":"completed","ttlMs":null,"result":{"content":[]}}`), nil
		case c.Tasks == mcp.TasksGiven:
			return object(`{"resultType":"task","taskId":"own","status":"working","ttlMs":null}`), nil
		}
		return textResult("at once"), nil
	})
	offer("asked", `,"execution":{"taskSupport":"required"}`, mcp.TasksAsked,
		func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			switch c.Method {
			case mcp.MethodToolsCall:
				return object(`{"resultType":"task","task":{"taskId":"own","status":"working","ttl":` +
					string(c.Params.Object("task").Value("ttl")) + `}}`), nil
			case mcp.MethodTasksResult:
				if !c.Params.Has("inputResponses") {
					return object(
						`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"roots/list"}}}`), nil
				}
				return textResult("done"), nil
			}
			return object(`{"taskId":"` + c.Task + `","status":"working","ttl":5}`), nil
		})
	return w
}

// modernTask is a request of 2026-07-28 about a task.
func modernTask(method, id, meta string) message {
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"taskId":"` + id +
			`","inputResponses":{},` + meta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607, mcp.HeaderMethod: method,
			mcp.HeaderName: id,
		},
	}
}

// resultOf returns the result in the body of an answer.
func (w *world) resultOf(t *testing.T, m message) mcp.Object {
	t.Helper()
	body := w.do(t, m).Body
	o, err := mcp.ParseObject(body.Bytes())
	if err != nil || !o.Has("result") {
		t.Fatalf("%s: got %s, want a result", m.body, body)
	}
	return o.Object("result")
}

// TestTaskOfTheExtension follows a task of 2026-07-28.
func TestTaskOfTheExtension(t *testing.T) {
	w := newTasksWorld(t)
	call := modernCall("given")
	if got := string(w.resultOf(t, call).JSON()); !strings.Contains(got, "at once") {
		t.Errorf("without the extension: got %s, want a result", got)
	}
	call.body = strings.Replace(call.body, modernMeta, tasksMeta, 1)
	made := w.resultOf(t, call)
	id := made.Text("taskId")
	if made.Text("resultType") != "task" || id == "" || string(made.Value("ttlMs")) != "null" {
		t.Fatalf("got %s, want a task", made.JSON())
	}
	if got := w.resultOf(t, modernTask(mcp.MethodTasksGet, id, tasksMeta)); got.Text("taskId") != id ||
		got.Text("resultType") != "complete" || !got.Has("result") {
		t.Errorf("tasks/get: got %s, want the whole task", got.JSON())
	}
	for _, method := range []string{mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		if got := w.resultOf(t, modernTask(method, id, tasksMeta)); got.Without("_meta").Len() != 1 {
			t.Errorf("%s: got %s, want nothing but that it is taken", method, got.JSON())
		}
	}
}

// TestTaskRequestsOfTheExtensionAreChecked sends what the extension does not allow.
func TestTaskRequestsOfTheExtensionAreChecked(t *testing.T) {
	w := newTasksWorld(t)
	follow := modernListen()
	follow.body = strings.Replace(follow.body, `"toolsListChanged":true`, `"taskIds":["x"]`, 1)
	const capability = `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	for _, test := range []struct {
		name   string
		m      message
		status int
		want   string
	}{
		{"no such task", modernTask(mcp.MethodTasksGet, "x", tasksMeta), http.StatusOK, `"code":-32602`},
		{"no extension", modernTask(mcp.MethodTasksGet, "x", modernMeta), http.StatusBadRequest, capability},
		{
			"no extension to update", modernTask(mcp.MethodTasksUpdate, "x", modernMeta), http.StatusBadRequest,
			capability,
		},
		{
			"no extension to cancel", modernTask(mcp.MethodTasksCancel, "x", modernMeta), http.StatusBadRequest,
			capability,
		},
		{
			"another name", modernTask(mcp.MethodTasksGet, "x", tasksMeta).with(mcp.HeaderName, "y"),
			http.StatusBadRequest, `"code":-32020`,
		},
		{
			"no name", modernTask(mcp.MethodTasksCancel, "x", tasksMeta).with(mcp.HeaderName, ""),
			http.StatusBadRequest, `"code":-32020`,
		},
		{
			"a method of the other era", modernTask(mcp.MethodTasksResult, "x", tasksMeta), http.StatusNotFound,
			`"code":-32601`,
		},
		{
			"a method of nobody", modernTask("tasks/list", "x", tasksMeta), http.StatusNotFound,
			`"code":-32601`,
		},
		{"no extension to follow", follow, http.StatusBadRequest, capability},
	} {
		if got := w.do(t, test.m); got.Code != test.status || !strings.Contains(got.Body.String(),
			test.want) {
			t.Errorf("%s: got %d %s, want %d with %s", test.name, got.Code, got.Body, test.status, test.want)
		}
	}
	base := w.serve(t)
	follow.body = strings.Replace(follow.body, modernMeta, tasksMeta, 1)
	call(t.Context(), t, base, follow).expect(t,
		`"method":"notifications/subscriptions/acknowledged","params":{"notifications":{},`)
}

// TestResourcesAndTasksOfAStreamHaveOneBound asks to be told of both, by a client that
// does not have the extension: that is said of filters that are within the bound alone.
func TestResourcesAndTasksOfAStreamHaveOneBound(t *testing.T) {
	w := newTasksWorld(t)
	listed := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"file:///%d"`, i)
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	for filter, want := range map[string]string{
		`"resourceSubscriptions":` + listed(200) + `,"taskIds":` + listed(56): "requiredCapabilities",
		`"resourceSubscriptions":` + listed(200) + `,"taskIds":` + listed(57): "there are too many subscriptions, 256 at most",
		`"taskIds":` + listed(257):                 "there are too many subscriptions, 256 at most",
		`"resourceSubscriptions":[],"taskIds":{}`:  "taskIds must be an array",
		`"resourceSubscriptions":1,"taskIds":{}`:   "resourceSubscriptions must be an array",
		`"resourceSubscriptions":[],"taskIds":[1]`: "each of taskIds must be a string",
	} {
		m := modernListen()
		m.body = strings.Replace(m.body, `"toolsListChanged":true`, filter, 1)
		if got := w.do(t, m); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%.60s…: got %d %s, want 400 and %q", filter, got.Code, got.Body, want)
		}
	}
}

// TestTaskThatWasAskedFor follows a task of 2025-11-25, whose result has a question in
// it.
func TestTaskThatWasAskedFor(t *testing.T) {
	w := newTasksWorld(t)
	base := w.serve(t)
	session := w.openAsking(t, mcp.Revision2511)
	post := func(method, params string) message {
		return inSession("POST", session, `{"jsonrpc":"2.0","id":"`+method+`","method":"`+method+
			`","params":{`+params+`}}`)
	}
	if got := string(w.resultOf(t, post(mcp.MethodToolsList, "")).JSON()); !strings.Contains(got,
		`"execution":{"taskSupport":"required"}`) {
		t.Errorf("tools/list: got %s, want the tool that runs as a task", got)
	}
	made := w.resultOf(t, post(mcp.MethodToolsCall, `"name":"asked","task":{"ttl":7}`))
	id := made.Object("task").Text("taskId")
	if id == "" || made.Len() > 2 || made.Has("content") || made.Has("resultType") ||
		string(made.Object("task").Value("ttl")) != "7" {
		t.Fatalf("got %s, want a task", made.JSON())
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel} {
		if got := w.resultOf(t, post(method, `"taskId":"`+id+`"`)); got.Text("taskId") != id ||
			got.Text("status") != "working" {
			t.Errorf("%s: got %s, want the task", method, got.JSON())
		}
	}
	stream := call(t.Context(), t, base, post(mcp.MethodTasksResult, `"taskId":"`+id+`"`))
	stream.expect(t, "id: p", "data:", "id: p")
	line := stream.line(t)
	question := questionID.FindStringSubmatch(line)
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`
	if question == nil || !strings.Contains(line, related+id) {
		w.EndStreams()
		t.Fatalf("got %s, want a question that names its task", line)
	}
	w.do(t, inSession("POST", session, `{"jsonrpc":"2.0","id":"`+question[1]+`","result":{"roots":[]}}`))
	stream.expect(t, "id: p", `"text":"done"}],`+related+id, "")
	if got := w.do(t, post(mcp.MethodTasksUpdate, `"taskId":"`+id+`"`)).Body.String(); !strings.Contains(got,
		`"code":-32601`) {
		t.Errorf("tasks/update: got %s, want that there is no such method", got)
	}
}

// TestTasksBelongToOneRevision shows that clients of older ones hear nothing of them.
func TestTasksBelongToOneRevision(t *testing.T) {
	w := newTasksWorld(t)
	for _, revision := range mcp.Revisions()[1:] {
		has := revision == mcp.Revision2511
		if got := w.resultOf(t, initialize(revision)).Object("capabilities").Has("tasks"); got != has {
			t.Errorf("%s: tasks are declared: %v", revision, got)
		}
		id := w.open(t, "alice", revision)
		list := inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := string(w.resultOf(t, list).JSON()); strings.Contains(got, `"asked"`) != has ||
			strings.Contains(got, "execution") != has {
			t.Errorf("%s: got %s, with tools that run as tasks: %v", revision, got, !has)
		}
		for method, want := range map[string]string{
			mcp.MethodTasksGet:    "-32602",
			mcp.MethodTasksCancel: "-32602", mcp.MethodTasksResult: "-32602", mcp.MethodTasksList: "",
		} {
			if !has {
				want = "-32601"
			}
			got := w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"`+method+
				`","params":{"taskId":"x"}}`))
			if want == "" {
				want = `"result":{"tasks":[]}`
			} else {
				want = `"code":` + want
			}
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
				t.Errorf("%s in %s: got %d %s, want %s", method, revision, got.Code, got.Body, want)
			}
		}
	}
}
