package raid

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// deepValues sends arguments of arrays within arrays: in turn as deep as a body is long,
// and 900 deep.
var deepValues = Attack{
	Name: "deep values", Does: "16 connections call with arrays within arrays, a million deep and 900 deep",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.call("take", nested(1_000_000)), r.call("take", nested(900)))
	},
	Signs: Signs{Replies: 1},
}

func nested(depth int) string {
	return `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
}

// garbage sends what is no message, and what is no HTTP.
var garbage = Attack{
	Name: "garbage", Does: "16 connections send what is no JSON, no message, no text, and no HTTP",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		var requests []client.Request
		for _, body := range []string{
			strings.Repeat("\xff\x00", 100_000), strings.Repeat(`{"a":`, 50_000), `{"jsonrpc":"2.0"`,
			`"` + strings.Repeat(`\u0000`, 100_000) + `"`,
			`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 100_000) + `,"method":"ping"}`, "[" +
				strings.Repeat("null,", 100_000) + "null]",
		} {
			q := r.call("take", "{}")
			q.Body = body
			requests = append(requests, q)
		}
		send, step := r.repeat(requests...), 0
		return func() {
			if step++; step%7 > 0 {
				send()
				return
			}
			r.line.Close()
			r.exchange([]byte(strings.Repeat("\x16\x03\x01", 4000) + "\r\n\r\n"))
		}
	},
	Signs: Signs{Replies: 1},
}

const pipelinedAtOnce = 64 // requests

// pipelined sends many requests before it reads the first answer.
var pipelined = Attack{
	Name: "pipelined requests", Does: "16 connections send 64 calls at once, then read the answers",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		text := r.call("echo", `{"message":"hello"}`).Bytes()
		return func() {
			w := r.open()
			defer w.Close()
			r.attempts.Add(pipelinedAtOnce - 1)
			must.Have(w.Write(bytes.Repeat(text, pipelinedAtOnce)))
			for range pipelinedAtOnce {
				r.counted(w.Answer(kept))
			}
		}
	},
	Signs: Signs{Replies: 1},
}

// batches sends many calls in one message, as one revision allows.
var batches = Attack{
	Name: "batches", Does: "8 connections in sessions send batches of 32 calls",
	Raised: true, Raiders: 8,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.sessioned(mcp.Revision2503, "{}", func(session string) []byte {
			q := r.inSession("echo", session)
			q.Revision = mcp.Revision2503
			q.Body = "[" + page.Times(32, func(i int) string {
				return "," + strings.Replace(q.Body, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1)
			})[1:] + "]"
			return q.Bytes()
		}, r.exchange)
	},
	Signs: Signs{Replies: 1},
}

// reconnects opens a connection for each call.
var reconnects = Attack{
	Name: "reconnects", Does: "32 raiders open a connection for each call and reset it",
	Raiders: 32,
	Begin: func(_ context.Context, r *Raider) func() {
		call := r.repeat(r.call("echo", `{"message":"hello"}`))
		return func() {
			defer r.line.Close()
			call()
		}
	},
	Signs: Signs{Replies: 1},
}
