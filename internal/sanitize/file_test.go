package sanitize_test

import (
	"crypto/sha256"
	hexes "encoding/hex"
	"errors"
	"strings"
	"testing"

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
