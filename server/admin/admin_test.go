package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

func TestHandler(t *testing.T) {
	ready := admin.View{Ready: true}
	tests := []struct {
		name, method, path string
		view               admin.View
		status             int
		body               string
	}{
		{"alive while not ready", "GET", "/healthz", admin.View{}, 200, `{"alive":true}`},
		{"ready", "GET", "/readyz", ready, 200, `{"ready":true}`},
		{
			"ready with warnings", "GET", "/readyz",
			admin.View{Ready: true, Warnings: []string{"upstream files is down"}},
			200,
			`{"ready":true,"warnings":["upstream files is down"]}`,
		},
		{
			"with servers", "GET", "/readyz",
			admin.View{Ready: true, Servers: map[string]admin.Server{
				"files": {Processes: 2, Sessions: 1},
				"far":   {},
			}},
			200, `{"ready":true,"servers":{"far":{"processes":0,"sessions":0},"files":{"processes":2,"sessions":1}}}`,
		},
		{
			"with issuers", "GET", "/readyz",
			admin.View{Ready: true, Issuers: map[string]admin.Issuer{
				"a": {},
				"b": {Fetched: time.Unix(0, 0).UTC(), Until: time.Unix(60, 0).UTC()},
			}},
			200, `{"ready":true,"issuers":{"a":{},"b":{"fetched":"1970-01-01T00:00:00Z","until":"1970-01-01T00:01:00Z"}}}`,
		},
		{
			"what a server hides in a name", "GET", "/readyz",
			admin.View{Ready: true, Warnings: []string{"a\u202e\u009b8m\U000E0041b"}},
			200, `{"ready":true,"warnings":["a\u202e\u009b8m\udb40\udc41b"]}`,
		},
		{"not ready", "GET", "/readyz", admin.View{}, 503, `{"ready":false}`},
		{
			"a problem is not ready", "GET", "/readyz",
			admin.View{Ready: true, Problems: []string{"no record"}},
			503, `{"ready":false,"problems":["no record"]}`,
		},
		{
			"draining is not ready", "GET", "/readyz",
			admin.View{Ready: true, Draining: true},
			503,
			`{"ready":false,"draining":true}`,
		},
		{"metrics", "GET", "/metrics", ready, 200, "some_total 1"},
		{"metrics are read only", "POST", "/metrics", ready, 405, "Method Not Allowed"},
		{"nothing else", "GET", "/debug", ready, 404, "404 page not found"},
		{"no client endpoint", "POST", "/mcp", ready, 404, "404 page not found"},
		{
			"a page that points its name at this machine", "GET", "http://evil.example/readyz", ready, 403,
			"this host is not served: add it to allowed_hosts",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := admin.Handler(admin.Config{
				Metrics: http.HandlerFunc(func(w http.ResponseWriter,
					_ *http.Request,
				) {
					w.Write([]byte("some_total 1\n"))
				}),
				View:       func() admin.View { return test.view },
				AllowsHost: func(host string) bool { return host == "example.com" }, // as of httptest
			})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.body {
				t.Errorf("%s %s: got %d %q, want %d %q", test.method, test.path, w.Code, got, test.status,
					test.body)
			}
		})
	}
}
