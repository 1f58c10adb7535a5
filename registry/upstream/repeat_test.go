package upstream_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// A call whose server went away before it answered is made once more only where the
// operator says that it may be.
func TestLostCallIsRepeatedByTheOperatorsWord(t *testing.T) {
	for _, test := range []struct {
		name       string
		idempotent []string
		status     int // of the first answer; 0: the connection breaks
		calls      int64
		ok         bool
	}{
		{"not said", nil, 0, 1, false},
		{"another tool", []string{"other", "t*x"}, 0, 1, false},
		{"named", []string{"tool"}, 0, 2, true},
		{"by pattern", []string{"t*"}, 0, 2, true},
		{"by pattern with text after the star", []string{"t*l"}, 0, 2, true},
		{"by what is no star", []string{"t??l", "[t]ool", `\tool`}, 0, 1, false},
		{"server failed", []string{"tool"}, http.StatusBadGateway, 2, true},
		{"server refused", []string{"tool"}, http.StatusTooManyRequests, 1, false},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				var calls atomic.Int64
				w := &web{modern: modern, call: func(w http.ResponseWriter, _ *http.Request, m wire) {
					switch {
					case calls.Add(1) > 1:
						sendJSON(w, m.ID, okResult)
					case test.status > 0:
						w.WriteHeader(test.status)
					default:
						panic(http.ErrAbortHandler)
					}
				}}
				cfg := serve(t, w).config()
				cfg.Idempotent = test.idempotent
				r := start(t, cfg)
				r.untilTool("tool")
				result, err := r.call(t.Context(), "tool", `{}`, nil)
				if (err == nil) != test.ok || calls.Load() != test.calls {
					t.Errorf("modern %t: got %s, %v after %d calls; want ok: %t after %d", modern,
						text(result), err, calls.Load(), test.ok, test.calls)
				}
				if _, lost := errors.AsType[*registry.UnavailableError](err); err != nil && !lost {
					t.Errorf("got %v, want that the server is not available", err)
				}
			})
		}
	}
}
