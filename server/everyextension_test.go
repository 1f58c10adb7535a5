package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// extensionSaying is what a server says of an extension, in answer to a request. The
// schemas of the protocol do not have it, so each is written down here, with every member
// that the extension has and one that it has not.
type extensionSaying struct {
	name, method, params, says string
	tasks                      bool // a client of 2025-11-25 hears it in another form, see everyword_test.go
}

const (
	viewURI  = "ui://view.html"
	skillURI = "skill://pdf/SKILL.md"
)

var extensionSayings = []extensionSaying{
	{
		"a view", mcp.MethodResourcesRead, `"uri":"` + viewURI + `"`,
		`{"contents":[{"uri":"ui://view.html","mimeType":"text/html;profile=mcp-app","text":"s","more":"s",` +
			`"_meta":{"ui":{"csp":{"connectDomains":["s"],"resourceDomains":["s"],"frameDomains":["s"],"baseUriDomains":["s"]},` +
			`"permissions":{"camera":{}},"domain":"s","prefersBorder":true},"more":"s"}}],"more":"s"}`, false,
	},
	{
		"a view in Base64", mcp.MethodResourcesRead, `"uri":"` + viewURI + `"`,
		`{"contents":[{"uri":"ui://view.html","mimeType":"text/html;profile=mcp-app","blob":"czw=","more":"s"}]}`, false,
	},
	{
		"the result of an app", mcp.MethodToolsCall, `"name":"say"`,
		`{"content":[{"type":"resource_link","uri":"ui://view.html","name":"s","_meta":{"ui":{"resourceUri":"ui://view.html"}}},` +
			`{"type":"resource","resource":{"uri":"ui://view.html","mimeType":"text/html;profile=mcp-app","text":"s","_meta":{"ui":{"domain":"s"}}}}],` +
			`"_meta":{"ui":{"resourceUri":"ui://view.html","visibility":["s"]},"ui/resourceUri":"ui://view.html","more":"s"}}`, false,
	},
	{
		"a skill", mcp.MethodSkillsGet, `"uri":"` + skillURI + `"`,
		`{"skill":{"uri":"skill://pdf/SKILL.md","frontmatter":{"name":"pdf","description":"s","license":"s","metadata":{"more":["s"]}},` +
			`"resources":[{"uri":"skill://pdf/SKILL.md","digest":"sha256:s","size":1,"more":"s"}],"_meta":{"more":"s"},"more":"s"},` +
			`"ttlMs":1,"cacheScope":"public","more":"s"}`, false,
	},
	{
		"a file", mcp.MethodResourcesRead, `"uri":"` + skillURI + `"`,
		`{"contents":[{"uri":"skill://pdf/SKILL.md","mimeType":"text/markdown","text":"s","more":"s","_meta":{"more":"s"}}]}`, false,
	},
	{
		"a directory", mcp.MethodDirectoryRead, `"uri":"skill://pdf"`,
		`{"resources":[{"uri":"skill://pdf/SKILL.md","name":"s","title":"s","description":"s","mimeType":"inode/directory","more":"s",` +
			`"annotations":{"audience":["user"]},"icons":[{"src":"https://a.test/i","mimeType":"s"}],"_meta":{"more":"s"}}],"more":"s"}`, false,
	},
	{
		"a task that asks", mcp.MethodTasksGet, "",
		`{"taskId":"s","status":"input_required","statusMessage":"s","createdAt":"s","lastUpdatedAt":"s","ttlMs":1,"more":"s",` +
			`"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"s","more":"s",` +
			`"requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":"s","description":"s"}}}}}}}`, true,
	},
	{
		"a task that is done", mcp.MethodTasksGet, "",
		`{"taskId":"s","status":"completed","ttlMs":1,"result":{"content":[{"type":"text","text":"s"}],"structuredContent":{"a":"s"},"more":"s","_meta":{"more":"s"}}}`, true,
	},
	{
		"a task that failed", mcp.MethodTasksGet, "",
		`{"taskId":"s","status":"failed","ttlMs":1,"error":{"code":-1,"message":"s","data":{"more":["s"]}}}`, true,
	},
}

// placesOf returns a value of JSON once for each string and each name of a member in it,
// with corpus.Here behind that.
func placesOf(value any, made func(any)) {
	switch v := value.(type) {
	case string:
		made("left" + v + corpus.Here + "right")
	case []any:
		for i := range v {
			placesOf(v[i], func(one any) {
				other := slices.Clone(v)
				other[i] = one
				made(other)
			})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			placesOf(v[name], func(one any) {
				other := maps.Clone(v)
				other[name] = one
				made(other)
			})
			other := maps.Clone(v)
			delete(other, name)
			other[name+corpus.Here] = v[name]
			made(other)
		}
	}
}

// TestNothingHiddenIsHeardOfExtensions lets a server hide text in each place of a string
// in everything that apps, skills and tasks have, of each kind in turn, and listens at
// the doors of both eras.
func TestNothingHiddenIsHeardOfExtensions(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			form := map[string]mcp.Tasks{"modern": mcp.TasksGiven, "legacy": mcp.TasksAsked}[era]
			w, v := newVoice(t, form)
			offerExtensions(t, w, v, form)
			e := modernEar(w)
			if era == "legacy" {
				e = legacyEar(t, w)
			}
			e.makeTask(t, v)
			places, heardOf := 0, 0
			for _, one := range extensionSayings {
				if one.tasks && era == "legacy" {
					continue
				}
				params := one.params
				if one.tasks {
					params = `"taskId":"` + e.task + `"`
				}
				say := func(message, text string) string {
					v.says(answersWith(message), text)
					return e.hear(t, one.method, params, false)
				}
				if heard := say(one.says, ""); strings.Contains(heard, `"error":{"code":-32`) {
					t.Errorf("%s: got %s, want what was said", one.name, heard)
				}
				var whole any
				if err := json.Unmarshal([]byte(one.says), &whole); err != nil {
					t.Fatal(err)
				}
				placesOf(whole, func(value any) {
					places++
					text, err := json.Marshal(value)
					if err != nil {
						t.Fatal(err)
					}
					message := string(text)
					for kind, text := range corpus.Hidden {
						quoted := string(mcp.String(text))
						heard := say(message, quoted[1:len(quoted)-1])
						if bad := hidden(t, heard); bad != "" {
							t.Errorf("%s, %s in %s: heard %+q", one.name, kind, message, bad)
						}
						if strings.Contains(heard, "left") {
							heardOf++
						}
					}
				})
			}
			if least := map[string]int{"modern": 120, "legacy": 80}[era]; places < least || heardOf < places {
				t.Errorf("%d places, and %d times a text was heard without what it hid", places, heardOf)
			}
			t.Attr("positions", fmt.Sprint(places))
		})
	}
}

// offerExtensions has a voice offer a view and a skill, too.
func offerExtensions(t *testing.T, w *world, v *scriptedServer, form mcp.Tasks) {
	t.Helper()
	w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "prompt:*", "resource:*", "skill:*"}}}
	w.setTenants(t, w.tenants)
	support := ""
	if form == mcp.TasksAsked {
		support = `,"execution":{"taskSupport":"optional"}`
	}
	source := registry.Source{
		Name: "voice", Prefix: "", Use: v.use, Reads: true, Timeout: time.Minute, SkillsFresh: time.Now().Add(time.Hour),
		Extensions: (*mcp.ExtensionTable)(nil).OfServer(object(
			`{"extensions":{"` + mcp.ExtensionSkills + `":{"directoryRead":true},"` + mcp.ExtensionApps + `":{}}}`)),
		Tools: []registry.Offer{{
			Definition: object(`{"name":"say","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://view.html"}}` + support + `}`),
			Timeout:    time.Minute, Tasks: form, Call: v.use,
		}},
		Resources: []mcp.Object{object(`{"uri":"ui://view.html","name":"view","mimeType":"text/html;profile=mcp-app"}`)},
		Skills: []mcp.Object{object(`{"uri":"skill://pdf/SKILL.md","frontmatter":{"name":"pdf","description":"d"},` +
			`"resources":[{"uri":"skill://pdf/SKILL.md","digest":"sha256:00","size":4}]}`)},
	}
	for _, refusal := range w.registry.Replace(source) {
		t.Fatalf("refused: %+v", refusal)
	}
}
