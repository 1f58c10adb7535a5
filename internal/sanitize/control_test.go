package sanitize_test

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// sequences returns whole escape sequences, each of which must go without a trace.
func sequences() []string {
	return []string{
		"\x1b[0m", "\x1b[1;31m", "\x1b[38;2;255;0;0m", "\x1b[2J", "\x1b[?25l", "\x1b[>4;2m", "\x1b[4 q",
		"\x1b[200~",
		"\x1b(B", "\x1b)0", "\x1b#8", "\x1b%G", "\x1b c", "\x1bc", "\x1b7", "\x1b=", "\x1bM", "\x1b\\",
		"\x1b]0;title\x07", "\x1b]8;;https://a.example/\x1b\\", "\x1b]8;;\x07", "\x1b]52;c;cm0gLXJm\x07",
		"\x1b]0;título\x1b\\",
		"\x1bP1$r0m\x1b\\", "\x1bX sos \x1b\\", "\x1b^ pm \x1b\\", "\x1b_ apc \x1b\\", "\x1b]0;x\x18",
		"\x1bPq\x1a",
		"\x1b]0;a\u009c", "\x1b\x1b[0m", "\x1b[\x1b[0m",
	}
}

func TestT33EscapeSequencesGoWhole(t *testing.T) {
	for _, sequence := range sequences() {
		got, report := cleanText(t, sanitize.Policy{}, "a "+sequence+"Zb\n")
		if got != "a Zb\n" || report[sanitize.Escape] == 0 {
			t.Errorf("%+q: got %+q, %v", sequence, got, report)
		}
	}
}

func TestT33BrokenSequencesGoAsFarAsTheyReach(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a\x1b", "a"},
		{"a\x1b[", "a"},
		{"a\x1b[31", "a"},
		{"a\x1b[31\nb", "a\nb"},
		{"a\x1b[31é", "aé"},
		{"a\x1b\nb", "a\nb"},
		{"a\x1bé", "aé"},
		{"a\x1b]0;title", "a"},
		{"a\x1b]0;title\nnext line", "a\nnext line"},
		{"a\x1b]8;;http://x\x1b[31mb", "ab"},
		{"a\x1b]0;title\x1b", "a"},
		{"a\x1bP\r\nb", "a\r\nb"},
		{"a\u009b", "a"},
		{"a\u009b31mb", "a31mb"},
		{"a\u009d0;x\u009cb", "a0;xb"},
		{"a\u0085b\u0080c", "abc"},
		{"a\x00b\x08c\x7fd\x0be", "abcde"},
		{"1\x0c2\r\n\x0c3", "1\x0c2\r\n\x0c3"},
		{"a\tb\r\nc\n", "a\tb\r\nc\n"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b]8;;https://evil.example\x07click\x1b]8;;\x07", "click"},
		{"gh\x1b[0mp_" + ghp()[4:], "[REDACTED:github-pat]"},
	} {
		got, _ := cleanText(t, sanitize.Policy{}, c.text)
		if got != c.want {
			t.Errorf("%+q: got %+q, want %+q", c.text, got, c.want)
		}
	}
}

// TestTextDecodedWronglyStaysReadable holds for UTF-8 that was taken for Latin-1: its
// bytes 0x80 to 0x9F are then control characters, of which some begin control strings.
func TestTextDecodedWronglyStaysReadable(t *testing.T) {
	for text, want := range map[string]string{
		"Great 👍 news for everyone":          "Great ð news for everyone",
		"he said “yes” and left, “but” late": "he said âyesâ and left, âbutâ late",
		"Zitra děti": "Zitra dÄti",
	} {
		var wrong strings.Builder
		for i := range len(text) {
			wrong.WriteRune(rune(text[i]))
		}
		if got, _ := cleanText(t, sanitize.Policy{}, wrong.String()); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
