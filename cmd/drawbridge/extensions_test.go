package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// appUpstream is a server of either era with an app. It notes which extensions its client
// declares.
type appUpstream struct {
	revision string
	apart    bool // what it lists depends on what its client declares
	sessions atomic.Int64
	hosts    sync.Map // the ids of sessions whose clients declare apps

	mu       sync.Mutex // guards the field below
	declared []string   // of each call or session
}

func (u *appUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Decode(body)
	if r.Method != http.MethodPost || err != nil || m.IsNotification() {
		w.WriteHeader(map[bool]int{
			true:  http.StatusAccepted,
			false: http.StatusMethodNotAllowed,
		}[r.Method == http.MethodPost])
		return
	}
	declared := ""
	if extensions := m.Meta.Value(mcp.MetaClientCapabilities).Member("extensions"); extensions != nil {
		declared = string(extensions)
	}
	const capabilities = `"capabilities":{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{},"com.example/odd":{}}}`
	var result string
	switch m.Method {
	case mcp.MethodDiscover:
		result = `"supportedVersions":["2026-07-28"],` + capabilities
	case mcp.MethodInitialize:
		id := fmt.Sprint("s", u.sessions.Add(1))
		w.Header().Set(mcp.HeaderSessionID, id)
		extensions := m.Params.Object("capabilities").Value("extensions")
		u.hosts.Store(id, extensions.Member(mcp.ExtensionApps) != nil)
		u.note("session " + string(extensions))
		result = `"protocolVersion":"2025-11-25",` + capabilities +
			`,"serverInfo":{"name":"apps","version":"1"}`
	case mcp.MethodToolsList:
		result = `"tools":[{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://chart/view.html"}}}]`
		if u.apart && !u.isHost(r, m) {
			result = `"tools":[{"name":"draw","description":"in words","inputSchema":{"type":"object"}},` +
				`{"name":"describe","inputSchema":{"type":"object"}}]`
		}
	case mcp.MethodResourcesList:
		if u.apart && !u.isHost(r, m) {
			result = `"resources":[]`
			break
		}
		result = `"resources":[{"uri":"ui://chart/view.html","name":"view","mimeType":"text/html;profile=mcp-app"}]`
	case mcp.MethodTemplatesList:
		result = `"resourceTemplates":[]`
	case mcp.MethodResourcesRead:
		result = `"contents":[{"uri":"` + m.Params.Text("uri") +
			`","mimeType":"text/html;profile=mcp-app","text":"<p>view</p>"}]`
	case mcp.MethodToolsCall:
		u.note("call " + declared)
		result = `"content":[{"type":"text","text":"drawn"}]`
		if u.apart {
			result = fmt.Sprintf(`"content":[{"type":"text","text":"%s for a host: %t"}]`,
				m.Params.Text("name"), u.isHost(r, m))
		}
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		return
	}
	if u.revision == mcp.Revision2607 {
		result += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
}

// isHost tells whether the client of a request declares apps.
func (u *appUpstream) isHost(r *http.Request, m *mcp.Message) bool {
	if u.revision == mcp.Revision2607 {
		return m.Meta.Value(mcp.MetaClientCapabilities).Member("extensions").Member(mcp.ExtensionApps) != nil
	}
	host, _ := u.hosts.Load(r.Header.Get(mcp.HeaderSessionID))
	return host == true
}

func (u *appUpstream) note(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.declared = append(u.declared, text)
}

func (u *appUpstream) last() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.declared[len(u.declared)-1]
}

// hostDeclares is what a host of apps declares that has an extension which nobody here
// knows, too.
const hostDeclares = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"com.example/odd":{},"com.example/passed":{"a":1}}`

// hostCalls sends a request of a client of that revision, and returns the answer.
func hostCalls(t *testing.T, r *recorder, revision, method, params string) string {
	t.Helper()
	return declaringCalls(t, r, revision, hostDeclares, method, params)
}

// declaringCalls is hostCalls of a client that declares these capabilities.
func declaringCalls(t *testing.T, r *recorder, revision, declares, method, params string) string {
	t.Helper()
	if revision == mcp.Revision2607 {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"},"io.modelcontextprotocol/clientCapabilities":{` + declares + `}}`
		headers := []string{mcp.HeaderProtocolVersion, revision, mcp.HeaderMethod, method}
		object, err := mcp.ParseObject([]byte("{" + params + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if name := object.Text("name") + object.Text("uri"); name != "" {
			headers = append(headers, mcp.HeaderName, name)
		}
		if params != "" {
			params += ","
		}
		return r.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+`}}`,
			headers...).body
	}
	request := func(body string, headers ...string) (*http.Response, string) {
		request, err := r.request(t.Context(), http.MethodPost, r.url, body, headers)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response, string(text)
	}
	opened, text := request(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` +
		revision + `","capabilities":{` + declares + `},"clientInfo":{"name":"host","version":"1"}}}`)
	if method == mcp.MethodDiscover {
		return text
	}
	headers := []string{
		mcp.HeaderSessionID, opened.Header.Get(mcp.HeaderSessionID),
		mcp.HeaderProtocolVersion, revision, "Accept", "application/json, text/event-stream",
	}
	request(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	_, text = request(`{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":{`+params+`}}`, headers...)
	return text
}

// startBeforeApps runs the gateway before a server of apps, with more lines of config,
// and returns when it knows the server's tools.
func startBeforeApps(t *testing.T, upstream *appUpstream, more string) *recorder {
	t.Helper()
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	r := startReplica(t, func(listen, operator string) string {
		text := fmt.Sprintf(keyed, listen, operator, more)
		text = strings.NewReplacer("servers: [toolbox]", "servers: [mod]", `allow: ["*"]`,
			`allow: ["*", "resource:*"]`, "lists: {page_size: 1}\n", "").Replace(text)
		return text + "  mod: {url: \"" + web.URL + "\", revision: \"" + upstream.revision +
			"\", private_addresses: true}\n"
	})
	eventually(t, "the server's tools are there",
		func() bool { return strings.Contains(r.log(), `"server up","server":"mod"`) })
	return r
}

// TestAppsPassBetweenTheEras runs a host of each era before a server of each era:
// capabilities both ways, the list, the view and a call.
func TestAppsPassBetweenTheEras(t *testing.T) {
	for _, back := range []string{mcp.Revision2511, mcp.Revision2607} {
		upstream := &appUpstream{revision: back}
		r := startBeforeApps(t, upstream, "extensions: {pass: [com.example/passed]}\n")
		for _, front := range []string{mcp.Revision2506, mcp.Revision2511, mcp.Revision2607} {
			for _, step := range []struct{ method, params, want string }{
				{mcp.MethodDiscover, ``, `"io.modelcontextprotocol/ui":{}`},
				{mcp.MethodToolsList, ``, `"resourceUri":"ui://mod/chart/view.html"`},
				{mcp.MethodResourcesList, ``, `"uri":"ui://mod/chart/view.html"`},
				{
					mcp.MethodResourcesRead, `"uri":"ui://mod/chart/view.html"`,
					`"uri":"ui://mod/chart/view.html","mimeType":"text/html;profile=mcp-app","text":"<p>view</p>"`,
				},
				{mcp.MethodToolsCall, `"name":"draw","arguments":{}`, `drawn`},
			} {
				if got := hostCalls(t, r, front, step.method, step.params); !strings.Contains(got,
					step.want) || strings.Contains(got, "odd") {
					t.Errorf("%s before %s: %s: got %s, want %s", front, back, step.method, got, step.want)
				}
			}
			got := upstream.last()
			if back == mcp.Revision2511 { // the session stands before its call
				upstream.mu.Lock()
				got = strings.Join(upstream.declared, "\n")
				upstream.mu.Unlock()
			}
			want := `{"com.example/passed":{"a":1},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
			if !strings.Contains(got, want) || strings.Contains(got, "odd") {
				t.Errorf("%s before %s: the server learns %s, want %s", front, back, got, want)
			}
		}
		eventually(t, "the lines of the calls are written",
			func() bool { return strings.Count(r.log(), `"method":"tools/call"`) == 3 })
		if n := strings.Count(r.log(), `"extension":"com.example/odd"`); n != 1 {
			t.Errorf("the operator is told %d times of an unknown extension, want once", n)
		}
		if want := `"extensions":"io.modelcontextprotocol/ui com.example/odd com.example/passed"`; !strings.Contains(r.log(), want) {
			t.Errorf("no line of a request has %s", want)
		}
	}
}

// TestListsAreKeptApartByExtensions runs clients with apps and without, of each era,
// before a server of each era that lists them other tools. A call finds what its client
// was shown.
func TestListsAreKeptApartByExtensions(t *testing.T) {
	for _, back := range []string{mcp.Revision2511, mcp.Revision2607} {
		r := startBeforeApps(t, &appUpstream{revision: back, apart: true}, "")
		for _, front := range []string{mcp.Revision2506, mcp.Revision2511, mcp.Revision2607} {
			for _, step := range []struct{ declares, method, params, want, never string }{
				{hostDeclares, mcp.MethodToolsList, ``, `"resourceUri":"ui://mod/chart/view.html"`, `describe`},
				{``, mcp.MethodToolsList, ``, `"name":"mod__describe"`, `resourceUri`},
				{``, mcp.MethodToolsList, ``, `"description":"in words"`, `view.html`},
				{hostDeclares, mcp.MethodResourcesList, ``, `"uri":"ui://mod/chart/view.html"`, `error`},
				{``, mcp.MethodResourcesList, ``, `"resources":[]`, `view.html`},
				{``, mcp.MethodToolsCall, `"name":"mod__describe","arguments":{}`, `describe for a host: false`, `error`},
				{``, mcp.MethodToolsCall, `"name":"mod__draw","arguments":{}`, `draw for a host: false`, `error`},
				{hostDeclares, mcp.MethodToolsCall, `"name":"draw","arguments":{}`, `draw for a host: true`, `error`},
				{hostDeclares, mcp.MethodToolsCall, `"name":"mod__describe","arguments":{}`, `-32602`, `host`},
			} {
				got := declaringCalls(t, r, front, step.declares, step.method, step.params)
				if !strings.Contains(got, step.want) || strings.Contains(got, step.never) {
					t.Errorf("%s before %s, declaring %q: %s %s: got %s, want %s and no %s", front, back,
						step.declares, step.method, step.params, got, step.want, step.never)
				}
			}
		}
	}
}

// TestValidateDeclaresWhatTheGatewayDeclares holds because servers list other tools to
// clients with other extensions.
func TestValidateDeclaresWhatTheGatewayDeclares(t *testing.T) {
	upstream := &appUpstream{revision: mcp.Revision2511}
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	cfg := &config.Config{
		PassedExtensions: []string{"com.example/passed"},
		Servers: []config.Server{{
			Name: "mod", Prefix: "mod", URL: web.URL, Revision: mcp.Revision2511, PrivateAddresses: true,
		}},
	}
	p := newPlanned(t.Context(), cfg, true)
	defer p.fleet.close()
	for _, c := range p.checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
	}
	if got := upstream.last(); !strings.Contains(got, "com.example/passed") {
		t.Errorf("the server learns %s", got)
	}
}
