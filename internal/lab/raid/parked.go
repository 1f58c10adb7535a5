package raid

import (
	"context"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// parkedCalls calls a tool that asks its caller something, and never answers.
var parkedCalls = Attack{
	Name: "parked calls", Does: "16 connections call a tool that asks its caller, with arguments of 1 MB, " +
		"and never answer",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		q := r.call("ask", `{"message":"`+strings.Repeat("x", 1<<20)+`"}`)
		q.Body = strings.Replace(q.Body, `clientCapabilities":{}`, `clientCapabilities":`+client.Able, 1)
		return r.repeat(q)
	},
	Signs: Signs{Replies: 1},
}

// parkedStreams does the same in sessions, where the question comes on the stream of the
// call.
var parkedStreams = Attack{
	Name: "calls that wait for an answer",
	Does: "8 raiders in sessions do the same with 256 KB, and hold 16 streams each on which the " +
		"question came",
	Raiders: 8,
	Begin: func(_ context.Context, r *Raider) func() {
		calls := 0
		var call []byte
		var answer *client.Answer
		hold := r.hoard(16, func(w *client.Conn) bool {
			calls = (calls + 1) % 9000 // four digits, as many as a client may have open
			answer = r.counted(w.Begin([]byte(strings.Replace(string(call), `"id":1`,
				fmt.Sprintf(`"id":%d`, 1000+calls), 1))))
			return true
		})
		return r.sessioned(mcp.LatestLegacy, client.Able, func(session string) []byte {
			q := r.inSession("ask", session)
			q.Body = strings.Replace(q.Body, `"arguments":{}`, `"arguments":{"message":"`+
				strings.Repeat("x", 256<<10)+`"}`, 1)
			// the id has as many digits in each call
			q.Announce = len(q.Body) + len("1000") - len("1")
			return q.Bytes()
		}, func(request []byte) *client.Answer {
			call = request
			hold()
			return answer
		})
	},
	Signs: Signs{Replies: 1},
}
