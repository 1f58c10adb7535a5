package corpus_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

// TestVectorsSayWhatTheyMean reads the forms of quoted texts.
func TestVectorsSayWhatTheyMean(t *testing.T) {
	got := corpus.Vectors(t,
		[]byte("# nothing\n\na: one   \"x\\ty\"\nb: two: three \"[\"*3 \"]\" \"\\xff\"*2\nc: none \"\"\n"))
	want := []corpus.Vector{{"a", "one", "x\ty"}, {"b", "two: three", "[[[]\xff\xff"}, {"c", "none", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFolderOfPublicCorporaIsNotNeeded looks where none is, also in CI.
func TestFolderOfPublicCorporaIsNotNeeded(t *testing.T) {
	t.Setenv("DRAWBRIDGE_SHARED", t.TempDir())
	t.Setenv("CI", "true")
	if got := corpus.Shared(t, "corpora"); got != "" {
		t.Errorf("got %s, want nothing", got)
	}
	if got := corpus.Strings(t); len(got) < 100 {
		t.Errorf("got %d strings, want our own", len(got))
	}
	if got := corpus.Tools(t); len(got) < 15 {
		t.Errorf("got %d tools, want our own", len(got))
	}
}

// TestToolsHaveEveryKeyword compares what our definitions use with the public ones, where
// those are at hand: members, and keywords of schemas with the kinds of their values.
func TestToolsHaveEveryKeyword(t *testing.T) {
	all := corpus.Tools(t)
	public := used(t, all)
	t.Setenv("DRAWBRIDGE_SHARED", t.TempDir())
	own := used(t, corpus.Tools(t))
	if len(own) < 40 {
		t.Errorf("our definitions use only %q", slices.Sorted(maps.Keys(own)))
	}
	for use := range public {
		if !own[use] {
			t.Errorf("no definition of ours has %s", use)
		}
	}
}

// used returns the members of definitions, each with the kind of its value; names of
// properties are all one.
func used(t *testing.T, tools map[string][]byte) map[string]bool {
	t.Helper()
	uses := make(map[string]bool)
	for name, data := range tools {
		var definition any
		if err := json.Unmarshal(data, &definition); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		collect(uses, "", definition)
	}
	return uses
}

func collect(uses map[string]bool, place string, value any) {
	switch v := value.(type) {
	case map[string]any:
		uses[place+" object"] = true
		for name, inner := range v {
			if place == "properties" || place == "$defs" {
				name = ""
			}
			collect(uses, name, inner)
		}
	case []any:
		uses[place+" array"] = true
		for _, inner := range v {
			collect(uses, place, inner)
		}
	case string:
		if place == "type" {
			uses["type "+v] = true
		}
		uses[place+" string"] = true
	case bool:
		uses[place+" boolean"] = true
	case float64:
		uses[place+" number"] = true
	case nil:
		uses[place+" null"] = true
	}
}

// TestStringsHaveEveryClass counts the classes of strings that programs stumble over.
func TestStringsHaveEveryClass(t *testing.T) {
	data, err := os.ReadFile("testdata/strings.txt")
	if err != nil {
		t.Fatal(err)
	}
	classes := make(map[string]int)
	for _, vector := range corpus.Vectors(t, data) {
		classes[vector.Class]++
	}
	for class := range strings.SplitSeq(
		`reserved,numeric,special,symbols,raised,quotation,two bytes,growing,faces,emoji,digits,right to left,Ogham,trick,`+
			`stacked marks,upside down,fonts,script,SQL,server,Ruby,XML,interpolation,file,flaw,device,chat,innocent,person,terminal,phone,Persian,Jinja,tags,long`, ",") {
		if classes[class] == 0 {
			t.Errorf("no string of the class %s", class)
		}
	}
}
