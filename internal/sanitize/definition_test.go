package sanitize_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

func TestT33DefinitionsAreCleanedStrictly(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		report           sanitize.Report
	}{
		{"tags", "Adds.\U000E0069\U000E0067", "Adds.", sanitize.Report{sanitize.Hidden: 2}},
		{
			"flag", "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", "🏴",
			sanitize.Report{sanitize.Hidden: 6},
		},
		{"joiner between emoji", "👩\u200d👧", "👩👧", sanitize.Report{sanitize.Hidden: 1}},
		{"non-joiner in Persian", "می\u200cخ", "میخ", sanitize.Report{sanitize.Hidden: 1}},
		{"marks and isolates", "א\u200f\u2068ב\u2069", "אב", sanitize.Report{sanitize.Hidden: 3}},
		{"private use", "a\ue000b\U0010FFFD", "ab", sanitize.Report{sanitize.Hidden: 2}},
		{"visible format character", "\u0600", "", sanitize.Report{sanitize.Hidden: 1}},
		{"fillers", "a\u3164\u034fb", "ab", sanitize.Report{sanitize.Hidden: 2}},
		{"selector behind an emoji", "❤\ufe0f 1\ufe0f\u20e3", "❤\ufe0f 1\ufe0f\u20e3", nil},
		{"selectors elsewhere", "x\ufe0f\U000E0100", "x", sanitize.Report{sanitize.Hidden: 2}},
		{"escape sequence", "a\x1b[8mb\x1b[0m", "ab", sanitize.Report{sanitize.Escape: 2}},
		{"controls", "a\x00b\u0085c\x7f", "abc", sanitize.Report{sanitize.Control: 3}},
		{"carriage return over a line", "evil\rgood", "evilgood", sanitize.Report{sanitize.Control: 1}},
		{"carriage return at the end", "a\r", "a", sanitize.Report{sanitize.Control: 1}},
		{"line ends", "a\r\nb\tc\n", "a\r\nb\tc\n", nil},
		{"secret", "Use " + ghp() + ".", "Use [REDACTED:github-pat].", sanitize.Report{sanitize.Secret: 1}},
		{"plain", "Reads “files” – naïvely. 漢字 👍🏽", "Reads “files” – naïvely. 漢字 👍🏽", nil},
	} {
		for _, raw := range []mcp.RawJSON{mcp.String(c.text), escapeAll(c.text)} {
			definition := object(t, `{"name":"add","description":`+string(raw)+`}`)
			cleaned, report := cleanDefinition(definition)
			if got := cleaned.Text("description"); got != c.want || !maps.Equal(report, c.report) {
				t.Errorf("%s: got %+q, %v, want %+q, %v", c.name, got, report, c.want, c.report)
			}
			if c.report == nil && !sameBytes(definition, cleaned) {
				t.Errorf("%s: got %s, want the same object", c.name, cleaned.JSON())
			}
		}
	}
}

func TestT33EveryTextOfADefinitionIsCleaned(t *testing.T) {
	for _, frame := range []string{
		`{"title":"@"}`, `{"description":"@"}`, `{"annotations":{"title":"@"},"inputSchema":{}}`,
		`{"arguments":[{"name":"n","title":"@","description":"@"}]}`,
		`{"inputSchema":{"description":"@","title":"@"}}`,
		`{"inputSchema":{"properties":{"description":{"type":"string","description":"@"}}}}`,
		`{"inputSchema":{"$defs":{"enum":{"description":"@"}},"patternProperties":{"^x":{"title":"@"}}}}`,
		`{"inputSchema":{"anyOf":[{"not":{"description":"@"}}],"items":{"items":[{"description":"@"}]}}}`,
		`{"inputSchema":{},"outputSchema":{"properties":{"a":{"additionalProperties":{"description":"@"}}}}}`,
		`{"name":"n","title":"@","arguments":[{"name":"n","title":"@","description":"@","required":true}]}`,
		`{"uri":"a:b","name":"n","title":"@","description":"@","size":7}`,
		`{"uriTemplate":"a:{b}","name":"n","title":"@","description":"@"}`,
	} {
		cleaned, report := cleanDefinition(object(t, strings.ReplaceAll(frame, "@", dirt)))
		want := object(t, strings.ReplaceAll(frame, "@", "abcde")).JSON()
		if got := cleaned.JSON(); string(got) != string(want) {
			t.Errorf("got  %+q\nwant %+q", got, want)
		}
		if n := strings.Count(frame, "@"); report.Total() != 4*n || report[sanitize.FlaggedKey] != 0 {
			t.Errorf("%s: report %v", frame, report)
		}
	}
}

func TestT33WhatHasAMeaningInADefinitionIsFlagged(t *testing.T) {
	for _, c := range []struct {
		definition string
		kind       sanitize.Kind
	}{
		{`{"name":"@"}`, sanitize.FlaggedKey},
		{`{"arguments":[{"name":"@"}]}`, sanitize.FlaggedKey},
		{`{"uri":"a:b","annotations":{"@":1}}`, sanitize.FlaggedKey},
		{`{"uri":"file:///@","name":"n","size":7}`, sanitize.FlaggedURI},
		{`{"uriTemplate":"file:///{@}","name":"n"}`, sanitize.FlaggedURI},
		{`{"uri":"javascript:@","name":"n"}`, sanitize.FlaggedURI},
		{`{"@":"x"}`, sanitize.FlaggedKey},
		{`{"annotations":{"@":1}}`, sanitize.FlaggedKey},
		{`{"_meta":{"x/y":["@"]}}`, sanitize.FlaggedKey},
		{`{"future":{"x":"@"}}`, sanitize.FlaggedKey},
		{`{"arguments":[{"name":"n","_meta":{"x/y":"@"}}]}`, sanitize.FlaggedKey},
		{`{"uri":"a:b","name":"@"}`, sanitize.FlaggedKey},
		{`{"uri":"a:b","mimeType":"@"}`, sanitize.FlaggedKey},
		{`{"uri":"a:b","annotations":{"audience":["@"]}}`, sanitize.FlaggedKey},
		{`{"uriTemplate":"a:{b}","annotations":{"x":"@"}}`, sanitize.FlaggedKey},
		{`{"icons":[{"src":"https://x","sizes":["@"]}]}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"x-note":{"deep":"@"}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"examples":["@"]}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"$comment":"@"}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"$id":"@"}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"@":{}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"a":{"enum":["@"]}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"a":{"enum":[{"description":"@"}]}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"a":{"const":"@"}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"a":{"default":{"x":"@"}}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"properties":{"a":{"pattern":"@"}}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"required":["@"]}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"dependencies":{"a":["@"]}}}`, sanitize.FlaggedKey},
		{`{"inputSchema":{"$ref":"#/$defs/@"}}`, sanitize.FlaggedKey},
		{`{"uri":"file:///@"}`, sanitize.FlaggedURI},
		{`{"uriTemplate":"file:///{@}"}`, sanitize.FlaggedURI},
		{`{"icons":[{"src":"https://@"}]}`, sanitize.FlaggedURI},
	} {
		for _, text := range []string{dirt, ghp(), "\ue000"} {
			definition := object(t, strings.ReplaceAll(c.definition, "@", text))
			cleaned, report := cleanDefinition(definition)
			if !sameBytes(definition, cleaned) || !maps.Equal(report, sanitize.Report{c.kind: 1}) {
				t.Errorf("%s: got %+q, %v, want it unchanged and 1 %s", c.definition, cleaned.JSON(), report,
					c.kind)
			}
		}
	}
}
