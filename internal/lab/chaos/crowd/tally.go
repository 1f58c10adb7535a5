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

// Tally counts what clients did, and what happened to requests of all kinds, those of the
// ledger and others: whoever restarts replicas wants to know of a handshake that failed,
// too. The zero value is ready, and crowds may share one, at the same time or one after
// the other.
type Tally struct {
	calls, resumed, questions, cancelled, repeated, changes, sessions, listened, reconnects,
	requests, lives, goodbyes, aborted atomic.Int64
	// nanoseconds
	longestCall, longestGap atomic.Int64

	mu       sync.Mutex // guards the field below
	troubles map[string]int
}

// Deeds is what clients did, as a proof that they did something.
type Deeds struct {
	Calls      int64 // asked
	Resumed    int64 // streams that went on after they broke
	Questions  int64 // questions of tools that were answered, on a stream or by a repeat of the call
	Cancelled  int64 // calls that their client cancelled
	Repeated   int64 // requests with an Idempotency-Key that were sent again after a broken connection
	Changes    int64 // changes of lists and resources that were told
	Sessions   int64 // that were opened, over HTTP+SSE too
	Listened   int64 // subscriptions/listen that were acknowledged
	Reconnects int64 // sessions that were opened because the last one was gone

	Requests int64 // that were sent over HTTP, of all kinds
	Lives    int64 // sessions that were opened, used and ended with DELETE
	Goodbyes int64 // streams that the gateway ended in good order, though there was more to come
	// answers, streams among them, whose connection broke without the client's doing
	Aborted     int64
	LongestCall time.Duration // from a plain call of 2026-07-28 to its answer
	LongestGap  time.Duration // from the end of a stream of a session until the client had it again
}

// Deeds returns what was done so far.
func (t *Tally) Deeds() Deeds {
	return Deeds{
		Calls: t.calls.Load(), Resumed: t.resumed.Load(), Questions: t.questions.Load(),
		Cancelled: t.cancelled.Load(), Repeated: t.repeated.Load(), Changes: t.changes.Load(),
		Sessions: t.sessions.Load(), Listened: t.listened.Load(),
		Reconnects: t.reconnects.Load(), Requests: t.requests.Load(),
		Lives: t.lives.Load(), Goodbyes: t.goodbyes.Load(),
		Aborted:     t.aborted.Load(),
		LongestCall: time.Duration(t.longestCall.Load()), LongestGap: time.Duration(t.longestGap.Load()),
	}
}

// meets counts something that no client meets while all replicas go on.
func (t *Tally) meets(what string) {
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
func (t *Tally) Troubles() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.troubles)
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
func (t *Tally) watch(ctx context.Context, r *http.Response) io.ReadCloser {
	what := r.Request.Method + " " + r.Request.URL.Path
	return &watchedBody{ReadCloser: r.Body, ended: func(err error) {
		switch {
		case errors.Is(err, io.EOF):
		case ctx.Err() == nil:
			t.aborted.Add(1)
			t.meets(what + ": answer torn, " + fault(err))
		case silent(ctx):
			t.meets(what + ": an answer without an end")
		}
	}}
}

// failed counts a request without an answer.
func (t *Tally) failed(r *http.Request, err error) {
	what := r.Method + " " + r.URL.Path
	switch {
	case r.Context().Err() == nil:
		t.meets(what + ": " + fault(err))
	case silent(r.Context()):
		t.meets(what + ": no answer")
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
		p.crowd.meets(p.kind + ": " + what)
	}
}
