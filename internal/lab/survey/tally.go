package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// tally is what became of one document, or of several.
type tally struct {
	documents int // that were read
	refused   []string
	tools     int
	leftOut   []registry.Refusal
	notes     []string // what tools have otherwise than the document
}

// survey loads a document as a server of a config does, with all its operations.
func survey(file string) (t tally) {
	const name = "survey"
	if err := must.Try(func() {
		data := must.Have(os.ReadFile(file)) //nolint:gosec // G304: whoever runs this names the folder
		root := must.Have(os.OpenRoot(filepath.Dir(file)))
		defer root.Close() //nolint:errcheck // it was only read
		loaded := must.Have(openapi.Load(openapi.Config{
			Name: name, Document: data, Files: root.ReadFile, BaseURL: "https://api.example.com",
			Include: []string{"*"}, Client: dial.Client(dial.Config{}).Transport,
		}))
		left := registry.New().Replace(registry.Source{Name: name, Prefix: name, Own: true, Tools: loaded.Offers})
		t = tally{
			documents: 1, tools: len(loaded.Offers) - len(left), leftOut: slices.Concat(loaded.Refusals, left),
			notes: loaded.Notes,
		}
	}); err != nil {
		t.refused = []string{err.Error()}
	}
	return t
}

func (t *tally) add(one *tally) {
	*t = tally{
		t.documents + one.documents, append(t.refused, one.refused...), t.tools + one.tools,
		append(t.leftOut, one.leftOut...), append(t.notes, one.notes...),
	}
}

// of says what became of the document of a name.
func (t *tally) of(name string) string {
	read := page.Either(len(t.refused) == 0,
		fmt.Sprintf("%s: %d tools, %d left out\n", name, t.tools, len(t.leftOut)), "")
	return page.Rows(t.refused, func(reason string) string { return fmt.Sprintf("%s: refused: %s\n", name, reason) }) +
		read + page.Rows(t.leftOut, func(r registry.Refusal) string {
		return fmt.Sprintf("  left out: %s: %v\n", r.Item, r.Err)
	}) + page.Rows(t.notes, func(note string) string { return fmt.Sprintf("  changed: %s\n", note) })
}

// sum says the sums, and each reason with how often it was given.
func (t *tally) sum() string {
	return fmt.Sprintf("\n%d documents read, %d refused; %d operations are tools, %d are left out\n", t.documents,
		len(t.refused), t.tools, len(t.leftOut)) +
		grouped("refused", t.refused, func(reason string) string { return reason }) +
		grouped("left out", t.leftOut, func(r registry.Refusal) string { return r.Err.Error() }) +
		grouped("changed", t.notes, func(note string) string {
			return strings.TrimPrefix(quoted.ReplaceAllString(note, "…"), "operation …: ")
		})
}

// grouped counts reasons that differ in names alone as one, the most frequent first.
func grouped[T any](what string, all []T, reason func(T) string) string {
	counts := map[string]int{}
	for _, one := range all {
		counts[quoted.ReplaceAllString(reason(one), "…")]++
	}
	return page.Rows(page.Frequent(counts), func(reason string) string {
		return fmt.Sprintf("%6d %s: %s\n", counts[reason], what, reason)
	})
}

// quoted is a name or a text of a document within a reason.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
