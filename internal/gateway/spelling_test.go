package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// A deny of one spelling of a URI was passed by others that some programs take for the
// same: Python reads the host of any scheme in small letters, resolvers read numbers as
// addresses, an empty path is the path /, and a server may decode a path twice although
// its query cannot be decoded. A deny that the operator wrote with a default port, a host
// in a file URI or a long address denied nothing, since no client can use that spelling.
func TestDeniedURIHasOtherSpellings(t *testing.T) {
	for _, test := range []struct {
		deny       string
		same, free []string
	}{
		{
			"memo://secret/*",
			[]string{
				"memo://secret/x", "memo://SECRET/x", "memo://Secret", "memo://secret?x",
				"memo://secret:/x", "memo://secret#x", "memo://secret/",
			},
			[]string{"memo://secrets/x", "memo://public/secret/x", "memo:secret/x", "other://secret/x"},
		},
		{
			"memo://Secret",
			[]string{"memo://secret", "memo://secret/", "memo://SECRET?x"},
			[]string{"memo://secret/x"},
		},
		{
			"redis://127.0.0.1/0",
			[]string{"redis://127.0.0.1/0/", "redis://2130706433/0", "redis://2130706433/0/#x"},
			[]string{"redis://2130706433/01", "redis://2130706433/0/1"},
		},
		{"memo://Secret*", []string{"memo://secret", "memo://secretary/x"}, []string{"memo://public"}},
		{
			"*:memo:///secret/*",
			[]string{"memo:///secret/x", "memo:/secret/x"},
			[]string{"memo:secret/x", "memo:///Secret/x"},
		},
		{"memo:/secret/*", []string{"memo:///secret/x", "memo:/secret/x"}, nil},
		{
			"redis://127.0.0.1/*",
			[]string{
				"redis://2130706433/x", "redis://0x7f000001/x", "redis://017700000001/x",
				"redis://127.1/x", "redis://0x7f.0.1", "redis://127.0.0.1?x",
			},
			[]string{
				"redis://2130706434/x", "redis://127.1:6380/x", "redis://127.2/x",
				"redis://99999999999/x", "redis://0x/x",
			},
		},
		{"http://intra:80/*", []string{
			"http://intra/x", "http://intra:080/x", "http://u:p@intra./x",
			"http://INTRA",
		}, []string{"http://intra:8080/x", "http://intra.example/x", "https://intra:80/x"}},
		{"http://u@intra.:8080/*", []string{"http://intra:8080/x"}, []string{"http://intra/x"}},
		{"git+https://intra:443/*", []string{"git+https://intra/x"}, []string{"git+https://intra:80/x"}},
		{
			"http://[::ffff:127.0.0.1]/*",
			[]string{"http://127.0.0.1/x", "http://[::ffff:7f00:1]:80/x"},
			[]string{"http://[::1]/x"},
		},
		{"http://[0:0:0:0:0:0:0:1]/*", []string{"http://[::1]/x"}, []string{"http://[::2]/x"}},
		{"http://*:80/*", []string{"http://intra:80/x"}, []string{"http://intra:81/x"}},
		{
			"file://localhost/etc/*",
			[]string{"file:///etc/passwd", "file://x/etc/passwd", "file:/etc/passwd"},
			[]string{"file:///srv/etc/passwd"},
		},
		{"file://*/etc/*", []string{"file:///etc/passwd", "file://x/etc/passwd"}, nil},
		{
			"redis://[::1]:1/*",
			[]string{"redis://[::1]:1/x"},
			[]string{"redis://[::1]/x", "redis://[::2]:1/x"},
		},
		{
			"file:///etc/*",
			[]string{"file:///etc/passwd", "file:///%2565tc/passwd?%25zz", "file:///%65tc/passwd%"},
			[]string{"file:///srv/etc/x", "file:///ETC/x"},
		},
	} {
		deny := "resource:lib:" + test.deny
		if test.deny[0] == '*' {
			deny = "resource:" + test.deny
		}
		r := compileRule(&Rule{Deny: []string{deny}})
		for _, uri := range test.same {
			if !r.denies(&policyName{kind: "resource", name: "lib:" + uri}) {
				t.Errorf("deny of %s does not concern %s", test.deny, uri)
			}
		}
		for _, uri := range test.free {
			if r.denies(&policyName{kind: "resource", name: "lib:" + uri}) {
				t.Errorf("deny of %s concerns %s, too", test.deny, uri)
			}
		}
	}
}

// A URI with several readings is answered in the same bytes as one that nobody has, and
// reaches no server.
func TestURIWithSeveralReadingsIsUnknown(t *testing.T) {
	b, l := newLibrary(t, restricted("resource:lib:file:///secret/*", "resource:lib:http://intra/*"))
	l.says(`{"contents":[{"uri":"file:///secret/a","text":"x"}]}`)
	told := func(uri string) (read, subscribed string) {
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":`+quote(uri)+`}`))
		_, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "r1"}, uri, nil)
		var refused *mcp.Error
		if failure == nil || !errors.As(err, &refused) {
			t.Fatalf("%s: got %v and %v, want errors", uri, failure, err)
		}
		hide := strings.NewReplacer(quote(uri), `"URI"`)
		return hide.Replace(string(failure.Object().JSON())), hide.Replace(string(refused.Object().JSON()))
	}
	wantRead, wantSubscribed := told("mcp.nobody+file:///a")
	for _, uri := range spelled() {
		read, subscribed := told("mcp.lib+" + uri)
		if read != wantRead || subscribed != wantSubscribed {
			t.Errorf("%s: got %s and %s\nwant %s and %s", uri, read, subscribed, wantRead, wantSubscribed)
		}
	}
	if len(l.uses) > 0 || len(l.updated) > 0 {
		t.Errorf("%d uses and %d subscriptions reached the server", len(l.uses), len(l.updated))
	}
}
