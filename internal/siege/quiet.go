package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/raid"
)

// The quiet tenant makes between five and nine calls a second, each when it is due, whatever became of those before.
const (
	quietLeast = 111 * time.Millisecond // between two calls
	quietMost  = 200 * time.Millisecond
)

// notes is what the quiet tenant saw.
type notes struct {
	latency []time.Duration // of the calls that were answered, each from when it was due
	instead map[string]int  // of the others, what came instead
	again   int             // calls that were sent twice, since a connection had been closed while nothing was under way on it
}

func (n *notes) sent() int {
	total := len(n.latency)
	for _, count := range n.instead {
		total += count
	}
	return total
}

// quantile returns the latency that so much of the answered calls did not exceed, zero if there are none.
func (n *notes) quantile(part float64) time.Duration {
	if len(n.latency) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(n.latency))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// quiet is the quiet tenant. Its users have a few connections that stay open between calls.
type quiet struct {
	lab  *lab
	idle chan *raid.Wire // connections that no call uses

	mu    sync.Mutex // guards the field below
	notes notes
}

// callUntil makes calls until ctx ends, then waits for those under way.
func (l *lab) callUntil(ctx context.Context, random *rand.Rand) *notes {
	q := &quiet{lab: l, idle: make(chan *raid.Wire, usersOfTenant), notes: notes{instead: map[string]int{}}}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // calls under way are still to be answered
	defer cancel()
	var wg sync.WaitGroup
	for pause(ctx, quietLeast+time.Duration(random.Int64N(int64(quietMost-quietLeast)))) {
		call := l.call("quiet", "calm", random.IntN(usersOfTenant))
		due := time.Now()
		wg.Go(func() { q.note(due, q.call(own, call)) })
	}
	wg.Wait()
	return &q.notes
}

func (q *quiet) note(due time.Time, instead string) {
	took := time.Since(due)
	q.mu.Lock()
	defer q.mu.Unlock()
	if instead == "" {
		q.notes.latency = append(q.notes.latency, took)
	} else {
		q.notes.instead[instead]++
	}
}

var code = regexp.MustCompile(`DB-[A-Z-]+`)

// call makes one call and returns what came instead of the answer, "" if it was answered. A server may close a connection
// that is idle; a client that finds it so sends the call once more, on a new one, as clients do.
// https://www.rfc-editor.org/rfc/rfc9112.html#section-9.3.1
func (q *quiet) call(ctx context.Context, call []byte) string {
	w, used, err := q.connection(ctx)
	if err != nil {
		return "no connection"
	}
	answer, err := w.Exchange(call)
	if err != nil && used && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.Close()
		q.mu.Lock()
		q.notes.again++
		q.mu.Unlock()
		if w, err = raid.Dial(ctx, q.lab.addr, ""); err != nil {
			return "no connection"
		}
		answer, err = w.Exchange(call)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Close()
		return "no answer in time"
	case err != nil:
		w.Close()
		return "connection closed"
	case answer.Closing:
		w.Close()
	default:
		q.rest(w)
	}
	if answer.Status != http.StatusOK || !bytes.Contains(answer.Head, []byte(raid.Sentence)) {
		return fmt.Sprintf("%d %s", answer.Status, code.Find(answer.Head))
	}
	return ""
}

// connection returns an idle connection, or else a new one.
func (q *quiet) connection(ctx context.Context) (w *raid.Wire, used bool, err error) {
	select {
	case w = <-q.idle:
		return w, true, nil
	default:
		w, err = raid.Dial(ctx, q.lab.addr, "")
		return w, false, err
	}
}

func (q *quiet) rest(w *raid.Wire) {
	select {
	case q.idle <- w:
	default:
		w.Close()
	}
}
