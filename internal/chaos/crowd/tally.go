package crowd

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tally counts what happened to requests of all kinds, those of the ledger and others: whoever restarts replicas wants to
// know of a handshake that failed, too.
type tally struct {
	requests, goodbyes, aborted, crossed atomic.Int64
	longestCall, longestGap              atomic.Int64 // nanoseconds

	mu       sync.Mutex // guards the field below
	troubles map[string]int
}

// trouble counts something that no client meets while all replicas go on.
func (t *tally) trouble(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.troubles == nil {
		t.troubles = map[string]int{}
	}
	t.troubles[what]++
}

// longest keeps the longer one of a time and what was kept before.
func longest(kept *atomic.Int64, d time.Duration) {
	for old := kept.Load(); int64(d) > old && !kept.CompareAndSwap(old, int64(d)); old = kept.Load() {
	}
}

// Troubles returns how often requests of any kind met something that no client meets while all replicas go on, by what it
// was: a refusal, named by its code or status, or a connection that broke without the client's doing.
func (c *Crowd) Troubles() map[string]int {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return maps.Clone(c.tally.troubles)
}

// watched is the body of an answer, whose end is counted. A client that closes it, or ends its request, is no trouble.
type watchedBody struct {
	io.ReadCloser

	ended func(err error) // called once, when it ends or breaks
	once  sync.Once
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(func() { b.ended(err) })
	}
	return n, err
}

// watch counts how the body of an answer ends. ctx is that of the request.
func (t *tally) watch(ctx context.Context, r *http.Response) io.ReadCloser {
	what := r.Request.Method + " " + r.Request.URL.Path
	return &watchedBody{ReadCloser: r.Body, ended: func(err error) {
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			t.aborted.Add(1)
			t.trouble(what + ": answer torn, " + fault(err))
		}
	}}
}

// failed counts a request without an answer.
func (t *tally) failed(r *http.Request, err error) {
	if r.Context().Err() == nil {
		t.trouble(r.Method + " " + r.URL.Path + ": " + fault(err))
	}
}
