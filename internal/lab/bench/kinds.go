package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// kind is a way to use the gateway that costs something else than the plain case: a call
// of echo over HTTP in the same era.
type kind struct {
	name    string
	way     string // "": through the gateway
	tool    string
	era     mcp.Era
	callers int    // at once
	plain   string // the name of the plain case; "" for that itself and for what does not pass the gateway
	// why a byte costs more than twice the plain case's, as a profile shows it; "" where
	// none was needed
	reason string
}

// The names of kinds that others are compared with, and how those end that they are
// compared with themselves.
const (
	plainModern = "plain call, 2026-07-28"
	plainLegacy = "plain call, 2025-11-25"
	plainAlone  = "plain call, 2025-11-25, one at a time"
	besideProxy = ", through ReverseProxy"
)

// kinds are all of them, and calls with the same large results through ReverseProxy.
var kinds = []kind{
	{name: plainModern, tool: "echo__echo", era: mcp.Modern, callers: 16},
	{name: plainLegacy, tool: "echo__echo", era: mcp.Legacy, callers: 16},
	{name: plainAlone, tool: "echo__echo", era: mcp.Legacy, callers: 1},
	{
		name: "event stream: three notices of progress, then the result",
		tool: "kinds__stream", era: mcp.Modern, callers: 16, plain: plainModern, reason: reasonStream,
	},
	{name: "stdio server: one process", tool: "stdio__echo", era: mcp.Modern, callers: 64, plain: plainModern},
	{name: "built-in tool", tool: "toolbox__calculate", era: mcp.Modern, callers: 16, plain: plainModern},
	{name: "result of 1 KiB", tool: "kinds__text_1024", era: mcp.Modern, callers: 16, plain: plainModern},
	{name: "result of 1 KiB" + besideProxy, way: wayProxy, tool: "text_1024", era: mcp.Modern, callers: 16},
	{name: "result of 64 KiB", tool: "kinds__text_65536", era: mcp.Modern, callers: 16, plain: plainModern},
	{name: "result of 64 KiB" + besideProxy, way: wayProxy, tool: "text_65536", era: mcp.Modern, callers: 16},
	{name: "result of 1024 KiB", tool: "kinds__text_1048576", era: mcp.Modern, callers: 16, plain: plainModern},
	{name: "result of 1024 KiB" + besideProxy, way: wayProxy, tool: "text_1048576", era: mcp.Modern, callers: 16},
	{
		name: "one question at a time, each in a call",
		tool: "kinds__ask", era: mcp.Legacy, callers: 1, plain: plainAlone, reason: reasonQuestions,
	},
	{
		name: "10 questions at once, each in a call",
		tool: "kinds__ask", era: mcp.Legacy, callers: 10, plain: plainLegacy, reason: reasonQuestions,
	},
	{
		name: "100 questions at once, each in a call",
		tool: "kinds__ask", era: mcp.Legacy, callers: 100, plain: plainLegacy, reason: reasonQuestions,
	},
}

// measureKinds loads all kinds in turn, round after round, and returns what each showed
// by its name.
func (l *lab) measureKinds(ctx context.Context, p plan) map[string]*rounds {
	targets := make([]*target, len(kinds))
	for i, k := range kinds {
		way := cmp.Or(k.way, wayDrawbridge)
		targets[i] = l.target(way, l.parts[way], k.tool, k.era)
		targets[i].name, targets[i].callers = k.name, k.callers
	}
	return l.measure(ctx, p, 0, targets...).ways
}

// events reads a stream to its end, answers questions, and tells whether the right answer
// was on it, and how many other messages. The answer itself is not parsed, since it may
// be long.
func (c *caller) events(stream io.Reader) (others int, right bool) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, mostAnswer)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		switch data = bytes.TrimSpace(data); {
		case !found || len(data) == 0:
		case !bytes.Contains(data, []byte(`"method":`)):
			right = c.right(data)
		default:
			others++
			if m := must.Have(mcp.Decode(data)); m.IsRequest() {
				c.agree(m.ID)
			}
		}
	}
	must.OK(lines.Err())
	return others, right
}

// agree answers a question on a second connection, as clients do while the first waits
// for the result.
func (c *caller) agree(id mcp.ID) {
	answered(c.aside.Exchange(c.post(`{"jsonrpc":"2.0","id":`+string(id)+
		`,"result":{"action":"accept","content":{"word":"yes"}}}`, ""), 1<<10))
}
