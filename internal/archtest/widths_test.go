package archtest

import (
	"go/scanner"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// commentWidth is how many columns a line of a comment may have, and tabWidth how many of
// them are a tab. The linter holds the width of code.
const (
	commentWidth = 90
	tabWidth     = 4
)

// wideComments returns the lines that are nothing but a comment, and too wide for one. A
// drawing or table, which is indented, may be wider, and so may an address, which has no
// place to break, and what the go command or the linter reads.
func wideComments(text []byte) (wide []int) {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lastOfCode := 0
	for at, kind, literal := s.Scan(); kind != token.EOF; at, kind, literal = s.Scan() {
		position := file.Position(at)
		if kind != token.COMMENT {
			lastOfCode = position.Line
			if kind == token.STRING {
				lastOfCode += strings.Count(literal, "\n")
			}
			continue
		}
		prose, isProse := strings.CutPrefix(literal, "// ")
		isProse = isProse && !strings.HasPrefix(prose, " ") && strings.Contains(prose, " ")
		width := (position.Column-1)*tabWidth + utf8.RuneCountInString(literal)
		if position.Line > lastOfCode && isProse && width > commentWidth {
			wide = append(wide, position.Line)
		}
	}
	return wide
}

func TestCommentsAreNarrow(t *testing.T) {
	t.Parallel()
	notOurs := func(root, name, base string) bool {
		return name != root && (base == "node_modules" || base[0] == '.')
	}
	files := eachGoFile(t, repository(t), notOurs, func(_, name string) error {
		text, err := os.ReadFile(name)
		for _, line := range wideComments(text) {
			t.Errorf("%s:%d: a comment has at most %d columns", name, line, commentWidth)
		}
		return err
	})
	if files < 100 {
		t.Errorf("%d files looked at", files)
	}
}

func TestWideCommentsAreFound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 17)
	for name, test := range map[string]struct {
		text string
		want []int
	}{
		"as wide as may be":     {"package p\n\n// " + long + "ab\n", nil},
		"one wider":             {"package p\n\n// " + long + "abc\n", []int{3}},
		"behind a tab":          {"package p\n\nfunc f() {\n\t// " + long + "\n}\n", []int{4}},
		"behind code":           {"package p\n\nvar a = 1 // " + long + "abc\n", nil},
		"behind the end of one": {"package p\n\nvar a = `\n` // " + long + "abc\n", nil},
		"in a text":             {"package p\n\nvar a = `\n// " + long + "abc\n`\n", nil},
		"a table":               {"package p\n\n//\t" + long + "abc\n//   " + long + "abc\n", nil},
		"an address":            {"package p\n\n// https://" + strings.Repeat("a", commentWidth) + "\n", nil},
		"for the linter":        {"package p\n\n//nolint:x // " + long + "abc\n", nil},
	} {
		if got := wideComments([]byte(test.text)); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
