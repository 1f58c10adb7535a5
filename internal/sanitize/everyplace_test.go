package sanitize_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// everyCleaner is how messages of a server are cleaned, by their names in the schemas.
// Each returns nil when the message is refused.
var everyCleaner = map[string]func(mcp.Object) mcp.RawJSON{
	"CallToolResult": cleanResult, "GetPromptResult": cleanResult, "ReadResourceResult": cleanResult,
	"CompleteResult":       cleanResult,
	"GetTaskPayloadResult": cleanResult,
	"InputRequiredResult": func(
		o mcp.Object,
	) mcp.RawJSON {
		return cleanResult(o.With("resultType", mcp.String("input_required")))
	},
	"CreateTaskResult": func(
		o mcp.Object,
	) mcp.RawJSON {
		return cleanResult(o.With("resultType", mcp.String("task")))
	},
	"ElicitRequest": cleanQuestion, "CreateMessageRequest": cleanQuestion,
	"ListRootsRequest": cleanQuestion,
	"GetTaskResult":    cleanTask, "CancelTaskResult": cleanTask,
	"ProgressNotification": cleanNotification, "LoggingMessageNotification": cleanNotification,
	"ResourceUpdatedNotification": cleanNotification,
	"TaskStatusNotification":      func(o mcp.Object) mcp.RawJSON { return cleanTask(o.Object("params")) },
	"Error":                       cleanError,
	"URLElicitationRequiredError": func(o mcp.Object) mcp.RawJSON { return cleanError(o.Object("error")) },
}

func orNone(cleaned mcp.Object, _ sanitize.Report, err error) mcp.RawJSON {
	if err != nil {
		return nil
	}
	return cleaned.JSON()
}

func cleanResult(o mcp.Object) mcp.RawJSON { return orNone(sanitize.Policy{}.Result(o)) }

func cleanTask(o mcp.Object) mcp.RawJSON { return orNone(sanitize.Policy{}.Task(o)) }

func cleanQuestion(o mcp.Object) mcp.RawJSON {
	asked := mcp.NewObject(mcp.Member{Name: "q", Value: o.JSON()})
	return cleanResult(mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("input_required")}, mcp.Member{
			Name:  "inputRequests",
			Value: asked.JSON(),
		},
	))
}

func cleanNotification(o mcp.Object) mcp.RawJSON {
	return orNone(sanitize.Policy{}.Notification(o.Object("params")))
}

func cleanError(o mcp.Object) mcp.RawJSON {
	code, _ := o.Value("code").Int()
	cleaned, _ := sanitize.Policy{}.Error(&mcp.Error{
		Code: int(code), Message: o.Text("message"),
		Data: o.Value("data"),
	})
	return cleaned.Object().JSON()
}

// sealedPlaces keep what they hide, because it reaches no client. One that is not needed
// is a fault.
var sealedPlaces = map[string]string{
	"InputRequiredResult.requestState":     "the gateway seals it",
	"CreateTaskResult.task.taskId":         "the gateway seals it",
	"GetTaskResult.taskId":                 "the gateway compares it and drops it",
	"CancelTaskResult.taskId":              "the gateway compares it and drops it",
	"TaskStatusNotification.params.taskId": "the gateway compares it and drops it",
}

// TestNothingHiddenIsLeftInAnyPlace puts every kind of hidden text in every place of a
// string in the messages that the schemas of all revisions allow.
func TestNothingHiddenIsLeftInAnyPlace(t *testing.T) {
	places, seen, sealed := 0, map[string]bool{}, map[string]bool{}
	for _, revision := range mcp.Revisions() {
		for name, clean := range everyCleaner {
			for _, saying := range corpus.Sayings(t, revision, name) {
				if seen[saying.Path] {
					continue
				}
				seen[saying.Path] = true
				places++
				for kind, text := range corpus.Hidden {
					quoted := string(mcp.String(text))
					message := strings.Replace(saying.Message, corpus.Here, quoted[1:len(quoted)-1], 1)
					left := clean(object(t, message))
					switch _, exempt := sealedPlaces[saying.Path]; {
					case !shows(t, left):
						sealed[saying.Path] = true
						if !exempt {
							t.Errorf("%s, %s: left is %+q", saying.Path, kind, left)
						}
					case exempt:
						t.Errorf("%s, %s: it needs no exemption: %s", saying.Path, kind, left)
					}
				}
			}
		}
	}
	if unused := slices.DeleteFunc(slices.Collect(maps.Keys(sealedPlaces)),
		func(path string) bool { return sealed[path] }); len(unused) > 0 {
		t.Errorf("exemptions that are not needed: %q", unused)
	}
	t.Attr("positions", fmt.Sprint(places))
	if places < 1000 {
		t.Errorf("only %d places", places)
	}
}

var printable = regexp.MustCompile(`^[ -~]*$`)

// shows tells whether all that a value says is printable ASCII. None shows everything.
func shows(t *testing.T, raw mcp.RawJSON) bool {
	t.Helper()
	if raw == nil {
		return true
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return showsAll(value)
}

func showsAll(value any) bool {
	switch v := value.(type) {
	case string:
		return printable.MatchString(v)
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !showsAll(one) })
	case map[string]any:
		for name, one := range v {
			if !showsAll(name) || !showsAll(one) {
				return false
			}
		}
	}
	return true
}
