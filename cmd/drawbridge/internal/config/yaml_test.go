package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLargeFileIsRefusedUnread(t *testing.T) {
	_, err := parseConfig("big.yaml", bytes.Repeat([]byte("# x\n"), maxPartBytes/4+1), testEnvironment)
	if got, want := errorText(err),
		"big.yaml:1:1: the file is larger than 1 MiB; put tenants into other files, and name these under include"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDeepNestingIsRefusedQuickly(t *testing.T) {
	var steps strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&steps, "%*sa:\n", i, "")
	}
	for _, text := range []string{
		strings.Repeat("[", 1<<16), strings.Repeat("{a: ", 1<<16), strings.Repeat("- ", 1<<16),
		strings.Repeat("? ", 1<<16), strings.Repeat("!a ", 1<<16),
		steps.String(), strings.ReplaceAll(steps.String(), "a:", "- "), "[" + strings.Repeat("a: ", 1<<17),
		"[" + strings.Repeat("\na: b", 1<<17), "a: " + strings.Repeat("a: ", 1<<17),
		"{" + strings.Repeat("a, ", 1<<17) + "}", "{" + strings.Repeat("a:, ", 1<<17) + "}",
		strings.Repeat("-\n", 1<<17), "a: \"" + strings.Repeat("\t", 1<<17), strings.Repeat("@ ", 1<<17),
	} {
		if _, err := parseConfig("deep.yaml", []byte(text), testEnvironment); err == nil {
			t.Errorf("%.10q… accepted", text)
		}
	}
}

// TestNestingIsCountedInLevels: a long line is not deep, and 32 levels are not too many.
func TestNestingIsCountedInLevels(t *testing.T) {
	var list, steps strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, "x%d.example, ", i)
	}
	cfg := parse(t, "allowed_hosts: ["+list.String()+"]\n"+minimal)
	if got := len(cfg.AllowedHosts); got != 10_000 {
		t.Errorf("a list on one long line: got %d hosts, want 10,000", got)
	}
	for levels := range 40 {
		fmt.Fprintf(&steps, "%*sa:\n", 10*levels, "")
		_, err := parseConfig("steps.yaml", []byte(steps.String()), testEnvironment)
		if got, want := strings.Contains(err.Error(), "levels deep"), levels >= maxConfigDepth; got != want {
			t.Errorf("%d levels of indentation: too deep %t, want %t", levels+1, got, want)
		}
	}
}

// TestPiecesSayWhatTheWholeSays: a file that is divided among several runs of the parser
// is read as by one.
func TestPiecesSayWhatTheWholeSays(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "testdata/good.yaml", "testdata/full.yaml", "testdata/issues.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read := func(most int) (*node, []Problem) {
			r := newReader(file, data, nil, testEnvironment)
			tokens, err := scan(string(data))
			if err != nil {
				t.Fatal(err)
			}
			if !r.checkTokens(tokens) || len(r.oneDocument(tokens)) == 0 {
				return nil, nil
			}
			return r.block(r.oneDocument(tokens), most), r.problems
		}
		pieces, found := read(1)
		whole, want := read(len(data))
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s: problems (-whole +pieces):\n%s", file, diff)
		}
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(node{}, member{})); diff != "" &&
			len(want) == 0 {
			t.Errorf("%s: nodes (-whole +pieces):\n%s", file, diff)
		}
	}
}

// TestPiecesAreNoMoreLenientThanTheWhole: what the parser refuses in a small file is
// refused in a large one.
func TestPiecesAreNoMoreLenientThanTheWhole(t *testing.T) {
	for _, text := range []string{
		"ten\rants:\n  a: {b: 1}\n", "tenants\n:\n  a: {b: 1}\n",
		"tenants:\n{\n a: 1\n}\n",
	} {
		for _, most := range []int{1, len(text)} {
			r := newReader("pieces.yaml", nil, nil, testEnvironment)
			tokens, err := scan(text)
			if err != nil {
				t.Fatal(err)
			}
			if r.checkTokens(tokens) {
				r.block(tokens, most)
			}
			if len(r.problems) == 0 {
				t.Errorf("%q in pieces of %d: no problem", text, most)
			}
		}
	}
}

// TestTabsAreNotLostFromTexts: the library leaves them out of a text without quotes, and
// "read<tab>_all" was read_all.
func TestTabsAreNotLostFromTexts(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a: read\t_all\n", "tabs.yaml:1:4: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"ten\tants: {}\n", "tabs.yaml:1:1: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"a: [1\t2]\n", "tabs.yaml:1:5: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"a: x\t# a comment\t\n", ""},
		{"a:\tx\t\n", ""},
		{"a: [x\t,\ty\t]\n", ""},
		{"a: \"x\ty\"\n", ""},
		{"a: |\n  x\ty\n", ""},
	} {
		r := newReader("tabs.yaml", nil, nil, testEnvironment)
		r.parseYAML([]byte(test.text))
		if got := errorText(RefusedError(r.problems)); len(r.problems) > 0 && got != test.want ||
			len(r.problems) == 0 && test.want != "" {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}

// TestLineBreaksOfWindowsMeanTheSame: the scanner keeps those in a text in quotes that
// are a space or nothing.
func TestLineBreaksOfWindowsMeanTheSame(t *testing.T) {
	const text = "a: \"x\n  y\"\nb: 'x\n\n  y'\nc: x\n  y\nd: |\n  x\n  y\ne: >-\n  x\n  y\nf: [\"x\n  y\", {z: \"x\n  y\"}]\n"
	read := func(text string) *node {
		r := newReader("lines.yaml", nil, nil, testEnvironment)
		n := r.parseYAML([]byte(text))
		if len(r.problems) > 0 {
			t.Fatal(r.problems)
		}
		return n
	}
	if diff := cmp.Diff(read(text), read(strings.ReplaceAll(text, "\n", "\r\n")),
		cmp.AllowUnexported(node{}, member{})); diff != "" {
		t.Errorf("-LF +CRLF:\n%s", diff)
	}
}

// TestManyKeysAreReadInTimeAndStack reads what would take the parser alone minutes, or
// overflow its stack.
func TestManyKeysAreReadInTimeAndStack(t *testing.T) {
	const many = 50_000
	var text strings.Builder
	text.WriteString("a:\n  - b:\n")
	for i := range many {
		fmt.Fprintf(&text, "      k%d:\n", i)
	}
	r := newReader("many.yaml", nil, nil, testEnvironment)
	root := r.parseYAML([]byte(text.String()))
	if root == nil {
		t.Fatal(r.problems)
	}
	if got := len(root.member("a").items[0].member("b").members); got != many {
		t.Errorf("got %d keys, want %d", got, many)
	}
}

// addConfigs adds the configs of testdata, good and bad, to what a fuzz test begins with.
func addConfigs(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
}

// FuzzPieces reads texts in the smallest pieces and as a whole: both are refused, or both
// are the same.
func FuzzPieces(f *testing.F) {
	addConfigs(f)
	f.Add(
		"a:\n- |\n  # b\n  c: d\n- \"e\n  f: g\"\n- h\n  i # j\n- [k,\n  {l: m}]\nn:\n  - - o: p\n      q:\n  -\n    r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16<<10 {
			return // the parser alone would take too long
		}
		read := func(most int) (*node, bool) {
			r := newReader("fuzz.yaml", nil, nil, testEnvironment)
			tokens, err := scan(text)
			if err != nil || !r.checkTokens(tokens) {
				return nil, false
			}
			if tokens = r.oneDocument(tokens); len(tokens) == 0 {
				return nil, false
			}
			n := r.block(tokens, most)
			return n, n != nil && len(r.problems) == 0
		}
		whole, taken := read(len(text))
		pieces, inPieces := read(1)
		if taken != inPieces {
			t.Fatalf("taken as a whole: %t, in pieces: %t", taken, inPieces)
		}
		// it has no place of its own
		missing := cmp.FilterValues(func(a,
			b *node,
		) bool {
			return a != nil && b != nil && a.kind == null && b.kind == null
		}, cmp.Ignore())
		if !taken {
			return
		}
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(node{}, member{}), missing); diff != "" {
			t.Fatalf("-whole +pieces:\n%s", diff)
		}
	})
}
