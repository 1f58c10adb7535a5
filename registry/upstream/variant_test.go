package upstream_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// appWeb is a server that lists a tool with a view to hosts of apps alone, and one of
// text to all others.
func appWeb(modern bool) *web {
	w := &web{modern: modern, declares: `{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/ui":{}}}`}
	if !modern {
		w.session = "s"
	}
	w.other = map[string]func(http.ResponseWriter, *http.Request, wire){
		"tools/list": func(rw http.ResponseWriter, r *http.Request, m wire) {
			said := string(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"])
			if !modern {
				said = w.opened(r.Header.Get("Mcp-Session-Id"))
			}
			sendJSON(rw, m.ID, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+
				appTools(strings.Contains(said, mcp.ExtensionApps))+`]}`)
		},
	}
	return w
}

func appTools(host bool) string {
	if host {
		return `{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://v"}}}`
	}
	return `{"name":"describe","inputSchema":{"type":"object"}}`
}

// opened returns the handshake of a session.
func (s *web) opened(id string) string {
	for i, one := range s.sights("initialize") {
		if id == s.session+"-"+string(rune('1'+i)) {
			return one.body
		}
	}
	return ""
}

// namesFor returns the tools that clients with these extensions see.
func (r *rig) namesFor(extensions ...string) (names []string) {
	view := r.reg.Catalogue().View([]string{r.name}).For(mcp.ExtensionsNamed(extensions...))
	for _, tool := range view.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestListsAreReadForEachSetOfExtensions(t *testing.T) {
	for _, test := range []struct {
		name           string
		cfg            func(t *testing.T) upstream.Config
		hosts, another []string
	}{
		{"legacy", func(t *testing.T) upstream.Config { return serve(t, appWeb(false)).config() }, []string{"draw"}, []string{"describe"}},
		{"modern", func(t *testing.T) upstream.Config { return serve(t, appWeb(true)).config() }, []string{"draw"}, []string{"describe"}},
		{"shared by all", func(t *testing.T) upstream.Config {
			cfg := serve(t, appWeb(false)).config()
			cfg.Shared = true
			return cfg
		}, []string{"draw"}, []string{"describe"}},
		{"a child", func(*testing.T) upstream.Config { return command("apps") }, []string{"draw"}, []string{"describe"}},
		{"a child that is lent", func(*testing.T) upstream.Config {
			cfg := command("apps")
			cfg.OneUser = true
			return cfg
		}, []string{"draw"}, []string{"describe"}},
		{"a child beside which none may run", func(*testing.T) upstream.Config {
			cfg := command("apps")
			cfg.MaxChildren = 1
			return cfg
		}, []string{"draw"}, []string{"draw"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, test.cfg(t))
			r.untilUp()
			r.until("the lists are kept apart", func() bool {
				return slices.Equal(r.namesFor(mcp.ExtensionApps), test.hosts) &&
					slices.Equal(r.namesFor(mcp.ExtensionSkills), test.another)
			})
			if test.another[0] == test.hosts[0] || r.cfg.URL != "" {
				return
			}
			if got := r.up.Load().Processes; got != 2 {
				t.Errorf("%d processes run, want one beside that of the lists", got)
			}
			call := request(t, `{}`, nil)
			call.Method, call.Client = mcp.MethodToolsCall, "window"
			result, err := r.tool("describe").Call(t.Context(), call)
			if err != nil || !strings.Contains(string(result.JSON()), "describe without a view") {
				t.Errorf("a call does not find what its client was shown: %s (%v)", result.JSON(), err)
			}
		})
	}
}

// TestStatusCountsWhatIsInTheCatalogue lists to clients without an extension a tool that
// cannot be called, beside one that can.
func TestStatusCountsWhatIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	w := appWeb(true)
	w.other["tools/list"] = func(rw http.ResponseWriter, _ *http.Request, m wire) {
		said := string(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"])
		tools := appTools(true)
		if !strings.Contains(said, mcp.ExtensionApps) {
			tools += `,{"name":"bad","inputSchema":{"type":"array"}}`
		}
		sendJSON(rw, m.ID, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+tools+`]}`)
	}
	r := start(t, serve(t, w).config())
	r.until("the bad tool is refused", func() bool { return len(r.last().Refused) == 1 })
	if got := r.last(); got.Tools != 1 {
		t.Errorf("status: got %+v, want one tool", got)
	}
}

// TestListsAreReadOnceWithoutExtensions holds what servers cost that have none on which a
// list depends.
func TestListsAreReadOnceWithoutExtensions(t *testing.T) {
	for _, declares := range []string{`{"tools":{}}`, `{"tools":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`} {
		for _, modern := range []bool{true, false} {
			w := serve(t, &web{modern: modern, declares: declares})
			r := start(t, w.config())
			r.untilTool("tool")
			r.stop()
			if lists, opened := len(w.sights("tools/list")), len(w.sights("initialize")); lists != 1 || opened > 1 {
				t.Errorf("%s, modern %t: tools were listed %d times in %d sessions, want once", declares, modern,
					lists, opened)
			}
		}
	}
}

// TestListsOfFewerExtensionsMayFail holds that the server is there all the same, and that
// the lists come when they can.
func TestListsOfFewerExtensionsMayFail(t *testing.T) {
	w := appWeb(true)
	list, broken := w.other["tools/list"], atomic.Bool{}
	broken.Store(true)
	w.other["tools/list"] = func(rw http.ResponseWriter, r *http.Request, m wire) {
		said := string(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"])
		if broken.Load() && !strings.Contains(said, mcp.ExtensionApps) {
			sendError(rw, http.StatusOK, m.ID, -32603, "not today")
			return
		}
		list(rw, r, m)
	}
	r := start(t, serve(t, w).config())
	r.untilTool("draw")
	r.until("the operator is told", func() bool {
		return slices.ContainsFunc(r.last().Refused, func(one registry.Refusal) bool { return one.Reason == "list" })
	})
	if got := r.namesFor(); !slices.Equal(got, []string{"draw"}) {
		t.Errorf("without another list: got %v, want what all see", got)
	}
	broken.Store(false)
	r.up.Reread()
	r.until("the lists are kept apart", func() bool { return slices.Equal(r.namesFor(), []string{"describe"}) })
}

// TestListsOfAServerThatKnowsCallersAreReadForEachSetOfExtensions has a server let in
// only who comes with an identity, which is the gateway's own where lists are read.
func TestListsOfAServerThatKnowsCallersAreReadForEachSetOfExtensions(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		k := &knowing{next: serve(t, appWeb(modern))}
		r := start(t, k.listen(t, credential.NewSigner(time.Now), ""))
		r.untilUp()
		r.until("the lists are kept apart", func() bool {
			return slices.Equal(r.namesFor(mcp.ExtensionApps), []string{"draw"}) &&
				slices.Equal(r.namesFor(), []string{"describe"})
		})
	}
}
