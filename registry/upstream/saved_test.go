package upstream_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// faulty panics once it is armed, as a fault of the gateway would while it sends a call.
type faulty struct {
	http.RoundTripper

	armed atomic.Bool
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.armed.CompareAndSwap(true, false) {
		panic("a fault of ours")
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestPanicInACallThatAsksEndsItAlone has the gateway itself fail in the exchange of a
// call whose caller can be asked, which no request runs: the caller is told so, and the
// next call is as any other, on the same session.
func TestPanicInACallThatAsksEndsItAlone(t *testing.T) {
	t.Parallel()
	s, panics := &chat{}, 0
	f := &faulty{RoundTripper: s}
	change := func(cfg *upstream.Config) {
		cfg.Client = &http.Client{Transport: f}
		cfg.Panicked = func() { panics++ }
	}
	inBubble(t, s, change, func(t *testing.T, r *rig) {
		_, _, before, err := r.round(t.Context(), "answers", alice.call(t, "", "", "", nil))
		if err != nil {
			t.Fatal(err)
		}
		f.armed.Store(true)
		if _, _, got, err := r.round(t.Context(), "answers", alice.call(t, "", "", "", nil)); err == nil {
			t.Errorf("got %q, want an error", got)
		}
		if panics != 1 {
			t.Errorf("got %d panics counted, want 1", panics)
		}
		_, _, after, err := r.round(t.Context(), "answers", alice.call(t, "", "", "", nil))
		if err != nil || after != before {
			t.Errorf("got %q, %v, want session %q as before", after, err, before)
		}
	})
}
