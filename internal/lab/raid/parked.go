package raid

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// parkedCalls calls a tool that asks its caller something, and never answers.
func parkedCalls() Attack {
	return Attack{
		Name: "parked calls", Does: "16 connections call a tool that asks its caller, with arguments of 1 MB, and never answer",
		Raiders: 16,
		Begin: func(r *Raider) func(context.Context) error {
			q := r.call("ask", `{"message":"`+strings.Repeat("x", 1<<20)+`"}`)
			q.Body = strings.Replace(q.Body, `clientCapabilities":{}`, `clientCapabilities":`+client.Able, 1)
			return r.repeat(q)
		},
		Bites: anyReply,
	}
}

// parkedStreams does the same in sessions, where the question comes on the stream of the
// call.
func parkedStreams() Attack {
	return Attack{
		Name:    "calls that wait for an answer",
		Does:    "8 raiders in sessions do the same with 256 KB, and hold 16 streams each on which the question came",
		Raiders: 8,
		Begin: func(r *Raider) func(context.Context) error {
			var call string
			calls := 0
			hold := r.hoard(16, func(w *client.Conn) error {
				calls = (calls + 1) % 9000 // four digits, as many as a client may have open
				answer, err := w.Begin([]byte(strings.Replace(call, `"id":1`,
					fmt.Sprintf(`"id":%d`, 1000+calls), 1)))
				if err != nil {
					return err
				}
				r.count(answer)
				if answer.Status == http.StatusNotFound {
					call = "" // the session has ended
				}
				return nil
			})
			return func(ctx context.Context) error {
				if call == "" {
					session, err := r.openSessionOf(ctx, mcp.LatestLegacy, client.Able)
					if err != nil || session == "" {
						return err
					}
					q := r.inSession("ask", session)
					q.Body = strings.Replace(q.Body, `"arguments":{}`, `"arguments":{"message":"`+
						strings.Repeat("x", 256<<10)+`"}`, 1)
					// the id has as many digits in each call
					q.Announce = len(q.Body) + len("1000") - len("1")
					call = string(q.Bytes())
				}
				return hold(ctx)
			}
		},
		Bites: anyReply,
	}
}
