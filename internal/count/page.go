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
	return writeTables(out, strings.Join(columns[:], " | "), len(columns), nil, t,
		func(_, now int) string { return " " + grouped(now) + " |" })
}

// writeChanges writes a table of each kind, with each figure before, after, and how they
// differ.
func writeChanges(out io.Writer, before, after tree) error {
	const three = " before | after | ±"
	return writeTables(out, strings.Join(columns[:], three+" | ")+three, 3*len(columns), before, after,
		func(old, now int) string {
			return fmt.Sprintf(" %s | %s | %s |", grouped(old), grouped(now), signed(now-old))
		})
}

// writeTables writes a table of each kind with that many columns, whose cells are made of
// a figure before and after. Parts that did not change are left out, unless there is no
// before.
func writeTables(out io.Writer, heading string, width int, before, after tree,
	cells func(old, now int) string,
) error {
	var page strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&page, "| %s | %s |\n|---|%s\n", k, heading, strings.Repeat("---:|", width))
		row := func(name string, old, now figures) {
			fmt.Fprintf(&page, "| %s |", name)
			for i := range now {
				page.WriteString(cells(old[i], now[i]))
			}
			page.WriteByte('\n')
		}
		for _, p := range parts(k, before, after) {
			if before == nil || before[p] != after[p] {
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
