package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// gateTarget is where one peer listens and what its clients have to say.
type gateTarget struct {
	addr  string
	path  string
	token string // "" sends none
	era   mcp.Era
}

// peerCaller is one connection to a peer, with a session of its own in the legacy era. It speaks HTTP by hand, so that
// the load costs little, and reads answers of every form that servers choose: of a known length, in chunks, until the
// connection ends, as JSON or as an event stream. It is for one goroutine at a time.
type peerCaller struct {
	gateTarget
	conn     net.Conn
	in       *bufio.Reader
	session  string
	revision string
	name     string // of the tool that calls are about
	body     []byte // of the last answer
}

// peerPatience is how long a peer has for an answer before it counts as having none.
const peerPatience = 10 * time.Second

// connectPeer opens a connection and, in the legacy era, a session as clients do: the revision that the server answers with is
// the one that is spoken from then on.
func connectPeer(ctx context.Context, t gateTarget) (*peerCaller, error) {
	c := &peerCaller{gateTarget: t, revision: mcp.LatestModern}
	if err := c.dial(ctx); err != nil {
		return nil, err
	}
	if t.era == mcp.Modern {
		return c, nil
	}
	c.revision = mcp.LatestLegacy
	if err := c.openSession(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return c, nil
}

func (c *peerCaller) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: peerPatience}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 8<<10)
	return c.allow(peerPatience)
}

// allow bounds how long everything takes that happens on this connection from now on.
func (c *peerCaller) allow(limit time.Duration) error {
	return c.conn.SetDeadline(time.Now().Add(limit))
}

// close ends the connection, not the session: the next request opens another connection.
func (c *peerCaller) close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is expected from it any more
		c.conn = nil
	}
}

func (c *peerCaller) openSession(ctx context.Context) error {
	c.session = ""
	answer, err := c.ask(ctx, c.post(mcp.MethodInitialize,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+c.revision+
			`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		return err
	}
	m, err := mcp.Decode(answer)
	if err != nil {
		return fmt.Errorf("%w: %.200s", err, answer)
	}
	if mcp.EraOf(m.Result.Text("protocolVersion")) != mcp.Legacy {
		return fmt.Errorf("answered %.200s", answer)
	}
	c.revision = m.Result.Text("protocolVersion")
	_, err = c.exchange(ctx, c.post(mcp.NotifyInitialized, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return err
}

// post returns the bytes of one HTTP request.
func (c *peerCaller) post(method, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n",
		c.path, c.addr, len(body))
	c.identify(&b)
	if c.era == mcp.Modern {
		fmt.Fprintf(&b, "%s: %s\r\n", mcp.HeaderMethod, method)
		if method == mcp.MethodToolsCall {
			fmt.Fprintf(&b, "%s: %s\r\n", mcp.HeaderName, c.name)
		}
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// identify writes the headers that say who asks and in which session.
func (c *peerCaller) identify(b *bytes.Buffer) {
	if c.era == mcp.Modern || c.session != "" {
		fmt.Fprintf(b, "%s: %s\r\n", mcp.HeaderProtocolVersion, c.revision)
	}
	if c.session != "" {
		fmt.Fprintf(b, "%s: %s\r\n", mcp.HeaderSessionID, c.session)
	}
	if c.token != "" {
		fmt.Fprintf(b, "Authorization: Bearer %s\r\n", c.token)
	}
}

// message returns a request, whose params are given without their braces.
func (c *peerCaller) message(method, params string) []byte {
	if c.era == mcp.Modern {
		if params != "" {
			params += ","
		}
		params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + c.revision +
			`","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return c.post(method, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`)
}

// call returns the request that calls the tool echo, and the words that the answer must contain.
func (c *peerCaller) call(connection int) (request, want []byte) {
	words := fmt.Sprintf("%s, said connection %d.", message, connection)
	return c.message(mcp.MethodToolsCall, `"name":"`+c.name+`","arguments":{"message":"`+words+`"}`), []byte(words)
}

// list returns the request for all tools.
func (c *peerCaller) list() []byte { return c.message(mcp.MethodToolsList, "") }

// learn finds out what the peer calls the tool echo, which most put a prefix before.
func (c *peerCaller) learn(ctx context.Context) error {
	answer, err := c.ask(ctx, c.list())
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	if err := checkList(answer); err != nil {
		return err
	}
	for _, part := range strings.Split(string(answer), `"name":"`)[1:] {
		if name, _, _ := strings.Cut(part, `"`); strings.HasSuffix(name, "echo") {
			c.name = name
			return nil
		}
	}
	return errors.New("lists no tool echo")
}

// ask sends a request and returns the JSON-RPC response to it. The response is valid until the next request.
func (c *peerCaller) ask(ctx context.Context, request []byte) ([]byte, error) {
	h, err := c.exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	if h.status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %.200s", h.status, c.body)
	}
	if !h.events {
		return c.body, nil
	}
	if answer := lastEvent(c.body); answer != nil {
		return answer, nil
	}
	return nil, fmt.Errorf("an event stream without a response: %.200q", c.body)
}

// exchange sends a request and reads all that comes back.
func (c *peerCaller) exchange(ctx context.Context, request []byte) (answerHead, error) {
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return answerHead{}, err
		}
	}
	if _, err := c.conn.Write(request); err != nil {
		return answerHead{}, err
	}
	h, err := readAnswerHead(c.in)
	if err != nil {
		return h, err
	}
	if h.session != "" {
		c.session = h.session
	}
	c.body, err = readAnswerBody(c.in, h, c.body[:0])
	if h.closes {
		c.close()
	}
	return h, err
}

// checkCall returns what is wrong with the answer to a call.
func checkCall(answer, want []byte) error {
	if !bytes.Contains(answer, want) || !bytes.Contains(answer, []byte(`"result"`)) {
		return fmt.Errorf("a wrong answer: %.200s", answer)
	}
	return nil
}

// checkList returns what is wrong with a list of tools.
func checkList(answer []byte) error {
	if count := bytes.Count(answer, []byte(`"inputSchema"`)); count < peerTools {
		return fmt.Errorf("lists %d tools of %d: %.200s", count, peerTools, answer)
	}
	return nil
}
