package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// eraStreams are the streams that last for as long as their clients want, one of each
// era.
func eraStreams() map[string]func(t testing.TB, w *world, token string) message {
	return map[string]func(t testing.TB, w *world, token string) message{
		"get": func(t testing.TB, w *world, token string) message {
			return inSession("GET", w.open(t, token, mcp.Revision2511), "").as(token)
		},
		"listen": func(_ testing.TB, _ *world, token string) message { return modernListen().as(token) },
		"sse": func(_ testing.TB, _ *world, token string) message {
			return message{method: "GET", path: "/sse", token: token}
		},
	}
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines returns the lines of the log that have all these texts.
func (j *logBuffer) lines(texts ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if all(texts, func(text string) bool { return strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

func all(texts []string, f func(string) bool) bool {
	for _, text := range texts {
		if !f(text) {
			return false
		}
	}
	return true
}

// listeningWorld is a world behind a listener as the program has it, with what can be
// seen from outside of its streams.
type listeningWorld struct {
	*world
	address string
	door    *connlimit.Limiter
	log     logBuffer
}

func newListeningWorld(t testing.TB, change ...func(*world)) *listeningWorld {
	t.Helper()
	h := &listeningWorld{}
	own := func(w *world) {
		w.config.Logger = slog.New(slog.NewJSONHandler(&h.log, nil))
		plenty := 100_000
		for i := range w.tenants {
			if w.tenants[i].ID == "acme" {
				w.tenants[i].Limits.Streams, w.tenants[i].Limits.Sessions,
					w.tenants[i].Limits.UserSessions = &plenty, &plenty, &plenty
			}
		}
	}
	h.world = newWorld(t, append([]func(*world){own}, change...)...)
	h.listen(t)
	return h
}

func (h *listeningWorld) listen(t testing.TB) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := connlimit.New(connlimit.Config{Total: 10_000})
	h.address, h.door = l.Addr().String(), door
	s := &http.Server{Handler: h.Handler()}
	door.Attach(s)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(door.Listener(small{l})) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
		h.EndStreams()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		h.CloseStreams(ctx)
	})
}

// small is a listener whose connections take little before the client has read it.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		_ = c.(*net.TCPConn).SetWriteBuffer(32 << 10)
	}
	return c, err
}

// streamClient is a client with a stream.
type streamClient struct {
	*net.TCPConn
	resp  *http.Response
	lines *bufio.Reader
	first string // the data of the first event
}

// visit opens a stream, which begins with an event. more is sent together with the
// request.
func (h *listeningWorld) visit(t testing.TB, m message, more string) *streamClient {
	t.Helper()
	dialed, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	g := &streamClient{TCPConn: dialed.(*net.TCPConn)}
	_ = g.SetReadBuffer(32 << 10) // as little as small has at the other end
	var request bytes.Buffer
	if err := m.request(t.Context(), "http://"+h.address).Write(&request); err != nil {
		t.Fatal(err)
	}
	request.WriteString(more)
	if _, err := g.Write(request.Bytes()); err != nil {
		t.Fatal(err)
	}
	if g.resp, err = http.ReadResponse(bufio.NewReader(g), nil); err != nil {
		t.Fatal(err)
	}
	g.lines = bufio.NewReader(g.resp.Body)
	if g.resp.StatusCode == http.StatusOK {
		_, g.first, _ = strings.Cut(strings.TrimSpace(g.expect(t, "data:")), " ")
	}
	return g
}

// expect reads until a line has the text.
func (g *streamClient) expect(t testing.TB, text string) string {
	t.Helper()
	for {
		line, err := g.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no %q came: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

// rest reads all that comes until the end of the stream. The error is nil if it ended
// properly and the connection was closed behind it.
func (g *streamClient) rest() (string, error) {
	text, err := io.ReadAll(g.lines)
	if err != nil {
		return string(text), err
	}
	defer g.Close()
	if n, err := g.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return string(text), fmt.Errorf("after the end: %d bytes and error %w, want the connection closed", n,
			err)
	}
	return string(text), nil
}

// streamsOpen returns how many streams the metrics say are open, in all kinds.
func (w *world) streamsOpen(t testing.TB) int {
	t.Helper()
	return int(metricstest.Sum(t, w.metrics, "drawbridge_streams_open"))
}

// requests returns how many requests of that method and path the metrics have counted.
func (h *listeningWorld) requests(t testing.TB, m message) int {
	t.Helper()
	return int(metricstest.Sum(t, h.metrics, "drawbridge_http_requests_total", "route", m.path, "method",
		m.method))
}

// gone wants everything given back that one stream had, once: its place, the place of its
// connection at the listener, its line in the log, with that outcome, and its request in
// the metrics.
func (h *listeningWorld) gone(t testing.TB, m message, before int, outcome string) {
	t.Helper()
	line := []string{
		`"msg":"request"`, `"path":"` + m.path + `"`, `"http_method":"` + m.method + `"`,
		`"status":200`, `"tenant":"acme"`, `"duration_seconds"`,
	}
	if m.path == "/mcp" && m.method == "POST" {
		line = append(line, mcp.MethodListen)
	}
	eventually(t, func() bool { return h.streamsOpen(t) == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h.CloseStreams(ctx)
	if open := h.door.Open(); open != 0 {
		t.Errorf("%d connections are open, want none", open)
	}
	if got := h.log.lines(line...); len(got) != 1 || !strings.Contains(got[0], `":"`+outcome+`"`) {
		t.Errorf("got the lines %q, want one with outcome %s", got, outcome)
	}
	if open := h.streamsOpen(t); open != 0 {
		t.Errorf("%d streams are open, want none", open)
	}
	if counted := h.requests(t, m) - before; counted != 1 {
		t.Errorf("%d requests counted at the end of the stream, want 1", counted)
	}
	if panics := h.log.lines(`"msg":"panic"`); len(panics) > 0 {
		t.Error(panics)
	}
}

// TestTakenStreamEndsAsAnyOther ends streams of all eras, whose connections were taken
// over from the HTTP server, in all ways. All that a stream had is given back once.
func TestTakenStreamEndsAsAnyOther(t *testing.T) {
	type ending struct {
		do      func(t *testing.T, h *listeningWorld, m message, g *streamClient)
		leaves  bool // the client does, so it cannot see the end
		outcome string
		only    string
	}
	ends := map[string]ending{
		"drain": {
			do:      func(_ *testing.T, h *listeningWorld, _ message, _ *streamClient) { h.EndStreams() },
			outcome: "ok",
		},
		"client gone": {
			do: func(_ *testing.T, _ *listeningWorld, _ message, g *streamClient) { g.Close() }, leaves: true,
			outcome: "ok",
		},
		"revoked": {do: func(_ *testing.T, h *listeningWorld, _ message,
			_ *streamClient,
		) {
			h.revoke(func(auth.Principal) bool { return true })
		}, outcome: "revoked"},
		"tenant gone": {do: func(_ *testing.T, h *listeningWorld, _ message, _ *streamClient) {
			h.gateway.SetPolicy("", []gateway.TenantConfig{{ID: "globex"}})
			h.Reauthorize()
		}, outcome: "revoked"},
		"session deleted": {do: func(t *testing.T, h *listeningWorld, m message, _ *streamClient) {
			h.do(t, inSession("DELETE", m.headers[mcp.HeaderSessionID], ""))
		}, outcome: "ok", only: "get"},
		"flood": {do: func(_ *testing.T, _ *listeningWorld, _ message, g *streamClient) {
			_, _ = g.Write(make([]byte, 256<<10)) // it may be cut off before all is sent
		}, leaves: true, outcome: "ok"},
	}
	for era, of := range eraStreams() {
		for name, end := range ends {
			if end.only != "" && end.only != era {
				continue
			}
			t.Run(era+"/"+name, func(t *testing.T) {
				h := newListeningWorld(t)
				m := of(t, h.world, "alice")
				before := h.requests(t, m)
				g := h.visit(t, m, "")
				eventually(t, func() bool { return h.streamsOpen(t) == 1 && h.door.Open() == 1 })
				if h.requests(t, m) != before ||
					len(h.log.lines(`"path":"`+m.path+`"`, `"http_method":"`+m.method+`"`, `"status":200`,
						`"method":"`+m.rpc()+`"`)) != 0 {
					t.Error("the request was counted or logged before the stream ended")
				}
				end.do(t, h, m, g)
				if text, err := g.rest(); !end.leaves &&
					(err != nil || strings.Contains(text, `"resultType":"complete"`) != (era == "listen")) {
					t.Errorf("got %q and error %v, want the proper end of a stream of this era", text, err)
				}
				h.gone(t, m, before, end.outcome)
				if era == "sse" && h.sessionsOpen(t) != 0 {
					t.Error("the session lives on without its stream")
				}
			})
		}
	}
}

// TestLineOfATakenStreamSaysWhoseItIs: the line has the name of its user and the
// extensions of its client, as that of any request.
func TestLineOfATakenStreamSaysWhoseItIs(t *testing.T) {
	for era, of := range eraStreams() {
		t.Run(era, func(t *testing.T) {
			h := newListeningWorld(t, func(w *world) {
				verify := w.config.Verify
				w.config.Verify = func(ctx context.Context, token string) (auth.Principal, error) {
					p, err := verify(ctx, token)
					p.Name = "Ann"
					return p, err
				}
			})
			m, line := of(t, h.world, "alice"), []string{`"msg":"request"`, `"name":"Ann"`}
			m.body = strings.Replace(m.body, `clientCapabilities":{}`,
				`clientCapabilities":{"extensions":{"com.example/b":{},"com.example/a":{}}}`, 1)
			if era == "listen" {
				line = append(line, `"extensions":"com.example/a com.example/b"`)
			}
			g := h.visit(t, m, "")
			eventually(t, func() bool { return server.HasTaken(h.Server) })
			line = append(line, `"path":"`+m.path+`"`, `"http_method":"`+m.method+`"`)
			g.Close()
			eventually(t, func() bool { return !server.HasTaken(h.Server) })
			if got := h.log.lines(line...); len(got) != 1 {
				t.Errorf("got %d lines with %q, want one: %s", len(got), line, &h.log.text)
			}
		})
	}
}

// rpc returns the method of the protocol that the log names for a stream.
func (m message) rpc() string { return m.headers[mcp.HeaderMethod] }

// TestTakenStreamEndsWithItsToken: a stream ends by itself when the token that opened it
// has expired.
func TestTakenStreamEndsWithItsToken(t *testing.T) {
	for era, of := range eraStreams() {
		t.Run(era, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				opened := time.Now()
				got := <-w.follow(t, of(t, w, "brief"))
				if took := time.Since(opened).Round(time.Second); took != 90*time.Second {
					t.Errorf("ended after %v, want 90s", took)
				}
				if beats := strings.Count(got, "\n: "); beats != 4 {
					t.Errorf("got %q, want a comment every 20 s", got)
				}
			})
		})
	}
}

// readBeginning reads the head of an event stream and its first bytes, and nothing more.
func readBeginning(t *testing.T, from net.Conn) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// TestSlowReaderOfTakenStream has clients read nothing any more: each is cut off after
// the time of one write, as every slow reader is, and its place is free.
func TestSlowReaderOfTakenStream(t *testing.T) {
	for era, of := range eraStreams() {
		for name, silent := range map[string]time.Duration{
			"a change of the lists": 0,
			"a heartbeat":           20 * time.Second,
		} {
			if era == "sse" && silent == 0 {
				continue // its client has yet to say that it is ready
			}
			t.Run(era+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					stuck := w.pipe(t, of(t, w, "alice"))
					readBeginning(t, stuck)
					if silent == 0 {
						w.offer(t, "extra")
					}
					<-time.After(silent + 9*time.Second)
					if open := w.streamsOpen(t); open != 1 {
						t.Errorf("%d streams are open within the time of a write, want 1", open)
					}
					<-time.After(2 * time.Second)
					if open := w.streamsOpen(t); open != 0 {
						t.Errorf("%d streams are open after it, want none", open)
					}
				})
			})
		}
	}
}

// answerOverSSE opens a stream of 2024-11-05, and has calls answered on it with so many
// bytes of text each. The client has read nothing of the answers.
func (h *listeningWorld) answerOverSSE(t *testing.T, sizes ...int) *streamClient {
	t.Helper()
	g := h.visit(t, message{method: "GET", path: "/sse", token: "alice"}, "")
	h.do(t, message{method: "POST", path: g.first, token: "alice", body: initialize(mcp.Revision2024).body})
	g.expect(t, "protocolVersion")
	for _, size := range sizes {
		body := fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, size, strings.Repeat("x", size))
		if got := h.do(t, message{
			method: "POST", path: g.first, token: "alice",
			body: body,
		}); got.Code != http.StatusAccepted {
			t.Fatalf("got %d %s, want 202", got.Code, got.Body)
		}
	}
	return g
}

// TestSlowReadersHoldUpNoOthers lets more clients than there are workers leave large
// answers unread. A change of the lists reaches others while these are still waited for.
// A machine so busy that they were cut off meanwhile tries again.
func TestSlowReadersHoldUpNoOthers(t *testing.T) {
	const slow = server.FlowWorkers + 4
	eventually(t, func() bool {
		h := newListeningWorld(t)
		quick := h.visit(t, modernListen(), "")
		for range slow {
			h.answerOverSSE(t, 250_000, 300_000)
		}
		if left := h.Wait(t.Context()); left != 0 { // the answers wait for their streams
			t.Errorf("%d calls are in work", left)
		}
		h.offer(t, "extra")
		quick.expect(t, mcp.NotifyToolsChanged)
		return h.streamsOpen(t) == slow+1
	})
}

// TestSlowReaderLosesNothing has a client read late what did not fit into the buffers of
// its connection. One that is so late that it is cut off, on a busy machine, tries again.
func TestSlowReaderLosesNothing(t *testing.T) {
	h := newListeningWorld(t)
	eventually(t, func() bool {
		began := time.Now()
		g := h.answerOverSSE(t, 250_000, 300_000)
		came := make(map[string]int) // bytes of text by id, which is how many there should be
		for len(came) < 2 {
			line, err := g.lines.ReadString('\n')
			if err != nil && time.Since(began) > 9*time.Second {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
				came[string(object(data).Value("id"))] = strings.Count(data,
					"x") - strings.Count(`"type":"text","text":""`, "x")
			}
		}
		if came["250000"] != 250_000 || came["300000"] != 300_000 {
			t.Errorf("got %v", came)
		}
		return true
	})
}

// TestALargeEventReachesASlowReaderWhole has a client read late an event whose data fill
// a chunk, so that the event with what stands around its data takes two. One that is so
// late that it is cut off, on a busy machine, tries again.
func TestALargeEventReachesASlowReaderWhole(t *testing.T) {
	h := newListeningWorld(t)
	eventually(t, func() bool {
		began := time.Now()
		const known = 100_000 // as many digits as the other, which is the id, too
		around := len(h.answerOverSSE(t, known).expect(t, "xxx")) - len("data: \n") - known
		size := server.WriteSize - around
		g := h.answerOverSSE(t, size)
		h.Wait(t.Context())
		for {
			line, err := g.lines.ReadString('\n')
			switch {
			case err != nil && time.Since(began) > 9*time.Second:
				return false
			case err != nil:
				t.Fatalf("%v after %d bytes of %d", err, len(line), server.WriteSize)
			case strings.HasPrefix(line, "data: "):
				if got := strings.Count(line, "x") - strings.Count(`"type":"text","text":""`,
					"x"); got != size {
					t.Errorf("%d bytes of text came, want %d", got, size)
				}
				return true
			}
		}
	})
}

// TestBytesReadAheadAreKept sends a second request together with that for a stream. It
// belongs to nobody, because the answer says that the connection closes after it; the
// stream goes on and ends as if it had not come.
func TestBytesReadAheadAreKept(t *testing.T) {
	for era, of := range eraStreams() {
		t.Run(era, func(t *testing.T) {
			h := newListeningWorld(t)
			g := h.visit(t, of(t, h.world, "alice"), "GET /mcp HTTP/1.1\r\nHost: "+h.address+"\r\n\r\n")
			if !g.resp.Close {
				t.Error("the answer does not say that the connection closes")
			}
			if _, err := io.WriteString(g, "and more"); err != nil {
				t.Error(err)
			}
			eventually(t, func() bool { return server.HasTaken(h.Server) })
			h.offer(t, "extra")
			if era != "sse" { // whose client has yet to say that it is ready
				g.expect(t, mcp.NotifyToolsChanged)
			}
			h.EndStreams()
			if text, err := g.rest(); err != nil {
				t.Errorf("got %q and error %v, want the proper end", text, err)
			}
		})
	}
}

// TestStreamOverHTTP10IsRefused: there, the end of a stream and a broken connection look
// alike.
func TestStreamOverHTTP10IsRefused(t *testing.T) {
	for era, of := range eraStreams() {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t)
			r := of(t, w, "alice").request(t.Context(), "")
			r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
			got := record(w.Handler(), r)
			if got.Code != http.StatusHTTPVersionNotSupported || stable(t, got.Body) != "DB-HTTP-VERSION" {
				t.Errorf("got %d %s, want 505 DB-HTTP-VERSION", got.Code, got.Body)
			}
		})
	}
}

// TestManyStreamsLeaveNoGoroutines opens many streams, lets the lists change, and has all
// clients leave: as many goroutines are left as there were. While they are idle, each has
// one.
func TestManyStreamsLeaveNoGoroutines(t *testing.T) {
	const streams = 1000
	h := newListeningWorld(t, func(w *world) { w.config.MaxStreams = 10 * streams })
	before := runtime.NumGoroutine()
	guests := make([]*streamClient, streams)
	for i := range guests {
		guests[i] = h.visit(t, modernListen(), "")
	}
	h.offer(t, "extra")
	for _, g := range guests {
		g.expect(t, mcp.NotifyToolsChanged)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before+streams+1 })
	for _, g := range guests {
		g.Close()
	}
	eventually(
		t, func() bool {
			return runtime.NumGoroutine() <= before && h.streamsOpen(t) == 0 && h.door.Open() == 0
		})
}

// TestStopWaitsForTakenStreams: when the time for it is over, a stop closes the streams
// of clients that do not take the end.
func TestStopWaitsForTakenStreams(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		stuck := w.pipe(t, modernListen())
		readBeginning(t, stuck)
		w.EndStreams()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		w.CloseStreams(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v, want all of 3s", took)
		}
		w.CloseStreams(t.Context())
	})
}

// betweenOwners stops the server when net/http has given a connection up and before
// anybody else has it.
type betweenOwners struct {
	http.ResponseWriter
	stop func()
}

func (b *betweenOwners) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *betweenOwners) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, ahead, err := http.NewResponseController(b.ResponseWriter).Hijack()
	b.stop()
	return conn, ahead, err
}

// TestStopWaitsForAStreamBetweenOwners: otherwise the program ends before the stream
// does, and its line of the log is never written.
func TestStopWaitsForAStreamBetweenOwners(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h, stopped := w.Handler(), make(chan struct{})
		early := false
		stop := func() {
			w.EndStreams()
			go func() {
				defer close(stopped)
				w.CloseStreams(t.Context())
			}()
			synctest.Wait()
			select {
			case <-stopped:
				early = true
			default:
			}
		}
		client, server := net.Pipe()
		s := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter,
			r *http.Request,
		) {
			h.ServeHTTP(&betweenOwners{out, stop}, r)
		})}
		go s.Serve(&oneConnection{server})
		defer s.Close()
		defer client.Close()
		if err := modernListen().request(t.Context(), "").Write(client); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, client); err != nil {
			t.Error(err)
		}
		<-stopped
		if open := w.streamsOpen(t); early || open != 0 {
			t.Errorf("the stop was over before the stream: %v; %d streams are open after it", early, open)
		}
	})
}

// TestPanicInAWorkerEndsOneStream: no HTTP handler recovers the goroutines that send.
func TestPanicInAWorkerEndsOneStream(t *testing.T) {
	h := newListeningWorld(t)
	var mu sync.Mutex
	fails := false
	h.behind(&fakeDesk{lists: func(d gateway.Digests) gateway.Digests {
		mu.Lock()
		defer mu.Unlock()
		if fails {
			fails = false
			panic("the lists cannot be read")
		}
		return d
	}})
	h.listen(t)
	g := h.visit(t, modernListen(), "")
	mu.Lock()
	fails = true
	mu.Unlock()
	h.offer(t, "extra")
	if text, err := g.rest(); err == nil {
		t.Errorf("got %q, want a stream that is cut off", text)
	}
	if panics := h.log.lines(`"msg":"panic"`, `"tenant":"acme"`, "request_id"); len(panics) != 1 {
		t.Errorf("got %q, want one line that names the request", panics)
	}
	eventually(t, func() bool { return h.door.Open() == 0 && h.streamsOpen(t) == 0 })
	h.visit(t, modernListen(), "")
}

// TestAnswersOverSSEDoNotStayInMemory: a stream of /sse cannot be resumed, so what its
// client has got takes no memory of its user any more. The stream goes on with what comes
// after that.
func TestAnswersOverSSEDoNotStayInMemory(t *testing.T) {
	t.Parallel()
	budget := share.New(64 << 20)
	h := newListeningWorld(t, func(w *world) {
		w.log = eventlog.NewMemory(eventlog.MemoryConfig{Memory: budget})
		w.config.Log = w.log
	})
	g := h.visit(t, message{method: "GET", path: "/sse", token: "alice"}, "")
	before := budget.InUse()
	for range 3 {
		if got := h.do(t, message{
			method: "POST", path: g.first, token: "alice",
			body: pingBody,
		}); got.Code != http.StatusAccepted {
			t.Fatalf("got status %d and %s, want 202", got.Code, got.Body)
		}
		g.expect(t, `"result"`)
		eventually(t, func() bool { return budget.InUse() == before })
	}
}
