package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	library "github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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

// asTheLibrary compares what is made of a text with what the parser of the library makes
// of it. What is refused here may be good there: it also takes slips for something. It
// returns whether the text was taken.
func asTheLibrary(t *testing.T, file, text string) bool {
	t.Helper()
	r := newReader(file, nil, nil, testEnvironment)
	p := &parser{r: r, file: file}
	tokens, err := scan(text)
	if err != nil || !p.checkTokens(tokens) {
		return false
	}
	if tokens = p.oneDocument(tokens); len(tokens) == 0 {
		return false
	}
	theirs, err := parsedByLibrary(p, slices.Clone(tokens))
	ours := p.document(tokens)
	if (ours == nil) != (len(r.problems) > 0) {
		t.Fatalf("%s: got node %v with problems %v", file, ours, r.problems)
	}
	if ours == nil {
		return false
	}
	if err != nil {
		t.Fatalf("%s: taken here, refused by the library: %v\n%s", file, err, text)
	}
	// what is missing has no place of its own
	missing := cmp.FilterValues(func(a, b *node) bool {
		return a != nil && b != nil && a.kind == null && b.kind == null
	}, cmp.Ignore())
	if diff := cmp.Diff(theirs, ours, cmp.AllowUnexported(node{}, member{}), missing); diff != "" {
		t.Fatalf("%s: nodes (-library +ours):\n%s", file, diff)
	}
	return true
}

// parsedByLibrary has the library parse tokens, few enough for it.
func parsedByLibrary(p *parser, tokens token.Tokens) (root *node, err error) {
	defer contain(&err)
	file, err := library.Parse(tokens, 0, library.AllowDuplicateMapKey())
	if err == nil && (len(file.Docs) != 1 || file.Docs[0].Body == nil) {
		err = errUnreadable
	}
	if err != nil {
		return nil, err
	}
	return convert(p, file.Docs[0].Body), nil
}

// convert makes nodes of the library's syntax tree.
func convert(p *parser, n ast.Node) *node {
	out := p.nodeAt(n.GetToken())
	pair := func(pair *ast.MappingValueNode) {
		key := pair.Key.GetToken()
		out.kind = mapping
		out.members = append(out.members, member{
			name: key.Value, key: p.nodeAt(key), value: convert(p, pair.Value),
		})
		// the library points at the first colon
		out.line, out.col = out.members[0].key.line, out.members[0].key.col
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = mapping
		for _, one := range n.Values {
			pair(one)
		}
	case *ast.MappingValueNode:
		pair(n)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range n.Values {
			out.items = append(out.items, convert(p, item))
		}
	case *ast.NullNode:
		out.kind = null
	case *ast.StringNode:
		p.r.setText(out, n.Value)
	case *ast.LiteralNode:
		p.r.setText(out, n.Value.Value)
	default:
		p.r.setText(out, n.GetToken().Value)
	}
	return out
}

// TestFilesAreReadAsTheLibraryReadsThem has good and bad ones.
func TestFilesAreReadAsTheLibraryReadsThem(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, file := range append(files, whole...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if asTheLibrary(t, file, string(data)) {
			taken++
		}
	}
	if taken < 100 {
		t.Errorf("%d files were taken, want 100 at least", taken)
	}
	for _, text := range []string{
		"a:\n- |\n  # b\n  c: d\n- \"e\n  f: g\"\n- h\n  i # j\n- [k,\n  {l: m}]\nn:\n  - - o: p\n      q:\n  -\n    r\n",
		"--- \n- 1\n- [a: b, c, {}, []]\n- {d: [e], \"f\": 'g', 7: null,}\n-   h: >-\n      i\n    j: ~\n    k:\n    - l\n...\n",
		"a: b\n  c\nd:\n  e\n  f\ng: \"\"\nh: |\ni: .5\nj: -1\n",
		"{a: [b,\nc: d], e: {f: g}}\n", "a: [\nb: c]\n", "x\n", "- a\n", "[]\n", "a:\n",
	} {
		if !asTheLibrary(t, "inline.yaml", text) {
			t.Errorf("refused:\n%s", text)
		}
	}
}

// TestWhatNoYAMLIsIsRefused has texts of which a careless parser would make something.
func TestWhatNoYAMLIsIsRefused(t *testing.T) {
	for _, text := range []string{
		"ten\rants:\n  a: {b: 1}\n", "tenants\n:\n  a: {b: 1}\n", "tenants:\n{\n a: 1\n}\n", "a:\nb\n",
		"a: \"b\" c\n", "a: \"b\"\n  c: d\n", "a: [b] c\n", "a: [b]: c\n", "- a\nb\n", "- a\nb: c\n", "a: b\n- c\n",
		"a:\n    b: c\n  d: e\n", "  a: b\nc: d\n", "a: - b\n", "a: b: c\n", "a: : b\n", "- : b\n",
		"a: {b: c, , d: e}\n", "a: [b, , c]\n", "a: [, b]\n", "a: {[b]: c}\n", "a: {b: }\n", "a: {b}\n", "a: [b: c: d]\n",
		"a: [b\n", "a: {b: c\n", "a: [b}\n", "a: ]\n", "a: [b]]\n", "a: [- b]\n", "a: [>\n  b\n]\n", "a: {\"b\"c: d}\n",
	} {
		if asTheLibrary(t, "inline.yaml", text) {
			t.Errorf("taken:\n%s", text)
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
		r.parseYAML("tabs.yaml", []byte(test.text))
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
		n := r.parseYAML("lines.yaml", []byte(text))
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

// TestManyKeysAreReadInTimeAndStack reads what would take the library's parser minutes,
// or overflow its stack.
func TestManyKeysAreReadInTimeAndStack(t *testing.T) {
	const many = 50_000
	var text strings.Builder
	text.WriteString("a:\n  - b:\n")
	for i := range many {
		fmt.Fprintf(&text, "      k%d:\n", i)
	}
	r := newReader("many.yaml", nil, nil, testEnvironment)
	root := r.parseYAML("many.yaml", []byte(text.String()))
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

// FuzzPieces: what is taken, piece by piece, means what it means to the library's parser.
func FuzzPieces(f *testing.F) {
	addConfigs(f)
	f.Add(
		"a:\n- |\n  # b\n  c: d\n- \"e\n  f: g\"\n- h\n  i # j\n- [k,\n  {l: m}]\nn:\n  - - o: p\n      q:\n  -\n    r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) <= 16<<10 { // the library would take too long
			asTheLibrary(t, "fuzz.yaml", text)
		}
	})
}
