//go:build !race

package server_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// How many times memory may be allocated for one tools/call through both doors: from the
// bytes of the client's request to the bytes of its answer, net/http's part included,
// with everything on. Each is what was measured and about 3 %. Lower them whenever a call
// costs less: then it cannot come to cost more again unseen. The race detector allocates
// too, so the test runs without.
const (
	legacyAllocations = 59
	modernAllocations = 66
)

// TestAllocationsOfACall bounds what a call costs in allocations, for clients of each era
// before a server of the same. Client and server are of bare bytes and allocate nothing.
func TestAllocationsOfACall(t *testing.T) {
	for _, test := range []struct {
		name   string
		modern bool
		most   float64
	}{
		{"legacy", false, legacyAllocations},
		{"modern", true, modernAllocations},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dialHouse(t, newHouse(t, bareServer(t, test.modern)))
			call := c.calls(t, test.modern)
			for range 300 { // pools fill, and buffers grow to what they need
				c.exchange(t, call)
			}
			got := perCall(2000, func() { c.exchange(t, call) })
			t.Logf("%.1f allocations a call", got)
			if got > test.most {
				t.Errorf("got %.1f allocations a call, want at most %v", got, test.most)
			}
		})
	}
}

// perCall returns how many allocations one run of f causes on average, in all goroutines.
// Of five rounds the cheapest counts: timers and the collector allocate now and then.
func perCall(runs int, f func()) float64 {
	least := uint64(1 << 62)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return float64(least) / float64(runs)
}

// house is a gateway with everything that a call meets: tokens that are verified, rules,
// limits, audit, the log of requests, and a server at an address of its own.
type house struct{ address, token string }

func newHouse(t testing.TB, server string, change ...func(*world)) house {
	t.Helper()
	verifier, token := issuer(t)
	record, err := audit.Open(audit.Config{File: filepath.Join(t.TempDir(), "audit.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, append([]func(*world){func(w *world) {
		w.config.Verify, w.config.Recheck = verifier.Verify, verifier.Recheck
		w.config.Logger = slog.New(slog.NewJSONHandler(&sink{}, nil))
		w.audit = record
		w.tenants = []gateway.TenantConfig{{
			ID: "acme", Servers: []string{"bare"}, Rules: []gateway.Rule{{Allow: []string{"echo"}}},
			Limits: w.tenants[0].Limits,
		}}
	}}, change...)...)
	t.Cleanup(func() { _ = record.Close() })
	connected := make(chan struct{}, 1)
	link := upstream.New(upstream.Config{
		Name: "bare", URL: server, Client: dial.Client(dial.Config{PrivateAddresses: true}), Version: "test",
		Memory: w.config.Memory, Turns: w.config.Turns, Logger: slog.New(slog.DiscardHandler),
		Status: func(s upstream.Status) {
			if s.Up {
				select {
				case connected <- struct{}{}:
				default:
				}
			}
		},
	}, w.registry)
	go func() { _ = link.Run(t.Context()) }() // ends with the test
	select {
	case <-connected:
	case <-time.After(time.Minute):
		t.Fatal("the gateway does not reach the server")
	}
	return house{w.listen(t), token}
}

// listen serves the clients of the world as the program does, and returns the address.
func (w *world) listen(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: w.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 75 * time.Second,
		MaxHeaderBytes:               32 << 10,
		DisableGeneralOptionsHandler: true,
	}
	door := connlimit.New(connlimit.Config{Total: 100})
	door.Attach(s)
	go func() { _ = s.Serve(door.Listener(l)) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// issuer returns a verifier, and a token that it takes for alice's.
func issuer(t testing.TB) (*auth.Verifier, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := auth.Key{ID: "k", Public: public, Private: private}
	const address, audience = "https://issuer.test", "https://mcp.test/mcp"
	verifier, err := auth.New(auth.Config{Issuers: []auth.Issuer{{
		Issuer: address, Algorithms: []string{"EdDSA"}, Audiences: []string{audience}, Tenant: "acme",
		Keys: []auth.Key{key},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	token, err := auth.Sign(key, "EdDSA", auth.Claims{
		Issuer: address, Subject: "alice", Audience: audience, IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return verifier, token
}

// bareClient is a connection to a house, with the room for an answer.
type bareClient struct {
	net.Conn
	house
	answer [8 << 10]byte
}

func dialHouse(t testing.TB, h house) *bareClient {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &bareClient{Conn: c, house: h}
}

// exchange sends a request and returns the answer, which is valid until the next.
func (c *bareClient) exchange(t testing.TB, request []byte) []byte {
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	n, _, _, err := receiveBare(c, c.answer[:])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(c.answer[:n], []byte("HTTP/1.1 200")) || bytes.Contains(c.answer[:n],
		[]byte(`"error"`)) || bytes.Contains(c.answer[:n], []byte(`"isError"`)) {
		t.Fatalf("got %s", c.answer[:n])
	}
	return c.answer[:n]
}

// calls returns a call of the tool, in a new session if it is a legacy one.
func (c *bareClient) calls(t testing.TB, modern bool) []byte {
	t.Helper()
	const arguments = `"name":"echo","arguments":{"message":"hello"}`
	if modern {
		return c.request(mcp.HeaderProtocolVersion+": 2026-07-28\r\n"+mcp.HeaderMethod+": tools/call\r\n"+
			mcp.HeaderName+": echo\r\n",
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+arguments+
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	}
	opened := c.exchange(t, c.request("",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}`))
	_, rest, _ := bytes.Cut(opened, []byte(mcp.HeaderSessionID+": "))
	id, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return c.request(mcp.HeaderSessionID+": "+string(id)+"\r\n"+mcp.HeaderProtocolVersion+": 2025-11-25\r\n",
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+arguments+`}}`)
}

func (c *bareClient) request(headers, body string) []byte {
	return fmt.Appendf(
		nil, "POST /mcp HTTP/1.1\r\nHost: mcp.test\r\nUser-Agent: bare\r\nAuthorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n"+
			"Content-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", c.token, headers, len(body),
		body)
}

// receiveBare reads one message of HTTP with a length into buffer. It returns the length
// of all and where the body begins.
func receiveBare(from io.Reader, buffer []byte) (n, body int, head []byte, err error) {
	for {
		got, err := from.Read(buffer[n:])
		if err != nil {
			return n, 0, nil, err
		}
		n += got
		end := bytes.Index(buffer[:n], []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		if body = end + 4; n >= body+declaredLength(buffer[:body]) {
			return n, body, buffer[:body], nil
		}
	}
}

// declaredLength returns the Content-Length of a head, 0 if it has none.
func declaredLength(head []byte) (length int) {
	_, rest, _ := bytes.Cut(head, []byte("Content-Length: "))
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		length = length*10 + int(digit-'0')
	}
	return length
}

// bareServer is an MCP server of one era over Streamable HTTP, with the tool echo. It
// returns its address.
func bareServer(t testing.TB, modern bool) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveBare(c, modern) // ends when the gateway closes the connection
		}
	}()
	return "http://" + l.Addr().String()
}

func serveBare(c net.Conn, modern bool) {
	defer c.Close()
	request, answer, message := make([]byte, 16<<10), make([]byte, 0, 4<<10), make([]byte, 0, 2<<10)
	for {
		n, body, head, err := receiveBare(c, request)
		if err != nil {
			return
		}
		status := "405 Method Not Allowed"
		message = message[:0]
		if bytes.HasPrefix(head, []byte("POST ")) {
			status, message = answerBare(message, request[body:n], modern)
		}
		answer = append(append(append(answer[:0], "HTTP/1.1 "...), status...), "\r\n"...)
		if len(message) > 0 {
			answer = append(answer, "Content-Type: application/json\r\n"...)
		}
		answer = append(answer, "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n"...) // as Node.js does
		answer = strconv.AppendInt(append(answer, "Content-Length: "...), int64(len(message)), 10)
		answer = append(append(answer, "\r\n\r\n"...), message...)
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// answerBare appends the answer to a message to dst.
func answerBare(dst, body []byte, modern bool) (status string, message []byte) {
	_, rest, asked := bytes.Cut(body, []byte(`"id":`))
	if !asked {
		return "202 Accepted", dst
	}
	id := rest[:bytes.IndexAny(rest, ",}")]
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), ',')
	says := func(method string) bool { return bytes.Contains(body, []byte(`"method":"`+method+`"`)) }
	const complete = `"resultType":"complete",`
	switch {
	case bytes.Contains(body, []byte(`"method":"tools/call"`)):
		return "200 OK", append(dst, `"result":{`+complete+`"content":[{"type":"text","text":"hello"}]}}`...)
	case modern && says("server/discover"):
		return "200 OK", append(dst, `"result":{`+complete+
			`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`...)
	case !modern && says("initialize"):
		return "200 OK", append(dst,
			`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"1"}}}`...)
	case says("tools/list"):
		return "200 OK", append(dst, `"result":{`+complete+
			`"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}]}}`...)
	case says("ping"):
		return "200 OK", append(dst, `"result":{}}`...)
	}
	return "404 Not Found", append(dst, `"error":{"code":-32601,"message":"Method not found"}}`...)
}
