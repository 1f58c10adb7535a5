package upstream_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// overHTTP and overStream are the addresses of a server made with FastMCP.
const (
	overHTTP   = "http://fast.invalid/mcp"
	overStream = "http://fast.invalid/sse"
)

// fastBubble runs an upstream with a server made with FastMCP on exact time.
func fastBubble(t *testing.T, f *fastMCP, cfg upstream.Config, story func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &origin{}
		o.become(f)
		cfg.Client = &http.Client{Transport: o}
		r := start(t, cfg)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Contains(r.tools(), "tool_0") {
			t.Fatalf("tools: got %q, want those of the server; status %+v", r.tools(), r.last())
		}
		story(t, r)
		r.stop()
		o.become(nil)
		synctest.Wait()
	})
}

// has tells whether the catalogue has the nth grown item of each kind.
func (r *rig) has(n string) bool {
	var names []string
	view := r.view()
	for _, one := range view.Prompts {
		names = append(names, one.Name)
	}
	for _, one := range view.Resources {
		names = append(names, one.Definition.Text("name"))
	}
	all := append(r.tools(), names...)
	return slices.Contains(all, "tool_"+n) && slices.Contains(all, "prompt_"+n) &&
		slices.Contains(all, "resource_"+n)
}

// TestNewsInTheSessionOfACallIsHeard lets a tool change all lists, of which the server
// tells in the session of the call alone: on its GET stream, on the stream of the call,
// over HTTP+SSE and stdio. Callers who can be asked have sessions of their own.
func TestNewsInTheSessionOfACallIsHeard(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		store bool
		url   string
		tool  string
	}{
		"GET stream":             {false, overHTTP, "grow"},
		"GET stream with events": {true, overHTTP, "grow"},
		"stream of the call":     {true, overHTTP, "grow_related"},
		"HTTP+SSE":               {false, overStream, "grow"},
	} {
		for _, asks := range []string{"", anyQuestion} {
			t.Run(name+asks, func(t *testing.T) {
				t.Parallel()
				f := &fastMCP{store: one.store}
				fastBubble(t, f, upstream.Config{URL: one.url}, func(t *testing.T, r *rig) {
					p := person{tenant: "a", name: "alice", asks: asks}
					for _, n := range []string{"1", "2"} {
						changed := r.reg.Changed()
						if _, _, got, err := r.round(t.Context(), one.tool,
							p.call(t, "", "", "", nil)); err != nil || got != "ok" {
							t.Fatalf("got %q, %v", got, err)
						}
						time.Sleep(time.Second)
						synctest.Wait()
						if !r.has(n) {
							t.Errorf("a second after the call: got tools %q of %d", r.tools(), f.grown)
						}
						select {
						case <-changed:
						default:
							t.Error("no client is told")
						}
					}
				})
			})
		}
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "growth")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := command("fastmcp")
		cfg.Env[growthFile] = path
		r := start(t, cfg)
		r.untilTool("grow")
		for _, asks := range []string{"", anyQuestion} {
			if _, _, got, err := r.round(t.Context(), "grow", person{
				tenant: "a", name: "alice",
				asks: asks,
			}.call(t, "", "", "", nil)); err != nil || got != "ok" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		r.until("all is listed", func() bool { return r.has("1") && r.has("2") })
	})
}

// TestWhatASharedProcessAddsIsListed lets a tool over stdio add items, which are in the
// memory of its process alone.
func TestWhatASharedProcessAddsIsListed(t *testing.T) {
	t.Parallel()
	cfg := command("fastmcp")
	cfg.Shared = true
	r := start(t, cfg)
	r.untilTool("grow")
	if _, _, got, err := r.round(t.Context(), "grow", person{tenant: "a"}.call(t, "", "", "",
		nil)); err != nil || got != "ok" {
		t.Fatalf("got %q, %v", got, err)
	}
	r.until("all is listed", func() bool { return r.has("1") })
}

// TestNewsWithoutAChangeIsNotTold lets a server say that its list changed, in the session
// of a call, when it did not: it is read again, and no client is told.
func TestNewsWithoutAChangeIsNotTold(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
		if _, _, got, err := r.round(t.Context(), "quick", person{tenant: "a"}.call(t, "", "", "",
			nil)); err != nil || got != "quick" {
			t.Fatalf("got %q, %v", got, err)
		}
		for _, kind := range []registry.Kind{registry.KindTool, registry.KindPrompt, registry.KindResource} {
			changed, listed := r.reg.Changed(), f.listed()
			f.everywhere(func(s *pySession) {
				if s.id[31] == '2' { // that of the call
					s.news("", string(kind)+"s")
				}
			})
			time.Sleep(time.Second)
			synctest.Wait()
			if kind == registry.KindTool && f.listed() == listed {
				t.Error("the tools were not read again")
			}
			select {
			case <-changed:
				t.Errorf("%s: clients are told of a change", kind)
			default:
			}
			f.everywhere(func(s *pySession) {
				if s.id[31] == '1' { // that of the lists: a change may have come and gone
					s.news("", string(kind)+"s")
				}
			})
			time.Sleep(6 * time.Second)
			synctest.Wait()
			select {
			case <-changed:
			default:
				t.Errorf("%s: clients are not told what the session of the lists says", kind)
			}
		}
	})
}

// TestOpenStreamIsNotTakenForNews changes lists of servers that have a stream open and
// tell nothing, whatever they declare, or tell the session of a call alone: they are read
// again from time to time.
func TestOpenStreamIsNotTakenForNews(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		url, declares string
		overheard     bool
	}{
		"nothing declared over HTTP":         {overHTTP, "false", false},
		"nothing declared over HTTP+SSE":     {overStream, "false", false},
		"declared over HTTP":                 {overHTTP, "true", false},
		"declared over HTTP+SSE":             {overStream, "true", false},
		"declared and told elsewhere, HTTP":  {overHTTP, "true", true},
		"declared and told elsewhere, HTTP+": {overStream, "true", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fastMCP{declares: one.declares}
			fastBubble(t, f, upstream.Config{URL: one.url}, func(t *testing.T, r *rig) {
				if one.overheard {
					if _, _, _, err := r.round(t.Context(), "grow", person{tenant: "a"}.call(t, "", "", "",
						nil)); err != nil {
						t.Fatal(err)
					}
				}
				f.grow()
				n := 1
				if one.overheard {
					time.Sleep(time.Second)
					f.grow()
					n = 3
				}
				time.Sleep(9 * time.Minute)
				synctest.Wait()
				if r.has(strconv.Itoa(n)) {
					t.Fatal("read again within 9 minutes")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !r.has(strconv.Itoa(n)) {
					t.Error("not read again within 11 minutes")
				}
				f.grow()
				f.everywhere(func(s *pySession) { s.news("", "tools", "prompts", "resources") })
				time.Sleep(time.Second)
				if !r.has(strconv.Itoa(n + 1)) {
					t.Error("news on all streams was lost")
				}
			})
		})
	}
}

// TestFloodOfNewsMakesFewListings lets all sessions of a server say all the time that its
// lists changed.
func TestFloodOfNewsMakesFewListings(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
		for _, tenant := range []string{"a", "b", "c"} {
			if _, _, _, err := r.round(t.Context(), "quick", person{tenant: tenant}.call(t, "", "", "",
				nil)); err != nil {
				t.Fatal(err)
			}
		}
		before := f.listed()
		for range 2 * 60 * 10 {
			f.everywhere(func(s *pySession) { s.news("", "tools") })
			time.Sleep(100 * time.Millisecond)
		}
		f.grow()
		f.everywhere(func(s *pySession) { s.news("", "tools", "prompts", "resources") })
		if got := f.listed() - before; got > 40 {
			t.Errorf("listed %d times in two minutes, want a few at once and then one in five seconds", got)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if !r.has("1") {
			t.Error("the last change was lost")
		}
		if !r.last().Up || r.last().Restarts > 0 {
			t.Errorf("status: got %+v, want up all the time", r.last())
		}
	})
}

// TestLateStreamsAreWaitedForOnce calls a server whose streams open with their first
// event, in a session for each of several tenants.
func TestLateStreamsAreWaitedForOnce(t *testing.T) {
	t.Parallel()
	for lags, want := range map[bool]time.Duration{true: time.Second, false: 0} {
		fastBubble(t, &fastMCP{lags: lags}, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
			for _, tenant := range []string{"a", "b", "c"} {
				began := time.Now()
				if _, _, _, err := r.round(t.Context(), "quick", person{tenant: tenant}.call(t, "", "", "",
					nil)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != want {
					t.Errorf("late %v, tenant %s: took %v, want %v", lags, tenant, took, want)
				}
				want = 0
			}
		})
	}
}
