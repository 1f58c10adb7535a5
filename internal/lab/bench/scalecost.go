package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// subject is a process that is asked the same again and again.
type subject struct {
	what string // for the line of progress
	pids []int  // whose processor time counts
	ask  *asker
	done func(ctx context.Context, sessions []string) // after a round, not measured; may be nil
}

// clients is how many requests an asker has under way at a time, each on a connection.
const clients = 4

// asker makes requests, and keeps its connections.
type asker struct {
	of    func(n int) client.Request // the nth of a round
	lines [clients]*client.Line
}

func newAsker(ctx context.Context, addr string, of func(n int) client.Request) *asker {
	a := &asker{of: of}
	for i := range a.lines {
		a.lines[i] = client.LineTo(ctx, addr)
	}
	return a
}

func (a *asker) close() {
	for _, line := range a.lines {
		line.Close()
	}
}

// compare measures subjects in turn, round after round, so that what disturbs the machine
// disturbs all of them. It returns what a request cost each subject in each round, in
// microseconds of processor time. A first round warms up.
func (l *lab) compare(ctx context.Context, rounds, requests int, subjects []subject) [][]float64 {
	costs := make([][]float64, len(subjects))
	for round := range rounds + 1 {
		for i := range subjects {
			at := (i + round) % len(subjects) // none is always the first
			s := &subjects[at]
			var sessions []string
			cost := busyDuring(s.pids, func() { sessions = s.ask.sendAll(requests) })
			if s.done != nil {
				s.done(ctx, sessions)
			}
			if round > 0 {
				costs[at] = append(costs[at], micros(cost/time.Duration(requests)))
			}
		}
	}
	for i, s := range subjects {
		l.Say("%-44s %s µs\n", s.what, medianAndEnds(costs[i]))
	}
	return costs
}

// medianAndEnds writes the median of values, and the lowest and highest behind it.
func medianAndEnds(values []float64) string {
	s := spreadOf(values)
	return fmt.Sprintf("%.0f (%.0f–%.0f)", s.median, s.least, s.most)
}

// sendAll makes requests and returns the sessions that they opened.
func (a *asker) sendAll(requests int) []string {
	sessions := make([]string, requests)
	must.AtOnce(clients, clients, func(c int) {
		for n := c; n < requests; n += clients {
			sessions[n] = a.send(c, n)
		}
	})
	return sessions
}

// send makes one request and returns the session that it opened, if it did.
func (a *asker) send(c, n int) (session string) {
	r := a.of(n)
	answer := answered(a.lines[c].Exchange(r.Bytes(), 1<<10))
	must.Be(r.Body == "" || bytes.Contains(answer.Body, []byte(`"result"`)), "%s%s: %.200s", r.Addr, r.Path,
		answer.Body)
	return answer.Session
}

// asks returns an asker of a method, with each of the tokens in turn, if there are any.
func asks(ctx context.Context, addr, path, method, tool string, tokens ...string) *asker {
	r := client.Request{Addr: addr, Path: path, Revision: mcp.LatestModern, RPC: method, Tool: tool}
	params := ""
	if method == mcp.MethodToolsCall {
		params = `"name":"` + tool + `","arguments":{"message":"hello"}`
	}
	r.Body = client.Message("1", method, params, r.Revision)
	if method == mcp.MethodInitialize {
		r.Revision = mcp.LatestLegacy
		r.Body = client.Initialize(r.Revision, client.Unable)
	}
	return newAsker(ctx, addr, func(n int) client.Request {
		r := r
		if len(tokens) > 0 {
			r.Token = tokens[n%len(tokens)]
		}
		return r
	})
}

// endSessions ends sessions.
func endSessions(ctx context.Context, addr, token string, sessions ...string) {
	ends := newAsker(ctx, addr, func(n int) client.Request {
		return client.Request{Addr: addr, Method: http.MethodDelete, Session: sessions[n], Token: token}
	})
	defer ends.close()
	ends.sendAll(len(sessions))
}
