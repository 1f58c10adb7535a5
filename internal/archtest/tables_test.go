package archtest

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// methodsOf names the file of a package that all others may use, because it has the type
// whose methods they are.
func methodsOf() map[string]string {
	return map[string]string{"server": "server", "server/modern": "modern", "internal/gateway": "gateway"}
}

// TestTablesSayHowToRead holds the tables in which a reader of a package begins against
// its files: each is named, and uses only what stands below it or on its line.
func TestTablesSayHowToRead(t *testing.T) {
	t.Parallel()
	root, tables := repository(t), 0
	for _, directory := range slices.Concat(layers()...) {
		sources := sourcesOf(t, root, directory)
		comment := packageComment(t, sources)
		if !strings.Contains(comment, "begin at the top of this table") {
			continue
		}
		tables++
		for _, problem := range tableProblems(t, comment, sources, methodsOf()[directory]) {
			t.Errorf("%s: %s", directory, problem)
		}
	}
	if tables < 8 {
		t.Errorf("%d tables were found, want those of the packages that are large", tables)
	}
}

// packageComment returns what the files say of their package.
func packageComment(t *testing.T, sources map[string]any) string {
	t.Helper()
	var comment strings.Builder
	for name, text := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		comment.WriteString(file.Doc.Text())
	}
	return comment.String()
}

// tableProblems returns where the files differ from the table in the comment of their
// package. top is a file that all may use.
func tableProblems(t *testing.T, comment string, sources map[string]any, top string) (problems []string) {
	t.Helper()
	rows, uses := rowsOf(comment), usesAmong(t, sources)
	gone := maps.Clone(rows)
	for file := range sources {
		from := fileName(file)
		delete(gone, from)
		if rows[from] == 0 {
			problems = append(problems, "the table to read the package lacks "+from)
			continue
		}
		for _, other := range uses[file] {
			if to := fileName(other); to != top && 0 < rows[to] && rows[to] < rows[from] {
				problems = append(problems, from+" uses "+to+", which stands above it in the table")
			}
		}
	}
	for name := range gone {
		problems = append(problems, "the table to read the package names "+name+", which is no file")
	}
	slices.Sort(problems)
	return problems
}

// fileName returns a file as the tables name it: for all systems that have one.
func fileName(file string) string {
	return regexp.MustCompile(`(else|_linux|_unix|_windows)?\.go$`).ReplaceAllString(filepath.Base(file), "")
}

// rowsOf returns in which row of the table to read a package each file stands, from 1. In
// a row stand, after what it is about and two spaces, names of files with commas, a colon
// and what they are for, more of that after a semicolon or two spaces. A line that begins
// far to the right goes on with the row before. The packages below come last.
func rowsOf(comment string) map[string]int {
	rows, row := make(map[string]int), 0
	_, table, _ := strings.Cut(comment, "begin at the top of this table")
	_, table, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "\tthe packages below") {
			break
		}
		parts := regexp.MustCompile(`\s{2,}|;`).Split(strings.TrimSpace(line), -1)
		if !strings.HasPrefix(line, "\t        ") {
			row, parts = row+1, parts[1:]
		}
		for _, part := range parts {
			names, _, _ := strings.Cut(part, ":")
			for name := range strings.SplitSeq(names, ",") {
				if name = strings.TrimSpace(name); name != "" {
					rows[name] = row
				}
			}
		}
	}
	return rows
}

func TestProblemsOfTablesAreFound(t *testing.T) {
	t.Parallel()
	const comment = "Package p is small.\n\nTo read it, begin at the top of this table:\n\n" +
		"\ta call    one: the first of all;\n\t          two\n\tits end   three, five, main\n\nAnd more.\n"
	got := tableProblems(t, comment, map[string]any{
		"p/one.go": "package p; const A = B", "p/two_linux.go": "package p; const B = C",
		"p/three.go": "package p; const C = A + M", "p/four.go": "package p", "p/main.go": "package p; const M = 1",
	}, "main")
	want := []string{
		"the table to read the package lacks four", "the table to read the package names five, which is no file",
		"three uses one, which stands above it in the table",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
