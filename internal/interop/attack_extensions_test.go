package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// worker is a server of either era whose tool becomes a task, which has the marker of its
// call. All its tasks are known to whoever asks, so that only the gateway keeps them
// apart. A task of the tool asks, which only one of 2025-11-25 has, asks something with
// the marker.
type worker struct {
	modern bool

	mu    sync.Mutex // guards the fields below
	tasks []string   // markers; the id of a task is its number
	// of the tasks that ask something, by their numbers; what was answered waits in them
	asking map[int]chan string
}

func (k *worker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusMethodNotAllowed}[r.Method == http.MethodPost])
		return
	}
	if m.Method == "" {
		k.answered(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "tasks/result" && k.asks(w, r, m) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if result := k.result(m); result != "" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
		return
	}
	fail(w, m.ID, -32601)
}

// answered takes what was answered to a question.
func (k *worker) answered(m message) {
	number := 0
	_, _ = fmt.Sscanf(string(m.ID), `"asks-%d"`, &number)
	k.mu.Lock()
	answers := k.asking[number]
	k.mu.Unlock()
	if answers != nil {
		answers <- string(m.Result)
	}
}

// asks asks what the task asks on the stream of a tasks/result, and answers with what was
// answered. It is false if the task asks nothing.
func (k *worker) asks(w http.ResponseWriter, r *http.Request, m message) bool {
	number := 0
	if _, err := fmt.Sscanf(string(m.Params), `{"taskId":"own-%d"`, &number); err != nil {
		return false
	}
	k.mu.Lock()
	marker, answers := k.tasks[min(number, len(k.tasks)-1)], k.asking[number]
	k.mu.Unlock()
	if answers == nil {
		return false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":"asks-%d","method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-%d"}}}}`+"\n\n", number, marker, number)
	w.(http.Flusher).Flush()
	select {
	case answer := <-answers:
		fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n\n", m.ID, answer)
		k.mu.Lock()
		k.tasks[number] = "answered: " + answer
		delete(k.asking, number)
		k.mu.Unlock()
	case <-r.Context().Done():
	}
	return true
}

func (k *worker) result(m message) string {
	var p struct {
		Name      string
		TaskID    string
		Task      json.RawMessage
		Arguments struct{ Marker string }
	}
	_ = json.Unmarshal(m.Params, &p) // many have none
	k.mu.Lock()
	defer k.mu.Unlock()
	number := 0
	if _, err := fmt.Sscanf(p.TaskID, "own-%d", &number); p.TaskID != "" && (err != nil || number >= len(k.tasks)) {
		return ""
	}
	switch {
	case m.Method == "initialize" && !k.modern:
		return `"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"w","version":"1"}`
	case m.Method == "server/discover" && k.modern:
		return `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},` + tasksExtension[1:] + `,"ttlMs":0,"cacheScope":"private"`
	case m.Method == "tools/list":
		return `"tools":[{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
			`{"name":"asks","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}],"ttlMs":0,"cacheScope":"private"`
	case m.Method == "tools/call":
		if p.Name == "asks" {
			k.asking[len(k.tasks)] = make(chan string, 9)
		}
		k.tasks = append(k.tasks, p.Arguments.Marker)
		state := fmt.Sprintf(`"taskId":"own-%d","status":"working","statusMessage":%q`, len(k.tasks)-1, p.Arguments.Marker)
		if k.modern {
			return strings.Replace(`"resultType":"task",`+state+`,"ttlMs":null`, `"resultType":"task",`, `"x":1,`, 1)
		}
		return `"task":{` + state + `,"ttl":null}`
	case m.Method == "tasks/get", m.Method == "tasks/cancel" && !k.modern:
		status := "working"
		switch {
		case k.asking[number] != nil:
			status = "input_required"
		case strings.HasPrefix(k.tasks[number], "answered"):
			status = "completed"
		}
		return fmt.Sprintf(`"taskId":%q,"status":%q,"statusMessage":%q,"ttlMs":null,"ttl":null`, p.TaskID, status, k.tasks[number])
	case m.Method == "tasks/result":
		return fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, k.tasks[number])
	case m.Method == "tasks/cancel", m.Method == "tasks/update":
		return `"x":1`
	}
	return ""
}

// modernWorker is a worker of 2026-07-28, which says itself that a result is a task.
type modernWorker struct{ *worker }

func (k modernWorker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorded := httptest.NewRecorder()
	k.worker.ServeHTTP(recorded, r)
	text := recorded.Body.String()
	if strings.Contains(text, `"x":1,"taskId"`) {
		text = strings.Replace(text, `"resultType":"complete"`, `"resultType":"task"`, 1)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(recorded.Code)
	_, _ = io.WriteString(w, text)
}

// taskOwner is one caller with the tasks that it made.
type taskOwner struct {
	*speaker

	owner who
	tasks []string // ids; the first is of a server of its own era
}

// askable is knowsTasks of a client that can be asked something.
var askable = strings.Replace(knowsTasks, `{"extensions"`, `{"elicitation":{"form":{}},"extensions"`, 1)

const knowsTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// about asks something about a task, as a client that knows tasks.
func (h *taskOwner) about(t *testing.T, method, id string) string {
	t.Helper()
	params := fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, id)
	if h.revision == modernRevision {
		params += "," + knowsTasks
	}
	m := h.ask(t, "1", method, id, params)
	if m.Error != nil {
		return fmt.Sprint(m.Error.Code)
	}
	return string(m.Result)
}

// TestT16NothingOfExtensionsCrosses has two users of each of two tenants make tasks in
// both eras, with one gateway and with three replicas, and try those of all others. Each
// tenant has a server of skills by itself, whose files the other cannot read.
func TestT16NothingOfExtensionsCrosses(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			servers := ""
			for name, handler := range map[string]http.Handler{
				"old": &worker{asking: make(map[int]chan string)}, "new": modernWorker{&worker{modern: true}},
				"acmes": newSkillsServer(t, "acmes", false), "globexs": newSkillsServer(t, "globexs", true),
			} {
				web := httptest.NewServer(handler)
				t.Cleanup(web.Close)
				servers += fmt.Sprintf("  %s: %s\n", name, private(web.URL))
			}
			config := "tenants:\n"
			for _, tenant := range []string{"acme", "globex"} {
				config += fmt.Sprintf(`  %s: {servers: [old, new, %ss], rules: [{allow: ["*", "resource:*", "skill:*"]}], limits: %s}`+"\n",
					tenant, tenant, generous)
			}
			g := besiegeAt(t, form.settle(t), config+"servers:\n"+servers)
			var all []*taskOwner
			for _, tenant := range []string{"acme", "globex"} {
				for _, subject := range []string{"alice", "bob"} {
					for _, revision := range []string{"2025-11-25", modernRevision} {
						owner := who{tenant: tenant, subject: subject}
						h := &taskOwner{speaker: g.speak(t, g.mint(owner), revision), owner: owner}
						h.make(t, "old__work", "new__work")
						if revision == modernRevision {
							h.make(t, "old__asks")
						}
						h.seesOwnSkills(t)
						all = append(all, h)
					}
				}
			}
			for _, h := range all {
				h.tries(t, all)
			}
			for _, h := range all {
				h.answers(t, all)
			}
			g.unhurt(t)
		})
	}
}

func (h *taskOwner) marker() string { return fmt.Sprintf("%s %s#", h.owner, h.revision) }

// make makes a task at a server of each era.
func (h *taskOwner) make(t *testing.T, names ...string) {
	t.Helper()
	more := `,"task":{}`
	if h.revision == modernRevision {
		more = "," + knowsTasks
		if names[0] == "old__asks" {
			more = "," + askable
		}
		slices.Reverse(names)
	}
	for _, name := range names {
		m := h.ask(t, "1", "tools/call", name, fmt.Sprintf(`"name":%q,"arguments":{"marker":%q}%s`, name, h.marker(), more))
		var made struct {
			TaskID string
			Task   struct{ TaskID string }
		}
		if err := json.Unmarshal(m.Result, &made); err != nil || made.TaskID+made.Task.TaskID == "" {
			t.Fatalf("%s made %s with %s, %v", h.marker(), m.Result, name, m.Error)
		}
		h.tasks = append(h.tasks, made.TaskID+made.Task.TaskID)
	}
}

// answers has a client of 2026-07-28 answer what its task asks, after all others have
// tried to. Nobody else's answer is in what the server has.
func (h *taskOwner) answers(t *testing.T, all []*taskOwner) {
	t.Helper()
	if h.revision != modernRevision {
		return
	}
	id := h.tasks[len(h.tasks)-1]
	var state struct {
		Status        string
		InputRequests map[string]json.RawMessage
		Result        json.RawMessage
	}
	get := func() {
		m := h.ask(t, "1", "tasks/get", id, fmt.Sprintf(`"taskId":%q,%s`, id, askable))
		if err := json.Unmarshal(m.Result, &state); err != nil {
			t.Fatalf("%s: %v, %v", h.marker(), m.Error, err)
		}
	}
	if get(); len(state.InputRequests) != 1 {
		t.Fatalf("%s is asked %v, want one question", h.marker(), state.InputRequests)
	}
	for key, question := range state.InputRequests {
		if !strings.Contains(string(question), h.marker()) {
			t.Errorf("%s is asked %s", h.marker(), question)
		}
		answer := func(by *taskOwner) message {
			return by.ask(t, "1", "tasks/update", id, fmt.Sprintf(
				`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"by":%q}}},%s`, id, key, by.marker(), askable))
		}
		for _, other := range all {
			if other == h || other.revision != modernRevision {
				continue
			}
			if m := answer(other); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s answers what %s is asked: %s", other.marker(), h.marker(), m.Result)
			}
		}
		if m := answer(h); m.Error != nil {
			t.Errorf("%s answers: %v", h.marker(), m.Error)
		}
	}
	eventually(t, "the task is at its end", func() bool { get(); return state.Status == "completed" })
	if got := string(state.Result); strings.Count(got, "by") != 1 || !strings.Contains(got, h.marker()) {
		t.Errorf("the answer to what %s was asked: %s", h.marker(), got)
	}
}

// tries asks for its own tasks, and for those of all others.
func (h *taskOwner) tries(t *testing.T, all []*taskOwner) {
	t.Helper()
	methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
	if h.revision == modernRevision {
		methods = []string{"tasks/get", "tasks/cancel", "tasks/update"}
	} else if got := string(h.ask(t, "2", "tasks/list", "", "").Result); strings.Count(got, "taskId") != len(h.tasks) ||
		strings.Count(got, h.marker()) != len(h.tasks) || !strings.Contains(got, h.tasks[0]) {
		t.Errorf("%s lists %s", h.marker(), got)
	}
	for _, other := range all {
		for n, id := range other.tasks {
			for _, method := range methods {
				if other == h && n > 0 && method == "tasks/result" {
					continue // it waits for a task that never ends
				}
				got := h.about(t, method, id)
				switch {
				case other != h && got != "-32602":
					t.Errorf("%s: %s of the task of %s: %s", h.marker(), method, other.marker(), got)
				case other == h && (method == "tasks/get" || method == "tasks/result") && !strings.Contains(got, h.marker()),
					other == h && strings.HasPrefix(got, "-"):
					t.Errorf("%s: %s of its own task: %s", h.marker(), method, got)
				}
			}
		}
	}
}

// seesOwnSkills lists skills, and reads files and directories of both tenants.
func (h *taskOwner) seesOwnSkills(t *testing.T) {
	t.Helper()
	mine, other := h.owner.tenant+"s", map[string]string{"acme": "globexs", "globex": "acmes"}[h.owner.tenant]
	if got := string(h.ask(t, "1", "skills/list", "", "").Result); !strings.Contains(got, "skill://"+mine+"/") ||
		strings.Contains(got, other) {
		t.Errorf("%s lists the skills %s", h.marker(), got)
	}
	for method, path := range map[string]string{
		"skills/get": "/SKILL.md", "resources/read": "/SKILL.md", "resources/directory/read": "/references",
	} {
		name := ""
		for server, want := range map[string]bool{mine: true, other: false} {
			uri := fmt.Sprintf("skill://%s/%s/%s-notes%s", server, server, server, path)
			if method == "resources/read" {
				name = uri
			}
			m := h.ask(t, "1", method, name, fmt.Sprintf(`"uri":%q`, uri))
			if got := m.Error == nil; got != want {
				t.Errorf("%s: %s of %s: %s %v", h.marker(), method, uri, m.Result, m.Error)
			}
		}
	}
}
