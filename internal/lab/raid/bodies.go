package raid

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// bigBodies sends bodies nearly as large as they may be.
var bigBodies = Attack{
	Name: "big bodies", Does: "16 connections call with an argument of 3.9 MB",
	Raiders: 16, Few: 4, Raised: true,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.call("echo", `{"message":"`+strings.Repeat("x", 3_900_000)+`"}`))
	},
	Signs: Signs{Answered: 1},
}

const (
	dripEvery = 300 * time.Millisecond
	dripAtOne = 128 // raiders
)

// slowChunks sends bodies of unknown length in small pieces, slowly.
var slowChunks = Attack{
	Name:    "slow bodies, chunked",
	Does:    "128 connections send a chunked body a byte at a time, three a second",
	Raiders: dripAtOne, Begin: drip(-1, "1\r\nx\r\n"), Signs: manyHeld,
}

// slowAnnounced announces large bodies and sends them slowly.
var slowAnnounced = Attack{
	Name:    "slow bodies, announced",
	Does:    "128 connections announce a body of 4 MiB and send three bytes a second",
	Raiders: dripAtOne, Begin: drip(4<<20, "x"), Signs: manyHeld,
}

// manyHeld says that most of those who drip did so at the same time.
var manyHeld = Signs{Held: dripAtOne / 2}

// drip sends a header and the beginning of a body, then a piece at a time until it is
// answered or cut off.
func drip(announce int, piece string) func(context.Context, *Raider) func() {
	return func(_ context.Context, r *Raider) func() {
		q := r.call("echo", "")
		q.Announce = announce
		q.Body = strings.TrimSuffix(q.Body, "}}") + `{"message":"`
		begin := q.Bytes()
		return func() {
			w := r.open()
			defer w.Close()
			defer r.hold()()
			must.Have(w.Write(begin))
			for !answers(w) { // the end of ctx closes it
				must.Have(w.Write([]byte(piece)))
			}
			w.Allow(client.Patience)
			r.counted(w.Answer(kept))
		}
	}
}

// answers tells whether an answer has begun before the next piece is due.
func answers(w *client.Conn) bool {
	_ = w.SetReadDeadline(time.Now().Add(dripEvery)) // a connection that is closed fails below
	_, err := w.In.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	must.OK(err)
	return true
}

// manyMembers sends arguments that cost far more memory decoded than they are long: in
// turn an object of as many members as fit into 3 MB, an array of 20,000 small objects,
// and an object with 19,000 members, which is allowed.
var manyMembers = Attack{
	Name: "many members", Does: "16 connections call with 3 MB of 180,000 members, of small objects, or " +
		"of 19,000 members",
	Raiders: 16, Few: 4,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.call("take", members(180_000)),
			r.call("take", "{\"a\":["+strings.Repeat(`{"b":1},`, 300_000)+"0]}"),
			r.call("take", members(19_000)))
	},
	Signs: Signs{Replies: 3},
}

// members returns an object with so many members of different names.
func members(count int) string {
	return "{" + page.Times(count, func(i int) string { return fmt.Sprintf(`,"member-%05x":1`, i) })[1:] + "}"
}

// dearPatterns makes the gateway check a long text against the dearest pattern that a
// schema may have.
var dearPatterns = Attack{
	Name: "dear patterns", Does: "24 connections call with 12 KB of text for a pattern of nearly 4,000 " +
		"instructions",
	Raiders: 24, Few: 4,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.call("match", `{"text":"`+strings.Repeat("a", 12_000)+`b"}`))
	},
	Signs: Signs{Replies: 1},
}
