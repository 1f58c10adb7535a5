package doctest_test

import (
	"encoding/xml"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// narrow is how many pixels wide a telephone shows a picture, and legible how high text
// must be there at least.
const (
	narrow  = 320
	legible = 9.5
	most    = 60_000 // bytes of a picture of a page
)

// TestPicturesAreShownAndLegible reads the pictures of docs/images and the tags that show
// them.
func TestPicturesAreShownAndLegible(t *testing.T) {
	var shown []string
	tag := regexp.MustCompile(`<img src="([^"]+)"[^>]*>`)
	for _, page := range documents(t) {
		for _, match := range tag.FindAllStringSubmatch(read(t, page), -1) {
			if !regexp.MustCompile(`alt="[^"]{40,}"`).MatchString(match[0]) {
				t.Errorf("%s: %s does not say in words what it shows", page, match[0])
			}
			shown = append(shown, path.Join(path.Dir(page), match[1]))
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "images", "*.svg"))
	if err != nil || len(files) < 6 {
		t.Fatalf("found %q, %v", files, err)
	}
	var pictures []string
	for _, file := range files {
		picture := path.Join("docs", "images", filepath.Base(file))
		pictures = append(pictures, picture)
		if !slices.Contains(shown, picture) {
			t.Errorf("no page shows %s", picture)
		}
		for _, wrong := range wrongInPicture(read(t, picture)) {
			t.Errorf("%s %s", picture, wrong)
		}
	}
	photographs, err := filepath.Glob(filepath.Join(root, "docs", "images", "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range photographs {
		picture := path.Join("docs", "images", filepath.Base(file))
		pictures = append(pictures, picture)
		if !slices.Contains(shown, picture) {
			t.Errorf("no page shows %s", picture)
		}
		if size := len(read(t, picture)); size > most {
			t.Errorf("%s has %d bytes, want %d at most", picture, size, most)
		}
	}
	for _, picture := range shown {
		if !slices.Contains(pictures, picture) {
			t.Errorf("%s is shown and not there", picture)
		}
	}
}

func TestTheCheckOfPicturesCanFail(t *testing.T) {
	const good = `<svg viewBox="0 0 400 300"><title>x</title><style>text{font:13px sans}` +
		`@media (prefers-color-scheme: dark){}</style></svg>`
	if got := wrongInPicture(good); len(got) > 0 {
		t.Errorf("got %q, want nothing wrong", got)
	}
	for from, to := range map[string]string{
		"13px": "11px", "<title>x</title>": "", "dark": "light",
		"400": "700",
	} {
		if got := wrongInPicture(strings.Replace(good, from, to, 1)); len(got) != 1 {
			t.Errorf("with %q in place of %q: got %q, want one that is wrong", to, from, got)
		}
	}
}

// wrongInPicture returns what keeps a picture from being read on a telephone, in the dark
// or aloud.
func wrongInPicture(text string) (wrong []string) {
	var svg struct {
		ViewBox string `xml:"viewBox,attr"`
		Title   string `xml:"title"`
		Style   string `xml:"style"`
	}
	if err := xml.Unmarshal([]byte(text), &svg); err != nil {
		return []string{err.Error()}
	}
	if svg.Title == "" {
		wrong = append(wrong, "has no title")
	}
	if !strings.Contains(svg.Style, "prefers-color-scheme: dark") {
		wrong = append(wrong, "has no colours for dark pages")
	}
	box := append(strings.Fields(svg.ViewBox), "", "", "")
	width, err := strconv.ParseFloat(box[2], 64)
	if err != nil {
		return append(wrong, "has no width")
	}
	for _, size := range regexp.MustCompile(`font(?:-size)?: ?(?:\d+ )?([\d.]+)px`).FindAllStringSubmatch(
		svg.Style, -1) {
		if height, _ := strconv.ParseFloat(size[1], 64); height*narrow/width < legible {
			wrong = append(wrong, "has text of "+size[1]+" pixels, which is not legible at "+
				strconv.Itoa(narrow))
		}
	}
	return wrong
}
