package upstream_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const notModern = "server does not speak 2026-07-28, which its revision in the config names"

// TestNamedRevisionIsSpoken names the revision of servers of one era and of both. A
// server is never asked in the way of the era that was not named, and its own choice
// among the older revisions stands.
func TestNamedRevisionIsSpoken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server http.Handler
		named  string
		want   string // the revision spoken, or the problem
		asked  string // begins so
	}{
		"both eras, older": {
			&web{modern: true, speaks: "2025-11-25"}, "2025-11-25", "2025-11-25",
			"initialize notifications/initialized tools/list",
		},
		"both eras, newer": {modernWeb(), "2026-07-28", "2026-07-28", "server/discover tools/list"},
		"older, another older": {
			&web{speaks: "2025-06-18"}, "2025-03-26", "2025-06-18",
			"initialize notifications/initialized tools/list",
		},
		"older, newer": {legacyWeb(), "2026-07-28", notModern, "server/discover server/discover"},
		"newer, older": {newOnlyModern(-32022), "2025-11-25", "m (-32022)", "initialize initialize"},
		"SSE, older": {
			overSSE(), "2024-11-05", "2024-11-05",
			"initialize GET initialize notifications/initialized",
		},
	} {
		visit(t, upstream.Config{Revision: test.named}, func(t *testing.T, o *origin, r *rig) {
			if got := r.last(); got.Up != (got.Revision == test.want) || !got.Up && got.Problem != test.want {
				t.Errorf("%s: got %+v, want %q", name, got, test.want)
			}
			if got := o.asked(); !strings.HasPrefix(got, test.asked) {
				t.Errorf("%s: asked %.200s…, want %s…", name, got, test.asked)
			}
		}, test.server)
	}
}

// TestNamedRevisionIsNotBlamedForARefusal has a server, or a balancer before it, refuse
// every request to a server of which the operator says that it is of 2026-07-28. Why is
// not that it were of another revision.
func TestNamedRevisionIsNotBlamedForARefusal(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusUnauthorized: signInWanted, http.StatusForbidden: "HTTP status 403",
		http.StatusTooManyRequests: "HTTP status 429", http.StatusBadGateway: "HTTP status 502",
		http.StatusServiceUnavailable: "HTTP status 503", http.StatusNotFound: notModern,
	} {
		refuse := &guarded{status, "", make(chan string, 1000)}
		visit(t, upstream.Config{Revision: mcp.LatestModern, Prefix: "up"}, func(t *testing.T, _ *origin, r *rig) {
			if got := r.last(); got.Up || got.Problem != want {
				t.Errorf("%d: got %+v, want %q", status, got, want)
			}
			down := r.reg.Catalogue().View([]string{"up"}).Unreached(registry.KindTool, "up__x").Down()
			if wants := status == http.StatusUnauthorized; down == nil || down.SignIn != wants {
				t.Errorf("%d: got %+v, want that it wants a sign-in: %v", status, down, wants)
			}
		}, refuse)
	}
}

func TestNamedRevisionOfChildIsSpoken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, named, want string }{
		"both eras, older":                {"both", "2025-11-25", "2025-11-25"},
		"older, the same older":           {"fake", "2025-06-18", "2025-06-18"},
		"both eras, newer":                {"modern", "2026-07-28", "2026-07-28"},
		"older, another older":            {"old", "2025-06-18", "2024-11-05"},
		"older, newer":                    {"old", "2026-07-28", notModern},
		"ended by the question, unasked":  {"upset", "2025-11-25", "2025-11-25"},
		"silent to what it does not know": {"silent", "2025-11-25", "2025-11-25"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := command(test.kind)
			cfg.Revision = test.named
			r := start(t, cfg)
			r.until("an attempt ended", func() bool { return r.last().Tried })
			if got := r.last(); got.Up != (got.Revision == test.want) || !got.Up && got.Problem != test.want {
				t.Errorf("got %+v, want %q", got, test.want)
			}
		})
	}
}

// TestNamedRevisionStays has a server learn 2026-07-28 while the operator's word is
// another. Nobody asks it.
func TestNamedRevisionStays(t *testing.T) {
	t.Parallel()
	visit(t, upstream.Config{Revision: mcp.Revision2511}, func(t *testing.T, o *origin, r *rig) {
		o.learn(modernWeb())
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.last(); !got.Up || got.Revision != mcp.Revision2511 ||
			strings.Contains(o.asked(), "server/discover") {
			t.Errorf("after an hour: got %+v, asked %.200s", got, o.asked())
		}
	}, &web{})
}
