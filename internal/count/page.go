package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// kinds is the order in which they are told.
var kinds = []kind{product, labs, tests}

// parts lists the directories that have files of a kind in one of the trees.
func parts(of kind, trees ...tree) (found []part) {
	for _, t := range trees {
		found = slices.AppendSeq(found, maps.Keys(t))
	}
	found = slices.DeleteFunc(found, func(p part) bool { return p.kind != of })
	slices.SortFunc(found, func(a, b part) int { return cmp.Compare(a.directory, b.directory) })
	return slices.Compact(found)
}

// sum adds up the parts of a kind.
func (t tree) sum(of kind) (all figures) {
	for p, f := range t {
		if p.kind == of {
			all = all.plus(f)
		}
	}
	return all
}

// writeTotals writes a table of each kind.
func writeTotals(out io.Writer, t tree) error {
	var page strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&page, "| %s | %s |\n", k, strings.Join(columns[:], " | "))
		fmt.Fprintf(&page, "|---|%s\n", strings.Repeat("---:|", len(columns)))
		row := func(name string, f figures) {
			fmt.Fprintf(&page, "| %s |", name)
			for _, n := range f {
				fmt.Fprintf(&page, " %s |", grouped(n))
			}
			page.WriteByte('\n')
		}
		for _, p := range parts(k, t) {
			row(p.directory, t[p])
		}
		row("**all**", t.sum(k))
		page.WriteByte('\n')
	}
	_, err := io.WriteString(out, page.String())
	return err
}

// writeChanges writes a table of each kind, with each figure before, after, and how they
// differ.
func writeChanges(out io.Writer, before, after tree) error {
	var page strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&page, "| %s |", k)
		for _, column := range columns {
			fmt.Fprintf(&page, " %s before | after | ± |", column)
		}
		fmt.Fprintf(&page, "\n|---|%s\n", strings.Repeat("---:|", 3*len(columns)))
		row := func(name string, old, now figures) {
			fmt.Fprintf(&page, "| %s |", name)
			for i := range old {
				fmt.Fprintf(&page, " %s | %s | %s |", grouped(old[i]), grouped(now[i]), signed(now[i]-old[i]))
			}
			page.WriteByte('\n')
		}
		for _, p := range parts(k, before, after) {
			if before[p] != after[p] {
				row(p.directory, before[p], after[p])
			}
		}
		row("**all**", before.sum(k), after.sum(k))
		page.WriteByte('\n')
	}
	_, err := io.WriteString(out, page.String())
	return err
}

// grouped writes a number that is not negative in groups of three digits.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// signed writes a difference.
func signed(n int) string {
	switch {
	case n < 0:
		return "−" + grouped(-n)
	case n > 0:
		return "+" + grouped(n)
	}
	return "0"
}
