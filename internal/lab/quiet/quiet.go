// Package quiet is the tenant that attacks must take nothing of: it makes small calls,
// each when it is due, whatever became of those before, and notes what came back. A call
// counts from when it was due, so what is late is seen. The package does not know who
// attacks, and judges nothing.
package quiet

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Connections is how many the tenant keeps open. More are opened while all of them wait
// for an answer.
const Connections = 8

// Orders say what the tenant calls, and when.
type Orders struct {
	Addr        string   // of the gateway
	Calls       []string // one for each of its users, as it goes over the wire
	Least, Most int64    // nanoseconds between two calls, drawn each time
	Count       int      // of calls; 0: until the tenant is told to stop
	Seed        uint64   // of the times between calls
}

// Notes is what the tenant saw.
type Notes struct {
	Answered []Answer
	Instead  map[string]int // of the other calls, what came instead
	// calls that were sent twice, since a connection had been closed while nothing was
	// under way on it
	Again int
}

// Answer is a call that was answered.
type Answer struct {
	Due   time.Time
	Nanos int64 // until the answer, since it was due
}

// Refused returns how many calls were not answered as they should.
func (n *Notes) Refused() (total int) {
	for _, count := range n.Instead {
		total += count
	}
	return total
}

// Add adds what others are.
func (n *Notes) Add(others *Notes) {
	n.Answered, n.Again = append(n.Answered, others.Answered...), n.Again+others.Again
	for why, count := range others.Instead {
		n.Instead[why] += count
	}
}

// Percentile returns the latency that so many percent of the calls do not exceed. Calls
// that were not answered count as slower than all others; if it is one of them, there is
// no such latency and it returns false.
func (n *Notes) Percentile(percent int) (time.Duration, bool) {
	slices.SortFunc(n.Answered, func(a, b Answer) int { return cmp.Compare(a.Nanos, b.Nanos) })
	at := max(((len(n.Answered)+n.Refused())*percent+99)/100-1, 0) // so many percent or more do not exceed it
	if at >= len(n.Answered) {
		return 0, false
	}
	return time.Duration(n.Answered[at].Nanos), true
}

// Say writes a line of JSON, as Be and who started it talk.
func Say(to io.Writer, v any) { must.Have(to.Write(append(must.Have(strictjson.Marshal(v)), '\n'))) }

// Be is the process of the tenant: in that of the attackers it would wait for a processor
// behind hundreds of goroutines, and that would be taken for the gateway's doing. It
// reads Orders, makes calls until they are done or in ends, and says its Notes.
func Be(ctx context.Context, in io.Reader, out io.Writer) {
	told := bufio.NewReader(in)
	line, err := told.ReadBytes('\n')
	if err != nil {
		return // nobody wants to know anything
	}
	var o Orders
	must.OK(strictjson.Unmarshal(line, &o))
	ctx, stop := UntilEnd(ctx, told)
	defer stop()
	Say(out, o.follow(ctx))
}

// UntilEnd returns a context that ends with ctx or when in does. Who starts a process
// ends it by closing its standard input, and if that one dies it ends as well.
func UntilEnd(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process, or before it
		_, _ = io.Copy(io.Discard, in) // nothing more is ever sent
		cancel()
	}()
	return ctx, cancel
}

// tenant is the quiet tenant at work.
type tenant struct {
	addr string
	idle chan *client.Line // open connections that no call uses

	mu    sync.Mutex // guards the field below
	notes Notes
}

// follow makes calls until all are made or ctx ends, then waits for those under way.
func (o *Orders) follow(ctx context.Context) *Notes {
	random := rand.New(rand.NewPCG(o.Seed, 0)) //nolint:gosec // no secret
	q := &tenant{
		addr: o.Addr, idle: make(chan *client.Line, Connections), notes: Notes{Instead: map[string]int{}},
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // calls under way are still to be answered
	defer cancel()
	for range Connections {
		line := client.LineTo(own, o.Addr)
		_ = must.Try(line.Open) // or a call opens it
		q.rest(line)
	}
	var under sync.WaitGroup
	for n, due := 0, time.Now(); o.Count == 0 || n < o.Count; n++ {
		due = due.Add(time.Duration(o.Least + random.Int64N(o.Most-o.Least+1)))
		if !world.Pause(ctx, time.Until(due)) {
			break
		}
		under.Go(func() { q.note(due, q.call(own, []byte(o.Calls[n%len(o.Calls)]))) })
	}
	under.Wait()
	return &q.notes
}

func (q *tenant) note(due time.Time, instead string) {
	took := time.Since(due)
	q.mu.Lock()
	defer q.mu.Unlock()
	if instead == "" {
		q.notes.Answered = append(q.notes.Answered, Answer{due, took.Nanoseconds()})
	} else {
		q.notes.Instead[instead]++
	}
}

// call makes one call and returns what came instead of the answer, "" if it was answered.
// A server may close a connection that is idle; a client that finds it so sends the call
// once more, on a new one, as clients do.
// https://www.rfc-editor.org/rfc/rfc9112.html#section-9.3.1
func (q *tenant) call(ctx context.Context, call []byte) string {
	line := client.LineTo(ctx, q.addr)
	select {
	case line = <-q.idle:
	default: // each is in use
	}
	defer q.rest(line)
	used := line.Conn != nil
	exchange := func() *client.Answer { return line.Exchange(call, 1<<10) }
	answer, err := must.Got(exchange)
	if err != nil && used && !errors.Is(err, os.ErrDeadlineExceeded) {
		q.mu.Lock()
		q.notes.Again++
		q.mu.Unlock()
		answer, err = must.Got(exchange)
	}
	return Instead(answer, err)
}

// rest keeps a connection for later calls, if there is room.
func (q *tenant) rest(line *client.Line) {
	select {
	case q.idle <- line:
	default:
		line.Close()
	}
}
