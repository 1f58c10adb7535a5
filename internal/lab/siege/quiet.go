package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// The quiet tenant makes between five and nine calls a second, each when it is due,
// whatever became of those before.
const (
	quietLeast = 111 * time.Millisecond // between two calls
	quietMost  = 200 * time.Millisecond
)

// orders is what the quiet tenant is told.
type orders struct {
	Addr  string   `json:"addr"`  // of the gateway
	Calls []string `json:"calls"` // one for each of its users, as it goes over the wire
	Seed  uint64   `json:"seed"`  // of the times between calls
}

// notes is what the quiet tenant saw.
type notes struct {
	Answered []answer       `json:"answered"`
	Instead  map[string]int `json:"instead"` // of the other calls, what came instead
	// calls that were sent twice, since a connection had been closed while nothing was
	// under way on it
	Again int `json:"again"`
}

// answer is a call that was answered.
type answer struct {
	Due   time.Time `json:"due"`
	Nanos int64     `json:"nanos"` // until the answer, since it was due
}

func (n *notes) sent() int {
	total := len(n.Answered)
	for _, count := range n.Instead {
		total += count
	}
	return total
}

// quantile returns the latency that so much of the answered calls did not exceed that
// were due within a time, zero if there are none.
func (n *notes) quantile(part float64, from time.Time, lasted time.Duration) time.Duration {
	var sorted []time.Duration
	for _, a := range n.Answered {
		if since := a.Due.Sub(from); since >= 0 && since <= lasted {
			sorted = append(sorted, time.Duration(a.Nanos))
		}
	}
	if sorted == nil {
		return 0
	}
	slices.Sort(sorted)
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// quietPart is the argument that makes this program the quiet tenant.
const quietPart = "part-quiet"

// beQuiet is the process of the quiet tenant and of its server, which has one of its own:
// in that of the attackers, both would wait for a processor behind hundreds of
// goroutines, and that would be taken for the gateway's doing. It says the address of the
// server, reads orders, makes calls until in ends, and says what it saw.
func beQuiet(ctx context.Context, in io.Reader, out io.Writer) {
	server := httptest.NewServer(upstream.NewCareless())
	defer server.Close()
	defer server.CloseClientConnections()
	must.Have(fmt.Fprintln(out, server.Listener.Addr()))
	told := bufio.NewReader(in)
	line, err := told.ReadBytes('\n')
	if err != nil {
		return // nobody wants to know anything
	}
	var o orders
	must.OK(strictjson.Unmarshal(line, &o))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // it ends with the process at the latest
		_, _ = io.Copy(io.Discard, told) // whatever ends it
		stop()
	}()
	must.OK(json.NewEncoder(out).Encode(callUntil(ctx, o)))
}

// quiet is the quiet tenant. Its users have a few connections that stay open between
// calls.
type quiet struct {
	addr string
	idle chan *client.Conn // connections that no call uses

	mu    sync.Mutex // guards the field below
	notes notes
}

// callUntil makes calls until ctx ends, then waits for those under way.
func callUntil(ctx context.Context, o orders) *notes {
	random := rand.New(rand.NewPCG(o.Seed, 0)) //nolint:gosec // no secret
	q := &quiet{
		addr: o.Addr, idle: make(chan *client.Conn, usersOfTenant),
		notes: notes{Instead: map[string]int{}},
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // calls under way are still to be answered
	defer cancel()
	var wg sync.WaitGroup
	for world.Pause(ctx, quietLeast+time.Duration(random.Int64N(int64(quietMost-quietLeast)))) {
		call := []byte(o.Calls[random.IntN(len(o.Calls))])
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
		q.notes.Answered = append(q.notes.Answered, answer{due, took.Nanoseconds()})
	} else {
		q.notes.Instead[instead]++
	}
}

// call makes one call and returns what came instead of the answer, "" if it was answered.
// A server may close a connection that is idle; a client that finds it so sends the call
// once more, on a new one, as clients do.
// https://www.rfc-editor.org/rfc/rfc9112.html#section-9.3.1
func (q *quiet) call(ctx context.Context, call []byte) string {
	w, used, err := q.connection(ctx)
	if err != nil {
		return "no connection"
	}
	answer, err := w.Exchange(call, 1<<10)
	if err != nil && used && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.Close()
		q.mu.Lock()
		q.notes.Again++
		q.mu.Unlock()
		if w, err = client.Dial(ctx, q.addr, ""); err != nil {
			return "no connection"
		}
		answer, err = w.Exchange(call, 1<<10)
	}
	if err != nil || answer.Closing {
		w.Close()
	} else {
		q.rest(w)
	}
	return raid.Instead(answer, err)
}

// connection returns an idle connection, or else a new one.
func (q *quiet) connection(ctx context.Context) (w *client.Conn, used bool, err error) {
	select {
	case w = <-q.idle:
		return w, true, nil
	default:
		w, err = client.Dial(ctx, q.addr, "")
		return w, false, err
	}
}

func (q *quiet) rest(w *client.Conn) {
	select {
	case q.idle <- w:
	default:
		w.Close()
	}
}
