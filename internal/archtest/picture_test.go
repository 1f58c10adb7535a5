package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPictureIsThePlan compares the layers of docs/architecture.md with the plan. A line
// of the picture is a package and what it does, or several packages.
func TestPictureIsThePlan(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Layers\n")
	_, picture, _ := strings.Cut(section, "\n```\n")
	picture, _, _ = strings.Cut(picture, "\n```\n")
	drawn := [][]string{nil}
	for line := range strings.Lines(picture) {
		switch last := &drawn[len(drawn)-1]; {
		case strings.HasPrefix(line, " ─"):
			drawn = append(drawn, nil)
		default:
			*last = append(*last, packagesIn(line)...)
		}
	}
	plan := layers()
	if len(drawn) != len(plan) {
		t.Fatalf("the picture has %d layers, the plan %d", len(drawn), len(plan))
	}
	for i, layer := range plan {
		slices.Sort(layer)
		slices.Sort(drawn[i])
		if !slices.Equal(layer, drawn[i]) {
			t.Errorf("layer %d: the picture has %v, the plan %v", i+1, drawn[i], layer)
		}
	}
}

// packagesIn returns the words of a line which are packages of the plan. The first that
// is none ends them, since a sentence begins there.
func packagesIn(line string) (packages []string) {
	for word := range strings.FieldsSeq(line) {
		if layerOf(word) < 0 {
			break
		}
		packages = append(packages, word)
	}
	return packages
}
