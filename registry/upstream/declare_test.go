package upstream_test

import (
	"net/http"
	"strings"
	"testing"
)

// Some servers list certain tools only for clients that can be asked. They are listed,
// and a call says the truth about who makes it.
func TestToolsForClientsThatCanBeAskedAreListed(t *testing.T) {
	for _, test := range []struct {
		name           string
		modern, shared bool
		listed         bool
	}{
		{"legacy", false, false, true},
		{"modern", true, false, true},
		{"legacy, where calls go over the connection that lists", false, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &web{modern: test.modern}
			w.list = func(rw http.ResponseWriter, m wire) {
				tools := `{"name":"tool","inputSchema":{"type":"object"}}`
				if declares(w) {
					tools += `,{"name":"asks","inputSchema":{"type":"object"}}`
				}
				sendJSON(rw, m.ID, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+
					tools+`]}`)
			}
			cfg := serve(t, w).config()
			cfg.Shared = test.shared
			r := start(t, cfg)
			r.untilTool("tool")
			if got := strings.Contains(strings.Join(r.tools(), " "), "asks"); got != test.listed {
				t.Errorf("listed: got %t, want %t", got, test.listed)
			}
			r.must("tool", `{}`)
			calls := w.sights("tools/call")
			if test.modern {
				if strings.Contains(calls[0].body, "elicitation") {
					t.Errorf("the call of a caller who cannot be asked says %s", calls[0].body)
				}
				return
			}
			opened := w.sights("initialize")
			if last := opened[len(opened)-1]; strings.Contains(last.body, "elicitation") {
				t.Errorf("the session of a caller who cannot be asked was opened with %s", last.body)
			}
		})
	}
}

// declares tells whether the client of a list said that it can be asked: in the list
// itself, or when it opened the first session.
func declares(w *web) bool {
	method := "initialize"
	if w.modern {
		method = "tools/list"
	}
	return strings.Contains(w.sights(method)[0].body, `"elicitation":{"form":{},"url":{}}`)
}
