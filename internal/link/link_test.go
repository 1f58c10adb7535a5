package link_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
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
	peer link.Peer
	gone context.CancelFunc
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
	e := &end{Link: link.New(link.Config{
		Self: id, Identity: identity, Directory: d,
		Logger: slog.New(slog.DiscardHandler),
	})}
	life, gone := context.WithCancel(t.Context())
	e.gone, e.peer = gone, link.Peer{
		ID: id, Address: l.Addr().String(), Digest: identity.Digest(),
		Life: life,
	}
	d.enter(e.peer)
	e.Handle("hello 1", func(_ context.Context, from string, m link.Message) ([]byte, error) {
		if from != "a" || m.Tenant != "acme" || string(m.Data) != "hello" {
			return nil, errors.New("another message")
		}
		return []byte("hello yourself"), nil
	})
	e.ServeClients(clients)
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		if err := e.Serve(ctx, l, time.Second); err != nil {
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

func TestMessagesAreAnsweredWhenTheyWereHandled(t *testing.T) {
	t.Parallel()
	_, a, _ := pair(t, nil)
	for _, test := range []struct {
		name, to, kind, data string
		want                 error
	}{
		{"handled", "b", "hello 1", "hello", nil},
		{"not taken", "b", "hello 1", "something else", link.ErrRefused},
		{"of a kind that is not known", "b", "hello 2", "hello", link.ErrRefused},
		{"to a replica that is not there", "c", "hello 1", "hello", link.ErrGone},
	} {
		said, err := a.Send(t.Context(), test.to, link.Message{
			Kind: test.kind, Tenant: "acme",
			Data: []byte(test.data),
		})
		if !errors.Is(err, test.want) || err == nil && string(said) != "hello yourself" {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
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
		if got := r.Header.Get("Authorization"); got != "Bearer t" || len(r.Header) != 2 { // and the length
			t.Errorf("got headers %v", r.Header)
		}
		w.Header().Set("X-Test", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "second")
	}))
	answer, err := a.Forward(t.Context(), "b", link.Request{
		Method: "POST", Target: "/mcp?x=y", Body: []byte("body"), Remote: "192.0.2.1", ID: "r1",
		Header: http.Header{
			"Authorization": {"Bearer t"}, "Connection": {"close"},
			"Drawbridge-Remote": {"192.0.2.7"},
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

// TestForwardsEndWithEitherSide has a client leave, which the other replica sees, and then
// that replica end, which the one sees that waits for it.
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
			answer, err := a.Forward(ctx, "b", link.Request{Method: "GET", Target: "/mcp"})
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
	hello := link.Message{Kind: "hello 1", Tenant: "acme", Data: []byte("hello")}
	forward := func() (int, error) {
		answer, err := a.Forward(t.Context(), "b", link.Request{Method: http.MethodPost, Target: "/mcp"})
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	var first sync.WaitGroup
	first.Go(func() {
		if status, err := forward(); status != http.StatusTeapot || err != nil {
			t.Errorf("asked before: got %d, %v, want the answer", status, err)
		}
	})
	<-began
	late, stop := context.WithCancel(t.Context())
	stop()
	b.Leave(late)
	if _, err := a.Send(t.Context(), "b", hello); !errors.Is(err, link.ErrGone) {
		t.Errorf("a message after that: got %v, want that nothing was done", err)
	}
	if _, err := forward(); !errors.Is(err, link.ErrGone) {
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
	hello := link.Message{Kind: "hello 1", Tenant: "acme", Data: []byte("hello")}
	stranger := &directory{peers: make(map[string]link.Peer)}
	mallory := open(t, stranger, "a", nil) // calls itself what it likes
	stranger.enter(b.peer)
	if _, err := mallory.Send(t.Context(), "b", hello); err == nil {
		t.Error("a stranger was heard")
	}
	moved := b.peer
	moved.Address = mallory.peer.Address
	d.enter(moved)
	if _, err := a.Send(t.Context(), "b", hello); !errors.Is(err, link.ErrGone) {
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
