package pages_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
)

// TestEveryKindOfPageIsWritten writes each kind, since a template and its data meet only
// then.
func TestEveryKindOfPageIsWritten(t *testing.T) {
	t.Parallel()
	for want, page := range map[string]pages.Page{
		"/with/okta":         {Choice: &pages.Choice{Providers: []pages.Option{{Name: "Okta", Href: "/with/okta"}}}},
		"Claude Code":        {Consent: &pages.Consent{Client: "Claude Code", Person: "ann", Tenants: []string{"acme"}}},
		"http://127.0.0.1:9": {Move: &pages.Move{To: "http://127.0.0.1:9/cb"}},
		"REQ1":               {Problem: pages.ProviderFailed, Request: "REQ1"},
	} {
		for _, page.Language = range []pages.Language{pages.English, pages.German} {
			answer := httptest.NewRecorder()
			page.Write(answer)
			if !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s, %s: got %s", want, page.Language, answer.Body)
			}
		}
	}
}
