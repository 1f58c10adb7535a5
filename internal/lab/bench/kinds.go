package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// kind is a way to use the gateway that costs something else than the plain case: a call
// of echo over HTTP in the same era.
type kind struct {
	name    string
	target  *target
	callers int    // at once
	plain   string // the name of the plain case; "" for that itself and for what does not pass the gateway
	// why a byte costs more than twice the plain case's, as a profile shows it; "" where
	// none was needed
	reason string
}

// The names of kinds that others are compared with.
const (
	plainModern = "plain call, 2026-07-28"
	plainLegacy = "plain call, 2025-11-25"
	plainAlone  = "plain call, 2025-11-25, one at a time"
)

// kinds returns all of them, and calls with the same large results through ReverseProxy.
func (l *lab) kinds() []kind {
	of := func(tool string, era mcp.Era) *target {
		return l.target(wayDrawbridge, l.parts[wayDrawbridge], tool, era)
	}
	asking := func(name string, callers int, plain string) kind {
		return kind{
			name: name, target: of("kinds__ask", mcp.Legacy), callers: callers, plain: plain,
			reason: reasonQuestions,
		}
	}
	all := []kind{
		{name: plainModern, target: of("echo__echo", mcp.Modern), callers: 16},
		{name: plainLegacy, target: of("echo__echo", mcp.Legacy), callers: 16},
		{name: plainAlone, target: of("echo__echo", mcp.Legacy), callers: 1},
		{
			name:   "event stream: three notices of progress, then the result",
			target: of("kinds__stream", mcp.Modern), callers: 16, plain: plainModern, reason: reasonStream,
		},
		{
			name: "stdio server: one process", target: of("stdio__echo", mcp.Modern), callers: 64,
			plain: plainModern,
		},
		{name: "built-in tool", target: of("toolbox__calculate", mcp.Modern), callers: 16, plain: plainModern},
	}
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		what, tool := fmt.Sprintf("result of %d KiB", size>>10), fmt.Sprintf("text_%d", size)
		beside := l.target(wayProxy, l.parts[wayProxy], tool, mcp.Modern)
		all = append(all,
			kind{name: what, target: of("kinds__"+tool, mcp.Modern), callers: 16, plain: plainModern},
			kind{name: what + besideProxy, target: beside, callers: 16})
	}
	return append(all, asking("one question at a time, each in a call", 1, plainAlone),
		asking("10 questions at once, each in a call", 10, plainLegacy),
		asking("100 questions at once, each in a call", 100, plainLegacy))
}

const besideProxy = ", through ReverseProxy"

// kindRounds is what one kind showed, round after round.
type kindRounds struct {
	kind
	*rounds
}

// measureKinds loads all kinds in turn, round after round.
func (l *lab) measureKinds(ctx context.Context, p plan) (results []*kindRounds) {
	var targets []*target
	for _, k := range l.kinds() {
		k.target.name, k.target.callers = k.name, k.callers
		targets = append(targets, k.target)
		results = append(results, &kindRounds{kind: k})
	}
	found := l.measure(ctx, p, 0, targets...)
	for _, r := range results {
		r.rounds = found.ways[r.name]
	}
	return results
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
