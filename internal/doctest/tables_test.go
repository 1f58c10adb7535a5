package doctest_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is one row of a table in a page.
type row struct {
	chapter string            // the nearest heading with two #
	section string            // the nearest heading of any kind
	names   []string          // what its first cell has in code
	cells   map[string]string // by the head of the column
}

// rowsOf returns the rows of the tables whose first column is called so, in all of a
// page. Rows whose first cell has nothing in code are left out: they are about no name of
// ours.
func rowsOf(t *testing.T, page, first string) []row {
	t.Helper()
	var rows []row
	var chapter, section string
	var head []string
	for line := range strings.Lines(fence.ReplaceAllString(read(t, page), "")) {
		line = strings.TrimSpace(line)
		if found := heading.FindStringSubmatch(line); found != nil {
			section = found[1]
			if strings.HasPrefix(line, "## ") {
				chapter = section
			}
		}
		if !strings.HasPrefix(line, "|") {
			head = nil
			continue
		}
		cells := cellsOf(line)
		if head == nil {
			head = cells
			continue
		}
		if head[0] != first || strings.Trim(cells[0], "-: ") == "" {
			continue
		}
		r := row{chapter: chapter, section: section, cells: map[string]string{}}
		for i, cell := range cells[:min(len(cells), len(head))] {
			r.cells[head[i]] = cell
		}
		for _, found := range span.FindAllStringSubmatch(cells[0], -1) {
			r.names = append(r.names, found[1])
		}
		if len(cells) != len(head) {
			t.Errorf("%s, under %q: the row of %s has %d cells, and its table %d columns",
				page, section, cells[0], len(cells), len(head))
		}
		if len(r.names) > 0 {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table whose first column is %q", page, first)
	}
	return rows
}

// cellsOf returns the cells of a line of a table.
func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// reference is a kind of name that a page of the reference has to have: each that the
// code has, and no other.
type reference struct {
	page, first string            // the page, and the head of the first column of its tables
	kind        string            // what such a name is, for messages
	template    string            // of a row, with NAME for the name
	want        map[string]string // the names that the code has, each with where it has it
	// put before the name of a row, "" by default: names need be unique within it
	chapters func(r row) string
	place    func(string) string // where the row of a name belongs; nil: in the table that fits
}

// chapterOf says where a name belongs that has its chapter before it, with | between.
func chapterOf(full string) string {
	chapter, _, _ := strings.Cut(full, "|")
	return "under ## " + chapter
}

// check compares a page with the code, and returns the rows. What it says tells which row
// to write, and where.
func (c *reference) check(t *testing.T) []row {
	t.Helper()
	rows := rowsOf(t, c.page, c.first)
	for _, wrong := range c.wrongIn(rows) {
		t.Error(wrong)
	}
	return rows
}

// wrongIn returns a line for each row that is there twice or in vain, and for each that
// is missing.
func (c *reference) wrongIn(rows []row) []string {
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, c.page+fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, r := range rows {
		for _, name := range r.names {
			full := name
			if c.chapters != nil {
				full = c.chapters(r) + name
			}
			if seen[full] {
				report(" has two rows for the %s `%s`: keep one", c.kind, name)
			} else if c.want[full] == "" {
				report(
					", under %q, has a row for `%s`, and the code has no such %s: remove the row, or correct the name",
					r.section, name, c.kind)
			}
			seen[full] = true
		}
	}
	for _, full := range slices.Sorted(maps.Keys(c.want)) {
		if seen[full] {
			continue
		}
		place, name := "in the table that fits", full[strings.LastIndex(full, "|")+1:]
		if c.place != nil {
			place = c.place(full)
		}
		report(" has no row for the %s `%s` (%s): write this %s:\n\t%s", c.kind, name, c.want[full], place,
			strings.ReplaceAll(c.template, "NAME", name))
	}
	return wrong
}

// TestARowThatIsMissingOrTooMuchIsFound shows that both kinds of difference are found, on
// a page of the reference.
func TestARowThatIsMissingOrTooMuchIsFound(t *testing.T) {
	t.Parallel()
	rows := rowsOf(t, "docs/reference/commands.md", "command")
	if len(rows) < 6 || rows[0].names[0] != "serve" || rows[0].cells["does"] == "" {
		t.Fatalf("got rows %+v, want those of all commands, serve first", rows)
	}
	c := &reference{
		page: "commands.md", first: "command", kind: "command", want: map[string]string{},
		template: "| NAME |",
	}
	for _, r := range rows {
		c.want[r.names[0]] = "main.go"
	}
	if got := c.wrongIn(rows); len(got) > 0 {
		t.Errorf("got %q, want nothing wrong", got)
	}
	delete(c.want, "serve")
	c.want["fly"] = "main.go"
	want := []string{
		"commands.md, under \"Commands\", has a row for `serve`, and the code has no such command: remove the row, or correct the name",
		"commands.md has no row for the command `fly` (main.go): write this in the table that fits:\n\t| fly |",
	}
	if got := c.wrongIn(append(rows, rows[1])); len(got) != 3 || got[0] != want[0] || got[2] != want[1] {
		t.Errorf("got %q, want %q with a row that is there twice between", got, want)
	}
}

var numbers = regexp.MustCompile(`-?\d+`)
