package sanitize_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	hexes "encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// view returns the result of reading a view that has this text.
func view(text string) mcp.Object {
	contents := mcp.NewObject(
		mcp.Member{Name: "uri", Value: mcp.String("ui://chart/view.html")},
		mcp.Member{Name: "text", Value: mcp.String(text)},
		mcp.Member{Name: "mimeType", Value: mcp.String(mcp.MediaApp)},
		mcp.Member{
			Name:  "_meta",
			Value: mcp.RawJSON(`{"ui":{"csp":{"connectDomains":["https://a.example"]},"domain":"d"}}`),
		},
	).JSON()
	return mcp.NewObject(mcp.Member{Name: "contents", Value: mcp.Array([]mcp.RawJSON{contents})})
}

// TestFilesInBase64AreJudgedByWhatTheyHold holds for views, which must be text, and for
// other files, of which some are pictures.
func TestFilesInBase64AreJudgedByWhatTheyHold(t *testing.T) {
	const secret = "AKIA" + "QYLPMN5HFIQR7XYA" // in two parts, so that no scanner of source code finds it
	hidden := "<p>a\u200bb</p>"
	sum := sha256.Sum256([]byte(hidden))
	released := sanitize.Policy{Released: []string{"sha256:" + hexes.EncodeToString(sum[:])}}
	plain, urls := base64.StdEncoding, base64.RawURLEncoding
	notes := strings.Repeat("Read this. ", 9) + strings.Repeat("\u200b\u200c", 9) + strings.Repeat(" And that.", 9)
	sown := "" // with a NUL behind each ten characters
	for part := range slices.Chunk([]rune(notes), 10) {
		sown += string(part) + "\x00"
	}
	picture := make([]byte, 4096)
	for i := range picture {
		picture[i] = byte(i * i >> 3 * 151)
	}
	for name, test := range map[string]struct {
		media, blob string
		policy      sanitize.Policy
		passes      bool
	}{
		"a view":                {mcp.MediaApp, plain.EncodeToString([]byte("<p>\r\nx</p>")), sanitize.Policy{}, true},
		"a view that hides":     {mcp.MediaApp, plain.EncodeToString([]byte(hidden)), sanitize.Policy{}, false},
		"in the other alphabet": {mcp.MediaApp, urls.EncodeToString([]byte(hidden)), sanitize.Policy{}, false},
		"released":              {mcp.MediaApp, plain.EncodeToString([]byte(hidden)), released, true},
		"a view with a secret":  {mcp.MediaApp, plain.EncodeToString([]byte(secret)), sanitize.Policy{}, false},
		"a view in UTF-16":      {mcp.MediaApp, plain.EncodeToString([]byte("\xff\xfe<\x00p\x00")), sanitize.Policy{}, false},
		"a view of no Base64":   {mcp.MediaApp, "<p>", sanitize.Policy{}, false},
		"not looked at": {
			mcp.MediaApp, plain.EncodeToString([]byte("\xff" + hidden)),
			sanitize.Policy{HiddenText: sanitize.Off},
			true,
		},
		"a file":            {"text/markdown", plain.EncodeToString([]byte("# x")), sanitize.Policy{Files: true}, true},
		"a file that hides": {"text/markdown", plain.EncodeToString([]byte(hidden)), sanitize.Policy{Files: true}, false},
		"a file in lines":   {"text/markdown", plain.EncodeToString([]byte("a new line")) + `\n`, sanitize.Policy{Files: true}, true},
		"a file that lenient programs read": {
			"text/markdown", "PHA+YeKA!i2I8L3A+",
			sanitize.Policy{Files: true},
			false,
		},
		"a file that hides from programs that know both alphabets": {
			"text/markdown", "PHA+----YeKAi2I8L3A+",
			sanitize.Policy{Files: true},
			false,
		},
		"a picture in the other alphabet": {
			"image/png", urls.EncodeToString([]byte("\x89PNG\xfb\xff\xbf\x00\u200b")),
			sanitize.Policy{Files: true},
			true,
		},
		"a file with more behind its padding": {
			"text/markdown", plain.EncodeToString([]byte(hidden+"x")) + "/w==",
			sanitize.Policy{Files: true},
			false,
		},
		"a text with a NUL":             {"text/markdown", plain.EncodeToString([]byte(notes + "\x00")), sanitize.Policy{Files: true}, false},
		"a text with a byte of Latin-1": {"text/markdown", plain.EncodeToString([]byte("caf\xe9 " + notes)), sanitize.Policy{Files: true}, false},
		"a text before a picture":       {"x/y", plain.EncodeToString([]byte(notes + string(picture))), sanitize.Policy{Files: true}, false},
		"a text in a picture":           {"x/y", plain.EncodeToString(slices.Concat(picture, []byte(notes), picture)), sanitize.Policy{Files: true}, false},
		"NULs all over a text":          {"x/y", plain.EncodeToString([]byte(sown)), sanitize.Policy{Files: true}, false},
		"a text in UTF-16":              {"x/y", plain.EncodeToString(inUTF16(notes)), sanitize.Policy{Files: true}, false},
		"the same in the other order":   {"x/y", plain.EncodeToString(swapped(inUTF16(notes))), sanitize.Policy{Files: true}, false},
		"a secret in a picture":         {"x/y", plain.EncodeToString(slices.Concat(picture, []byte(strings.Repeat(" key: "+secret, 9)), picture)), sanitize.Policy{Files: true}, false},
		"a text in Latin-1":             {"text/plain", plain.EncodeToString([]byte("caf\xe9 " + strings.Repeat("and tea ", 20))), sanitize.Policy{Files: true}, true},
		"a picture that says what it is": {"image/jpeg", plain.EncodeToString(slices.Concat(picture,
			[]byte(strings.Repeat(`<?xpacket begin="`+"\ufeff"+`" id="W5M0MpCehiHzreSzNTczkc9d"?>`, 9)), picture)), sanitize.Policy{Files: true}, true},
		"a picture":  {"image/png", plain.EncodeToString([]byte("\x89PNG\x00\u200b")), sanitize.Policy{Files: true}, true},
		"an archive": {"x/tar", plain.EncodeToString([]byte("a\x00\x00\u200b")), sanitize.Policy{Files: true}, true},
		"too large": {
			"image/png", plain.EncodeToString([]byte("\x89PNG")),
			sanitize.Policy{Files: true, MaxBinary: 7},
			false,
		},
		"as large as it may be": {
			"image/png", plain.EncodeToString([]byte("\x89PNG")),
			sanitize.Policy{Files: true, MaxBinary: 8},
			true,
		},
	} {
		result := mcp.NewObject(mcp.Member{Name: "contents", Value: mcp.RawJSON(
			`[{"uri":"ui://a/b","mimeType":"` + test.media + `","blob":"` + test.blob + `"}]`)})
		got, _, err := test.policy.Result(result)
		if test.passes != (err == nil) || err == nil && string(got.JSON()) != string(result.JSON()) {
			t.Errorf("%s: got %s, %v", name, got.JSON(), err)
		}
	}
}

// TestDigestIsOfWhatIsNamed has two places hide text, of which one is a file: a release
// of the file is advised only where that is what is wrong.
func TestDigestIsOfWhatIsNamed(t *testing.T) {
	file := `"contents":[{"uri":"skill://a/b","blob":"` + base64.StdEncoding.EncodeToString([]byte("a\u200bb")) + `"}]`
	for text, want := range map[string]string{
		"{" + file + "}":                            "contents[0].blob",
		`{"resultType":"a\u200bb",` + file + "}":    "resultType",
		"{" + file + `,"cacheScope":"a\u200bb"}`:    "contents[0].blob",
		`{"cacheScope":"a\u200bb",` + file + "}":    "cacheScope",
		`{"contents":[{"uri":"skill://a\u200bb"}]}`: "contents[0].uri",
	} {
		result, err := mcp.ParseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = sanitize.Policy{Files: true}.Result(result)
		hidden, _ := errors.AsType[*sanitize.HiddenError](err)
		if hidden == nil || hidden.Path != want || (hidden.Digest != "") != strings.Contains(want, "blob") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// swapped returns pairs of bytes in the other order.
func swapped(pairs []byte) []byte {
	var other []byte
	for pair := range slices.Chunk(pairs, 2) {
		other = append(other, pair[1], pair[0])
	}
	return other
}

// inUTF16 returns a text as Windows writes it.
func inUTF16(text string) []byte {
	file := []byte{0xFF, 0xFE}
	for _, unit := range utf16.Encode([]rune(text)) {
		file = binary.LittleEndian.AppendUint16(file, unit)
	}
	return file
}

// TestTextsInBase64AreCleaned holds for contents of resources, which hosts decode: a text
// is cleaned and encoded anew, and what is no text keeps its bytes.
func TestTextsInBase64AreCleaned(t *testing.T) {
	secret := "AKIA" + "QYLPMN5HFIQR7XYA" // in two parts, so that no scanner of source code finds it
	for file, want := range map[string]string{
		"a\u200bb":                   "ab",
		"\ufeffa\r\n\u200bb":         "\ufeffa\r\nb",
		"id: " + secret + "\n":       "id: [REDACTED:aws-access-key]\n",
		"\ufeffjust a text\x0c":      "\ufeffjust a text\x0c",
		"\x89PNG\x00\u200b" + secret: "\x89PNG\x00\u200b" + secret,
	} {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			before := `{"uri":"file:///a","blob":"` + encoding.EncodeToString([]byte(file)) + `"}`
			after := before
			if want != file {
				after = `{"uri":"file:///a","blob":"` + base64.StdEncoding.EncodeToString([]byte(want)) + `"}`
			}
			for _, form := range []string{`{"contents":[%s]}`, `{"content":[{"type":"resource","resource":%s}]}`} {
				result, err := mcp.ParseObject(fmt.Appendf(nil, form, before))
				if err != nil {
					t.Fatal(err)
				}
				got, report, err := sanitize.Policy{}.Result(result)
				if err != nil || string(got.JSON()) != fmt.Sprintf(form, after) || (len(report) > 0) != (want != file) {
					t.Errorf("%q: got %s, %v, %v, want %s", file, got.JSON(), report, err, after)
				}
				if _, _, err := (sanitize.Policy{Secrets: sanitize.Block}).Result(result); errors.Is(err,
					sanitize.ErrBlocked) != strings.Contains(want, "REDACTED") {
					t.Errorf("%q: got %v where secrets block", file, err)
				}
			}
		}
	}
}

// TestViewsPassWholeOrNotAtAll holds for hidden text and secrets in the view of an app,
// and in what is said beside it.
func TestViewsPassWholeOrNotAtAll(t *testing.T) {
	const secret = "AKIA" + "QYLPMN5HFIQR7XYA" // in two parts, so that no scanner of source code finds it
	hidden := "<p>a\u200bb</p>"
	sum := sha256.Sum256([]byte(hidden))
	digest := "sha256:" + hexes.EncodeToString(sum[:])
	var concealed *sanitize.HiddenError
	for name, test := range map[string]struct {
		text   string
		policy sanitize.Policy
		fits   func(error) bool
	}{
		"plain":         {"<p>x</p>", sanitize.Policy{}, nil},
		"over max_text": {"<p>" + strings.Repeat("x", 4096) + "</p>", sanitize.Policy{MaxText: 100}, nil},
		"over max_binary": {
			strings.Repeat("x", 200),
			sanitize.Policy{MaxBinary: 100},
			func(err error) bool { return errors.Is(err, sanitize.ErrTooLarge) },
		},
		"of max_binary": {strings.Repeat("x", 100), sanitize.Policy{MaxBinary: 100}, nil},
		"hidden text": {
			hidden,
			sanitize.Policy{},
			func(err error) bool { return errors.As(err, &concealed) && concealed.Digest == digest },
		},
		"released": {hidden, sanitize.Policy{Released: []string{digest}}, nil},
		"another released": {
			hidden + " ",
			sanitize.Policy{Released: []string{digest}},
			func(err error) bool { return errors.As(err, &concealed) },
		},
		"not looked at": {hidden, sanitize.Policy{HiddenText: sanitize.Off}, nil},
		"secret": {
			"<p>" + secret + "</p>",
			sanitize.Policy{},
			func(err error) bool { return errors.Is(err, sanitize.ErrBlocked) },
		},
		"secrets allowed":   {"<p>" + secret + "</p>", sanitize.Policy{Secrets: sanitize.Off}, nil},
		"joiner of a emoji": {"<p>👨\u200d👩\u200d👧</p>", sanitize.Policy{}, nil},
	} {
		result := view(test.text)
		got, _, err := test.policy.Result(result)
		switch {
		case test.fits != nil && !test.fits(err):
			t.Errorf("%s: got error %v", name, err)
		case test.fits == nil && err != nil:
			t.Errorf("%s: got error %v, want none", name, err)
		case test.fits == nil && string(got.JSON()) != string(result.JSON()):
			t.Errorf("%s: the bytes differ", name)
		}
	}
}

// TestHiddenTextBesideAViewIsRefused holds for every string position of its contents.
func TestHiddenTextBesideAViewIsRefused(t *testing.T) {
	for _, place := range []string{
		"ui://chart/view.html", "https://a.example", `"d"`, "csp",
		"connectDomains",
	} {
		concealing := strings.TrimSuffix(place, `"`) + "\u2063"
		if strings.HasSuffix(place, `"`) {
			concealing += `"`
		}
		text := strings.Replace(string(view("<p>x</p>").JSON()), place, concealing, 1)
		result, err := mcp.ParseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var hidden *sanitize.HiddenError
		if _, _, err := (sanitize.Policy{}).Result(result); !errors.As(err, &hidden) {
			t.Errorf("%s: got %v, want that it hides text", place, err)
		}
	}
}

// TestWhatExtensionsSayIsNeverEdited holds for each row of the table of extensions.
func TestWhatExtensionsSayIsNeverEdited(t *testing.T) {
	const text = "be\u200bfore"
	whole, items := 0, 0
	for _, row := range (*mcp.ExtensionTable)(nil).Rows() {
		for _, media := range row.Whole {
			whole++
			contents := mcp.NewObject(mcp.Member{Name: "contents", Value: mcp.RawJSON(
				`[{"uri":"x:y","mimeType":"` + media + `","text":"` + text + `"}]`)})
			if _, _, err := (sanitize.Policy{}).Result(contents); err == nil {
				t.Errorf("%s: contents of %s with hidden text pass", row.ID, media)
			}
		}
		if row.Item == "" {
			continue
		}
		items++
		definition := mcp.NewObject(mcp.Member{Name: row.Item, Value: mcp.RawJSON(`{"description":"` + text + `"}`)},
			mcp.Member{Name: "title", Value: mcp.String(text)})
		cleaned, report := cleanDefinition(definition)
		if string(cleaned.JSON()) != string(definition.JSON()) || len(report) == 0 {
			t.Errorf("%s: a definition with %s became %s", row.ID, row.Item, cleaned.JSON())
		}
	}
	if whole == 0 || items == 0 {
		t.Errorf("the table has %d types of contents and %d of definitions, want some", whole, items)
	}
}
