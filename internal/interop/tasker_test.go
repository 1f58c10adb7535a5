package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	tasksExtension = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	sureQuestion   = `{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}}`
)

// tasker is a modern upstream with the tools that the conformance suite wants of one with
// tasks.
type tasker struct {
	mu    sync.Mutex // guards the fields below
	tasks map[string]*serverTask
}

// serverTask is one of its tasks, which is ready after a while, when nothing is asked any
// more.
type serverTask struct {
	created time.Time
	takes   time.Duration
	asks    []string // keys of open questions
	end     string   // members of the final state
}

func (j *serverTask) state() string {
	ready := time.Since(j.created) >= j.takes
	switch {
	case ready && len(j.asks) > 0:
		asked := make([]string, len(j.asks))
		for i, key := range j.asks {
			asked[i] = fmt.Sprintf("%q:%s", key, sureQuestion)
		}
		return `"status":"input_required","inputRequests":{` + strings.Join(asked, ",") + `}`
	case ready:
		return j.end
	}
	return `"status":"working"`
}

func toolText(text string, isError bool) string {
	return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}],"isError":%v}`, text,
		isError)
}

func completed(text string, isError bool) string {
	return `"status":"completed","result":` + toolText(text, isError)
}

// taskParams are those of all requests to a tasker.
type taskParams struct {
	Name, TaskID   string
	Arguments      map[string]any
	InputResponses map[string]struct{ Content map[string]any }
	Meta           struct {
		Capabilities struct{ Extensions map[string]any } `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

func (s *tasker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var (
		m message
		p taskParams
	)
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &m)
	_ = json.Unmarshal(m.Params, &p)
	status, member, answer := s.answer(m.Method, &p, r.Header.Get("Mcp-Name"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, answer)
}

func (s *tasker) answer(method string, p *taskParams, name string) (status int, member, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, knows := p.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"]
	missing := `{"code":-32021,"message":"no tasks","data":{"requiredCapabilities":` + tasksExtension + `}}`
	j := s.tasks[p.TaskID]
	switch {
	case method == "server/discover":
		return http.StatusOK, "result",
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},` +
				tasksExtension[1:] + `,"ttlMs":0,"cacheScope":"private"}`
	case method == "tools/list":
		var tools []string
		for tool := range strings.FieldsSeq(
			"greet slow_compute failing_job protocol_error_job confirm_delete multi_input test_tool_with_task") {
			tools = append(tools, `{"name":"`+tool+`","inputSchema":{"type":"object"}}`)
		}
		return http.StatusOK, "result",
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") +
				`]}`
	case method == "tools/call" && !knows && p.Name == "failing_job", strings.HasPrefix(method, "tasks/") &&
		!knows:
		return http.StatusBadRequest, "error", missing
	case method == "tools/call":
		return http.StatusOK, "result", s.call(p, knows)
	case method != "tasks/get" && method != "tasks/update" && method != "tasks/cancel":
		return http.StatusNotFound, "error", `{"code":-32601,"message":"no such method"}`
	case name != p.TaskID:
		return http.StatusBadRequest, "error", `{"code":-32020,"message":"Mcp-Name"}`
	case j == nil:
		return http.StatusOK, "error", `{"code":-32602,"message":"no such task"}`
	case method == "tasks/get":
		return http.StatusOK, "result", `{"resultType":"complete",` + j.members(p.TaskID) + `}`
	case method == "tasks/cancel":
		if !strings.Contains(j.state(), `"result"`) {
			j.takes, j.asks, j.end = 0, nil, `"status":"cancelled"`
		}
	default:
		var open []string
		for _, key := range j.asks {
			if _, answered := p.InputResponses[key]; !answered {
				open = append(open, key)
			}
		}
		j.asks = open
	}
	return http.StatusOK, "result", `{"resultType":"complete"}`
}

func (j *serverTask) members(id string) string {
	at := j.created.UTC().Format(time.RFC3339)
	return fmt.Sprintf(`"taskId":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttlMs":60000,"pollIntervalMs":200,%s`,
		id, at, at, j.state())
}

func (s *tasker) call(p *taskParams, knows bool) string {
	j := &serverTask{created: time.Now(), takes: 300 * time.Millisecond, end: completed("done", false)}
	switch {
	case p.Name == "greet":
		return toolText(fmt.Sprintf("Hello, %v!", p.Arguments["name"]), false)
	case p.Name == "test_tool_with_task" && p.InputResponses == nil:
		return `{"resultType":"input_required","requestState":"s","inputRequests":{"user_name":` +
			sureQuestion + `}}`
	case !knows:
		return toolText("at once", false)
	}
	switch p.Name {
	case "slow_compute":
		seconds, _ := p.Arguments["seconds"].(float64)
		j.takes = time.Duration(seconds * float64(time.Second))
	case "failing_job":
		j.end = completed("it failed", true)
	case "protocol_error_job":
		j.end = `"status":"failed","error":{"code":-32603,"message":"boom"}`
	case "confirm_delete":
		j.asks = []string{"confirm"}
	case "multi_input":
		j.asks = []string{"first", "second"}
	case "test_tool_with_task":
		j.end = completed(fmt.Sprint(p.InputResponses), false)
	}
	id := fmt.Sprintf("own-%d", len(s.tasks))
	s.tasks[id] = j
	return `{"resultType":"task",` + j.members(id) + `}`
}

// TestConformanceOfTasks runs the suite's scenarios of the extension against a server
// with tasks behind the gateway. That of notifications has no checks yet; the wire
// scripts of package server have them.
func TestConformanceOfTasks(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(&tasker{tasks: make(map[string]*serverTask)})
	t.Cleanup(upstream.Close)
	g := serve(
		t, fmt.Sprintf(
			"tenants:\n  acme: {servers: [tasks], rules: [{allow: [\"*\"]}], limits: %s}\nservers:\n  tasks: {url: %q, prefix: \"\", private_addresses: true}\n",
			generous, upstream.URL+"/mcp"))
	proxy := tokenProxy(t, g)
	for scenario, least := range map[string]int{
		"lifecycle": 9, "capability-negotiation": 5, "wire-fields": 4, "request-state-removal": 3,
		"mrtr-input": 4, "request-headers": 5,
		"dispatch-and-envelope": 9, "required-task-error": 3, "mrtr-composition": 2,
	} {
		dir := filepath.Join(t.TempDir(), scenario)
		err := suite(t, patient, "server", "--url", proxy+"/mcp", "--scenario", "tasks-"+scenario, "-o", dir)
		for name, checks := range readChecks(t, dir, "server-") {
			if passed, failed := count(checks); passed < least || len(failed) > 0 {
				t.Errorf("%s: %d checks passed, want %d; failed: %v (%v)", name, passed, least, failed, err)
			}
		}
	}
}
