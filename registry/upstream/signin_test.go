package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// signInWanted is what the operator reads.
const signInWanted = "HTTP status 401: it wants a sign-in, so it needs a credential in headers or auth, and one that it takes"

// guarded refuses everybody and names a place to sign in. It notes who is asked.
type guarded struct {
	status    int
	challenge string
	asked     chan string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked <- r.URL.Host
	if g.challenge != "" {
		w.Header().Set("WWW-Authenticate", g.challenge)
	}
	w.WriteHeader(g.status)
}

// TestStatusSaysWhatToChange has servers answer as those do whose address is not quite
// the one of their MCP.
func TestStatusSaysWhatToChange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a slash is missing": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/mcp/?token=hunter2", http.StatusTemporaryRedirect)
			},
			"HTTP status 307: it redirects to %s/mcp/, and redirects are not followed; if that is the server, " +
				"write it as url",
		},
		"another path": {http.NotFound, "HTTP status 404: the path of url may be another"},
		"a page": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
			},
			`answer of the media type "text/html; charset=utf-8", which MCP has not`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(test.answer)
			t.Cleanup(s.Close)
			r := start(t, upstream.Config{URL: s.URL + "/mcp"})
			r.until("it was tried", func() bool { return r.last().Tried })
			want := strings.ReplaceAll(test.want, "%s", s.URL)
			if got := r.last(); got.Up || got.Problem != want {
				t.Errorf("got %+v, want %q", got, want)
			}
		})
	}
}

// TestServerThatWantsASignInSaysSoInOurWords has a server refuse everybody and name a
// place to sign in: from the start, and in the middle of calls, as when a token has
// ended. Nothing but its own address is asked, and of its words nothing is told.
func TestServerThatWantsASignInSaysSoInOurWords(t *testing.T) {
	t.Parallel()
	const challenge = `Bearer resource_metadata="http://elsewhere.invalid/meta", error_description="obey"`
	for _, test := range []struct {
		status    int
		challenge string
		want      bool
		problem   string
	}{
		{http.StatusUnauthorized, challenge, true, signInWanted},
		{http.StatusUnauthorized, "", true, signInWanted},
		{http.StatusForbidden, challenge, true, "HTTP status 403" + signInWanted[len("HTTP status 401"):]},
		{http.StatusForbidden, "", false, "HTTP status 403"},
	} {
		refuse := &guarded{test.status, test.challenge, make(chan string, 1000)}
		judge := func(t *testing.T, o *origin, r *rig, down func() *registry.DownError) {
			t.Helper()
			if got := r.last(); got.Up || got.Problem != test.problem {
				t.Errorf("got %+v, want %q", got, test.problem)
			}
			if got := down(); got == nil || got.SignIn != test.want {
				t.Errorf("got %+v, want that it wants a sign-in: %v", got, test.want)
			}
			for range len(refuse.asked) {
				if got := <-refuse.asked; got != "server.invalid" {
					t.Errorf("asked %s, want the server alone", got)
				}
			}
			o.become(nil)
			time.Sleep(time.Minute)
			if got := down(); got == nil || got.SignIn {
				t.Errorf("after it went away: got %+v, want no word of a sign-in", got)
			}
		}
		t.Run(fmt.Sprint(test.status, test.challenge != "", " at once"), func(t *testing.T) {
			visit(t, upstream.Config{Prefix: "up"}, func(t *testing.T, o *origin, r *rig) {
				judge(t, o, r, func() *registry.DownError {
					return r.reg.Catalogue().View([]string{"up"}).Unreached(registry.KindTool, "up__x").Down()
				})
			}, refuse)
		})
		t.Run(fmt.Sprint(test.status, test.challenge != "", " later"), func(t *testing.T) {
			for name, one := range map[string]http.Handler{"legacy": legacyWeb(), "modern": modernWeb()} {
				visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
					tool := r.view().Tools[0]
					o.become(refuse)
					_, err := tool.Call(t.Context(), person{tenant: "a"}.call(t, "", "", "", nil))
					var unavailable *registry.UnavailableError
					if !errors.As(err, &unavailable) || unavailable.Sent || unavailable.SignIn != test.want {
						t.Errorf("%s: got %v, want that it wants a sign-in: %v", name, cause(err), test.want)
					}
					time.Sleep(time.Minute)
					judge(t, o, r, tool.Down)
				}, one)
			}
		})
	}
}
