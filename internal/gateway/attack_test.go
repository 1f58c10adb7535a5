package gateway

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// A server decodes a URI before it looks, so a pattern that denies it must hold for its encoded spellings too.
func TestDeniedURIIsDeniedInEverySpelling(t *testing.T) {
	tenant := everything()
	tenant.Rules = append(tenant.Rules, Rule{Deny: []string{
		"resource:lib:file:///C:/secret/*", "resource:lib:file:///caf\u00e9/*", "resource:lib:file:///br%C3%BCcke/*", "resource:lib:file:///a(1).txt",
	}})
	b, l := newLibrary(t, tenant)
	l.says(subjects[2].answer("text"))
	read := func(uri string) *mcp.Error {
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":`+quote(uri)+`}`))
		return failure
	}
	for _, uri := range []string{
		"file:///C:/secret/x", "file:///C%3A/secret/x", "file:///C%3a/secret/x", "file:///C%253A/secret/x", "FILE:///C:/secret/x",
		"file:/C:/secret/x", "file://localhost/C:/secret/x", "file:///caf\u00e9/x", "file:///caf%C3%A9/x", "file:///caf%c3%a9/x",
		"file:///br%C3%BCcke/x", "file:///br\u00fccke/x", "file:///br%c3%bccke/x", "file:///a(1).txt", "file:///a%281%29.txt",
	} {
		if failure := read("mcp.lib+" + uri); stable(failure) != "DB-RESOURCE" {
			t.Errorf("%s: got %v, want it unknown", uri, failure)
		}
		if c, _ := b.Resolve(alice); b.Reads(c, "mcp.lib+"+uri) {
			t.Errorf("%s: changes of it are told", uri)
		}
	}
	for _, uri := range []string{"file:///C:/open/x", "file:///C%3A/open/x", "file:///caf%C3%A9.txt", "file:///a%282%29.txt"} {
		if failure := read("mcp.lib+" + uri); failure != nil {
			t.Errorf("%s: %v, want it read", uri, failure)
		}
	}
}
