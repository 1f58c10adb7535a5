package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	quietConnections = 8
	quietInterval    = 100 * time.Millisecond // between the calls of one connection
	quietReopens     = 200                    // calls, then the connection is opened anew

	late = "no answer in time"
)

// errand is what the quiet tenant is to do.
type errand struct {
	Addr   string
	Tokens []string // one for each user
	Calls  int      // of all connections together
	// seconds that it may take longer than it does by plan; what is not answered then
	// never is
	Grace int
}

// notes is what the quiet tenant saw.
type notes struct {
	// of the calls that were answered, in microseconds, each from when it was meant to be
	// sent
	Latency []int64
	Refused map[string]int // the others, by what came instead
}

// callQuietly is a part: it does an errand, which its argument says in JSON, and writes
// its notes. Each connection has its turn at fixed times and sends late when the answer
// before is late; since a call counts from when it was meant to be sent, what is late is
// seen.
func callQuietly(ctx context.Context, argument string, in io.Reader, out io.Writer) {
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	var e errand
	must.OK(strictjson.Unmarshal([]byte(argument), &e))
	ctx, expire := context.WithTimeout(ctx, e.planned()+time.Duration(e.Grace)*time.Second)
	defer expire()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex // guards the field below
		all = notes{Refused: map[string]int{}}
	)
	begun := time.Now()
	for i := range quietConnections {
		wg.Go(func() {
			q := quiet{errand: e, token: e.Tokens[i%len(e.Tokens)], wire: client.LineTo(e.Addr), notes: notes{Refused: map[string]int{}}}
			q.calls(ctx, begun.Add(time.Duration(i)*quietInterval/quietConnections), e.Calls/quietConnections)
			mu.Lock()
			defer mu.Unlock()
			all.add(&q.notes)
		})
	}
	wg.Wait()
	report(out, all)
}

// planned returns how long the errand takes when all goes well.
func (e *errand) planned() time.Duration {
	return time.Duration(e.Calls/quietConnections) * quietInterval
}

// add adds what others are.
func (n *notes) add(others *notes) {
	n.Latency = append(n.Latency, others.Latency...)
	for why, count := range others.Refused {
		n.Refused[why] += count
	}
}

// refusals returns how many calls were not answered as they should.
func (n *notes) refusals() int {
	total := 0
	for _, count := range n.Refused {
		total += count
	}
	return total
}

// quiet is one connection of the quiet tenant.
type quiet struct {
	errand errand
	token  string
	wire   client.Line
	notes  notes
}

// calls makes so many calls, the first at begin. When ctx ends, those that are left count
// as never answered.
func (q *quiet) calls(ctx context.Context, begin time.Time, count int) {
	call := raid.Call(q.errand.Addr, q.token, "calm")
	for i := range count {
		due := begin.Add(time.Duration(i) * quietInterval)
		if !world.Pause(ctx, time.Until(due)) {
			q.notes.Refused[late] += count - i
			return
		}
		why := q.call(ctx, call)
		if why == "" {
			q.notes.Latency = append(q.notes.Latency, time.Since(due).Microseconds())
		} else {
			q.notes.Refused[why]++
		}
		if why != "" || i%quietReopens == quietReopens-1 {
			q.wire.Close()
		}
	}
	q.wire.Close()
}

// call makes one call and returns what was wrong with the answer, "" if nothing was.
func (q *quiet) call(ctx context.Context, call []byte) string {
	if q.wire.Open(ctx) != nil {
		return "no connection"
	}
	r, err := q.wire.Exchange(ctx, call, 1<<10)
	if ctx.Err() != nil {
		return late
	}
	return raid.Instead(r, err)
}
