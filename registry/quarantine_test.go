package registry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// hiding is a tool with hidden text in a choice and in a description.
const hiding = `{"name":"t","description":"a\u200bb","inputSchema":{"type":"object","properties":{"x":{"enum":["a","b\u200b"]}}}}`

// held returns the error with which a definition is quarantined.
func held(t testing.TB, definition string, released ...string) *registry.QuarantineError {
	t.Helper()
	_, err := registry.Admit(parse(t, definition), released, false)
	why, ok := errors.AsType[*registry.QuarantineError](err)
	if !ok {
		t.Fatalf("%s: got %v, want it quarantined", definition, err)
	}
	return why
}

func TestHiddenTextQuarantinesADefinition(t *testing.T) {
	why := held(t, hiding)
	if got, want := why.Error(),
		"hidden text in inputSchema.properties.x.enum[1] (an invisible character, U+200B)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := why.Cure(); !strings.Contains(got, `released: ["`+why.Digest+`"]`) {
		t.Errorf("got the cure %q, want one to paste", got)
	}
	why = held(
		t, `{"name":"t","_meta":{"a":"\u0007","b":"\u001b[2J","c":"\u202e","d":"\u200b","e":"\u200b"}}`)
	if got, want := why.Error(),
		"hidden text in _meta.a (a control character, U+0007), _meta.b (a terminal escape sequence, U+001B), _meta.c (an invisible character, U+202E), 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReleaseLetsInExactlyThatDefinition(t *testing.T) {
	digest := held(t, hiding).Digest
	admitted, err := registry.Admit(parse(t, hiding), []string{"sha256:other", digest}, false)
	if err != nil || admitted.Released != digest || admitted.Repairs != 1 {
		t.Fatalf("got %+v, %v, want it in because of %s", admitted, err, digest)
	}
	if got := admitted.Definition.Text("description"); got != "ab" {
		t.Errorf("the description became %+q, want it cleaned", got)
	}
	if got := string(admitted.Definition.Value("inputSchema")); !strings.Contains(got, `b\u200b`) {
		t.Errorf("the schema became %+q, want it unedited", got)
	}
	for name, other := range map[string]string{
		"another choice":           strings.Replace(hiding, `"a","b`, `"c","b`, 1),
		"another hidden text":      strings.Replace(hiding, `b\u200b"]`, `b\u200c"]`, 1),
		"another cleaned text":     strings.Replace(hiding, `a\u200bb`, `a\u2060b`, 1),
		"a member more":            strings.Replace(hiding, `"name"`, `"title":"","name"`, 1),
		"choices in another order": strings.Replace(hiding, `"a","b\u200b"`, `"b\u200b","a"`, 1),
		"another large number": strings.Replace(hiding, `"enum"`, `"maximum":12345678901234567890,"enum"`,
			1),
		"and its neighbour": strings.Replace(hiding, `"enum"`, `"maximum":12345678901234567891,"enum"`,
			1),
	} {
		if why := held(t, other, digest); why.Digest == digest {
			t.Errorf("%s: the same digest", name)
		}
	}
	a := held(t, strings.Replace(hiding, `"enum"`, `"maximum":12345678901234567890,"enum"`, 1))
	b := held(t, strings.Replace(hiding, `"enum"`, `"maximum":12345678901234567891,"enum"`, 1))
	if a.Digest == b.Digest {
		t.Error("numbers that differ have one digest")
	}
}

func TestDigestIgnoresOrderAndSpelling(t *testing.T) {
	want := held(t, hiding).Digest
	for _, other := range []string{
		`{"inputSchema":{"properties":{"x":{"enum":["a","b\u200b"]}},"type":"object"},"name":"t","description":"a\u200bb"}`,
		`{ "name" : "\u0074", "description":"a\u200Bb","inputSchema":{"type":"object","properties":{"\u0078":{"enum":["a","b` + "\u200b" + `"]}}}}`,
	} {
		if got := held(t, other).Digest; got != want {
			t.Errorf("%s: got %s, want %s", other, got, want)
		}
	}
	if got, err := registry.ParseDigest(want); got != want || err != nil {
		t.Errorf("ParseDigest(%s): got %s, %v", want, got, err)
	}
	for _, bad := range []string{
		"", want[7:], want[:70], want + "0", strings.ToUpper(want),
		"sha256:" + strings.Repeat("A", 64), "sha1:" + want[7:],
	} {
		if _, err := registry.ParseDigest(bad); !errors.Is(err, registry.ErrDigest) {
			t.Errorf("ParseDigest(%q): got %v, want ErrDigest", bad, err)
		}
	}
}

// TestRealDefinitionsAreNotQuarantined takes tools of real servers.
func TestRealDefinitionsAreNotQuarantined(t *testing.T) {
	for name, data := range corpus.Tools(t) {
		if admitted, err := registry.Admit(parse(t, string(data)), nil, false); err != nil ||
			admitted.Released != "" {
			t.Errorf("%s: got %q, %v", name, admitted.Released, err)
		}
	}
}

// TestWithheldResourceCannotBeRead tells a resource that is quarantined from one that is
// in no list.
func TestWithheldResourceCannotBeRead(t *testing.T) {
	for prefix, beginning := range map[string]string{"s": "mcp.s+", "": ""} {
		r := registry.New()
		s := library("s", prefix, []string{"file:///a"}, []string{"file:///{path}"})
		mustReplace(t, r, s)
		before := r.Catalogue()
		s.Withheld = []string{"file:///z", "file:///b", "memo://secret/x", "memo://SECRET/y/"}
		mustReplace(t, r, s)
		if r.Catalogue() == before {
			t.Error("withholding changed nothing")
		}
		view := r.Catalogue().View([]string{"s"})
		for uri, want := range map[string]error{
			"file:///a": nil, "file:///b": registry.ErrNotFound, "file:///c": nil,
			"file:///z": registry.ErrNotFound,
			// servers may read these as the same
			"file:///b#x": registry.ErrNotFound, "file:///b?": registry.ErrNotFound,
			"file:///b/": registry.ErrNotFound, "file:///b;x": registry.ErrNotFound, "file:///b2": nil,
			"memo://SECRET/x/": registry.ErrNotFound, "memo://secret/y": registry.ErrNotFound,
			"memo://secret/x/y": nil,
		} {
			if _, err := view.Resource(beginning + uri); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", beginning+uri, err, want)
			}
		}
		s.Unread, s.Withheld = []registry.Kind{registry.KindResource}, nil
		mustReplace(t, r, s)
		if _, err := r.Catalogue().View([]string{"s"}).Resource(beginning + "file:///b"); !errors.Is(err,
			registry.ErrNotFound) {
			t.Errorf("a list that could not be read released %sfile:///b: %v", beginning, err)
		}
	}
}

// TestResourceWithheldFromSomeCanBeReadByNobody withholds one resource in each of two
// lists of a server, for clients that declare different extensions: neither clients have
// the one that only the others' list would have.
func TestResourceWithheldFromSomeCanBeReadByNobody(t *testing.T) {
	t.Parallel()
	r, s := registry.New(), varied("s")
	s.Reads, s.Withheld, s.Variants[0].Withheld = true, []string{"file:///b"}, []string{"file:///c"}
	r.Replace(s)
	whole := r.Catalogue().View([]string{"s"})
	for name, view := range map[string]*registry.View{
		"anybody": whole, "with": whole.For(s.Base), "without": whole.For(mcp.Extensions{}),
	} {
		for uri, want := range map[string]error{
			"file:///b": registry.ErrNotFound, "file:///c": registry.ErrNotFound, "file:///d": nil,
		} {
			if _, err := view.Resource("mcp.s+" + uri); !errors.Is(err, want) {
				t.Errorf("%s: %s: got %v, want %v", name, uri, err, want)
			}
		}
	}
}
