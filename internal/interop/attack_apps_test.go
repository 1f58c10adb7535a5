package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// appsOf is a server of either era with an app: a tool with a view, and one that only the
// view is meant to call. It says its name in all that it answers.
type appsOf struct {
	name   string
	modern bool
}

func (a appsOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); r.Method != http.MethodPost || err != nil || m.ID == nil {
		w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusMethodNotAllowed}[err == nil && m.Method != ""])
		return
	}
	const can = `"capabilities":{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
	const view = `"uri":"ui://desk/view.html","mimeType":"text/html;profile=mcp-app"`
	var result string
	code := -32601
	if m.Method == "resources/read" {
		code = -32602 // of another view
	}
	switch {
	case m.Method == "initialize" && !a.modern:
		result = `"protocolVersion":"2025-11-25",` + can + `,"serverInfo":{"name":"a","version":"1"}`
	case m.Method == "server/discover" && a.modern:
		result = `"supportedVersions":["2026-07-28"],` + can
	case m.Method == "tools/list":
		result = `"tools":[{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://desk/view.html"}}},` +
			`{"name":"peek","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}}]`
	case m.Method == "tools/call":
		result = fmt.Sprintf(`"content":[{"type":"text","text":"drawn by %s"}]`, a.name)
	case m.Method == "resources/list":
		result = `"resources":[{` + view + `,"name":"view"}]`
	case m.Method == "resources/templates/list":
		result = `"resourceTemplates":[]`
	case m.Method == "resources/read" && strings.Contains(string(m.Params), `"ui://desk/view.html"`):
		result = fmt.Sprintf(`"contents":[{%s,"text":"<p>view of %s</p>"}]`, view, a.name)
	default:
		fail(w, m.ID, code)
		return
	}
	if a.modern {
		result += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
}

// showsApps is what a client declares that hosts apps.
const showsApps = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`

// TestT16NothingOfAppsCrosses has two users of each of two tenants, in both eras, with
// apps and without, with one gateway and with three replicas. Each tenant has a server
// with an app. Bob may not read its view, nor call the tool that it calls.
func TestT16NothingOfAppsCrosses(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			servers, config := "", "tenants:\n"
			for tenant, isModern := range map[string]bool{"acme": true, "globex": false} {
				web := httptest.NewServer(appsOf{tenant + "s", isModern})
				t.Cleanup(web.Close)
				servers += fmt.Sprintf("  %ss: %s\n", tenant, private(web.URL))
				config += fmt.Sprintf(`  %s: {servers: [%ss], rules: [{allow: ["*", "resource:*"]}, `+
					`{subjects: ["https://issuer.test/#bob"], deny: ["*peek", "resource:%ss:ui://*"]}], limits: %s}`+"\n",
					tenant, tenant, tenant, generous)
			}
			g := besiegeAt(t, form.settle(t), config+"servers:\n"+servers)
			for tenant, other := range map[string]string{"acme": "globex", "globex": "acme"} {
				for _, subject := range []string{"alice", "bob"} {
					for _, revision := range []string{"2025-11-25", modernRevision} {
						for _, capabilities := range []string{"{}", "{" + showsApps + "}"} {
							h := appHost{
								g.speakAs(t, g.mint(who{tenant: tenant, subject: subject}), revision, capabilities),
								tenant + "s", other + "s", subject == "bob", capabilities,
							}
							h.tries(t)
						}
					}
				}
			}
			g.unhurt(t)
		})
	}
}

// appHost is a client of a tenant with an app.
type appHost struct {
	*speaker

	mine, other  string // servers
	isBob        bool   // who may not read the view, nor call what it calls
	capabilities string
}

// says sends a request and returns the answer as text.
func (h *appHost) says(t *testing.T, method, name, params string) string {
	t.Helper()
	if h.revision == modernRevision {
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
			h.capabilities + `}`
	}
	m := h.ask(t, "1", method, name, strings.TrimPrefix(params, ","))
	if m.Error != nil {
		return fmt.Sprint(m.Error.Code)
	}
	return string(m.Result)
}

// tries lists, calls and reads what is its own and what is not.
func (h *appHost) tries(t *testing.T) {
	t.Helper()
	isHost := h.capabilities != "{}"
	listed := h.says(t, "tools/list", "", "")
	for part, want := range map[string]bool{
		`"` + h.mine + `__draw"`: true,
		`"` + h.mine + `__peek"`: isHost && !h.isBob,
		`"draw"`:                 isHost,
		`"peek"`:                 isHost && !h.isBob,
		`"resourceUri":"ui://` + h.mine + `/desk/view.html"`: !h.isBob,
		h.other: false,
	} {
		if strings.Contains(listed, part) != want {
			t.Errorf("%+v: %s in the list: want %t: %s", h, part, want, listed)
		}
	}
	for tool, want := range map[string]bool{
		h.mine + "__draw": true, h.mine + "__peek": isHost && !h.isBob, "draw": isHost, "peek": isHost && !h.isBob,
		h.other + "__draw": false, h.other + "__peek": false,
	} {
		got := h.says(t, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
		if want != strings.Contains(got, "drawn by "+h.mine) || !want && got != "-32602" {
			t.Errorf("%+v: a call of %s: got %s, want it to work: %t", h, tool, got, want)
		}
	}
	for uri, want := range map[string]bool{
		"ui://" + h.mine + "/desk/view.html": !h.isBob, "ui://desk/view.html": !h.isBob,
		"ui://" + h.other + "/desk/view.html": false,
	} {
		got := h.says(t, "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))
		unknown := got == "-32602" || got == "-32002" && h.revision != modernRevision
		if want != strings.Contains(got, "view of "+h.mine) || !want && !unknown {
			t.Errorf("%+v: a reading of %s: got %s, want it to work: %t", h, uri, got, want)
		}
	}
}
