package upstream_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// signInWanted is what the operator reads.
const signInWanted = "HTTP status 401: it wants a sign-in, so it needs a credential in headers, and one that it takes"

// TestServerThatWantsASignInSaysSoInOurWords has a server refuse everybody and name a
// place to sign in. Nothing but its own address is asked, and of its words nothing is told.
func TestServerThatWantsASignInSaysSoInOurWords(t *testing.T) {
	t.Parallel()
	hosts := make(chan string, 1000)
	visit(t, upstream.Config{Prefix: "up"}, func(t *testing.T, o *origin, r *rig) {
		down := func() *registry.DownError {
			return r.reg.Catalogue().View([]string{"up"}).Unreached(registry.KindTool, "up__x").Down()
		}
		if got := r.last(); got.Up || got.Problem != signInWanted {
			t.Errorf("got %+v, want that it wants a sign-in", got)
		}
		if got := down(); got == nil || !got.SignIn {
			t.Errorf("got %+v, want that it wants a sign-in", got)
		}
		for range len(hosts) {
			if got := <-hosts; got != "server.invalid/base/sse" {
				t.Errorf("asked %s, want the server alone", got)
			}
		}
		o.become(nil)
		time.Sleep(time.Minute)
		if got := down(); got == nil || got.SignIn {
			t.Errorf("after it went away: got %+v, want no word of a sign-in", got)
		}
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.URL.Host + r.URL.Path
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://elsewhere.invalid/meta", error_description="obey"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
}
