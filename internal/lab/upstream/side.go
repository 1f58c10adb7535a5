package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// side is what both endpoints have: lists, resources and whoever is to be told of
// changes.
type side struct {
	server *Server
	// "modern" or "legacy", which the URIs of its resources begin with, so that no two
	// servers have the same
	era string

	version   atomic.Int64 // of the list of tools
	things    sync.Map     // the version of a resource, an *atomic.Int64, by its URI
	listeners sync.Map     // of each *listener, true
	sessions  sync.Map     // of the legacy side: each *session by its id
	calls     sync.Map     // of each *call in work, true
}

// listener is one stream that is told of changes. tell does not block for long: its
// reader reads, or is gone.
type listener struct {
	tell  func(method string, params mcp.Object)
	wants func(uri string) bool // whether it has subscribed to that resource; "" is the list of tools
}

// forget is what a crash does. Versions go on, as those of a program that keeps them on
// disk.
func (s *side) forget() {
	s.listeners.Clear()
	s.sessions.Clear()
	s.calls.Clear()
}

// listen enters a listener until leave is called.
func (s *side) listen(l *listener) (leave func()) {
	s.listeners.Store(l, true)
	return func() { s.listeners.Delete(l) }
}

// tell tells all listeners that want to know.
func (s *side) tell(method, uri string, params mcp.Object) {
	s.listeners.Range(func(l, _ any) bool {
		if l, is := l.(*listener); is && l.wants(uri) {
			l.tell(method, params)
		}
		return true
	})
}

// changeList makes another version of the list of tools, and returns its number.
func (s *side) changeList() int64 {
	version := s.version.Add(1)
	s.tell(mcp.NotifyToolsChanged, "", mcp.Object{})
	return version
}

// thing returns the version of a resource.
func (s *side) thing(uri string) *atomic.Int64 {
	version, _ := s.things.LoadOrStore(uri, &atomic.Int64{})
	return version.(*atomic.Int64) //nolint:forcetypeassert // no others are stored
}

// changeThing makes another version of a resource, and returns its number.
func (s *side) changeThing(uri string) int64 {
	version := s.thing(uri).Add(1)
	s.tell(mcp.NotifyResourceUpdated, uri, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
	return version
}

// toolProperty is what a tool is called, and properties of its arguments.
type toolProperty struct{ name, properties string }

// toolProperties are the arguments of each tool beside nonce and tenant.
var toolProperties = []toolProperty{
	{"touch", ``},
	{"slow", `,"ms":{"type":"integer"}`},
	{"progress", `,"n":{"type":"integer"},"ms":{"type":"integer"}`},
	{"ask", ``},
	{"stay", ``},
	{"big", `,"size":{"type":"integer"}`},
	{"change", `,"uri":{"type":"string"}`},
}

// hints are what a modern list says of how long it may be kept. A legacy client does not
// mind them.
const hints = `"resultType":"complete","ttlMs":600000,"cacheScope":"public"`

// tools returns the result of tools/list: its first page unless cursor says another one.
// The description of touch says which version the list has.
func (s *side) tools(b Behaviour, cursor string) string {
	shown, version, next := toolProperties, s.version.Load(), b.nextPage(cursor)
	if b == Pages && cursor != "" {
		shown = nil // there are more pages than tools
	}
	tools := page.Rows(shown, func(tool toolProperty) string {
		return fmt.Sprintf(`,{"name":%q,`+
			`"description":"Counts an execution. The list has version %d.",`+
			`"inputSchema":{"type":"object","properties":{"nonce":{"type":"string"},`+
			`"tenant":{"type":"string"}%s},"required":["nonce","tenant"]}}`, tool.name, version, tool.properties)
	})
	return `{"tools":[` + strings.TrimPrefix(tools, ",") + `],` +
		page.Either(next != "", fmt.Sprintf(`"nextCursor":%q,`, next), "") + hints + `}`
}

const (
	pages   = 10_000
	crowded = 1_000_000 // tools
)

// nextPage returns the cursor of the page after the one with a cursor; "": there is none.
func (b Behaviour) nextPage(cursor string) string {
	at, _ := strconv.Atoi(cursor) // the first page has no cursor
	switch {
	case b == Endless:
		return "more"
	case b == Pages && at+1 < pages:
		return strconv.Itoa(at + 1)
	}
	return ""
}

// crowd writes a list of very many tools on one page.
func (o *output) crowd(id mcp.RawJSON) {
	o.begin("application/json")
	o.write([]byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"tools":[`))
	const some = 1000 // at once
	for block := 0; block < crowded; block += some {
		if !o.write([]byte(page.Times(some, func(i int) string {
			return fmt.Sprintf(`{"name":"tool-%d","inputSchema":{"type":"object"}},`, block+i)
		}))) {
			return
		}
	}
	o.write([]byte(`{"name":"last","inputSchema":{"type":"object"}}],` + hints + `}}`))
}

// answer answers the requests that both eras have in the same form. ok is false for
// others.
func (s *side) answer(o *output, m *mcp.Message) (ok bool) {
	result, always := map[string]string{
		mcp.MethodPing:          `{}`,
		mcp.MethodPromptsList:   `{"prompts":[],` + hints + `}`,
		mcp.MethodResourcesList: `{"resources":[],` + hints + `}`,
		mcp.MethodTemplatesList: `{"resourceTemplates":[{"name":"thing","uriTemplate":"` + s.era +
			`://thing/{id}"}],` + hints + `}`,
	}[m.Method]
	switch b := s.server.behaves(); {
	case always:
	case m.Method == mcp.MethodToolsList && lists[b] != nil:
		lists[b](o, mcp.RawJSON(m.ID))
		return true
	case m.Method == mcp.MethodToolsList:
		result = s.tools(b, m.Params.Text("cursor"))
	case m.Method == mcp.MethodResourcesRead:
		uri := m.Params.Text("uri")
		result = fmt.Sprintf(`{"contents":[{"uri":%s,"text":"version %d"}],%s}`, mcp.String(uri),
			s.thing(uri).Load(), strings.Replace(hints, "600000", "0", 1))
	default:
		return false
	}
	o.end(resultOf(m.ID, result))
	return true
}

// resultOf returns a response.
func resultOf(id mcp.ID, result string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

// errorOf returns a response that is an error.
func errorOf(id mcp.ID, code int, text string) []byte {
	return mcp.AppendError(nil, id, mcp.Errorf(code, "%s", text))
}

// refuse answers with a status and an error.
func refuse(w http.ResponseWriter, status int, id mcp.ID, code int, text string) {
	if id == "" {
		http.Error(w, text, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorOf(id, code, text)) // the client may be gone
}
