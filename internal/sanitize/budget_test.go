package sanitize_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

func marker(n int) string { return fmt.Sprintf("… [truncated by drawbridge: %d bytes left out]", n) }

func TestTextIsCutWhereItPassesTheLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		max   int
		texts []string
		want  []string
		cuts  int
	}{
		{"fits exactly", 6, []string{"abc", "def"}, []string{"abc", "def"}, 0},
		{"one too many", 5, []string{"abc", "def"}, []string{"abc", "de" + marker(1)}, 1},
		{"later texts are empty", 4, []string{"abcdef", "gh", "", "ijk"}, []string{
			"abcd" + marker(2+2+3), "",
			"", "",
		}, 3},
		{"room used up", 3, []string{"abc", "def"}, []string{"abc", marker(3)}, 1},
		{"between code points", 4, []string{"日本語"}, []string{"日" + marker(6)}, 1},
		{"behind the last whole one", 8, []string{"日本語"}, []string{"日本" + marker(3)}, 1},
		{"escapes count as what they stand for", 4, []string{"\"\n\\\t"}, []string{"\"\n\\\t"}, 0},
		{"counted after cleaning", 4, []string{"a\u200bb\u200bc\u200bd"}, []string{"abcd"}, 0},
		{
			"no joiner is left at the cut", len("می") + 3,
			[]string{"می\u200cخواهم"},
			[]string{"می" + marker(len("خواهم")+3)},
			1,
		},
		{
			"no secret appears at the cut", 4 + 36,
			[]string{"npm" + "_" + chance(word, 336)},
			[]string{"[REDACTED:npm-token]" + marker(4+336-20)},
			1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var blocks []mcp.RawJSON
			for _, text := range c.texts {
				blocks = append(blocks, mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")},
					mcp.Member{Name: "text", Value: mcp.String(text)}).JSON())
			}
			p := sanitize.Policy{MaxText: c.max}
			cleaned, report, err := p.Result(mcp.NewObject(mcp.Member{
				Name:  "content",
				Value: mcp.Array(blocks),
			}))
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, cleaned.JSON())
			got, _ := cleaned.Value("content").Elements()
			for i, raw := range got {
				block, _ := mcp.ObjectOf(raw)
				if text := block.Text("text"); text != c.want[i] || !utf8.ValidString(text) {
					t.Errorf("block %d: got %q, want %q", i, text, c.want[i])
				}
			}
			if report[sanitize.Truncated] != c.cuts {
				t.Errorf("report %v, want %d cuts", report, c.cuts)
			}
			again, report, err := p.Result(cleaned)
			if err != nil || report != nil || !sameBytes(cleaned, again) {
				t.Errorf("cut twice: got %s, %v, %v, want %s", again.JSON(), report, err, cleaned.JSON())
			}
		})
	}
}

func TestTextsOfResourcesAndPromptsCount(t *testing.T) {
	for _, text := range []string{
		`{"contents":[{"uri":"a:b","text":"abcdef"}]}`,
		`{"content":[{"type":"resource","resource":{"uri":"a:b","text":"abcdef"}}]}`,
		`{"messages":[{"role":"user","content":{"type":"text","text":"abcdef"}}]}`,
		`{"content":[{"type":"unknown","text":"abcdef"}]}`,
		`{"content":[{"type":"unknown","data":"abcdef"}]}`,
	} {
		cleaned, report, err := sanitize.Policy{MaxText: 4}.Result(object(t, text))
		want := strings.Replace(text, "abcdef", "abcd"+marker(2), 1)
		if got := string(cleaned.JSON()); err != nil || got != want || report.Total() != 1 {
			t.Errorf("got %s, %v, %v, want %s", got, report, err, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  sanitize.Policy
		result  string
		want    error
		setting string // what was exceeded
		limit   int
	}{
		{
			"structured content",
			sanitize.Policy{MaxText: 20},
			`{"structuredContent":{"a":"0123456789012"}}`,
			sanitize.ErrTooLarge, "max_text", 20,
		},
		{
			"structured content at the limit",
			sanitize.Policy{MaxText: 20},
			`{"structuredContent":{"a":"012345678901"}}`, nil, "", 0,
		},
		{
			"structured content that shrinks",
			sanitize.Policy{MaxText: 20},
			`{"structuredContent":{"a":"01234567890\u200b"}}`, nil, "", 0,
		},
		{
			"image",
			sanitize.Policy{MaxBinary: 4},
			`{"content":[{"type":"image","data":"AAAAA"}]}`,
			sanitize.ErrTooLarge, "max_binary", 4,
		},
		{
			"image at the limit",
			sanitize.Policy{MaxBinary: 4},
			`{"content":[{"type":"image","data":"AAAA"}]}`,
			nil, "", 0,
		},
		{
			"blob",
			sanitize.Policy{MaxBinary: 4},
			`{"contents":[{"uri":"a:b","blob":"AAAAA"}]}`,
			sanitize.ErrTooLarge, "max_binary", 4,
		},
		{"default", sanitize.Policy{}, `{"content":[{"type":"image","data":"` + strings.Repeat("A", 8<<20+1) +
			`"}]}`, sanitize.ErrTooLarge, "max_binary", 8 << 20},
		{"default for structured content", sanitize.Policy{}, `{"structuredContent":"` + strings.Repeat("A",
			1<<20) + `"}`, sanitize.ErrTooLarge, "max_text", 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := c.policy.Result(object(t, c.result))
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if size, ok := errors.AsType[*sanitize.SizeError](err); ok &&
				(size.Setting != c.setting || size.Limit != c.limit) {
				t.Errorf("got the limit %s of %d, want %s of %d", size.Setting, size.Limit, c.setting,
					c.limit)
			}
		})
	}
}

// TestTooLargeInATask shows that the result within a task has the limits of a result.
func TestTooLargeInATask(t *testing.T) {
	for result, want := range map[string]error{
		`{"structuredContent":{"a":"0123456789012"}}`:                             sanitize.ErrTooLarge,
		`{"structuredContent":{"a":"012345678901"}}`:                              nil,
		`{"content":[{"type":"image","data":"` + strings.Repeat("A", 44) + `"}]}`: sanitize.ErrTooLarge,
	} {
		state := object(t, `{"taskId":"1","status":"completed","result":`+result+`}`)
		if _, _, err := (sanitize.Policy{MaxText: 20, MaxBinary: 40}).Task(state); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", result, err, want)
		}
	}
}

func TestDefaultLimitOfText(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 1<<16)
	if got, report := cleanText(t, sanitize.Policy{}, text); got != text || report != nil {
		t.Errorf("1 MiB of text was changed: %v", report)
	}
	got, report := cleanText(t, sanitize.Policy{}, text+"12345")
	if want := text + marker(5); got != want || report[sanitize.Truncated] != 1 {
		t.Errorf("got the end %q, want %q", got[max(0, len(got)-60):], marker(5))
	}
}

func TestNotificationsHaveNoLimits(t *testing.T) {
	params := object(t, `{"data":{"x":"`+strings.Repeat("a", 2<<20)+`"},"content":{"type":"text","text":"`+
		strings.Repeat("a", 2<<20)+`"}}`)
	if cleaned, report, err := (sanitize.Policy{MaxText: 1}).Notification(params); err != nil ||
		report != nil || !sameBytes(params, cleaned) {
		t.Errorf("report %v", report)
	}
}
