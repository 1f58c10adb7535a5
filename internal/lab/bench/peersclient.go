package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// gateTarget is where one peer listens and what its clients have to say.
type gateTarget struct {
	addr  string
	path  string
	token string // "" sends none
	era   mcp.Era
}

// peerCaller is one connection to a peer, with a session of its own in the legacy era. It
// reads answers of every form that servers choose: of a known length, in chunks, until
// the connection ends, as JSON or as an event stream. It is for one goroutine at a time.
type peerCaller struct {
	gateTarget

	line     client.Line
	session  string
	revision string
	name     string // of the tool that calls are about
}

// connectPeer opens a connection and, in the legacy era, a session as clients do: the
// revision that the server answers with is the one that is spoken from then on.
func connectPeer(ctx context.Context, t gateTarget) *peerCaller {
	// its calls are still to be answered when ctx ends
	line := client.Line{Dial: func(ctx context.Context) (*client.Conn, error) {
		return client.Dial(context.WithoutCancel(ctx), t.addr, "")
	}}
	c := &peerCaller{gateTarget: t, revision: revisionOf(t.era), line: line}
	must.OK(c.line.Open(ctx))
	if t.era != mcp.Modern {
		c.openSession(ctx)
	}
	return c
}

func (c *peerCaller) openSession(ctx context.Context) {
	defer must.Else(c.line.Close)
	answer := c.ask(ctx, c.request(mcp.MethodInitialize, client.Initialize(c.revision, client.Unable)))
	m, err := mcp.Decode(answer)
	if err != nil || mcp.EraOf(m.Result.Text("protocolVersion")) != mcp.Legacy {
		panic(fmt.Errorf("open a session: answered %.200s", answer))
	}
	c.revision = m.Result.Text("protocolVersion")
	c.exchange(ctx, c.request("", client.Initialized))
}

// request returns the bytes of one HTTP request. An empty body opens the event stream of
// the session.
func (c *peerCaller) request(method, body string) []byte {
	r := client.Request{
		Addr: c.addr, Path: c.path, Token: c.token, Session: c.session, RPC: method,
		Body: body,
	}
	if c.era == mcp.Modern || c.session != "" {
		r.Revision = c.revision
	}
	if method == mcp.MethodToolsCall {
		r.Tool = c.name
	}
	if body == "" {
		r.Method, r.Accept = http.MethodGet, "text/event-stream"
	}
	return r.Bytes()
}

// message returns a request, whose params are given without their braces.
func (c *peerCaller) message(method, params string) []byte {
	return c.request(method, client.Message("1", method, params, c.revision))
}

// call returns the request that calls the tool echo, and the words that the answer must
// contain.
func (c *peerCaller) call(connection int) (request, want []byte) {
	words := fmt.Sprintf("%s, said connection %d.", upstream.Message, connection)
	return c.message(mcp.MethodToolsCall, `"name":"`+c.name+`","arguments":{"message":"`+words+`"}`),
		[]byte(words)
}

// list returns the request for all tools.
func (c *peerCaller) list() []byte { return c.message(mcp.MethodToolsList, "") }

// learn finds out what the peer calls the tool echo, which most put a prefix before.
func (c *peerCaller) learn(ctx context.Context) {
	answer := c.ask(ctx, c.list())
	checkList(answer)
	for _, part := range strings.Split(string(answer), `"name":"`)[1:] {
		if name, _, _ := strings.Cut(part, `"`); strings.HasSuffix(name, "echo") {
			c.name = name
			return
		}
	}
	panic(errors.New("lists no tool echo"))
}

// ask sends a request and returns the JSON-RPC response to it. The response is valid
// until the next request.
func (c *peerCaller) ask(ctx context.Context, request []byte) []byte {
	a := c.exchange(ctx, request)
	if a.Status != http.StatusOK {
		panic(fmt.Errorf("status %d: %.200s", a.Status, a.Body))
	}
	if !a.Events {
		return a.Body
	}
	if answer := client.LastEvent(a.Body); answer != nil {
		return answer
	}
	panic(fmt.Errorf("an event stream without a response: %.200q", a.Body))
}

// exchange sends a request and reads all that comes back.
func (c *peerCaller) exchange(ctx context.Context, request []byte) *client.Answer {
	a := must.Have(c.line.Exchange(ctx, request, mostAnswer))
	c.session = cmp.Or(a.Session, c.session)
	return a
}

// checkCall says what is wrong with the answer to a call.
func checkCall(answer, want []byte) {
	if !bytes.Contains(answer, want) || !bytes.Contains(answer, []byte(`"result"`)) {
		panic(fmt.Errorf("a wrong answer: %.200s", answer))
	}
}

// checkList says what is wrong with a list of tools.
func checkList(answer []byte) {
	if count := bytes.Count(answer, []byte(`"inputSchema"`)); count < upstream.Announced {
		panic(fmt.Errorf("lists %d tools of %d: %.200s", count, upstream.Announced, answer))
	}
}
