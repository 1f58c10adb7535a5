package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// idleConfig shows two tools; the last rule hides one of them, and a reload takes that
// rule in or out.
const idleConfig = configHead + `    servers: [echo]
    rules: [{allow: ["*"]}%[4]s]
    limits: {requests: ` + world.AnyRate + `, streams: 100000, sessions: 100000, user_sessions: 100000}
servers:
  echo: {url: "http://%[3]s/tools/2", private_addresses: true}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
limits: {max_streams: 100000, max_connections: 100000, address_connections: 100000}
`

// crowd is idle event streams of one kind at a gateway of their own.
type crowd struct {
	lab     *lab
	gateway part
	open    func(ctx context.Context, c *crowd) *caller // opens one stream
	posts   *target                                     // how requests are made
	posting *client.Line                                // for those beside the streams

	streams
}

// streams are event streams that are read until they end. It may be used from several
// goroutines.
type streams struct {
	readers sync.WaitGroup // closing the streams ends them
	mu      sync.Mutex     // guards the field below
	all     []*idleStream
}

// idleStream is one stream and what came on it.
type idleStream struct {
	conn  *client.Conn
	beats atomic.Int64 // heartbeats
	// when the first notice of a changed list came since it was asked for, in Unix
	// nanoseconds; 0: none
	told  atomic.Int64
	ended atomic.Bool
}

// add reads a stream from now on.
func (s *streams) add(conn *client.Conn) {
	one := &idleStream{conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	s.readers.Go(one.read)
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// ended returns which stream has ended, -1 if none has.
func (s *streams) ended() int {
	return slices.IndexFunc(s.all, func(s *idleStream) bool { return s.ended.Load() })
}

// forget forgets the notices that have come.
func (s *streams) forget() {
	for _, one := range s.all {
		one.told.Store(0)
	}
}

// toldSince waits until each stream was told of a changed list, or for the limit, and
// returns after how long those were that were told, the first one first.
func (s *streams) toldSince(ctx context.Context, begun time.Time,
	limit time.Duration,
) (after []time.Duration) {
	_ = world.Within(ctx, limit, "every stream is told", func() bool { // else the report says how many were
		return !slices.ContainsFunc(s.all, func(s *idleStream) bool { return s.told.Load() == 0 })
	})
	for _, one := range s.all {
		if told := one.told.Load(); told != 0 {
			after = append(after, time.Duration(told-begun.UnixNano()))
		}
	}
	slices.Sort(after)
	return after
}

// close ends all streams and waits for those that read them.
func (s *streams) close() {
	for _, one := range s.all {
		one.conn.Close()
	}
	s.readers.Wait()
}

// idleResult is what a crowd of one size showed.
type idleResult struct {
	kind    string
	streams int
	kib     float64       // a stream, with all open and heartbeats sent
	after   float64       // the same after a list changed
	told    int           // streams that a changed list was told on
	first   time.Duration // from the signal to reload until the first stream was told
	median  time.Duration
	last    time.Duration
}

// idleKind is a kind of streams that clients hold open.
type idleKind struct {
	name string
	era  mcp.Era
	open func(context.Context, *crowd) *caller
}

// idleKinds are those of the modern era, of sessions, and of HTTP+SSE.
var idleKinds = []idleKind{
	{"2026-07-28, subscriptions/listen", mcp.Modern, openListen},
	{"2025-11-25, GET of a session", mcp.Legacy, openGet},
	{"2024-11-05, HTTP+SSE", mcp.Legacy, openSSE},
}

// idle measures crowds of the given sizes, each kind of stream at a gateway of its own
// that nothing else has used.
func (l *lab) idle(ctx context.Context, sizes []int) (all []idleResult) {
	for _, k := range idleKinds {
		all = append(all, (&crowd{lab: l, open: k.open}).measure(ctx, k.name, k.era, sizes)...)
	}
	return all
}

func (c *crowd) measure(ctx context.Context, name string, era mcp.Era, sizes []int) (results []idleResult) {
	l, addrs := c.lab, world.Addresses(2)
	c.posting = client.LineTo(ctx, addrs[0])
	defer c.close()
	config := func(hidden bool) {
		rule := map[bool]string{true: `, {deny: ["*__tool_0000"]}`}[hidden]
		l.Write(map[string]string{"idle.yaml": fmt.Sprintf(idleConfig, addrs[0], addrs[1], l.upstream, rule)})
	}
	config(false)
	c.gateway = l.serveConfig(ctx, addrs[0], l.Program, "idle.yaml")
	defer c.gateway.Kill()
	l.serves(ctx, l.target(wayDrawbridge, c.gateway, "echo__echo", mcp.Modern))
	c.posts = l.target(wayDrawbridge, c.gateway, "echo__echo", era)
	before := c.settle(ctx)
	for i, size := range sizes {
		r := idleResult{kind: name, streams: size}
		r.kib = c.grow(ctx, size, before)
		config(i%2 == 0)
		c.change(ctx, &r)
		r.after = c.share(ctx, before)
		l.Say("%s: %d streams, %.1f KiB each, %.1f after a change that %d were told of, the last after %v\n",
			name, size, r.kib, r.after, r.told, r.last)
		results = append(results, r)
	}
	return results
}

// grow opens streams until there are so many, and returns what each takes after all had a
// heartbeat. It fails if one has ended.
func (c *crowd) grow(ctx context.Context, size int, before int64) float64 {
	for len(c.all) < size {
		c.add(c.open(ctx, c).line.Conn)
	}
	for _, s := range c.all {
		s.beats.Store(0)
	}
	err := world.Within(ctx, time.Minute, "every stream has a heartbeat", func() bool {
		return !slices.ContainsFunc(c.all, func(s *idleStream) bool {
			return s.beats.Load() == 0 && !s.ended.Load()
		})
	})
	must.Be(c.ended() < 0, "stream %d ended", c.ended()+1)
	must.OK(err)
	return c.share(ctx, before)
}

// read notes what comes on a stream until it ends.
func (s *idleStream) read() {
	defer s.ended.Store(true)
	const change = mcp.NotifyToolsChanged
	var seen [512]byte
	kept := 0 // bytes of seen that may begin one of the texts looked for
	for {
		n, err := s.conn.In.Read(seen[kept:])
		if err != nil {
			return
		}
		text := seen[:kept+n]
		if at := bytes.LastIndex(text, []byte(change)); at >= 0 {
			s.told.CompareAndSwap(0, time.Now().UnixNano())
			text = text[at+len(change):]
		}
		if at := bytes.LastIndex(text, []byte("\n:")); at >= 0 {
			s.beats.Add(1)
			text = text[at+len("\n:"):]
		}
		kept = copy(seen[:], text[max(0, len(text)-len(change)):])
	}
}

// share returns what each stream takes of the gateway's memory, in KiB, once it has
// settled.
func (c *crowd) share(ctx context.Context, before int64) float64 {
	return float64(c.settle(ctx)-before) / 1024 / float64(len(c.all))
}

// settling is how long the gateway's memory must not have shrunk to count as settled: by
// itself it collects garbage every five seconds at most.
const settling = 7 * time.Second

// settle returns the gateway's resident memory once it does not shrink any more, or after
// a minute.
func (c *crowd) settle(ctx context.Context) (now int64) {
	least, since := int64(math.MaxInt64), time.Now()
	_ = world.Within(ctx, time.Minute, "the memory settles", func() bool { // else it is what it is
		if now = world.Resident(c.gateway.pids...); now < least-least/100 {
			least, since = now, time.Now()
		}
		return time.Since(since) > settling
	})
	return now
}

// change changes the list of tools by a reload and notes when the streams were told.
func (c *crowd) change(ctx context.Context, r *idleResult) {
	c.forget()
	signalled := time.Now()
	must.OK(c.gateway.Signal(syscall.SIGHUP))
	after := c.toldSince(ctx, signalled, 30*time.Second)
	if r.told = len(after); r.told > 0 {
		r.first, r.median, r.last = after[0], after[len(after)/2], after[len(after)-1]
	}
}

// close ends all streams.
func (c *crowd) close() {
	c.streams.close()
	c.posting.Close()
}
