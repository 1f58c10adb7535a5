package main

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// target is one part to load: where it is and the requests that open a session and call
// the tool.
type target struct {
	name      string
	addr      string
	path      string // "" is /mcp
	handshake bool   // open a session first, as clients of the legacy era do
	greets    bool   // say in it that it is open, as clients do
	tool      string
	token     string // "" sends none
	revision  string
	pids      []int // of the processes whose CPU counts; nil for none
	callers   int   // at once; 0: as many as are asked for
	// where connections go to in turn; nil: to addr, which is what requests name always
	doors []string

	// What is not set is the plain case: a message to say again, and a client that can do
	// nothing.
	arguments    string // of the tool, as JSON
	meta         string // a member of _meta, as JSON
	capabilities string // that a session is opened with, as JSON
	want         string // what the answer contains
	before       int    // other messages, such as progress, that come before it at least
}

// in returns how clients of an era call the same.
func (t *target) in(era mcp.Era) *target {
	own := *t
	own.handshake, own.revision = era == mcp.Legacy, revisionOf(era)
	return &own
}

// sample is what one run of one target showed.
type sample struct {
	calls   int
	bytes   int64 // of requests and answers with their heads
	took    time.Duration
	latency []time.Duration // of every call

	counted  bool // the fields below were counted
	cpu      time.Duration
	resident int64 // bytes, after the last call
}

// perSecond returns calls per second.
func (s *sample) perSecond() float64 { return float64(s.calls) / s.took.Seconds() }

// median returns the middle latency.
func (s *sample) median() time.Duration {
	slices.Sort(s.latency)
	return s.latency[len(s.latency)/2]
}

// load calls the tool over so many connections for so long. Every answer is checked; one
// wrong answer fails the run. What it costs to open connections and sessions does not
// count.
func (t *target) load(ctx context.Context, connections int, took time.Duration) *sample {
	callers := make([]*caller, connections)
	for i := range callers {
		c := t.at(i).connect(ctx)
		defer c.close()
		c.opened = c.line.Conn.Traffic()
		callers[i] = c
	}
	var total *sample
	cpu := busyDuring(t.pids, func() { total = together(callers, took) })
	for _, c := range callers {
		total.bytes += c.line.Conn.Traffic() - c.opened
	}
	total.counted, total.cpu = len(t.pids) > 0, cpu
	total.resident = world.Resident(t.pids...)
	return total
}

// together has callers call at once until a time is over, and gathers how long each call
// took.
func together(callers []*caller, took time.Duration) *sample {
	latencies := make([][]time.Duration, len(callers))
	started := time.Now()
	must.AtOnce(len(callers), len(callers), func(n int) {
		latencies[n] = callers[n].callUntil(started.Add(took))
	})
	total := &sample{took: time.Since(started), latency: slices.Concat(latencies...)}
	total.calls = len(total.latency)
	return total
}

// caller is one connection with a session of its own. It reads answers of every form that
// servers choose: of a known length, in chunks, until the connection ends, as JSON or as
// an event stream.
type caller struct {
	target   *target
	line     *client.Line
	revision string // that is spoken; "" until the handshake
	session  string // "" in the modern era
	request  []byte
	id       []byte            // its digits in request
	last     int64             // the id of the last call
	right    func([]byte) bool // whether an answer to it is right
	opened   int64             // bytes that were sent and received before the first call
	aside    *client.Line      // a second connection of the session, for answers to questions
}

// at returns the target by the door of a caller.
func (t *target) at(caller int) *target {
	if t.doors == nil {
		return t
	}
	own := *t
	own.doors = []string{t.doors[caller%len(t.doors)]}
	return &own
}

// dial returns a connection without a session. It is closed when ctx ends.
func (t *target) dial(ctx context.Context) *caller {
	addr := append(slices.Clone(t.doors), t.addr)[0]
	c := &caller{
		target: t, revision: t.revision, line: client.LineTo(ctx, addr), aside: client.LineTo(ctx, t.addr),
	}
	c.line.Open()
	return c
}

// open returns a connection with a session of the legacy era. The revision that the
// server answers with is the one that is spoken from then on.
func (t *target) open(ctx context.Context) *caller {
	c := t.dial(ctx)
	defer must.Else(c.close)
	c.revision = ""
	a := c.say(client.Initialize(t.revision, cmp.Or(t.capabilities, client.Unable)), "")
	if m, err := mcp.Decode(response(a)); err == nil {
		c.revision = m.Result.Text("protocolVersion")
	}
	c.session = a.Session
	must.Be(mcp.EraOf(c.revision) == mcp.Legacy, "open a session: answered %d, %.200s", a.Status, a.Body)
	if t.greets {
		c.say(client.Initialized, "")
	}
	return c
}

func (t *target) connect(ctx context.Context) *caller {
	c := page.Either(t.handshake, t.open, t.dial)(ctx)
	c.asks(t.callBody(), mcp.MethodToolsCall, t.isAnswer)
	return c
}

// asks has the caller ask something from now on, under the id firstID, and tells which
// answers are right.
func (c *caller) asks(body, method string, right func(answer []byte) bool) {
	c.request, c.right, c.last = c.post(body, method), right, max(c.last, lowestID)
	at := bytes.Index(c.request, []byte(idMember+firstID)) + len(idMember)
	c.id = c.request[at : at+len(firstID)]
}

// The ids of calls are higher than firstID, and have as many digits.
const (
	idMember = `"id":`
	firstID  = "100000000"
	lowestID = 100_000_000
)

// ask sends the call under an id that no call of the session had: none may be used again.
// https://modelcontextprotocol.io/specification/2025-11-25/basic#requests
func (c *caller) ask() *client.Answer {
	c.last++
	c.id = strconv.AppendInt(c.id[:0], c.last, 10)
	c.line.Open()
	c.line.Conn.Allow(client.Patience)
	must.Have(c.line.Conn.Write(c.request))
	return c.line.Conn.Head()
}

func (c *caller) close() {
	c.aside.Close()
	c.line.Close()
}

func (t *target) callBody() string {
	meta := page.Either(t.meta != "", []string{t.meta}, nil)
	params := `"name":"` + t.tool + `","arguments":` + cmp.Or(t.arguments, `{"message":"`+upstream.Message+
		`"}`)
	return client.Message(firstID, mcp.MethodToolsCall, params, t.revision, meta...)
}

// post returns the bytes of one HTTP request.
func (c *caller) post(body, method string) []byte {
	t := c.target
	return client.Request{
		Addr: t.addr, Path: t.path, Token: t.token, Revision: c.revision, Session: c.session, RPC: method,
		Tool: t.tool, Body: body,
	}.Bytes()
}

// say sends a message and reads the whole answer, which must be a good one.
func (c *caller) say(body, method string) *client.Answer {
	return answered(c.line.Exchange(c.post(body, method), mostAnswer))
}

// response returns the response in an answer that was read: the last event of a stream.
func response(a *client.Answer) []byte {
	return page.Either(a.Events, client.LastEvent(a.Body), a.Body)
}

// answered takes an answer that must be a good one.
func answered(a *client.Answer) *client.Answer {
	must.Be(a.Status/100 == 2, "status %d: %.300s", a.Status, a.Body)
	return a
}

// callUntil calls again and again until that time, once at least, and returns how long
// each call took.
func (c *caller) callUntil(end time.Time) []time.Duration {
	latency := make([]time.Duration, 0, 1<<16)
	for started := time.Now(); ; {
		c.call()
		now := time.Now()
		latency = append(latency, now.Sub(started))
		if now.After(end) {
			return latency
		}
		started = now
	}
}

// mostAnswer is how long an answer may be, in bytes.
const mostAnswer = 4 << 20

// call asks, and takes an answer of any form: in one piece or as an event stream, on
// which the server may ask something first.
func (c *caller) call() {
	a := c.ask()
	before, right := 0, false
	if a.Events && a.Status == http.StatusOK {
		before, right = c.events(a.Stream)
		c.line.Conn.Finish(a, 0)
	} else {
		c.line.Conn.Finish(a, mostAnswer)
		right = a.Status == http.StatusOK && c.right(a.Body)
	}
	must.Be(right && before >= c.target.before, "a wrong answer, status %d, after %d messages: %.300s",
		a.Status, before, a.Body)
	if a.Closing {
		c.line.Close()
	}
}

// isAnswer tells whether a response is what the tool should have said.
func (t *target) isAnswer(body []byte) bool {
	return bytes.Contains(body, []byte(`"result"`)) &&
		bytes.Contains(body, []byte(cmp.Or(t.want, upstream.Message)))
}
