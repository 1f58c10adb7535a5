package sanitize_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// wantHidden checks that err names the place of a string that hides text.
func wantHidden(t testing.TB, what string, err error, place string) {
	t.Helper()
	if hidden, ok := errors.AsType[*sanitize.HiddenError](err); !ok || hidden.Path != place {
		t.Errorf("%s: got %v, want hidden text in %s", what, err, place)
	}
}

// TestHiddenTextIsRefusedWhereItIsNotEdited has one case for each kind of string that
// programs compare or that goes back to the server: such a result is refused, and the
// error says where.
func TestHiddenTextIsRefusedWhereItIsNotEdited(t *testing.T) {
	for _, c := range []struct{ result, place string }{
		{`{"@":1}`, "the name of a member"},
		{`{"structuredContent":{"a":[{"@":1}]}}`, "the name of a member of structuredContent.*[0]"},
		{`{"_meta":{"a/b":{"@":1}}}`, "the name of a member of _meta.*"},
		{
			`{"content":[{"type":"text","text":"@"},{"type":"image","data":"AAAA","mimeType":"@"}]}`,
			"content[1].mimeType",
		},
		{
			`{"content":[{"type":"text","text":"","annotations":{"audience":["user","@"]}}]}`,
			"content[0].annotations.audience[1]",
		},
		{`{"content":[{"uri":"file:///@","name":"n","type":"resource_link"}]}`, "content[0].uri"},
		{
			`{"content":[{"type":"resource_link","uri":"a:b","icons":[{"src":"https://x/@"}]}]}`,
			"content[0].icons[0].src",
		},
		{`{"content":[{"type":"resource","resource":{"uri":"a:@","text":""}}]}`, "content[0].resource.uri"},
		{`{"content":[{"type":"resource_@link","uri":"javascript:x"}]}`, "content[0].type"},
		{`{"contents":[{"uri":"a:b","text":"","mimeType":"@"}]}`, "contents[0].mimeType"},
		{`{"messages":[{"role":"@","content":{"type":"text","text":""}}]}`, "messages[0].role"},
		{`{"resultType":"@"}`, "resultType"},
		{`{"resultType":"input_required","inputRequests":{"@":{}}}`, "the name of a member of inputRequests"},
		{question(`"url":"https://x/@"`), "inputRequests.*.params.url"},
		{question(`"elicitationId":"@"`), "inputRequests.*.params.elicitationId"},
		{question(`"mode":"@"`), "inputRequests.*.params.mode"},
		{question(`"stopSequences":["","@"]`), "inputRequests.*.params.stopSequences[1]"},
		{
			question(`"messages":[{"content":[{"type":"tool_use","id":"@"}]}]`),
			"inputRequests.*.params.messages[0].content[0].id",
		},
		{
			question(`"messages":[{"content":{"type":"tool_result","toolUseId":"@"}}]`),
			"inputRequests.*.params.messages[0].content.toolUseId",
		},
		{question(`"tools":[{"name":"@"}]`), "inputRequests.*.params.tools[0].name"},
		{
			question(`"tools":[{"inputSchema":{"properties":{"a":{"const":{"b":"@"}}}}}]`),
			"inputRequests.*.params.tools[0].inputSchema.properties.*.const.*",
		},
		{form(`"a":{"enum":["x","@"]}`), "inputRequests.*.params.requestedSchema.properties.*.enum[1]"},
		{
			form(`"@":{"type":"string"}`),
			"the name of a member of inputRequests.*.params.requestedSchema.properties",
		},
		{
			form(`"a":{"oneOf":[{"const":"@","title":"x"}]}`),
			"inputRequests.*.params.requestedSchema.properties.*.oneOf[0].const",
		},
		{
			form(`"a":{"items":{"enum":["@"]}}`),
			"inputRequests.*.params.requestedSchema.properties.*.items.enum[0]",
		},
		{form(`"a":{"default":"@"}`), "inputRequests.*.params.requestedSchema.properties.*.default"},
		{form(`"a":{"pattern":"@"}`), "inputRequests.*.params.requestedSchema.properties.*.pattern"},
		{form(`"a":{"format":"@"}`), "inputRequests.*.params.requestedSchema.properties.*.format"},
		{form(`"a":{"x-hint":"@"}`), "inputRequests.*.params.requestedSchema.properties.*.*"},
		{`{"resultType":"task","task":{"status":"@"}}`, "task.status"},
	} {
		dirty := strings.ReplaceAll(c.result, "@", dirt)
		_, report, err := sanitize.Policy{}.Result(object(t, dirty))
		wantHidden(t, c.result, err, c.place)
		if report[sanitize.FlaggedKey]+report[sanitize.FlaggedURI] != 1 {
			t.Errorf("%s: report %v, want one that is flagged", c.result, report)
		}
		result := object(t, dirty)
		if same, _, err := (sanitize.Policy{HiddenText: sanitize.Off}).Result(result); err != nil ||
			!sameBytes(result, same) {
			t.Errorf("%s: with the rule off: got %s, %v", c.result, same.JSON(), err)
		}
		clean := object(t, strings.ReplaceAll(c.result, "@", "x"))
		if _, report, err := (sanitize.Policy{}).Result(clean); err != nil || report != nil {
			t.Errorf("%s: nothing hidden: got %v, %v", c.result, report, err)
		}
	}
}

// question returns a result with one question whose params have these members.
func question(members string) string {
	return `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{` +
		members + `}}}}`
}

// form returns a result that asks for a form with these properties.
func form(properties string) string {
	return question(`"message":"","requestedSchema":{"type":"object","properties":{` + properties + `}}`)
}

func TestTextsOfFormsAreCleaned(t *testing.T) {
	for _, result := range []string{
		question(`"message":"@"`),
		form(`"a":{"title":"@","description":"@","type":"string"}`),
		form(`"title":{"type":"string","enum":["title"],"enumNames":["@"]}`),
		form(`"a":{"oneOf":[{"const":"title","title":"@"}],"default":"title"}`),
		form(`"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"@"}]}}`),
		question(`"requestedSchema":{"title":"@","description":"@"}`),
	} {
		cleaned, report, err := sanitize.Policy{}.Result(object(t, strings.ReplaceAll(result, "@", dirt)))
		want := object(t, strings.ReplaceAll(result, "@", "abcde")).JSON()
		if got := cleaned.JSON(); err != nil || string(got) != string(want) ||
			report.Total() != 4*strings.Count(result, "@") {
			t.Errorf("got  %+q, %v, %v\nwant %+q", got, report, err, want)
		}
	}
}

func TestTheSamePlaceIsToldEachTime(t *testing.T) {
	result := object(
		t, strings.ReplaceAll(
			`{"structuredContent":{"@":1},"content":[{"text":"@"},{"type":"resource_link","uri":"@"}],"messages":[{"role":"@"}]}`, "@", dirt))
	for range 50 {
		_, _, err := sanitize.Policy{}.Result(result)
		wantHidden(t, "several places", err, "the name of a member of structuredContent")
	}
}

// TestALongPlaceIsCut hides text deep within a result.
func TestALongPlaceIsCut(t *testing.T) {
	const levels = 60
	deep := strings.Repeat("[", levels) + `{"` + dirt + `":1}` + strings.Repeat("]", levels)
	_, _, err := sanitize.Policy{}.Result(object(t, `{"structuredContent":`+deep+`}`))
	wantHidden(t, "many arrays", err, "structuredContent"+strings.Repeat("[0]", 48)+"…")
}

func TestNotificationWithHiddenTextThatIsNotEditedIsRefused(t *testing.T) {
	for _, c := range []struct{ params, place string }{
		{`{"level":"@","data":""}`, "level"},
		{`{"progressToken":"@","progress":1}`, "progressToken"},
		{`{"level":"info","data":{"a":{"@":1}}}`, "the name of a member of data.*"},
		{
			`{"level":"info","data":"","_meta":{"io.modelcontextprotocol/subscriptionId":"@"}}`,
			"_meta.io.modelcontextprotocol/subscriptionId",
		},
	} {
		_, _, err := sanitize.Policy{}.Notification(object(t, strings.ReplaceAll(c.params, "@", dirt)))
		wantHidden(t, c.params, err, c.place)
	}
}

func TestErrorLosesDataThatHidesTextWhereItIsNotEdited(t *testing.T) {
	for _, e := range []*mcp.Error{
		{Code: 1, Message: "m", Data: mcp.RawJSON(`{"a":{"` + dirt + `":1}}`)},
		{Code: mcp.CodeURLElicitation, Message: "m", Data: mcp.RawJSON(`{"elicitations":[{"url":"https://x/` +
			dirt + `"}]}`)},
	} {
		cleaned, report := sanitize.Policy{}.Error(e)
		if cleaned.Data != nil || cleaned.Message != "m" || cleaned.Code != e.Code || report.Total() != 1 {
			t.Errorf("%s: got %s, %v", e.Data, cleaned.Data, report)
		}
	}
}
