package upstream_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// everything is what a server with all kinds of items declares.
const everything = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`

type handler = func(w http.ResponseWriter, r *http.Request, m wire)

// says answers with one result.
func says(result string) handler {
	return func(w http.ResponseWriter, _ *http.Request, m wire) { sendJSON(w, m.ID, result) }
}

// full is a server with one tool, two prompts in two pages, one resource and one
// template.
func full(modern bool) *web {
	return &web{modern: modern, declares: everything, other: map[string]handler{
		"prompts/list": func(w http.ResponseWriter, _ *http.Request, m wire) {
			if m.Params.Cursor == nil {
				sendJSON(
					w, m.ID, `{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}],"nextCursor":"2"}`)
				return
			}
			sendJSON(w, m.ID, `{"prompts":[{"name":"part"}]}`)
		},
		"resources/list": says(`{"resources":[{"uri":"file:///a.txt","name":"a"}]}`),
		"resources/templates/list": says(
			`{"resourceTemplates":[{"uriTemplate":"file:///{name}","name":"any"}]}`),
		"prompts/get": says(
			`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`),
		"resources/read":      says(`{"contents":[{"uri":"file:///a.txt","text":"A"}]}`),
		"completion/complete": says(`{"completion":{"values":["x","y"]}}`),
	}}
}

func (r *rig) view() *registry.View { return r.reg.Catalogue().View([]string{r.name}) }

// names returns the own names of all that the upstream offers besides tools.
func (r *rig) names() []string {
	v := r.view()
	var names []string
	for _, p := range v.Prompts {
		names = append(names, "prompt "+p.Name)
	}
	for _, one := range v.Resources {
		names = append(names, "resource "+one.Name)
	}
	for _, one := range v.Templates {
		names = append(names, "template "+one.Name)
	}
	slices.Sort(names)
	return names
}

// listed tells whether the upstream's list of that kind is known.
func (r *rig) listed(kind registry.Kind) bool { return r.view().Listed(r.name, kind) }

func (r *rig) untilNames(want ...string) {
	r.t.Helper()
	r.until(fmt.Sprintf("there is %q and not %q", want, r.names()),
		func() bool { return slices.Equal(r.names(), want) })
}

// TestListsOfEveryKind reads all that a server has, in both eras.
func TestListsOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		r := start(t, serve(t, full(modern)).config())
		r.untilUp()
		r.untilNames("prompt greet", "prompt part", "resource file:///a.txt", "template file:///{name}")
		if got := r.last(); got.Tools != 1 || got.Prompts != 2 || got.Resources != 1 || got.Templates != 1 ||
			len(got.Refused) != 0 {
			t.Errorf("modern %v: status: got %+v, want the counts and nothing refused", modern, got)
		}
		probed, err := r.up.Probe(t.Context())
		if err != nil || probed.Tools != 1 || probed.Prompts != 2 || probed.Resources != 1 ||
			probed.Templates != 1 {
			t.Errorf("modern %v: probe: got %+v, %v, want the same counts", modern, probed, err)
		}
	}
}

// TestUndeclaredListsAreNotAskedFor shows what is asked of servers by what they declare.
func TestUndeclaredListsAreNotAskedFor(t *testing.T) {
	t.Parallel()
	for declares, want := range map[string][]string{
		`{}`:                            {"tools/list"},
		`{"logging":{}}`:                {"tools/list"},
		`{"tools":{}}`:                  {"tools/list"},
		`{"prompts":{}}`:                {"prompts/list"},
		`{"resources":{}}`:              {"resources/list", "resources/templates/list"},
		`{"tools":{},"prompts":{}}`:     {"prompts/list", "tools/list"},
		`{"tools":{},"resources":null}`: {"tools/list"},
	} {
		for _, modern := range []bool{false, true} {
			s := full(modern)
			s.declares = declares
			r := start(t, serve(t, s).config())
			r.untilUp()
			var got []string
			for _, method := range []string{
				"prompts/list", "resources/list", "resources/templates/list",
				"tools/list",
			} {
				if len(s.sights(method)) > 0 {
					got = append(got, method)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, modern %v: asked for %q, want %q", declares, modern, got, want)
			}
		}
	}
}

// TestDeclaredListThatIsUnknownIsEmpty shows that a method that is not there counts as no
// items.
func TestDeclaredListThatIsUnknownIsEmpty(t *testing.T) {
	t.Parallel()
	s := full(true)
	delete(s.other, "resources/templates/list")
	r := start(t, serve(t, s).config())
	r.untilUp()
	r.untilNames("prompt greet", "prompt part", "resource file:///a.txt")
	if got := r.last(); len(got.Refused) != 0 {
		t.Errorf("refused: got %+v, want nothing", got.Refused)
	}
}

// TestBrokenListCostsItselfAlone breaks one list after the other in many ways: the tools
// and the other lists stay.
func TestBrokenListCostsItselfAlone(t *testing.T) {
	t.Parallel()
	for _, list := range []struct {
		method, member string
		kind           registry.Kind
		rest           []string
	}{
		{
			"prompts/list", "prompts", registry.KindPrompt,
			[]string{"resource file:///a.txt", "template file:///{name}"},
		},
		{"resources/list", "resources", registry.KindResource, []string{
			"prompt greet", "prompt part",
			"template file:///{name}",
		}},
		{
			"resources/templates/list", "resourceTemplates", registry.KindTemplate,
			[]string{"prompt greet", "prompt part", "resource file:///a.txt"},
		},
	} {
		var n atomic.Int64
		for name, broken := range map[string]handler{
			"same cursor": says(`{"` + list.member + `":[],"nextCursor":"x"}`),
			"always new ones": func(w http.ResponseWriter, _ *http.Request, m wire) {
				sendJSON(w, m.ID, fmt.Sprintf(`{"%s":[],"nextCursor":"%d"}`, list.member, n.Add(1)))
			},
			"number cursor": says(`{"` + list.member + `":[],"nextCursor":1}`),
			"no array":      says(`{"` + list.member + `":{}}`),
			"nothing":       says(`{}`),
			"error": func(w http.ResponseWriter, _ *http.Request,
				m wire,
			) {
				sendError(w, 200, m.ID, -32603, "no")
			},
			"status": func(w http.ResponseWriter, _ *http.Request,
				_ wire,
			) {
				w.WriteHeader(http.StatusInternalServerError)
			},
			"reset":    func(http.ResponseWriter, *http.Request, wire) { panic(http.ErrAbortHandler) },
			"not JSON": func(w http.ResponseWriter, r *http.Request, m wire) { jsonBody("{")(w, r, m) },
		} {
			t.Run(list.method+"/"+name, func(t *testing.T) {
				t.Parallel()
				check := func(t *testing.T, r *rig) {
					r.until("the list is refused",
						func() bool { return r.last().Up && len(r.last().Refused) == 1 })
					if got := r.last().Refused[0]; got.Kind != list.kind || got.Reason != "list" ||
						got.Err == nil {
						t.Errorf("refused: got %+v, want the list", got)
					}
					r.untilNames(list.rest...)
					if !r.listed(registry.KindTool) || r.listed(list.kind) {
						t.Errorf("known: tools %v, %s %v; want the tools alone of these",
							r.listed(registry.KindTool), list.kind, r.listed(list.kind))
					}
					r.must("tool", `{}`)
				}
				if name == "always new ones" { // a thousand pages may take their time
					s := &wired{web: *full(true)}
					s.other[list.method] = broken
					bubble(t, s, check)
					return
				}
				s := full(true)
				s.other[list.method] = broken
				check(t, start(t, serve(t, s).config()))
			})
		}
	}
}

// TestTooManyResourcesAreCut keeps as many resources as one server may have, and says so.
func TestTooManyResourcesAreCut(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 5001 {
		all = append(all, fmt.Sprintf(`{"uri":"file:///%d","name":"r"}`, i))
	}
	s := full(true)
	s.other["resources/list"] = says(`{"resources":[` + strings.Join(all, ",") + `]}`)
	r := start(t, serve(t, s).config())
	r.until("there are 5000",
		func() bool { return r.last().Resources == 5000 && len(r.view().Resources) == 5000 })
	if got := r.last().Refused; len(got) != 1 || got[0].Kind != registry.KindResource ||
		got[0].Reason != "size" {
		t.Errorf("refused: got %+v, want that there are more", got)
	}
	if r.last().Tools != 1 || r.last().Prompts != 2 {
		t.Errorf("status: got %+v, want the other kinds unharmed", r.last())
	}
}

// TestMalformedDefinitionsAreRefusedAlone puts bad definitions beside good ones.
func TestMalformedDefinitionsAreRefusedAlone(t *testing.T) {
	t.Parallel()
	s := full(true)
	s.other["prompts/list"] = says(
		`{"prompts":[1,{},{"name":7},{"name":"good"},{"name":"hid\u200bden\u0007"}]}`)
	s.other["resources/list"] = says(
		`{"resources":[null,{"name":"a"},{"uri":"file:///x"},{"uri":"file:///good","name":"g","description":"a\u200bb"}]}`)
	s.other["resources/templates/list"] = says(
		`{"resourceTemplates":[[],{"uriTemplate":"file:///{x}"},{"uriTemplate":"file:///{good}","name":"g"}]}`)
	r := start(t, serve(t, s).config())
	r.untilUp()
	r.until("the good ones are there",
		func() bool { return slices.Contains(r.names(), "resource file:///good") })
	refused := map[registry.Kind]int{}
	for _, one := range r.last().Refused {
		refused[one.Kind]++
		if one.Err == nil || one.Reason == "" || one.Server != "up" {
			t.Errorf("refusal: got %+v, want server, reason and error", one)
		}
	}
	if refused[registry.KindResource] != 3 || refused[registry.KindTemplate] != 2 ||
		refused[registry.KindPrompt] < 3 {
		t.Errorf("refused: got %v in %+v, want the bad ones", refused, r.last().Refused)
	}
	if got := r.view().Resources[0].Definition.Text("description"); got != "ab" {
		t.Errorf("description: got %q, want it clean", got)
	}
}

// TestAnnouncedListAloneIsAskedForAgain announces a change of one kind after the other,
// in both eras.
func TestAnnouncedListAloneIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			t.Parallel()
			s := full(modern)
			if !modern {
				s.session = "s"
			}
			announce := make(chan string)
			follow := func(w http.ResponseWriter, r *http.Request, hello, meta string) {
				send := events(w)
				send("%s", hello)
				for {
					select {
					case kind := <-announce:
						send(
							"%s", data(
								`{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{%s}}`,
								kind, meta))
					case <-r.Context().Done():
						return
					}
				}
			}
			s.stream = func(w http.ResponseWriter, r *http.Request) { follow(w, r, ": hello\n\n", "") }
			s.listen = func(w http.ResponseWriter, r *http.Request, m wire) {
				meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, m.ID)
				follow(
					w, r, data(
						`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,%s}}`, listened(m), meta), meta)
			}
			r := start(t, serve(t, s).config())
			r.untilUp()
			methods := []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
			counts := func() (n [4]int) {
				for i, method := range methods {
					n[i] = len(s.sights(method))
				}
				return n
			}
			first := 1 // pages of prompts are two
			if modern {
				first = 2 // the acknowledgement asks for all again
			}
			eventually(t, "all was listed",
				func() bool { return counts() == [4]int{first, 2 * first, first, first} })
			for i, step := range []struct {
				kind string
				want [4]int
			}{
				{"prompts", [4]int{0, 2, 0, 0}}, {"resources", [4]int{0, 2, 1, 1}}, {
					"tools",
					[4]int{1, 2, 1, 1},
				},
			} {
				select {
				case announce <- step.kind:
				case <-time.After(limit):
					t.Fatal("nobody listens")
				}
				want := [4]int{
					first + step.want[0], 2*first + step.want[1], first + step.want[2],
					first + step.want[3],
				}
				eventually(t, fmt.Sprintf("step %d lists %v", i, want),
					func() bool { return counts() == want })
			}
			if modern {
				if got := listened(
					s.sights(
						"subscriptions/listen")[0].wire); got != `{"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}` {
					t.Errorf("listened for %s, want all three lists", got)
				}
			}
		})
	}
}

// listened returns the filter of a subscription, its members in order of their names.
func listened(m wire) string {
	var members []string
	for name, value := range m.Params.Notifications {
		members = append(members, fmt.Sprintf("%q:%s", name, value))
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ",") + "}"
}

// TestListenAsksForWhatTheServerHas shows the filter of a server without prompts and
// resources.
func TestListenAsksForWhatTheServerHas(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{modern: true})
	start(t, s.config()).untilUp()
	eventually(t, "it is listened to", func() bool { return len(s.sights("subscriptions/listen")) > 0 })
	if got := listened(s.sights("subscriptions/listen")[0].wire); got != `{"toolsListChanged":true}` {
		t.Errorf("listened for %s, want tools alone", got)
	}
}

// TestSlowListDoesNotHoldTheToolsBack lets prompts/list hang: the tools are there after a
// second, the prompts are given up, and asked for again.
func TestSlowListDoesNotHoldTheToolsBack(t *testing.T) {
	t.Parallel()
	s := &wired{web: *full(true)}
	hang, prompts := atomic.Bool{}, s.other["prompts/list"]
	hang.Store(true)
	s.other["prompts/list"] = func(w http.ResponseWriter, r *http.Request, m wire) {
		if hang.Load() {
			<-r.Context().Done()
			return
		}
		prompts(w, r, m)
	}
	bubble(t, s, func(t *testing.T, r *rig) {
		if r.last().Up {
			t.Error("up at once, want patience with the other lists")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.last(); !got.Up || got.Tools != 1 || got.Resources != 1 {
			t.Errorf("status after a second: got %+v, want the tools", got)
		}
		if r.listed(registry.KindPrompt) || !r.listed(registry.KindResource) {
			t.Error("the prompts count as known after a second, or the resources do not")
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := r.last(); !got.Up || got.Restarts != 0 || len(got.Refused) != 1 ||
			got.Refused[0].Kind != registry.KindPrompt {
			t.Errorf("status after the limit: got %+v, want that prompts cannot be read", got)
		}
		hang.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.last(); got.Prompts != 2 || len(got.Refused) != 0 || !r.listed(registry.KindPrompt) {
			t.Errorf("status after a minute: got %+v, want prompts", got)
		}
	})
}

// TestTrap13_EachListKeepsItsOwnTime polls the lists of a server that tells nothing, each
// as long as it may be kept.
func TestTrap13_EachListKeepsItsOwnTime(t *testing.T) {
	t.Parallel()
	s := &wired{web: *full(true)}
	counts := map[string]*atomic.Int32{}
	for method, result := range map[string]string{
		"tools/list":               `{"tools":[],"ttlMs":0}`,
		"prompts/list":             `{"prompts":[],"ttlMs":120000}`,
		"resources/list":           `{"resources":[],"ttlMs":300000}`,
		"resources/templates/list": `{"resourceTemplates":[],"ttlMs":9007199254740993}`,
	} {
		n := &atomic.Int32{}
		counts[method] = n
		s.other[method] = func(w http.ResponseWriter, _ *http.Request, m wire) {
			n.Add(1)
			sendJSON(w, m.ID, result)
		}
	}
	bubble(t, s, func(t *testing.T, _ *rig) {
		time.Sleep(250 * time.Second)
		for method, within := range map[string][2]int32{
			"tools/list": {6, 8}, "prompts/list": {2, 2}, "resources/list": {1, 1},
			"resources/templates/list": {1, 1},
		} {
			// The first list is one more.
			if got := counts[method].Load() - 1; got < within[0]-1 || got > within[1]+1 {
				t.Errorf("%s: asked for again %d times in 250 s, want about %v", method, got, within)
			}
		}
		time.Sleep(100 * time.Second)
		// Resources and templates are told of together, and asked for together: when the
		// first of them is due.
		for _, method := range []string{"resources/list", "resources/templates/list"} {
			if got := counts[method].Load(); got != 2 {
				t.Errorf("%s: asked for %d times in 350 s, want 2", method, got)
			}
		}
	})
}

// use uses an item as the gateway does.
func (r *rig) use(item *registry.Item, call *registry.Call, method string) (mcp.Object, error) {
	r.t.Helper()
	call.Method = method
	return item.Call(r.t.Context(), call)
}

func (r *rig) prompt(name string) *registry.Item {
	r.t.Helper()
	p, err := r.view().Prompt(name)
	if err != nil {
		r.t.Fatalf("no prompt %q among %v", name, r.names())
	}
	return p
}

func (r *rig) resource(uri string) *registry.Item {
	r.t.Helper()
	one, err := r.view().Resource(uri)
	if err != nil {
		r.t.Fatalf("no resource %q among %v", uri, r.names())
	}
	return one
}
