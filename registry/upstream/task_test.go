package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const givingTasks = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// TestTasksThatServersGive calls modern servers with and without tasks, as clients with and without them.
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
		{`{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, mcp.TasksAsked, false},
	} {
		s := serve(t, &web{modern: true, declares: test.declares, call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendJSON(w, m.ID, `{"resultType":"task","taskId":"own","status":"working","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"web"}}}`)
		}})
		r := start(t, s.config())
		r.untilTool("tool")
		tool := r.tool("tool")
		if got := tool.Tasks == mcp.TasksGiven; got != (test.declares == givingTasks) {
			t.Errorf("%s: the tool has tasks: %v", test.declares, got)
		}
		call := request(t, `{"name":"tool"}`, nil)
		call.Tasks = test.knows
		result, err := r.use(&tool.Item, call, "tools/call")
		if passed := err == nil && result.Text("resultType") == "task" && !result.Has("_meta"); passed != test.given {
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
	s := serve(t, &web{modern: true, declares: givingTasks, other: map[string]func(http.ResponseWriter, *http.Request, wire){
		"tasks/get": tasks, "tasks/update": tasks, "tasks/cancel": tasks,
	}})
	r := start(t, s.config())
	r.untilTool("tool")
	tool := r.tool("tool")
	for _, test := range []struct{ method, params, answer, sees, want string }{
		{"tasks/get", `{}`, `{"resultType":"complete","taskId":"öwn","status":"working"}`, `{"taskId":"öwn"}`, `{"taskId":"öwn","status":"working"}`},
		{"tasks/get", `{}`, `{"resultType":"task","taskId":"öwn","status":"failed","error":{"code":1}}`, `{"taskId":"öwn"}`, `{"taskId":"öwn","status":"failed","error":{"code":1}}`},
		{
			"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"resultType":"complete","toolResult":"x","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`, `{"taskId":"öwn"}`,
			`{"taskId":"öwn","status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"x"}]}}`,
		},
		{"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"resultType":"input_required","inputRequests":{}}}`, `{"taskId":"öwn"}`, ""},
		{"tasks/get", `{}`, `{"taskId":"öwn","status":"completed","result":{"content":5}}`, `{"taskId":"öwn"}`, ""},
		{"tasks/get", `{}`, `{"resultType":"input_required","requestState":"s"}`, `{"taskId":"öwn"}`, ""},
		{"tasks/update", `{"taskId":"exposed","inputResponses":{"q":{"x":1.0}}}`, `{"resultType":"complete"}`, `{"taskId":"öwn","inputResponses":{"q":{"x":1.0}}}`, `{}`},
		{"tasks/cancel", `{"taskId":"exposed"}`, `{"resultType":"complete"}`, `{"taskId":"öwn"}`, `{}`},
	} {
		answer = test.answer
		before := len(s.sights(test.method))
		call := request(t, test.params, nil)
		call.Tasks, call.Task = mcp.TasksGiven, "öwn"
		result, err := useTask(r, tool, call, test.method)
		if got := string(result.JSON()); (err == nil) != (test.want != "") || err == nil && got != test.want {
			t.Errorf("%s %s: got %s, %v (%s); want %s", test.method, test.answer, got, err, cause(err), test.want)
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
