package raid

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// bigAnswers calls a tool that answers nearly as much as a server may.
var bigAnswers = Attack{
	Name: "big answers", Does: "16 connections call a tool that answers 15 MB",
	Raiders: 16, Few: 2,
	Begin: func(_ context.Context, r *Raider) func() { return r.repeat(r.call("big", `{}`)) },
	Signs: Signs{Answered: 1, Received: upstream.StreamedAnswer / 2},
}

// streamedAnswers calls a tool whose answers of 1 MB come as event streams that can be
// resumed, so they are kept.
var streamedAnswers = Attack{
	Name:    "streamed answers",
	Does:    "16 connections in sessions call a tool that streams 1 MB, which is kept for resuming",
	Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.sessioned(mcp.LatestLegacy, "{}", func(session string) []byte {
			return r.inSession("some", session).Bytes()
		}, r.exchange)
	},
	Signs: Signs{Received: upstream.StreamedAnswer / 2},
}

// inSession returns a call in a session whose answer is to be a stream.
func (r *Raider) inSession(tool, session string) client.Request {
	name := "storm__" + tool
	return client.Request{
		Addr: r.mission.Addr, Token: r.token(), Revision: mcp.LatestLegacy, Session: session,
		RPC: "tools/call", Tool: name,
		Accept: "text/event-stream, application/json",
		Body: client.Message("1", "tools/call", `"name":"`+name+`","arguments":{}`, mcp.LatestLegacy,
			progress),
	}
}

const (
	sipEvery = 100 * time.Millisecond
	sip      = 512 // bytes
	sipping  = 5 * time.Second
	sippers  = 64
)

// slowReaders asks for large answers and reads them slowly.
var slowReaders = Attack{
	Name: "slow readers of answers", Does: "64 connections ask for 15 MB and read 5 KB a second",
	Raiders: sippers, Few: 8,
	Begin: func(ctx context.Context, r *Raider) func() {
		return r.sip(ctx, r.call("big", `{}`).Bytes())
	},
	Signs: Signs{Answered: 1},
}

// slowStreams asks for progress and hardly reads it.
var slowStreams = Attack{
	Name:    "slow readers of streams",
	Does:    "64 connections ask for 20,000 notifications of progress and read 5 KB a second",
	Raiders: sippers, Few: 8,
	Begin: func(ctx context.Context, r *Raider) func() {
		q := r.call("flood", `{}`)
		q.Accept = "text/event-stream, application/json"
		return r.sip(ctx, q.Bytes())
	},
	Signs: Signs{Answered: 1},
}

// sip returns a step that sends a request on a new connection with a small window, and
// reads the answer in sips.
func (r *Raider) sip(ctx context.Context, request []byte) func() {
	return func() {
		w := r.open()
		defer w.Close()
		if tcp, ok := w.Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10) // with a larger one the attack is weaker
		}
		defer r.hold()()
		must.Have(w.Write(request))
		r.sipOn(ctx, w)
	}
}

// sipOn reads slowly for a while, or until the other side has enough of it.
func (r *Raider) sipOn(ctx context.Context, w *client.Conn) {
	w.Allow(client.Patience)
	first := make([]byte, sip)
	n := must.Have(w.Read(first))
	if !strings.HasPrefix(string(first[:n]), "HTTP/1.1 200") {
		r.refused.Add(1)
		return
	}
	r.answered.Add(1)
	for end := time.Now().Add(sipping); time.Now().Before(end) && world.Pause(ctx, sipEvery); {
		n, err := w.Read(first)
		r.received.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return
		}
		must.OK(err)
	}
}

// progressFloods calls a tool that tells of progress as fast as it can.
var progressFloods = Attack{
	Name:    "progress floods",
	Does:    "8 connections call a tool that sends 20,000 notifications of progress at once",
	Raiders: 8, Few: 2,
	Begin: func(_ context.Context, r *Raider) func() {
		q := r.call("flood", `{}`)
		q.Accept = "text/event-stream, application/json"
		return r.repeat(q)
	},
	Signs: Signs{Answered: 1},
}
