package link_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// directory knows replicas by what a test has entered.
type directory struct {
	mu    sync.Mutex
	peers map[string]link.Peer
}

func (d *directory) Peer(id string) (link.Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.peers[id]
	return p, ok
}

func (d *directory) Named(_ context.Context, digest link.Digest) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range d.peers {
		if p.Digest == digest {
			return id, true
		}
	}
	return "", false
}

func (d *directory) enter(p link.Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers[p.ID] = p
}

// end is one replica of a test.
type end struct {
	*link.Link
	peer   link.Peer
	gone   context.CancelFunc
	opened *atomic.Int32 // connections to it
}

// counted counts the connections that come.
type counted struct {
	net.Listener

	opened *atomic.Int32
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.opened.Add(1)
	}
	return conn, err
}

// open makes a replica that serves until the test ends, and enters it.
func open(t *testing.T, d *directory, id string, clients http.Handler) *end {
	t.Helper()
	identity, err := link.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &end{opened: new(atomic.Int32), Link: link.New(link.Config{
		Identity: identity, Directory: d, Logger: slog.New(slog.DiscardHandler),
	})}
	life, gone := context.WithCancel(t.Context())
	e.gone, e.peer = gone, link.Peer{
		ID: id, Address: l.Addr().String(), Digest: identity.Digest(),
		Life: life,
	}
	d.enter(e.peer)
	e.Handle("hello 1", func(_ context.Context, from string, m link.Message) ([]byte, error) {
		if from != "a" || m.Tenant != "acme" || len(m.Parts) != 2 || m.Parts[0]+m.Parts[1] != "hello" {
			return nil, errors.New("another message")
		}
		return []byte("hello yourself"), nil
	})
	e.Handle("long 1", func(context.Context, string, link.Message) ([]byte, error) {
		return make([]byte, 24<<20+1), nil
	})
	e.Handle("panic 1", func(context.Context, string, link.Message) ([]byte, error) { panic("at the disco") })
	e.ServeClients(clients)
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		if err := e.Serve(ctx, counted{l, e.opened}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); over.Wait() })
	return e
}

func pair(t *testing.T, clients http.Handler) (d *directory, a, b *end) {
	t.Helper()
	d = &directory{peers: make(map[string]link.Peer)}
	return d, open(t, d, "a", nil), open(t, d, "b", clients)
}

// again does something once more where it took too long to connect on a busy machine.
func again[T any](t *testing.T, do func() (T, error)) (got T, err error) {
	t.Helper()
	for ok := true; ok; ok = errors.Is(err, link.ErrUnreached) && t.Context().Err() == nil {
		got, err = do()
	}
	return got, err
}

// reach forwards a request.
func (e *end) reach(t *testing.T, r link.Request) (*http.Response, error) {
	t.Helper()
	return again(t, func() (*http.Response, error) { return e.Forward(t.Context(), "b", r) })
}

func TestMessagesAreAnsweredWhenTheyWereHandled(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t, nil)
	for _, test := range []struct {
		name, kind, data string
		want             error
	}{
		{"handled", "hello 1", "hello", nil},
		{"not taken", "hello 1", "something else", link.ErrRefused},
		{"of a kind that is not known", "hello 2", "hello", link.ErrRefused},
		{"that is answered at too great length", "long 1", "", link.ErrLost},
		{"at whose handling something panics", "panic 1", "hello", link.ErrLost},
		{"after that", "hello 1", "hello", nil},
	} {
		m := link.Message{Kind: test.kind, Tenant: "acme", Parts: []string{test.data, ""}}
		said, err := again(t, func() ([]byte, error) { return a.Send(t.Context(), "b", m) })
		if !errors.Is(err, test.want) || err == nil && string(said) != "hello yourself" {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
		}
	}
	if _, err := a.Send(t.Context(), "c", link.Message{Kind: "hello 1"}); !errors.Is(err, link.ErrUnreached) {
		t.Errorf("to a replica that is not there: got %v, want that nothing was done", err)
	}
}

// TestMessageInAnotherFormIsNotTaken sends parts of a message behind which stands
// something that is none. No handler may take the parts before it for the message.
func TestMessageInAnotherFormIsNotTaken(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t, nil)
	const good = "\x00\x00\x00\x05hello\x00\x00\x00\x00"
	for more, want := range map[string]int{
		"":                         http.StatusOK,
		"\x00\x00\x00":             http.StatusServiceUnavailable,
		"\x00\x00\x00\x02x":        http.StatusServiceUnavailable,
		"\xff\xff\xff\xff":         http.StatusServiceUnavailable,
		"\x00\x00\x00\x01xlonger":  http.StatusServiceUnavailable,
		"\x00\x00\x00\x00\x00\x00": http.StatusServiceUnavailable,
	} {
		answer, err := a.reach(t, link.Request{
			Target: "hello 1", Remote: "acme", Body: []byte(good + more),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("with %q: got %d, want %d", more, answer.StatusCode, want)
		}
	}
}

// TestRequestsArriveAsTheyCame forwards a request, and lets the other side stream its
// answer.
func TestRequestsArriveAsTheyCame(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	_, a, _ := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, forwarded := link.OriginOf(r.Context())
		body, _ := io.ReadAll(r.Body)
		if !forwarded || o.From != "a" || o.Remote != "192.0.2.1" || o.ID != "r1" {
			t.Errorf("got %+v, %v", o, forwarded)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/mcp" || r.URL.RawQuery != "x=y" ||
			string(body) != "body" {
			t.Errorf("got %s %s %q", r.Method, r.URL, body)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer t" || r.ContentLength != 4 {
			t.Errorf("got headers %v", r.Header)
		}
		w.Header().Set("X-Test", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "second")
	}))
	answer, err := a.reach(t, link.Request{
		Method: "POST", Target: "/mcp?x=y", Body: []byte("body"), Remote: "192.0.2.1", ID: "r1",
		Header: http.Header{
			"Authorization": {"Bearer t"}, "Connection": {"close"}, "Content-Length": {"5"}, // no frame heeds these
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "first" ||
		answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-Test") != "yes" {
		t.Fatalf("got %q, %d, %v, %v", first, answer.StatusCode, answer.Header, err)
	}
	close(goOn)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != "second" {
		t.Errorf("got %q, %v", rest, err)
	}
}

// TestForwardsEndWithEitherSide has a client leave, which the other replica sees, and
// then that replica end, which the one sees that waits for it.
func TestForwardsEndWithEitherSide(t *testing.T) {
	t.Parallel()
	began, left := make(chan struct{}, 2), make(chan struct{}, 2)
	_, a, b := pair(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	forward := func(ctx context.Context) chan error {
		failed := make(chan error, 1)
		go func() {
			answer, err := again(t, func() (*http.Response, error) {
				return a.Forward(ctx, "b", link.Request{Method: "GET", Target: "/mcp"})
			})
			if err == nil {
				_ = answer.Body.Close()
			}
			failed <- err
		}()
		return failed
	}
	ctx, leave := context.WithCancel(t.Context())
	failed := forward(ctx)
	<-began
	leave()
	<-left
	if err := <-failed; !errors.Is(err, link.ErrLost) {
		t.Errorf("the client left: got %v", err)
	}
	failed = forward(t.Context())
	<-began
	b.gone()
	if err := <-failed; !errors.Is(err, link.ErrLost) {
		t.Errorf("the other replica is gone: got %v, want that it may have had its effect", err)
	}
	<-left
}

// TestNothingIsBegunWhereAReplicaLeaves has a replica leave while it answers: that answer
// comes, and whoever asks meanwhile knows that nothing was done.
func TestNothingIsBegunWhereAReplicaLeaves(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	_, a, b := pair(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-goOn
		w.WriteHeader(http.StatusTeapot)
	}))
	hello := link.Message{Kind: "hello 1", Tenant: "acme", Parts: []string{"", "hello"}}
	ask := link.Request{Method: http.MethodPost, Target: "/mcp"}
	var first sync.WaitGroup
	first.Go(func() {
		answer, err := a.reach(t, ask)
		if err != nil {
			t.Errorf("asked before: %v", err)
			return
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusTeapot {
			t.Errorf("asked before: got %d, want the answer", answer.StatusCode)
		}
	})
	<-began
	late, stop := context.WithCancel(t.Context())
	stop()
	b.Leave(late)
	if _, err := a.Send(t.Context(), "b", hello); !errors.Is(err, link.ErrUnreached) {
		t.Errorf("a message after that: got %v, want that nothing was done", err)
	}
	if _, err := a.Forward(t.Context(), "b", ask); !errors.Is(err, link.ErrUnreached) {
		t.Errorf("a request after that: got %v, want that nothing was done", err)
	}
	close(goOn)
	b.Leave(t.Context()) // it would wait for ever
	first.Wait()
}

// TestNobodyElseIsTalkedTo has a stranger connect, and another process at the address of
// a replica.
func TestNobodyElseIsTalkedTo(t *testing.T) {
	t.Parallel()
	d, a, b := pair(t, http.HandlerFunc(func(http.ResponseWriter,
		*http.Request,
	) {
		t.Error("a stranger was served")
	}))
	hello := link.Message{Kind: "hello 1", Tenant: "acme", Parts: []string{"", "hello"}}
	stranger := &directory{peers: make(map[string]link.Peer)}
	mallory := open(t, stranger, "a", nil) // calls itself what it likes
	stranger.enter(b.peer)
	if _, err := mallory.Send(t.Context(), "b", hello); err == nil {
		t.Error("a stranger was heard")
	}
	moved := b.peer
	moved.Address = mallory.peer.Address
	d.enter(moved)
	if _, err := a.Send(t.Context(), "b", hello); !errors.Is(err, link.ErrUnreached) {
		t.Errorf("another process has the address: got %v, want that nothing was sent", err)
	}
	plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.peer.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := io.WriteString(plain, "GET /clients/mcp HTTP/1.1\r\nHost: b\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, _ := io.ReadAll(plain); strings.Contains(string(said), "HTTP/1.1 2") {
		t.Errorf("without TLS: got %q", said)
	}
}

// TestConnectionsAreKept forwards requests of which not all is read, at either end, and
// some whose handlers wait for clients to leave. All go over one connection, but for
// those after an answer that broke off.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("large "), 1<<18)
	_, a, b := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused": // and its body is not read
			http.Error(w, "elsewhere", http.StatusMisdirectedRequest)
		case "/taken":
			w.WriteHeader(http.StatusAccepted)
		case "/waits":
			late, stop := context.WithTimeout(r.Context(), time.Millisecond)
			defer stop()
			<-late.Done()
			if r.Context().Err() != nil {
				t.Error("the client has not left")
			}
			fallthrough
		case "/echo":
			_, _ = io.Copy(w, r.Body)
		case "/timely": // is over after the time for its body
			by := time.Now().Add(time.Second)
			_ = http.NewResponseController(w).SetReadDeadline(by)
			_, _ = io.Copy(io.Discard, r.Body)
			<-time.After(time.Until(by))
		case "/breaks":
			_, _ = w.Write(large)
			panic(http.ErrAbortHandler)
		}
	}))
	for i, test := range []struct {
		path   string
		body   []byte
		reads  bool
		status int
		opens  bool // another connection
	}{
		{"/echo", []byte("body"), true, http.StatusOK, true},
		{"/refused", []byte("body"), false, http.StatusMisdirectedRequest, false},
		{"/refused", large, false, http.StatusMisdirectedRequest, false},
		{"/taken", []byte("body"), false, http.StatusAccepted, false},
		{"/waits", nil, true, http.StatusOK, false},
		{"/waits", []byte("body"), true, http.StatusOK, false},
		{"/waits", large, true, http.StatusOK, false},
		{"/timely", large, false, http.StatusOK, false},
		{"/echo", large, true, http.StatusOK, false},
		{"/breaks", large, true, http.StatusOK, false},
		{"/echo", large, true, http.StatusOK, true},
	} {
		before := b.opened.Load()
		answer, err := a.reach(t, link.Request{Method: http.MethodPost, Target: test.path, Body: test.body})
		if err != nil || answer.StatusCode != test.status {
			t.Fatalf("%d, %s: got %v and %v, want %d", i, test.path, answer, err, test.status)
		}
		if test.reads {
			body, err := io.ReadAll(answer.Body)
			breaks := test.path == "/breaks"
			if !breaks && !bytes.Equal(body, test.body) || breaks != errors.Is(err, link.ErrLost) {
				t.Errorf("%d, %s: got %d bytes and %v", i, test.path, len(body), err)
			}
		}
		_ = answer.Body.Close()
		if opened := b.opened.Load() - before; opened > 0 != test.opens {
			t.Errorf("%d, %s: opened %d connections, want any: %v", i, test.path, opened, test.opens)
		}
	}
}

// TestAnswersAreClosedBesideOthers closes an answer that was read, while the next request
// has its connection. The race detector sees whether they share anything.
func TestAnswersAreClosedBesideOthers(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	ask := func() io.Closer {
		answer, err := a.reach(t, link.Request{Method: http.MethodPost, Target: "/mcp", Body: []byte("body")})
		if err != nil {
			t.Error(err)
			return io.NopCloser(nil)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "body" {
			t.Errorf("got %q, %v", body, err)
		}
		return answer.Body
	}
	first := ask()
	var next sync.WaitGroup
	next.Go(func() { _ = ask().Close() })
	_ = first.Close()
	next.Wait()
}

// TestCloseWaitsForNobody closes an answer of which a piece was announced, in the same
// record as the head, but is slow to come.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Parallel()
	d, a, b := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 17<<10))
		}
	}))
	slow, err := netfault.Start(b.peer.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	moved := b.peer
	moved.Address = slow.Address
	d.enter(moved)
	first, err := a.reach(t, link.Request{Method: http.MethodGet, Target: "/mcp"}) // or to connect would be slow, too
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Body.Close()
	slow.Rate(2 << 10) // so the piece, of which no record is whole before, takes eight seconds
	answer, err := a.Forward(t.Context(), "b", link.Request{Method: http.MethodGet, Target: "/large"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = answer.Body.Close()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("to close took %v", took)
	}
}

// TestHeadsOfClientsFit forwards the largest head that the listener of clients lets
// through, in the form that grows most: lines of four bytes.
func TestHeadsOfClientsFit(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got := len(r.Header["A"]); got != 36<<10/len("a:\r\n") {
			t.Errorf("got %d headers", got)
		}
	}))
	many := make([]string, 36<<10/len("a:\r\n"))
	answer, err := a.reach(t, link.Request{Method: http.MethodPost, Target: "/mcp", Header: http.Header{"A": many}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// TestSlowBodiesEndInTime has the rest of a request not come in the time that its handler
// allows. The other side has the answer to that, or knows that nothing was done.
func TestSlowBodiesEndInTime(t *testing.T) {
	t.Parallel()
	began, failed := make(chan struct{}), make(chan error, 1)
	d, a, b := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			return
		}
		close(began)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := io.Copy(io.Discard, r.Body)
		failed <- err
		w.WriteHeader(http.StatusRequestTimeout)
	}))
	slow, err := netfault.Start(b.peer.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	moved := b.peer
	moved.Address = slow.Address
	d.enter(moved)
	if answer, err := a.reach(t, link.Request{Method: http.MethodPost, Target: "/mcp"}); err != nil {
		t.Fatal(err)
	} else if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		answer, err := a.Forward(t.Context(), "b", link.Request{
			Method: http.MethodPost, Target: "/mcp",
			Body: make([]byte, 64<<20),
		})
		if err == nil && answer.StatusCode == http.StatusRequestTimeout {
			err = errors.Join(link.ErrUnreached, answer.Body.Close())
		}
		sent <- err
	}()
	<-began
	slow.Rate(1 << 10)
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the handler got %v, want that it was too late", err)
	}
	if err := <-sent; !errors.Is(err, link.ErrUnreached) {
		t.Errorf("got %v, want that nothing was done", err)
	}
}
