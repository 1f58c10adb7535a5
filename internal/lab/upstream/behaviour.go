package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// Behaviour is how a server answers calls of tools, and lists where it says so. A call is
// executed first, and counts.
type Behaviour int64

// How a server may behave.
const (
	Well       Behaviour = iota
	Hang                 // calls are never answered
	Drip                 // answers come one byte a second
	Garbage              // random bytes instead of an answer, with and without the header of an HTTP answer
	Oversized            // answers of 1 GiB, and lists
	WrongID              // answers have an id that nobody used
	TwoAnswers           // each answer comes twice
	OthersID             // answers have the id of another call in flight, if there is one
	Flood                // thousands of notifications before each answer
	HalfClose            // the server stops writing in the middle of an answer, and keeps the connection
	Reset                // connections are reset in the middle of an answer
	HTML                 // status 200 and a page instead of an answer
	Endless              // lists have a next page for ever, always the same one
	Version              // answers are of JSON-RPC 1.0
	Bomb                 // answers are compressed, and inflate to 1 GiB, and lists
	Crowded              // lists have a million tools on one page
	Pages                // lists have ten thousand pages, each with a cursor of its own
)

const (
	oversize = 1 << 30 // bytes
	flood    = 5000    // notifications
	sip      = time.Second
)

// Behave makes the server do what b says from now on, until the next Behave. Behave(Well)
// heals it. It announces that the list of tools has changed where a behaviour is seen in
// lists, so that they are read.
func (s *Server) Behave(b Behaviour) {
	before := Behaviour(s.behaviour.Swap(int64(b)))
	if b.ofLists() || before.ofLists() {
		s.modern.changeList()
		s.legacy.changeList()
	}
}

// ofLists tells whether a behaviour is seen in lists.
func (b Behaviour) ofLists() bool { return lists[b] != nil || b == Endless || b == Pages }

// lists are how lists are written as behaviours have it, where that is not page after
// page.
var lists = map[Behaviour]func(*output, mcp.RawJSON){
	Oversized: (*output).oversized, Bomb: (*output).bomb, Crowded: (*output).crowd,
}

func (s *Server) behaves() Behaviour { return Behaviour(s.behaviour.Load()) }

// answers are how calls are answered as behaviours have it. answer is the good one,
// which is given where nothing stands here.
var answers = map[Behaviour]func(ctx context.Context, c *call, answer []byte){
	Hang:      func(ctx context.Context, _ *call, _ []byte) { <-ctx.Done() },
	Drip:      func(ctx context.Context, c *call, answer []byte) { c.out.drip(ctx, answer) },
	Garbage:   func(_ context.Context, c *call, _ []byte) { c.out.garbage() },
	Oversized: func(_ context.Context, c *call, _ []byte) { c.out.oversized(c.id) },
	Bomb:      func(_ context.Context, c *call, _ []byte) { c.out.bomb(c.id) },
	HTML:      func(_ context.Context, c *call, _ []byte) { c.out.page() },
	WrongID: func(_ context.Context, c *call, answer []byte) {
		c.out.end(withID(c.id, `987654321`, answer))
	},
	OthersID: func(_ context.Context, c *call, answer []byte) {
		c.out.end(withID(c.id, c.otherID(), answer))
	},
	TwoAnswers: func(_ context.Context, c *call, answer []byte) {
		c.out.event(answer)
		c.out.end(answer)
	},
	Flood: func(_ context.Context, c *call, answer []byte) {
		for i := range flood {
			c.out.event(fmt.Appendf(nil,
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info",`+
					`"data":"flood %d"}}`, i))
			c.out.event(fmt.Appendf(nil,
				`{"jsonrpc":"2.0","method":"notifications/progress",`+
					`"params":{"progressToken":"nobody's","progress":%d}}`, i))
		}
		c.out.end(answer)
	},
	HalfClose: func(ctx context.Context, c *call, answer []byte) {
		// the other side may be gone
		c.out.cut(ctx, answer, func(conn *net.TCPConn) { _ = conn.CloseWrite() })
	},
	Reset: func(ctx context.Context, c *call, answer []byte) {
		c.out.cut(ctx, answer, func(conn *net.TCPConn) {
			_ = conn.SetLinger(0) // the same
			_ = conn.Close()
		})
	},
	Version: func(_ context.Context, c *call, answer []byte) {
		c.out.end([]byte(strings.Replace(string(answer), `"jsonrpc":"2.0"`, `"jsonrpc":"1.0"`, 1)))
	},
}

// withID returns an answer under another id.
func withID(id mcp.RawJSON, other string, answer []byte) []byte {
	return []byte(strings.Replace(string(answer), `"id":`+string(id), `"id":`+other, 1))
}

// drip writes an answer one byte a second.
func (o *output) drip(ctx context.Context, answer []byte) {
	o.begin("application/json")
	for i := range answer {
		if !pace.Wait(ctx, sip) {
			return
		}
		o.write(answer[i : i+1])
	}
}

// garbage writes random bytes: as the body of an answer, or in the place of the answer.
func (o *output) garbage() {
	random := make([]byte, 4<<10)
	_, _ = rand.Read(random) // it never fails
	if binary.BigEndian.Uint16(random)%2 == 0 || o.begun {
		o.begin("application/json")
		o.write(random)
		return
	}
	if conn := o.hijack(); conn != nil {
		_, _ = conn.Write(random) // the other side may be gone
		_ = conn.Close()
	}
}

// oversized writes an answer that is larger than anybody should take.
func (o *output) oversized(id mcp.RawJSON) {
	o.begin("application/json")
	begin, filler, end := oversizedOf(id)
	o.write(begin)
	for sent := 0; sent < oversize && o.write(filler); sent += len(filler) {
	}
	o.write(end)
}

// oversizedOf returns the parts of such an answer. The one in the middle comes again and
// again.
func oversizedOf(id mcp.RawJSON) (begin, filler, end []byte) {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[{"type":"text","text":"`),
		[]byte(strings.Repeat("more and ", 8<<10)), []byte(`"}]}}`)
}

// bomb writes an answer of some MiB that inflates to the size of an oversized one. Nobody
// has asked for compression.
func (o *output) bomb(id mcp.RawJSON) {
	begin, filler, end := oversizedOf(id)
	if !o.begun {
		o.w.Header().Set("Content-Encoding", "gzip")
	}
	o.begin("application/json")
	o.write(member(begin))
	small := member(filler)
	for inflated := 0; inflated < oversize && o.write(small); inflated += len(filler) {
	}
	o.write(member(end))
}

// member returns a text as a member of a gzip file. Members that follow one another are
// one text.
func member(text []byte) []byte {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, _ = w.Write(text) // memory takes all
	_ = w.Close()        // the same
	return small.Bytes()
}

// cut announces an answer, writes half of it and leaves the rest to what happens to the
// connection.
func (o *output) cut(ctx context.Context, answer []byte, happens func(*net.TCPConn)) {
	half := answer[:len(answer)/2]
	if o.begun {
		o.write(append([]byte("data: "), half...))
	}
	conn := o.hijack()
	if conn == nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the other side may be gone
	if !o.begun {
		// the same
		_, _ = fmt.Fprintf(conn,
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer),
			half)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		happens(tcp)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stop := context.AfterFunc(limited, func() { _ = conn.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, conn) // until the other side has enough of it, or the connection was reset
}

// page writes a page for people, with a status that says that all is well.
func (o *output) page() {
	o.begin("text/html; charset=utf-8")
	o.write([]byte("<!DOCTYPE html><html><body><h1>Welcome</h1><p>Please log in.</p></body></html>"))
}

// hijack takes the connection from the HTTP server, nil if that cannot be done.
func (o *output) hijack() net.Conn {
	conn, _, _ := http.NewResponseController(o.w).Hijack() // or nil
	return conn
}
