package server_test

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/wiretest"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// extendedGlob are the scripts of apps, skills and tasks, in each era.
const extendedGlob = "testdata/extensions/*.txtar"

func TestWireExtensions(t *testing.T) {
	wiretest.Run(t, extendedGlob, func(t *testing.T) *wiretest.World {
		x := &extended{}
		return x.script(newWorld(t, x.offer).script(t))
	})
}

// TestWireExtensionsAtReplicas plays the same scripts at three replicas that have the
// same servers.
func TestWireExtensionsAtReplicas(t *testing.T) {
	wiretest.Repeat(t, extendedGlob, func(t *testing.T) *wiretest.World {
		x := &extended{}
		worlds := fleet(t, &replicatest.Hub{}, 3, x.offer)
		runAll(t, worlds)
		return x.script(inTurn(t, worlds))
	})
}

// TestSessionOpensForWhoDeclaresTheMost has a client declare as much of extensions as is
// let through: what its session keeps of that stands in the id, which goes in a header.
func TestSessionOpensForWhoDeclaresTheMost(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.config.Extensions = mcp.NewExtensionTable(mcp.Extension{ID: "com.example/passed"})
	})
	id := w.openAs(t, hers, `{"extensions":{"com.example/passed":{"x":"`+strings.Repeat("x", 480)+`"},`+
		`"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},`+
		`"io.modelcontextprotocol/skills":{}}}`)
	wantStatus(t, "a ping", w.do(t, inSession("POST", id, pingBody)), http.StatusOK)
}

// extended are the servers of the scripts: "mod" has an app and a skill, "asked" has
// tasks of 2025-11-25, and "given" has those of 2026-07-28.
type extended struct {
	mu     sync.Mutex // guards the fields below
	status string     // of all tasks; "": they work
	tells  []func(state mcp.Object)
}

// script adds what the scripts do and say.
func (x *extended) script(w *wiretest.World) *wiretest.World {
	maps.Copy(w.Actions, map[string]func(){
		"the task asks":    func() { x.become("input_required") },
		"the task is done": func() { x.become("completed") },
		"the task works":   func() { x.become("working") },
	})
	const version = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{`
	w.Vars["extended"] = version + `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"io.modelcontextprotocol/skills":{}}}}`
	w.Vars["tasks"] = version + `"io.modelcontextprotocol/tasks":{}}}}`
	w.Vars["muted"] = strings.Replace(w.Vars["tasks"], `"roots":{},`, "", 1)
	w.Capture = append(w.Capture, regexp.MustCompile(`"taskId":"(?<task>[\w-]{40,})"`),
		regexp.MustCompile(`"ttlMs":(?<ttl>[1-9]\d+),"cacheScope"`))
	named := w.Show
	w.Show = func(text string) string {
		if named != nil {
			text = named(text)
		}
		return eventNumbers.ReplaceAllString(text, "$1")
	}
	return w
}

// eventNumbers are those of events. The streams of a session are numbered together, so
// what is told on two streams at once has them in either order.
var eventNumbers = regexp.MustCompile(`(?m)^(id: \w+)-\d+$`)

// become changes the state of all tasks, and says so as a server of 2025-11-25 does.
func (x *extended) become(status string) {
	x.mu.Lock()
	x.status = status
	tells := x.tells
	x.mu.Unlock()
	for _, tell := range tells {
		tell(object(`{"taskId":"own","status":"` + status +
			`","statusMessage":"now\u200b it is","createdAt":"2026-01-01T00:00:00Z","ttl":null,"x":1}`))
	}
}

func (x *extended) state() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == "" {
		return "working"
	}
	return x.status
}

// offer has a world's tenant see the servers.
func (x *extended) offer(w *world) {
	w.tenants = w.tenants[:1]
	w.tenants[0].Servers = []string{"mod", "asked", "given"}
	w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "resource:*", "skill:*"}}}
	for _, s := range []registry.Source{
		x.mod(), x.tasks("asked", mcp.TasksAsked, x.asked), x.tasks("given", mcp.TasksGiven, x.given),
	} {
		if refused := w.registry.Replace(s); len(refused) > 0 {
			panic(refused[0])
		}
	}
}

func (x *extended) tasks(name string, form mcp.Tasks, use registry.Func) registry.Source {
	const definition = `{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
	return registry.Source{Name: name, Prefix: name, Tools: []registry.Offer{{
		Definition: object(definition), Timeout: time.Minute, Tasks: form, Call: use,
	}}}
}

func (x *extended) asked(_ context.Context, c *registry.Call) (mcp.Object, error) {
	switch {
	case c.Method == mcp.MethodTasksResult:
		return textResult("done"), nil
	case c.Method == mcp.MethodTasksUpdate && c.Params.Has("inputResponses"):
		x.become("working")
		return mcp.Object{}, nil
	case c.Method == mcp.MethodTasksUpdate:
		return object(`{"inputRequests":{"q":{"method":"roots/list","params":{}}}}`), nil
	case c.Method == mcp.MethodTasksCancel:
		x.become("cancelled")
	case c.Method == mcp.MethodToolsCall && c.Tasks == mcp.TasksAsked:
		if c.OnTaskStatus != nil {
			x.mu.Lock()
			x.tells = append(x.tells, c.OnTaskStatus)
			x.mu.Unlock()
		}
		return object(`{"resultType":"task","task":{"taskId":"own","status":"working","ttl":60000}}`), nil
	case c.Method == mcp.MethodToolsCall:
		return textResult("at once"), nil
	}
	return object(`{"taskId":"own","status":"` + x.state() + `","ttl":60000}`), nil
}

func (x *extended) given(_ context.Context, c *registry.Call) (mcp.Object, error) {
	state := `"taskId":"own","ttlMs":60000,"pollIntervalMs":2000,"status":"` + x.state() + `"`
	switch {
	case c.Method == mcp.MethodToolsCall && c.Tasks == mcp.TasksGiven && !c.Params.Has("arguments"):
		return object(`{"resultType":"task",` + state + `}`), nil
	case c.Method == mcp.MethodToolsCall:
		return textResult("at once"), nil
	case c.Method == mcp.MethodTasksUpdate:
		x.become("working")
		return mcp.Object{}, nil
	case c.Method == mcp.MethodTasksCancel:
		x.become("cancelled")
		return mcp.Object{}, nil
	}
	switch x.state() {
	case "input_required":
		state += `,"inputRequests":{"q":{"method":"roots/list"}}`
	case "completed":
		state += `,"result":{"content":[{"type":"text","text":"done"}]}`
	}
	return object(`{` + state + `}`), nil
}

// mod is a server with a tool that has a view, one for views alone, and a skill.
func (x *extended) mod() registry.Source {
	const skill = `{"uri":"skill://pdf/SKILL.md","frontmatter":{"name":"pdf","description":"d"},` +
		`"resources":[{"uri":"skill://pdf/SKILL.md","digest":"sha256:00","size":4}]}`
	use := func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		switch {
		case c.Method == mcp.MethodToolsCall:
			return object(`{"content":[{"type":"resource_link","uri":"ui://chart/view.html","name":"v"}],` +
				`"_meta":{"ui":{"resourceUri":"ui://chart/view.html"}}}`), nil
		case strings.HasSuffix(c.Target, "none.md"):
			return mcp.Object{}, mcp.Errorf(mcp.CodeInvalidParams, "No such skill")
		case c.Method == mcp.MethodSkillsGet:
			return object(`{"skill":` + skill + `,"ttlMs":5000,"cacheScope":"public"}`), nil
		case c.Method == mcp.MethodDirectoryRead:
			return object(`{"resources":[{"uri":"` + c.Target + `/SKILL.md","name":"SKILL.md"}]}`), nil
		case strings.HasPrefix(c.Target, "ui:"):
			return object(`{"contents":[{"uri":"` + c.Target + `","mimeType":"` + mcp.MediaApp +
				`","text":"<p>view</p>","_meta":{"ui":{"csp":{"connectDomains":["https://a.test"]}}}}]}`), nil
		}
		return object(`{"contents":[{"uri":"` + c.Target + `","mimeType":"text/markdown","text":"a\r\nb"}]}`), nil
	}
	tool := func(name, ui string) registry.Offer {
		return registry.Offer{
			Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"},"_meta":{"ui":` + ui + `}}`),
			Timeout:    time.Minute, Call: use,
		}
	}
	declared := `{"extensions":{"` + mcp.ExtensionSkills + `":{"directoryRead":true},"` + mcp.ExtensionApps + `":{}}}`
	return registry.Source{
		Name: "mod", Prefix: "mod", Reads: true, Use: use,
		Extensions: (*mcp.ExtensionTable)(nil).OfServer(object(declared)),
		Tools: []registry.Offer{
			tool("draw", `{"resourceUri":"ui://chart/view.html"}`), tool("refresh", `{"visibility":["app"]}`),
		},
		Resources:   []mcp.Object{object(`{"uri":"ui://chart/view.html","name":"view","mimeType":"` + mcp.MediaApp + `"}`)},
		Skills:      []mcp.Object{object(skill)},
		SkillsFresh: time.Now().Add(time.Hour),
	}
}
