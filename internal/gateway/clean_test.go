package gateway

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// isWithheld tells whether an answer says that the server's hid text at that place: as a
// result that a model reads when it is one of a tool, and as an error otherwise.
func isWithheld(tool bool, result mcp.Object, failure *mcp.Error, place string) bool {
	said := failure
	if tool {
		said = mcp.Errorf(0, "%s", result.JSON())
		if failure != nil || string(result.Value("isError")) != "true" ||
			!strings.Contains(said.Message, "(DB-OUTPUT-HIDDEN)") {
			return false
		}
	} else if stable(failure) != "DB-OUTPUT-HIDDEN" {
		return false
	}
	return strings.Contains(said.Message, "hidden characters in "+place+",") &&
		!strings.Contains(said.Message, "\u202e")
}

// TestAnswerThatHidesTextWhereItIsNotEditedIsRefused has for each method an answer with
// hidden text in a URI, an identifier or the name of a member.
func TestAnswerThatHidesTextWhereItIsNotEditedIsRefused(t *testing.T) {
	places := map[string]struct{ answer, place string }{
		mcp.MethodToolsCall: {
			`{"content":[{"type":"resource_link","name":"n","uri":"file:///a@b"}]}`,
			"content[0].uri",
		},
		mcp.MethodPromptsGet: {
			`{"messages":[{"role":"us@er","content":{"type":"text","text":"a"}}]}`,
			"messages[0].role",
		},
		mcp.MethodResourcesRead: {
			`{"contents":[{"uri":"file:///a.txt","mimeType":"@","text":""}]}`,
			"contents[0].mimeType",
		},
		mcp.MethodComplete: {
			`{"completion":{"values":[]},"_meta":{"a/b":{"@":1}}}`,
			"the name of a member of _meta.*",
		},
	}
	for _, s := range subjects {
		var log strings.Builder
		b, l := newLibrary(t)
		b.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		said := places[s.method]
		l.says(strings.ReplaceAll(said.answer, "@", "\u202e"))
		result, failure := b.handle(t, ask(s.method, s.params))
		if !isWithheld(s.method == mcp.MethodToolsCall, result, failure, said.place) {
			t.Errorf("%s: got %s, %v; want it withheld for %s", s.method, result.JSON(), failure, said.place)
		}
		if records := b.records(t); !strings.Contains(records, `"outcome":"hidden_text"`) ||
			strings.Contains(records, "\u202e") {
			t.Errorf("%s: the record is %s", s.method, records)
		}
		if found := metricstest.Sum(t, b.metrics, "drawbridge_output_repairs_total"); found != 1 {
			t.Errorf("%s: %v findings are counted, want 1", s.method, found)
		}
		if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "hidden text in "+
			said.place) || strings.Contains(log.String(), "\u202e") {
			t.Errorf("%s: the log says %s", s.method, log.String())
		}
	}
}

// TestFormThatHidesTextIsNotAsked has questions that hide text where a person is shown it
// and it cannot be removed. The call ends, and its source is told so at once.
func TestFormThatHidesTextIsNotAsked(t *testing.T) {
	for members, place := range map[string]string{
		`"message":"Who?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["@"]}}}`: "inputRequests.*.params.requestedSchema.properties.*.enum[0]",
		`"message":"Open this","mode":"url","url":"https://x/@","elicitationId":"1"`:                             "inputRequests.*.params.url",
	} {
		tenant := everything()
		one, ended := 1, 0
		tenant.Limits.Concurrency = &one
		b, l := newLibrary(t, tenant)
		var release func()
		l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			if ctx.Err() != nil {
				ended++
				release()
				return mcp.Object{}, ctx.Err()
			}
			release = c.Hold(func() {})
			return object(
				`{"resultType":"input_required","requestState":"parked","inputRequests":{"q":{"method":"elicitation/create","params":{` +
					strings.ReplaceAll(members, "@", "\u202e") + `}}}}`), nil
		}
		for n := range 3 {
			result, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params))
			if !isWithheld(true, result, failure, place) || ended != n+1 {
				t.Errorf("got %s, %v, its source was told %d times; want it withheld for %s", result.JSON(),
					failure, ended, place)
			}
		}
	}
}

// TestTasksAreJudgedByTheirOwnTable shows that the id of a task, of which clients get
// another, may look like anything, and that the rest of its state may not hide anything.
func TestTasksAreJudgedByTheirOwnTable(t *testing.T) {
	b, l := newTasks(t, mcp.TasksGiven)
	const key = "AKIA" + "Q7XKZ2M5RT3WNHV4\u200b"
	l.says(`{"resultType":"task","taskId":"` + key + `","status":"working","ttlMs":60000}`)
	task, failure := b.handle(t, knowing(mcp.TasksGiven, mcp.MethodToolsCall,
		`{"name":"lib__ask","arguments":{"n":1}}`))
	if failure != nil {
		t.Fatal(failure)
	}
	poll := about(mcp.TasksGiven, mcp.MethodTasksGet, task.Text("taskId"), "")
	l.says(`{"taskId":"` + key +
		`","status":"completed","ttlMs":60000,"result":{"content":[{"type":"text","text":"a\u202eb"}]}}`)
	if got, failure := b.handle(t, poll); failure != nil || !strings.Contains(string(got.JSON()),
		`"text":"ab"`) {
		t.Errorf("got %s, %v; want the text cleaned", got.JSON(), failure)
	}
	l.says(`{"taskId":"` + key +
		`","status":"completed","ttlMs":60000,"result":{"content":[{"type":"resource_link","name":"n","uri":"a:\u202e"}]}}`)
	if got, failure := b.handle(t, poll); !isWithheld(false, got, failure, "result.content[0].uri") {
		t.Errorf("got %s, %v; want it withheld", got.JSON(), failure)
	}
}

// TestNotificationThatHidesTextIsDropped sends two log messages of which one hides text
// in the name of a member. It is dropped and counted; the other one is passed on.
func TestNotificationThatHidesTextIsDropped(t *testing.T) {
	b, l := newLibrary(t)
	l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		for _, params := range []string{
			`{"level":"info","data":{"a\u202eb":1}}`,
			`{"level":"info","data":"a\u202eb"}`,
		} {
			if err := c.Notify(ctx, mcp.Notification{
				Method: mcp.NotifyMessage,
				Params: object(params),
			}); err != nil {
				t.Errorf("%s: %v", params, err)
			}
		}
		return object(subjects[0].answer("done")), nil
	}
	var got []string
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	r.LogLevel, _ = mcp.LevelOf("debug")
	r.Notify = func(_ context.Context, n mcp.Notification) error {
		got = append(got, string(n.Params.JSON()))
		return nil
	}
	if _, failure := b.handle(t, r); failure != nil {
		t.Fatal(failure)
	}
	if len(got) != 1 || got[0] != `{"level":"info","data":"ab"}` {
		t.Errorf("got %q, want the second one, cleaned", got)
	}
	if n := metricstest.Sum(t, b.metrics, "drawbridge_upstream_anomalies_total"); n != 1 {
		t.Errorf("%v anomalies are counted, want 1", n)
	}
}

// TestHiddenTextIsNotLookedForWhereItIsAllowed shows that a tenant with hidden_text: off
// gets what the server says.
func TestHiddenTextIsNotLookedForWhereItIsAllowed(t *testing.T) {
	tenant := everything()
	tenant.Output = sanitize.Policy{HiddenText: sanitize.Off}
	b, l := newLibrary(t, tenant)
	l.says(`{"content":[{"type":"resource_link","name":"n","uri":"file:///a\u202eb"}]}`)
	if got, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params)); failure != nil ||
		got.Has("isError") {
		t.Errorf("got %s, %v", got.JSON(), failure)
	}
}

// TestChangeOfAResourceNamesNoHiddenText subscribes to a resource whose server says that
// a part of it has changed.
func TestChangeOfAResourceNamesNoHiddenText(t *testing.T) {
	b, l := newLibrary(t)
	var told []string
	opened, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "r1"}, exposedURI("a.txt"),
		func(uri string) { told = append(told, uri) })
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Stop()
	for _, part := range []string{"#part", "#pa\u202ert"} {
		l.updated["file:///a.txt"]("file:///a.txt" + part)
	}
	if want := []string{exposedURI("a.txt#part"), exposedURI("a.txt")}; !slices.Equal(told, want) {
		t.Errorf("got %+q, want %q", told, want)
	}
}
