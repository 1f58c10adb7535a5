package crowd

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// tally counts what happened to requests of all kinds, those of the ledger and others:
// whoever restarts replicas wants to know of a handshake that failed, too.
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

// Troubles returns how often requests of any kind met something that no client meets
// while all replicas go on, by what it was: a refusal, named by its code or status, a
// connection that broke without the client's doing, or no answer in all the time that the
// client waited.
func (c *Crowd) Troubles() map[string]int {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return maps.Clone(c.tally.troubles)
}

// watchedBody is the body of an answer, whose end is counted. A client that closes it, or
// ends its request while it has patience still, is no trouble.
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
		switch {
		case errors.Is(err, io.EOF):
		case ctx.Err() == nil:
			t.aborted.Add(1)
			t.trouble(what + ": answer torn, " + fault(err))
		case silent(ctx):
			t.trouble(what + ": an answer without an end")
		}
	}}
}

// failed counts a request without an answer.
func (t *tally) failed(r *http.Request, err error) {
	what := r.Method + " " + r.URL.Path
	switch {
	case r.Context().Err() == nil:
		t.trouble(what + ": " + fault(err))
	case silent(r.Context()):
		t.trouble(what + ": no answer")
	}
}

// garbled counts an answer that is no JSON-RPC. Other errors are of its connection, and
// counted when that ends.
func (p *person) garbled(err error) {
	if _, ok := errors.AsType[*mcp.Error](err); ok {
		p.trouble(fault(err))
	}
}

// failed counts an answer with status 200 that is an error of JSON-RPC.
func (p *person) failed(e *mcp.Error) {
	code := wordOf(e, word{}).code
	if code == "" {
		code = "error " + strconv.Itoa(e.Code)
	}
	p.trouble(code)
}

// trouble counts something that no client meets while all replicas go on, unless the
// crowd was ended.
func (p *person) trouble(what string) {
	if p.crowd.life.Err() == nil {
		p.crowd.tally.trouble(p.kind + ": " + what)
	}
}
