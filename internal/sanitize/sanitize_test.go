package sanitize_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// dirt holds a hidden character, literally and as an escape, an escape sequence and a
// control.
const dirt = `a\u202eb` + "\u200b" + `c\u001b[31md\u0007e`

func TestT12EveryPlaceOfAResultIsCleaned(t *testing.T) {
	for _, c := range []struct{ name, result string }{
		{"text of a block", `{"content":[{"type":"text","text":"@"}]}`},
		{"type behind text", `{"content":[{"text":"@","type":"text"}]}`},
		{"annotations of a block", `{"content":[{"type":"text","text":"","annotations":{"note":"@"}}]}`},
		{"metadata of a block", `{"content":[{"type":"image","data":"","mimeType":"image/png","_meta":{"x/y":["@"]}}]}`},
		{"data of a text block", `{"content":[{"type":"text","text":"","data":"@"}]}`},
		{"data that is no base64", `{"content":[{"type":"image","data":"@"}]}`},
		{
			"data that ends in a quote",
			`{"content":[{"type":"image","data":"AA\""},{"type":"text","text":"@"}]}`,
		},
		{"data in contents", `{"contents":[{"uri":"a:b","data":"@","blob":"@"}]}`},
		{
			"data of a block of an unknown type",
			`{"content":[{"type":"hologram","data":"@","blob":"@","id":"@","uri":"@"}]}`,
		},
		{
			"members of other types",
			`{"nextCursor":"@","cursor":"@","id":"@","taskId":"@","requestState":"@","requestedSchema":{"const":"@"},"task":{"taskId":"@"}}`,
		},
		{
			"members of other blocks",
			`{"content":[{"type":"text","text":"","uri":"@","id":"@","toolUseId":"@","resource":{"uri":"@"}}]}`,
		},
		{
			"call within the result of a tool",
			`{"content":[{"type":"tool_use","id":"@","name":"@","input":{"id":"@"}}]}`,
		},
		{
			"text of an embedded resource",
			`{"content":[{"type":"resource","resource":{"uri":"a:b","text":"@"}}]}`,
		},
		{"name of a link", `{"content":[{"type":"resource_link","uri":"a:b","name":"@"}]}`},
		{
			"description of a link",
			`{"content":[{"type":"resource_link","uri":"a:b","name":"n","description":"@"}]}`,
		},
		{"unknown block", `{"content":[{"type":"hologram","caption":{"x":"@"}}]}`},
		{
			"block within a block",
			`{"content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"@"}]}]}`,
		},
		{"structured content", `{"structuredContent":{"rows":[{"cell":"@"}]}}`},
		{
			"data in structured content",
			`{"structuredContent":{"data":"@","blob":"@","uri":"@","id":"@","requestState":"@"}}`,
		},
		{"structured text", `{"structuredContent":"@"}`},
		{"metadata", `{"_meta":{"example.com/note":"@"}}`},
		{"contents of a resource", `{"contents":[{"uri":"a:b","text":"@"}]}`},
		{"message of a prompt", `{"messages":[{"role":"user","content":{"type":"text","text":"@"}}]}`},
		{
			"messages of a prompt",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"@"}]}],"description":"@"}`,
		},
		{"completion", `{"completion":{"values":["x","@"]}}`},
		{"instructions", `{"instructions":"@","serverInfo":{"name":"@","title":"@"}}`},
		{"question", `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"@","requestedSchema":{}}}}}`},
		{"sampling", `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"systemPrompt":"@","messages":[{"role":"user","content":{"type":"text","text":"@"}}]}}}}`},
		{"sampling with tools", `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"@"}]}]}],"tools":[{"name":"n","description":"@","inputSchema":{"properties":{"a":{"description":"@"}}}}]}}}}`},
		{"several questions", `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://x/","message":"@"}},"b":{"method":"roots/list"},"c":{"method":"elicitation/create","params":{"message":"@"}}},"requestState":"s"}`},
		{"several contents", `{"contents":[{"uri":"a:b","mimeType":"text/plain","text":"@"},{"uri":"a:c","blob":"AAAA","_meta":{"x/y":"@"}}]}`},
		{
			"resource in a prompt",
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b","text":"@"}}},{"role":"assistant","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}]}`,
		},
		{"completion with a total", `{"completion":{"values":["@"],"total":1,"hasMore":false}}`},
		{"member nobody knows", `{"future":{"content":[["@"]]}}`},
		{"spaced out", `{"content" : [ { "type" : "text" , "text" : "@" } , 1 , -2.5e3 , true , null , { } , [ ] ] }`},
		{"escaped name", `{"content":[{"\u0074ype":"text","te\u0078t":"@"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleaned, report, err := sanitize.Policy{}.Result(object(t,
				strings.ReplaceAll(c.result, "@", dirt)))
			if err != nil {
				t.Fatal(err)
			}
			want := object(t, strings.ReplaceAll(c.result, "@", "abcde")).JSON()
			if got := cleaned.JSON(); string(got) != string(want) {
				t.Errorf("got  %+q\nwant %+q", got, want)
			}
			n := strings.Count(c.result, "@")
			if want := (sanitize.Report{
				sanitize.Hidden: 2 * n, sanitize.Escape: n,
				sanitize.Control: n,
			}); !maps.Equal(report, want) {
				t.Errorf("report %v, want %v", report, want)
			}
		})
	}
}

func TestT12NotificationsAreCleaned(t *testing.T) {
	for _, c := range []struct{ name, params string }{
		{"progress", `{"progressToken":"t","progress":1,"message":"@"}`},
		{"log", `{"level":"info","logger":"@","data":{"text":"@","data":"@"}}`},
		{"log of a text", `{"level":"info","data":"@"}`},
		{"question", `{"message":"@","requestedSchema":{"type":"object"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleaned, report, _ := sanitize.Policy{}.Notification(object(t,
				strings.ReplaceAll(c.params, "@", dirt)))
			want := object(t, strings.ReplaceAll(c.params, "@", "abcde")).JSON()
			if got := cleaned.JSON(); string(got) != string(want) {
				t.Errorf("got  %+q\nwant %+q", got, want)
			}
			if report.Total() != 4*strings.Count(c.params, "@") {
				t.Errorf("report %v", report)
			}
		})
	}
}

func TestT12ErrorsAreCleaned(t *testing.T) {
	e := &mcp.Error{
		Code: -32603, Message: "no \u202e\x1b[31mfile " + ghp(),
		Data: mcp.RawJSON(`{"hint":"` + dirt + `"}`),
	}
	cleaned, report := sanitize.Policy{}.Error(e)
	if want := "no file [REDACTED:github-pat]"; cleaned.Message != want || cleaned.Code != e.Code {
		t.Errorf("got %d %+q, want %+q", cleaned.Code, cleaned.Message, want)
	}
	if want := `{"hint":"abcde"}`; string(cleaned.Data) != want {
		t.Errorf("data %+q, want %q", cleaned.Data, want)
	}
	if report[sanitize.Secret] != 1 || report[sanitize.Hidden] != 3 || report[sanitize.Escape] != 2 {
		t.Errorf("report %v", report)
	}
	if !strings.Contains(e.Message, "\u202e") {
		t.Error("the upstream's error itself was changed")
	}

	fine := &mcp.Error{Code: 1, Message: "naïve “quotes”", Data: mcp.RawJSON(`[1,"ü"]`)}
	if same, report := (sanitize.Policy{}).Error(fine); same != fine || report != nil {
		t.Errorf("a clean error came back as %v with %v", same, report)
	}
}

func TestExemptMembersKeepTheirBytes(t *testing.T) {
	const key = "AKIA" + "2222333344445555"
	for _, c := range []struct{ name, result string }{
		{"base64", `{"content":[{"type":"image","data":"AAA+/w==","mimeType":"image/png"},{"type":"audio","data":"AA-_"}]}`},
		{
			"base64 without padding",
			`{"content":[{"type":"image","data":"AAAAAA"},{"type":"audio","data":"AA-_A"}]}`,
		},
		{"long base64 for URLs", `{"contents":[{"uri":"a:b","blob":"` + strings.Repeat("AA-_", 256) + "-" +
			ghp() + `=="}]}`},
		{"blob", `{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"` + key + `"}}]}`},
		{"blob of contents", `{"contents":[{"uri":"a:b","blob":"` + key + `"}]}`},
		{"image in a prompt", `{"messages":[{"role":"user","content":{"type":"image","data":"` + key +
			`","mimeType":"image/png"}}]}`},
		{"state, which the gateway seals", `{"resultType":"input_required","requestState":"` + dirt + key +
			`"}`},
		{"id of a task, which the gateway seals", `{"resultType":"task","task":{"taskId":"` + dirt + key +
			`"}}`},
		{"id of a task in the form of the extension", `{"resultType":"task","taskId":"` + dirt + key + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := object(t, c.result)
			cleaned, report, err := sanitize.Policy{Secrets: sanitize.Block}.Result(result)
			if err != nil || report != nil || !sameBytes(result, cleaned) {
				t.Errorf("got %+q, %v, %v, want it unchanged", cleaned.JSON(), report, err)
			}
		})
	}
}

// TestTextIsCleanedWhereBase64Belongs has texts of visible ASCII, which no program can
// decode.
func TestTextIsCleanedWhereBase64Belongs(t *testing.T) {
	for _, text := range []string{"READ_THIS:_@", "READ_THIS: @", "@", "=@", "@==="} {
		for _, form := range []string{
			`{"content":[{"type":"image","data":"@","mimeType":"image/png"}]}`,
			`{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"@"}}]}`,
			`{"contents":[{"uri":"a:b","blob":"@"}]}`,
		} {
			dirty := strings.ReplaceAll(form, "@", strings.ReplaceAll(text, "@", ghp()))
			clean := strings.ReplaceAll(form, "@", strings.ReplaceAll(text, "@", "[REDACTED:github-pat]"))
			cleaned, report, err := sanitize.Policy{}.Result(object(t, dirty))
			if err != nil || report[sanitize.Secret] != 1 ||
				string(cleaned.JSON()) != string(object(t, clean).JSON()) {
				t.Errorf("got %s, %v, %v\nwant %s and one secret", cleaned.JSON(), report, err, clean)
			}
			_, _, err = sanitize.Policy{Secrets: sanitize.Block}.Result(object(t, dirty))
			if !errors.Is(err, sanitize.ErrBlocked) {
				t.Errorf("%s with secrets: block: got %v, want ErrBlocked", dirty, err)
			}
		}
	}
}

func TestSecretsInWhatIsNeverEditedAreCounted(t *testing.T) {
	for _, c := range []struct {
		name, result string
		want         sanitize.Report
	}{
		{
			"URI", `{"content":[{"type":"resource","resource":{"uri":"file:///` + ghp() + `","text":"x"}}]}`,
			sanitize.Report{sanitize.FlaggedURI: 1},
		},
		{
			"name of a member", `{"structuredContent":{"` + ghp() + `":1}}`,
			sanitize.Report{sanitize.FlaggedKey: 1},
		},
		{
			"icon", `{"content":[{"type":"resource_link","uri":"a:b","icons":[{"src":"javascript:x"}]}]}`,
			sanitize.Report{sanitize.FlaggedURI: 1},
		},
		{
			"default of a form",
			`{"resultType":"input_required","inputRequests":{"q":{"params":{"requestedSchema":{"properties":{"a":{"default":"` + ghp() + `"}}}}}}}`,
			sanitize.Report{sanitize.FlaggedKey: 1},
		},
	} {
		result := object(t, c.result)
		cleaned, report, err := sanitize.Policy{}.Result(result)
		if err != nil || !maps.Equal(report, c.want) || !sameBytes(result, cleaned) {
			t.Errorf("%s: got %+q, %v, %v, want it unchanged and %v", c.name, cleaned.JSON(), report, err,
				c.want)
		}
	}
}

func TestDangerousLinkBecomesText(t *testing.T) {
	for _, c := range []struct {
		uri       string
		dangerous bool
	}{
		{`javascript:alert(1)`, true},
		{`JaVaScRiPt:alert(1)`, true},
		{` \u0001javascript:alert(1)`, true},
		{`java\nscr\tipt:alert(1)`, true},
		{`java\u200bscript:alert(1)`, true},
		{`\u202ejavascript:alert(1)`, true},
		{`java` + strings.Repeat(`\t`, 1000) + `script:x`, true},
		{`vbscript:x`, true},
		{`data:text/html;base64,AAAA`, true},
		{`DATA:TEXT/HTML,<script>`, true},
		{`data:image/png;base64,AAAA`, false},
		{`https://a.example/javascript:x`, false},
		{`javascripts://a`, false},
		{`file:///data:text/html`, false},
		{``, false},
	} {
		result := object(t, `{"content":[{"type":"text","text":"before"},{"uri":"`+c.uri+
			`","type":"resource_link","name":"n"},{"type":"text","text":"after"}]}`)
		cleaned, report, err := sanitize.Policy{}.Result(result)
		if err != nil {
			t.Fatal(err)
		}
		checkValid(t, cleaned.JSON())
		blocks, _ := cleaned.Value("content").Elements()
		if len(blocks) != 3 {
			t.Fatalf("%q: %d blocks", c.uri, len(blocks))
		}
		link, _ := mcp.ObjectOf(blocks[1])
		if got := link.Text("type") == "text" && !link.Has("uri"); got != c.dangerous {
			t.Errorf("%q became %s, want dangerous %v", c.uri, blocks[1], c.dangerous)
		}
		if c.dangerous != (report[sanitize.FlaggedURI] == 1) {
			t.Errorf("%q: report %v, want dangerous %v", c.uri, report, c.dangerous)
		}
	}
}

func TestCleanResultIsTheSameObjectWithoutCost(t *testing.T) {
	result := object(
		t, `{"content":[{"type":"text","text":"a \"quoted\"\nline\ttask-1 \\ x_y"},{"type":"text","text":"grüße 漢字 👩‍👩‍👧 می\u200cخواهم"}],`+
			`"structuredContent":{"a":[1,2.5,true,null,{"b":"\/\u00e9"}]},"isError":false,"_meta":{"x/y":1}}`)
	cleaned, report, err := sanitize.Policy{}.Result(result)
	if err != nil || report != nil || !sameBytes(result, cleaned) {
		t.Fatalf("got %s, %v, %v", cleaned.JSON(), report, err)
	}
	// The race detector makes pools forget.
	if n := testing.AllocsPerRun(100, func() { _, _, _ = sanitize.Policy{}.Result(result) }); n >= 1 &&
		!raced {
		t.Errorf("a clean result costs %v allocations", n)
	}
}

func TestUntouchedStringsKeepTheirSpelling(t *testing.T) {
	result := object(
		t, `{"content":[{"type":"text","text":"\u0041\/\u00e9"},{"type":"text","text":"x\u200b"},{"type":"text","text":"\u0042"}],"n":1.50}`)
	cleaned, _, err := sanitize.Policy{}.Result(result)
	want := `{"content":[{"type":"text","text":"\u0041\/\u00e9"},{"type":"text","text":"x"},{"type":"text","text":"\u0042"}],"n":1.50}`
	if got := string(cleaned.JSON()); err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestModes(t *testing.T) {
	const hidden = "a\u200bb\x1b[0m"
	secret := "key " + ghp()
	for _, c := range []struct {
		name   string
		policy sanitize.Policy
		text   string
		want   string
		err    error
	}{
		{
			"all off",
			sanitize.Policy{Secrets: sanitize.Off, HiddenText: sanitize.Off},
			hidden + secret,
			hidden + secret, nil,
		},
		{
			"hidden off",
			sanitize.Policy{HiddenText: sanitize.Off},
			hidden + secret,
			hidden + "key [REDACTED:github-pat]", nil,
		},
		{"secrets off", sanitize.Policy{Secrets: sanitize.Off}, hidden + secret, "ab" + secret, nil},
		{"block without a secret", sanitize.Policy{Secrets: sanitize.Block}, hidden, "ab", nil},
		{"block", sanitize.Policy{Secrets: sanitize.Block}, secret, "", sanitize.ErrBlocked},
		{"hidden text has no block", sanitize.Policy{HiddenText: sanitize.Block}, hidden, "ab", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleaned, _, err := c.policy.Result(textResult(c.text))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if got := textOf(t, cleaned); got != c.want {
				t.Errorf("got %+q, want %+q", got, c.want)
			}
		})
	}
}

func TestBlockSeesSecretsThatAreNotRewritten(t *testing.T) {
	p := sanitize.Policy{Secrets: sanitize.Block}
	for _, text := range []string{
		`{"structuredContent":{"` + ghp() + `":1}}`,
		`{"content":[{"type":"resource_link","name":"n","uri":"https://a.example/?k=` + ghp() + `"}]}`,
	} {
		if _, report, err := p.Result(object(t, text)); !errors.Is(err, sanitize.ErrBlocked) ||
			report.Total() != 1 {
			t.Errorf("%s: got %v, %v, want ErrBlocked", text, report, err)
		}
	}
}

func TestReportTotal(t *testing.T) {
	if n := sanitize.Report(nil).Total(); n != 0 {
		t.Errorf("nil report: got %d", n)
	}
	if n := (sanitize.Report{sanitize.Hidden: 2, sanitize.Secret: 3}).Total(); n != 5 {
		t.Errorf("got %d, want 5", n)
	}
}
