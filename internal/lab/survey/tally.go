package main

import (
	"fmt"
	"io"
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
		defer func() { _ = root.Close() }() // it was only read
		loaded := must.Have(openapi.Load(openapi.Config{
			Name: name, Document: data, Files: root.ReadFile, BaseURL: "https://api.example.com",
			Include: []string{"*"}, Client: dial.Client(dial.Config{}),
		}))
		left := registry.New().Replace(registry.Source{Name: name, Prefix: name, Tools: loaded.Offers})
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
	t.documents += one.documents
	t.refused = append(t.refused, one.refused...)
	t.tools += one.tools
	t.leftOut = append(t.leftOut, one.leftOut...)
	t.notes = append(t.notes, one.notes...)
}

// write writes what became of one document.
func (t *tally) write(out io.Writer, name string) error {
	var text strings.Builder
	for _, reason := range t.refused {
		fmt.Fprintf(&text, "%s: refused: %s\n", name, reason)
	}
	if len(t.refused) == 0 {
		fmt.Fprintf(&text, "%s: %d tools, %d left out\n", name, t.tools, len(t.leftOut))
	}
	for _, r := range t.leftOut {
		fmt.Fprintf(&text, "  left out: %s: %v\n", r.Item, r.Err)
	}
	for _, note := range t.notes {
		fmt.Fprintf(&text, "  changed: %s\n", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// writeSum writes the sums, and each reason with how often it was given.
func (t *tally) writeSum(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d documents read, %d refused; %d operations are tools, %d are left out\n",
		t.documents, len(t.refused), t.tools, len(t.leftOut))
	left := make([]string, len(t.leftOut))
	for i, r := range t.leftOut {
		left[i] = r.Err.Error()
	}
	notes := make([]string, len(t.notes))
	for i, note := range t.notes {
		notes[i] = strings.TrimPrefix(quoted.ReplaceAllString(note, "…"), "operation …: ")
	}
	for _, group := range []struct {
		name    string
		reasons []string
	}{{"refused", t.refused}, {"left out", left}, {"changed", notes}} {
		counts := map[string]int{}
		for _, reason := range group.reasons {
			counts[quoted.ReplaceAllString(reason, "…")]++
		}
		for _, reason := range page.Frequent(counts) {
			fmt.Fprintf(&text, "%6d %s: %s\n", counts[reason], group.name, reason)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// quoted is a name or a text of a document within a reason.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
