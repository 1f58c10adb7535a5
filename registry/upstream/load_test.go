package upstream_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestLoadIsWhatRuns lets two tenants call, and ends the upstream.
func TestLoadIsWhatRuns(t *testing.T) {
	t.Parallel()
	web := &chat{streams: true}
	for _, test := range []struct {
		name                string
		cfg                 upstream.Config
		tool                string
		before, after, gone upstream.Load
	}{
		{
			"older over stdio", command("chat"), "answers",
			upstream.Load{Processes: 1, Sessions: 1},
			upstream.Load{Processes: 3, Sessions: 3},
			upstream.Load{},
		},
		{
			"older over HTTP", web.config(), "answers",
			upstream.Load{Sessions: 1},
			upstream.Load{Sessions: 3},
			upstream.Load{},
		},
		{
			"newer over stdio", command("modern"), "echo",
			upstream.Load{Processes: 1},
			upstream.Load{Processes: 1},
			upstream.Load{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, test.cfg)
			r.untilTool(test.tool)
			if got := r.up.Load(); got != test.before {
				t.Errorf("before a call: got %+v, want %+v", got, test.before)
			}
			for _, tenant := range []string{"a", "b", "a"} {
				if _, _, _, err := r.round(t.Context(), test.tool, person{tenant: tenant}.call(t, "", "", "",
					nil)); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.up.Load(); got != test.after {
				t.Errorf("after calls of two tenants: got %+v, want %+v", got, test.after)
			}
			r.stop()
			if got := r.up.Load(); got != test.gone {
				t.Errorf("after the end: got %+v, want %+v", got, test.gone)
			}
		})
	}
}

// TestChildThatNeverAnswersCounts looks at a child that says nothing of use, so that its
// server is not up.
func TestChildThatNeverAnswersCounts(t *testing.T) {
	t.Parallel()
	r := start(t, upstream.Config{Command: "sh", Args: []string{"-c", "echo garbage; read line; read never"}})
	r.until("its child runs", func() bool { return r.up.Load() == upstream.Load{Processes: 1} })
	if r.last().Up {
		t.Error("it is up")
	}
}
