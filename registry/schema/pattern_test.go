package schema_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

func TestPatternsMeanWhatECMAScriptMeans(t *testing.T) {
	for _, test := range []struct {
		pattern    string
		yes, never []string
	}{
		{
			`^\s$`,
			[]string{" ", "\t", "\v", "\u00a0", "\ufeff", "\u2003", "\u2028"},
			[]string{"x", "\u200b", ""},
		},
		{`^\S$`, []string{"x", "\u200b", "🙂"}, []string{" ", "\u00a0", "\u3000"}},
		{`^[\s\S]$`, []string{" ", "\u00a0", "x"}, nil},
		{`^[^\s]$`, []string{"x"}, []string{"\u00a0", "\v"}},
		{`^[\w-\s]+$`, []string{"a-b\u00a0"}, []string{"."}},
		{`^[\s-.]$`, []string{"-", ".", " "}, []string{"/", "x"}},
		{`^.$`, []string{"x", "🙂"}, []string{"\n", "\r", "\u2028", "\u2029"}},
		{`^[.]$`, []string{"."}, []string{"x"}},
		{`^\d\w\b$`, []string{"1a"}, []string{"١a", "1é"}},
		{`^\u0041\x42\u{43}\u{1f642}$`, []string{"ABC🙂"}, []string{"abc🙂"}},
		{`^\0$`, []string{"\x00"}, []string{"0"}},
		{`^[[a]$`, []string{"[", "a"}, []string{":"}},
		{`^[[:a]$`, []string{"[", ":", "a"}, []string{"b"}},
		{`^\/\-\.$`, []string{"/-."}, []string{"x-."}},
		{`^(?:a|b)(?<n>c)$`, []string{"ac", "bc"}, []string{"c"}},
		{`^\p{L}\P{Nd}$`, []string{"éx"}, []string{"é7"}},
		{`a$`, []string{"ba"}, []string{"a\n"}},
		{`é{2}`, []string{"éé"}, []string{"é"}},
	} {
		compiled, _, err := schema.CompilePattern(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, text := range test.yes {
			if !compiled.MatchString(text) {
				t.Errorf("%s does not match %q", test.pattern, text)
			}
		}
		for _, text := range test.never {
			if compiled.MatchString(text) {
				t.Errorf("%s matches %q", test.pattern, text)
			}
		}
	}
}

func TestPatternsThatRE2ReadsDifferentlyAreRefused(t *testing.T) {
	for _, pattern := range []string{
		`\A`, `\z`, `\Z`, `\a`, `\Qa\E`, `\C`, `\1`, `(a)\1`, `\12`, `\07`, `\k<a>`, `\pL`, `\p{^L}`,
		`\x{41}`, `\ud83d`, `\u{110000}`,
		`\u12`, `\xg1`, `[]`, `[^]`, `[\b]`, `(?=a)`, `(?!a)`, `(?<=a)`, `(?<!a)`, `(?i)a`, `(?P<a>b)`,
		`(?#a)`, `\`, `a**`, `(`, `\cA`, `[z-a]`,
	} {
		if compiled, _, err := schema.CompilePattern(pattern); err == nil {
			t.Errorf("%s is read as %s", pattern, compiled)
		}
	}
}

// TestPatternsAreMeasuredAtLeastAsTheyCompile holds for what repeats, since a pattern
// that is within the bound must not be refused.
func TestPatternsAreMeasuredAtLeastAsTheyCompile(t *testing.T) {
	for _, pattern := range []string{
		"(?:[a-z0-9]{1,62}[.]?){16}", "^(?:(?:(?:a?){10}){10}){10}$", "x{0}y{0,0}", "(?:a|b|cd){999}", "(?:[a-z]{1000}){1}",
	} {
		if _, size, err := schema.CompilePattern(pattern); err != nil {
			t.Errorf("%s: got %v, %d instructions", pattern, err, size)
		}
	}
}
