package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// readBoth reads a text as a whole, and in sections that are all opened. A result is nil if there was a problem.
func readBoth(file, text string) (whole, inSections *node, divided bool) {
	read := func(sectioned bool) *node {
		r := newReader(file, nil, nil, testEnvironment)
		r.sectioned = sectioned
		root := r.parseYAML([]byte(text))
		if root == nil {
			return nil
		}
		for i, m := range root.child("tenants").members {
			if m.value.kind == unread {
				divided = true
				root.child("tenants").members[i].value = r.open(m)
			}
		}
		if len(r.problems) > 0 {
			return nil
		}
		return root
	}
	whole = read(false)
	inSections = read(true)
	return whole, inSections, divided
}

// TestSectionsSayWhatTheWholeSays: a config is the same whether its tenants are read with the rest or one by one.
func TestSectionsSayWhatTheWholeSays(t *testing.T) {
	for _, file := range []string{"testdata/good.yaml", "testdata/full.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := newReader(file, data, nil, testEnvironment).parse(data)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(file, data, nil, testEnvironment)
		r.sectioned = true
		got, err := r.parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if r.root.member("tenants").members[0].value.kind != unread {
			t.Errorf("%s is not read in sections", file)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\nin sections %+v\nas a whole  %+v", file, got, want)
		}
	}
}

// TestWhatMayNotBeDividedIsReadAsAWhole shows lines that look like the beginning of a section and are none, and other
// texts that must mean what they mean as a whole.
func TestWhatMayNotBeDividedIsReadAsAWhole(t *testing.T) {
	for _, text := range []string{
		"a: 1\ntenants:\n  x: {b: 1,\n  y: 2}\n",
		"a: 1\ntenants:\n  x: {b: \"1\n  y: 2\"}\n",
		"a: 1\ntenants:\n  x: {b: '\n  y: 2'}\n  z: {}\n",
		"a: \"\ntenants:\n  x: 1\"\nb: 1\n",
		"tenants:\n  x: {}\ntenants:\n  y: {}\n",
		"tenants:\n  x: {}\n...\ntenants:\n  y: {}\n",
		"a: 1\n---\ntenants:\n  y: {}\n",
		"tenants:\n  x: {}\n  # a comment\r  y: {}\n",
		"tenants: # a comment\r  z: {}\n  x: {}\n",
		"tenants:\n    x: {}\n  y: {}\n",
		"tenants:\n  ? x\n  : {}\n",
		"tenants:\n  &x x: {}\n  y: *x\n",
		"tenants:\n  <<: {}\n  x: {}\n",
		"tenants: &a\n  x: {}\n",
		"  a: 1\ntenants:\n  x: {}\n",
		"{a: 1}\ntenants:\n  x: {}\n",
		"- a\ntenants:\n  x: {}\n",
		"tenants:\n  x: {}\n- a\n",
		"tenants:\n\tx: {}\n",
		"tenants:\n  x:{}\n  y: {}\n",
		"tenants:\n  x: 1\n  y\n  z: 1\n",
	} {
		whole, parts, _ := readBoth("whole.yaml", text)
		if parts != nil && !cmp.Equal(whole, parts, cmp.AllowUnexported(node{}, member{}, section{})) {
			t.Errorf("%q: in sections it is another config than as a whole", text)
		}
	}
}

// TestSectionsAreFoundInTheUsualForms: what people write is divided, and says the same.
func TestSectionsAreFoundInTheUsualForms(t *testing.T) {
	for name, text := range map[string]string{
		"plain":             "a: 1\ntenants:\n  x: {b: 1}\n  y:\n    b: 2\nz: 3\n",
		"first":             "tenants:\n  x: {b: 1}\nz: 3\n",
		"last, cut short":   "a: 1\ntenants:\n  x: {b: 1}",
		"begin mark":        "# about\n---\na: 1\ntenants:\n  x: {b: 1}\n",
		"comments":          "a: 1 # c\n# c\ntenants: # c\n# c\n  # c\n  x: {b: 1} # c\n  # c\n\n  y:\n   # c\n    b: 2\n# c\nz: 3\n# c\n",
		"quotes":            "tenants:\n  \"x\": {b: 1}\n  'y': {b: 1}\n",
		"text in block":     "tenants:\n  x:\n    b: |\n      tenants:\n      y: 1\n\n    c: 1\n  z: {}\n",
		"brackets":          "tenants:\n  x: {b: [1,\n      2], c: \"3\n      d: 4\"}\n  z: {}\n",
		"deeper":            "tenants:\n        x:\n                b: [1]\n        y: {}\n",
		"list at its key":   "tenants:\n  x:\n    b:\n    - 1\n    - 2\n  y: {}\n",
		"breaks as Windows": "a: 1\r\ntenants:\r\n  x: {b: 1}\r\n  y: {b: 2}\r\n",
	} {
		whole, parts, divided := readBoth("forms.yaml", text)
		if !divided || whole == nil {
			t.Errorf("%s: divided %t, whole %v", name, divided, whole)
		}
		if diff := cmp.Diff(whole, parts, cmp.AllowUnexported(node{}, member{}, section{})); diff != "" {
			t.Errorf("%s (-whole +sections):\n%s", name, diff)
		}
	}
}

// TestNestingIsCountedInSectionsAsInTheWhole: the levels around a section count.
func TestNestingIsCountedInSectionsAsInTheWhole(t *testing.T) {
	for levels := maxConfigDepth - 4; levels < maxConfigDepth+2; levels++ {
		text := "tenants:\n  x: " + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "\n"
		whole, parts, divided := readBoth("deep.yaml", text)
		if !divided || (whole == nil) != (parts == nil) {
			t.Errorf("%d levels: divided %t, taken as a whole %t, in sections %t", levels, divided, whole != nil, parts != nil)
		}
	}
}

// FuzzSections reads texts in sections and as a whole: what is taken in sections is taken as a whole, and is the same.
func FuzzSections(f *testing.F) {
	addConfigs(f)
	f.Add("a: 1\ntenants:\n  x: {b: \"1\n  y: 2\"}\n  z:\n  - |\n    d\n  u: 'v'\ne: f\n")
	// The library places odd values, such as a dash without an item, by the tokens around them.
	placeless := cmpopts.IgnoreFields(node{}, "line", "col")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16<<10 {
			return // the parser alone would take too long
		}
		whole, parts, _ := readBoth("fuzz.yaml", text)
		if parts == nil {
			return
		}
		if diff := cmp.Diff(whole, parts, cmp.AllowUnexported(node{}, member{}, section{}), placeless); diff != "" {
			t.Fatalf("-whole +sections:\n%s", diff)
		}
	})
}
