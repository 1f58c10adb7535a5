package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial opens a bare connection to the client listener until the test ends.
func (g *gateway) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patient}).DialContext(context.Background(), "tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// raw sends bytes and returns the status line of the answer, "" when there is none.
func (g *gateway) raw(t testing.TB, text string) string {
	t.Helper()
	conn := g.dial(t)
	_, _ = io.WriteString(conn, text) // a refusal may come before the end
	_ = conn.SetReadDeadline(time.Now().Add(patient))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	_ = conn.Close()
	return strings.TrimSpace(line)
}

func TestT20NothingIsLeftOfSessionsAndStreams(t *testing.T) {
	t.Parallel()
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n"))
	token := g.mint(who{tenant: "acme", subject: "alice"})
	fds := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for range 20 { // warm
		g.speak(t, token, "2025-11-25")
	}
	http.DefaultClient.CloseIdleConnections()
	goroutines, files, memory := g.gauge(t, "go_goroutines"), fds(), g.gauge(t,
		"process_resident_memory_bytes")
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				s := g.speak(t, token, revisions()[1+i%3])
				if i%4 == 0 {
					s.dropStream(t, []string{"get", "sse", "listen"}[(i/4+worker)%3])
				}
				if i%2 == 0 {
					get(t, http.MethodDelete, g.url, "Authorization", "Bearer "+token, "Mcp-Session-Id",
						s.session)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "goroutines, files and streams return to the start", func() bool {
		http.DefaultClient.CloseIdleConnections()
		open := 0
		for line := range strings.Lines(metric(t, g, "drawbridge_streams_open")) {
			if !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				open++
			}
		}
		return open == 0 && g.gauge(t, "go_goroutines") <= goroutines+8 && fds() <= files+8
	})
	if grown := g.gauge(t, "process_resident_memory_bytes") - memory; grown > 60<<20 {
		t.Errorf("memory grew by %v MB", grown/(1<<20))
	}
	g.unhurt(t)
}

// dropStream opens a stream and leaves without a word.
func (s *speaker) dropStream(t testing.TB, kind string) {
	t.Helper()
	head := map[string]string{
		"get": "GET /mcp HTTP/1.1\r\nMcp-Session-Id: " + s.session + "\r\nAccept: text/event-stream\r\n",
		"sse": "GET /sse HTTP/1.1\r\nAccept: text/event-stream\r\n",
		"listen": "POST /mcp HTTP/1.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n",
	}[kind]
	body := ""
	if kind == "listen" {
		body = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + modernMeta +
			`,"notifications":{"toolsListChanged":true}}}`
	}
	line := s.g.raw(
		t, fmt.Sprintf("%sHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", head,
			s.token, len(body), body))
	if line != "HTTP/1.1 200 OK" {
		t.Errorf("a stream (%s) gave %q", kind, line)
	}
}

func TestT23BodyTricks(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("ok")})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n")+
		"limits: {max_body: 64KiB}\n")
	token := g.mint(who{tenant: "acme", subject: "alice"})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + modernMeta +
		`,"name":"up__ok","arguments":{}}}`
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token +
		"\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: up__ok\r\n"
	const typed = "Content-Type: application/json\r\n"
	chunked := func(size int) string { return fmt.Sprintf("%x\r\n%s\r\n", size, strings.Repeat(" ", size)) }
	long := len(body)
	for _, trick := range []struct{ name, text, want string }{
		{"chunked without end", head + typed + "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat(chunked(8000), 20), "413"},
		{"announced too long", head + typed + "Content-Length: 99999999999\r\n\r\n", "413"},
		{"chunk of 2^64", head + typed + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "400"},
		{"negative chunk", head + typed + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "400"},
		{"length and chunked", head + typed +
			fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", long) +
			body, "400"},
		{"two lengths", head + typed + fmt.Sprintf("Content-Length: %d\r\nContent-Length: 5\r\n\r\n", long) +
			body, "400"},
		{"length with sign", head + typed + fmt.Sprintf("Content-Length: +%d\r\n\r\n", long) + body, "400"},
		{"transfer coding gzip", head + typed + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
		{"length longer than the body", head + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", long+10) +
			body, "408"},
		{"gzip", head + typed + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", long) +
			body, "415"},
		{"identity", head + typed + fmt.Sprintf("Content-Encoding: identity\r\nContent-Length: %d\r\n\r\n",
			long) + body, "415"},
		{
			"text", head + fmt.Sprintf("Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n", long) + body,
			"415",
		},
		{
			"form", head + fmt.Sprintf(
				"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n", long) + body,
			"415",
		},
		{
			"UTF-16", head + fmt.Sprintf(
				"Content-Type: application/json; charset=utf-16\r\nContent-Length: %d\r\n\r\n", long) + body,
			"415",
		},
		{"two types", head + typed + fmt.Sprintf("Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n",
			long) + body, "415"},
		{"no type", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "415"},
		{"no body", head + typed + "\r\n", "400"},
		{"two tokens", head + typed + "Authorization: Bearer x\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "401"},
		{"two hosts", head + "Host: evil.test\r\n" + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", long) +
			body, "400"},
		{"foreign host", strings.Replace(head, "127.0.0.1", "evil.test", 1) + typed +
			fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "403"},
		{"foreign host in the target", strings.Replace(head, "POST /mcp", "POST http://evil.test/mcp", 1) +
			typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "403"},
		{"foreign origin", head + "Origin: null\r\n" + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n",
			long) + body, "403"},
		{"folded header", head + "X-A: 1\r\n folded\r\n" + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n",
			long) + body, "400 or 200"},
		{"blank before colon", head + "Content-Type : application/json\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "400"},
		{"large headers", head + "X-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", "431"},
		{"plain", head + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", long) + body, "200"},
	} {
		ran := len(up.executions())
		status, _, _ := strings.Cut(strings.TrimPrefix(g.raw(t, trick.text), "HTTP/1.1 "), " ")
		if status == "" || !strings.Contains(trick.want, status) {
			t.Errorf("%s: status %q, want %s", trick.name, status, trick.want)
		}
		if now := len(up.executions()); now != ran && !strings.Contains(trick.want, "200") {
			t.Errorf("%s: a tool ran", trick.name)
		}
	}
	g.unhurt(t)
}

func TestT38SlowClientsHoldUpNobody(t *testing.T) {
	t.Parallel()
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n")+
		"limits: {max_requests: 400}\n")
	token := g.mint(who{tenant: "acme", subject: "alice"})
	var slow []net.Conn
	for i := range 300 {
		conn := g.dial(t)
		text := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
		if i%2 == 0 {
			text = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 1000\r\n\r\n{"
		}
		_, _ = io.WriteString(conn, text)
		slow = append(slow, conn)
	}
	slowest := time.Duration(0)
	for i := range 300 {
		for _, conn := range slow[:30] {
			_, _ = io.WriteString(conn, "a") // drip; it may be closed by now
		}
		started := time.Now()
		if text, _ := g.text(t, token, "own__calculate", fmt.Sprintf(`{"expression":"%d+1"}`,
			i)); !strings.Contains(text, fmt.Sprint(i+1)) {
			t.Fatalf("%d+1 = %s", i, text)
		}
		slowest = max(slowest, time.Since(started))
	}
	if slowest > 8*time.Second { // who waited for the slow ones took 10 s
		t.Errorf("the slowest call took %v", slowest)
	}
	deadline := time.Now().Add(patient)
	for i, conn := range slow {
		_ = conn.SetReadDeadline(deadline)
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Fatalf("slow connection %d was still open after %v", i, patient)
		}
	}
	g.unhurt(t)
}

func TestT39StreamHoardersAreRefused(t *testing.T) {
	t.Parallel()
	g := besiege(t, strings.Replace(twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n"),
		"streams: 1000", "streams: 6", 1))
	hoarder, other := g.mint(who{tenant: "acme", subject: "alice"}),
		g.mint(who{tenant: "globex", subject: "alice"})
	colleague := g.mint(who{tenant: "acme", subject: "bob"})
	for range 3 {
		g.listen(t, "http://"+g.addr+"/sse", "Authorization", "Bearer "+hoarder)
	}
	for _, url := range []string{"http://" + g.addr + "/sse", g.url} {
		headers := []string{"Authorization", "Bearer " + hoarder}
		if url == g.url {
			headers = append(headers, "Mcp-Session-Id", g.speak(t, hoarder, "2025-11-25").session)
		}
		a := get(t, http.MethodGet, url, headers...)
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
			t.Errorf("GET %s: %d, Retry-After %q", url, a.status, a.header.Get("Retry-After"))
		}
	}
	a := g.modern(t, hoarder, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	if a.status != http.StatusTooManyRequests {
		t.Errorf("a subscription: %d %s", a.status, a.body)
	}
	if text, _ := g.text(t, hoarder, "own__calculate", `{"expression":"1+1"}`); !strings.Contains(text, "2") {
		t.Errorf("a call of the hoarder gave %s", text)
	}
	g.listen(t, "http://"+g.addr+"/sse", "Authorization", "Bearer "+other)
	g.listen(t, "http://"+g.addr+"/sse", "Authorization", "Bearer "+colleague)
	g.unhurt(t)
}

func TestSlowCallsOfOneUserLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := ambush(t, &hostile{tools: tool("slow"), answer: func(http.ResponseWriter, json.RawMessage,
		execution, json.RawMessage,
	) {
		<-hold
	}})
	defer close(hold)
	sections := twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n  own: {builtin: [calculate]}\n")
	g := besiege(t, strings.Replace(sections, "concurrency: 1000", "concurrency: 8", 1))
	s := g.speak(t, g.mint(who{tenant: "acme", subject: "mallory"}), "2024-11-05")
	for i := range 8 {
		s.post(
			t, fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"up__slow","arguments":{}}}`,
				i+1))
	}
	if m := g.call(t, g.mint(who{tenant: "acme", subject: "alice"}), "own__calculate",
		`{"expression":"1+1"}`); m.Error != nil {
		t.Errorf("a colleague's call: %d %s", m.Error.Code, m.Error.Message)
	}
	g.unhurt(t)
}

func TestT40SlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a line of text.\n", 60_000) // just below the limit of a text
	up := ambush(t, &hostile{tools: tool("large"), answer: func(w http.ResponseWriter, id json.RawMessage,
		_ execution, _ json.RawMessage,
	) {
		text, _ := json.Marshal(large)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, text)
	}})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+
		"\n  own: {builtin: [calculate]}\n")+"limits: {memory: 256MiB}\n")
	token := g.mint(who{tenant: "acme", subject: "alice"})
	endpoint := g.unread(t, token)
	statuses := make(map[int]int)
	for i := range 200 { // 200 MB offered
		body := fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"up__large","arguments":{"to":"stream"}}}`, i)
		statuses[post(t, "http://"+g.addr+endpoint, body, "Authorization", "Bearer "+token).status]++
	}
	if statuses[http.StatusAccepted]+statuses[http.StatusNotFound] != 200 {
		t.Errorf("messages for a stream that nobody reads gave %v, want 202, or 404 once it is over",
			statuses)
	}
	var conns []net.Conn
	for range 60 {
		conn := g.dial(t)
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + modernMeta +
			`,"name":"up__large","arguments":{}}}`
		fmt.Fprintf(
			conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: up__large\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
		conns = append(conns, conn)
	}
	for i := range 200 {
		if text, _ := g.text(t, token, "own__calculate", fmt.Sprintf(`{"expression":"%d+1"}`,
			i)); !strings.Contains(text, fmt.Sprint(i+1)) {
			t.Fatalf("%d+1 = %s", i, text)
		}
	}
	// Of the messages for the stream some came too late when the machine was slow: only
	// the others are sure to be made.
	eventually(t, "the calls on connections of their own were made", func() bool {
		return len(slices.DeleteFunc(up.executions(),
			func(e execution) bool { return e.arguments != `{}` })) == len(conns)
	})
	peak := g.peak(t)
	if peak > 200 {
		t.Errorf("%d MB resident at the worst", peak)
	}
	t.Logf("%d MB resident at the worst, with %d answers of 1 MB that nobody reads; messages gave %v", peak,
		len(up.executions()), statuses)
	for _, conn := range conns {
		_ = conn.Close()
	}
	g.unhurt(t)
}

// unread opens a stream of 2024-11-05 and reads no more of it than where messages go.
func (g *gateway) unread(t testing.TB, token string) (endpoint string) {
	t.Helper()
	conn := g.dial(t)
	_ = conn.(*net.TCPConn).SetReadBuffer(4096) // a hint
	fmt.Fprintf(
		conn, "GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", token)
	_ = conn.SetReadDeadline(time.Now().Add(patient))
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if path, found := strings.CutPrefix(line, "data: "); found {
			return strings.TrimSpace(path)
		}
	}
}

// peak returns the most memory that the gateway had resident so far, in MB.
func (g *gateway) peak(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}
