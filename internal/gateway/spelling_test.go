package gateway

import "testing"

// A deny of one spelling of a URI was passed by others that some programs take for the same: Python reads the host of
// any scheme in small letters, resolvers read numbers as addresses, an empty path is the path /, and a server may decode
// a path twice although its query cannot be decoded.
func TestDeniedURIHasOtherSpellings(t *testing.T) {
	for _, test := range []struct {
		deny       string
		same, free []string
	}{
		{
			"memo://secret/*",
			[]string{"memo://secret/x", "memo://SECRET/x", "memo://Secret", "memo://secret?x", "memo://secret:/x", "memo://secret#x", "memo://secret/"},
			[]string{"memo://secrets/x", "memo://public/secret/x", "memo:secret/x", "other://secret/x"},
		},
		{"memo://Secret", []string{"memo://secret", "memo://secret/", "memo://SECRET?x"}, []string{"memo://secret/x"}},
		{"memo://Secret*", []string{"memo://secret", "memo://secretary/x"}, []string{"memo://public"}},
		{"*:memo:///secret/*", []string{"memo:///secret/x", "memo:/secret/x"}, []string{"memo:secret/x", "memo:///Secret/x"}},
		{"memo:/secret/*", []string{"memo:///secret/x", "memo:/secret/x"}, nil},
		{
			"redis://127.0.0.1/*",
			[]string{"redis://2130706433/x", "redis://0x7f000001/x", "redis://017700000001/x", "redis://127.1/x", "redis://0x7f.0.1", "redis://127.0.0.1?x"},
			[]string{"redis://2130706434/x", "redis://127.1:6380/x", "redis://127.2/x", "redis://99999999999/x", "redis://0x/x"},
		},
		{"redis://[::1]:1/*", []string{"redis://[::1]:1/x"}, []string{"redis://[::1]/x", "redis://[::2]:1/x"}},
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
		r, err := compileRule(&Rule{Deny: []string{deny}})
		if err != nil {
			t.Fatal(err)
		}
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
