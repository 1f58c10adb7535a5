package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// fleet opens worlds that share keys and log, and send each other word.
func fleet(t *testing.T, hub *replicatest.Hub, size int, change ...func(*world)) (all []*world) {
	t.Helper()
	ring, log, records := seal.RandomRing(), &sharedLog{
		Log:   eventlog.NewMemory(eventlog.MemoryConfig{}),
		trips: &atomic.Int64{},
	}, &primarytest.Store{}
	for range size {
		all = append(all, newWorld(t, append([]func(*world){func(w *world) {
			w.config.Seal, w.config.Log, w.config.Entries, w.config.Others = ring, log, records, hub.Join()
		}}, change...)...))
	}
	return all
}

// runAll runs what the worlds do beside requests, until the test ends.
func runAll(t *testing.T, worlds []*world) {
	t.Helper()
	for _, w := range worlds {
		lifetimetest.Run(t, w.Run)
	}
}

// pair is a fleet of two whose clients can be asked something.
func pair(t *testing.T, change ...func(*world)) (a, b *world) {
	t.Helper()
	both := fleet(t, &replicatest.Hub{}, 2, change...)
	both[0].asking()
	both[1].asking()
	runAll(t, both)
	return both[0], both[1]
}

// listener is a client that reads an event stream as it comes.
type listener struct {
	conn net.Conn

	mu    sync.Mutex // guards the fields below
	lines []string
	ended bool
}

// hearing opens an event stream over a connection of its own, in a bubble.
func (w *world) hearing(t *testing.T, m message) *listener {
	t.Helper()
	l := &listener{conn: w.pipe(t, m)}
	go func() { // ends with the connection
		defer func() { l.mu.Lock(); l.ended = true; l.mu.Unlock() }()
		resp, err := http.ReadResponse(bufio.NewReader(l.conn), nil)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
			l.mu.Lock()
			if scanner.Text() != "" && scanner.Text()[0] != ':' {
				l.lines = append(l.lines, scanner.Text())
			}
			l.mu.Unlock()
		}
	}()
	wait(t)
	return l
}

// text returns what has come since text was called last.
func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, "\n")
	l.lines = nil
	return text
}

// isOver tells whether the stream has ended.
func (l *listener) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// openSSE opens a session over HTTP+SSE, and returns its stream and where messages go.
func (w *world) openSSE(t *testing.T, token string) (stream *listener, address string) {
	t.Helper()
	stream = w.hearing(t, message{method: "GET", path: "/sse", token: token})
	_, address, found := strings.Cut(stream.text(), "data: ")
	if !found {
		t.Fatal("no address came")
	}
	return stream, address
}

func posted(address, body string) message {
	return message{method: "POST", path: address, token: "alice", body: body}
}

// TestMessagesReachTheReplicaWithTheStream opens a session over HTTP+SSE at one replica
// and sends each kind of message to another.
func TestMessagesReachTheReplicaWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stream, address := a.openSSE(t, "alice")
		send := func(body string) {
			t.Helper()
			if got := b.do(t, posted(address, body)); got.Code != http.StatusAccepted {
				t.Fatalf("%.60s: got %d %s, want 202", body, got.Code, got.Body)
			}
			wait(t)
		}
		send(strings.Replace(initialize(mcp.Revision2024).body, `"capabilities":{}`,
			`"capabilities":{"roots":{}}`, 1))
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if got := stream.text(); strings.Count(got, `"id":0,"result"`) != 1 {
			t.Errorf("initialize: got %q, want its result once", got)
		}
		send(askRoots)
		question := questionID.FindStringSubmatch(stream.text())
		if question == nil {
			t.Fatal("no question came")
		}
		send(`{"jsonrpc":"2.0","id":"` + question[1] + `","result":{"roots":[]}}`)
		if got := stream.text(); strings.Count(got, `{\"where\":{\"roots\":[]}}`) != 1 {
			t.Errorf("the answer to a question: got %q, want the result of the call once", got)
		}
		send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}`)
		if got := b.do(t, posted(address,
			`{"jsonrpc":"2.0","id":2,"method":"ping"}`)); got.Code != http.StatusBadRequest {
			t.Errorf("an id that is in use: got %d %s, want 400", got.Code, got.Body)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if started, cancelled := a.counts(); started != 1 || cancelled != 1 {
			t.Errorf("got %d calls begun, %d cancelled; want 1, 1", started, cancelled)
		}
		if got := stream.text(); got != "" {
			t.Errorf("after it was cancelled: got %q, want nothing", got)
		}
	})
}

// TestAMessageOverSSEWaitsForItsReplica sends one to another replica while that of the
// session is not reached. It was refused, and clients do not send again what was refused.
func TestAMessageOverSSEWaitsForItsReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		stream, address := c.worlds[0].openSSE(t, "alice")
		mend := c.hub.Cut(c.worlds[0].config.Others.(*replicatest.Member))
		time.AfterFunc(3*time.Second, mend)
		got := c.worlds[1].do(t, posted(address, pingBody))
		wantStatus(t, "a message while the link is cut", got, http.StatusAccepted)
		wait(t)
		if text := stream.text(); !strings.Contains(text, `"id":1,"result"`) {
			t.Errorf("got %q on the stream, want an answer", text)
		}
	})
}

// TestTasksAreListedOverSSE lists the tasks of a session over HTTP+SSE, which lives at
// one replica, whichever the request comes to. The others were asked at an address where
// they have no such session, and a request that had come to the right one was refused.
func TestTasksAreListedOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stream, address := a.openSSE(t, "alice")
		a.do(t, posted(address, initialize(mcp.Revision2511).body))
		wait(t)
		for _, w := range []*world{a, b} {
			list := posted(address, `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`)
			wantStatus(t, "tasks/list", w.do(t, list), http.StatusAccepted)
			wait(t)
			if got := stream.text(); !strings.Contains(got, `"tasks":[]`) {
				t.Errorf("got %s, want a list", got)
			}
		}
	})
}

// TestASweepGoesOnPastASessionOverSSE lets the server look after its sessions while one
// is open that nobody else shares.
func TestASweepGoesOnPastASessionOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t)
		stream, address := a.openSSE(t, "alice")
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- a.Run(ctx) }()
		<-time.After(10 * time.Minute)
		if got := a.do(t, posted(address,
			initialize(mcp.Revision2024).body)); got.Code != http.StatusAccepted {
			t.Errorf("got %d %s, want 202", got.Code, got.Body)
		}
		wait(t)
		if got := stream.text(); !strings.Contains(got, `"id":0,"result"`) {
			t.Errorf("got %q on the stream, want an answer", got)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestForeignSessionsAreNotPassedOn shows that whoever is not the owner of a session over
// HTTP+SSE hears at another replica what is heard of sessions that never were, and so
// does its owner after it has ended.
func TestForeignSessionsAreNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stream, address := a.openSSE(t, "alice")
		for _, other := range []string{"bob", "alice-other", "alice-issuer", "alice-globex"} {
			if got := b.do(t, posted(address, pingBody).as(other)); got.Code != http.StatusNotFound ||
				stable(t, got.Body) != "DB-SESSION" {
				t.Errorf("%s: got %d, want 404 DB-SESSION", other, got.Code)
			}
		}
		stream.conn.Close()
		wait(t)
		if got := b.do(t, posted(address, pingBody)); got.Code != http.StatusNotFound ||
			stable(t, got.Body) != "DB-SESSION" {
			t.Errorf("after its end: got %d, want 404 DB-SESSION", got.Code)
		}
	})
}

// TestHomeJudgesForItself lets a message come through a replica that accepts its bearer,
// to one that does not.
func TestHomeJudgesForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stream, address := a.openSSE(t, "alice")
		a.refuse(func(p auth.Principal) bool { return p.Subject == "alice" })
		if got := b.do(t, posted(address, pingBody)); got.Code != http.StatusUnauthorized {
			t.Errorf("got %d, want 401, as at the replica itself", got.Code)
		}
		if got := stream.text(); got != "" {
			t.Errorf("got %q on the stream, want nothing", got)
		}
	})
}

// faultyOthers are others whose word is lost, or that cannot be reached.
type faultyOthers struct {
	replica.Others
	fault func(w replica.Message) error // nil: there is none
}

// errLost is the fault of word that was taken, and never arrives.
var errLost = errors.New("lost")

func (f *faultyOthers) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	if err := f.fault(w); err != nil {
		if errors.Is(err, errLost) {
			return nil, nil
		}
		return nil, err
	}
	return f.Others.Send(ctx, to, w)
}

func (f *faultyOthers) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	if err := f.fault(replica.Message{Kind: "forward"}); err != nil {
		if errors.Is(err, errLost) {
			return nil, link.ErrLost
		}
		return nil, errors.Join(replica.ErrUnreached, err)
	}
	return f.Others.Forward(ctx, to, r)
}

// TestNoMessageIsLostInSilence shows that 202 is told only for a message that the replica
// with the stream has. One that was not sent may come again, and one of which nobody
// knows what became is said to have had its effect, perhaps; the session goes on in
// either case.
func TestNoMessageIsLostInSilence(t *testing.T) {
	for name, test := range map[string]struct {
		fault  error
		status int
		code   string
	}{
		"not sent":     {errors.New("the link is cut"), http.StatusServiceUnavailable, "DB-REPLICAS"},
		"not answered": {errLost, http.StatusInternalServerError, "DB-REPLICA-LOST"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var faulty atomic.Bool
				fault := func(w replica.Message) error {
					if faulty.Load() && w.Kind == "forward" {
						return test.fault
					}
					return nil
				}
				a, b := pair(t, func(w *world) { w.config.Others = &faultyOthers{w.config.Others, fault} })
				stream, address := a.openSSE(t, "alice")
				faulty.Store(true)
				got := b.do(t, posted(address, pingBody))
				if got.Code != test.status || stable(t, got.Body) != test.code ||
					(got.Header().Get("Retry-After") == "") != errors.Is(test.fault, errLost) {
					t.Errorf("got %d %s, want %d %s", got.Code, got.Body, test.status, test.code)
				}
				faulty.Store(false)
				wantStatus(t, "after the fault", b.do(t, posted(address, pingBody)), http.StatusAccepted)
				wait(t)
				if got := stream.text(); strings.Count(got, `"id":1`) != 1 {
					t.Errorf("got %q on the stream, want one answer", got)
				}
			})
		})
	}
}

// TestMessageForAReplicaThatIsGone shows that a session whose replica has died is gone,
// but not while nobody can tell because word could not be read just now.
func TestMessageForAReplicaThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &replicatest.Hub{}
		all := fleet(t, hub, 2)
		_, address := all[0].openSSE(t, "alice")
		hub.Leave(all[0].config.Others.(*replicatest.Member))
		all[1].config.Others.(*replicatest.Member).Return()
		if got := all[1].do(t, posted(address, pingBody)); got.Code != http.StatusServiceUnavailable {
			t.Errorf("after a fault: got %d, want 503", got.Code)
		}
		<-time.After(10 * time.Second)
		answer := `{"jsonrpc":"2.0","id":"` + forward.NewQuestion(all[0].config.Others.Self()) + `","result":{}}`
		for _, body := range []string{pingBody, answer} {
			if got := all[1].do(t, posted(address, body)); got.Code != http.StatusNotFound ||
				stable(t, got.Body) != "DB-SESSION" {
				t.Errorf("%s later: got %d, want 404", body, got.Code)
			}
		}
	})
}

// together sends a message so many times at once, and returns how many answers had each
// status.
func (w *world) together(t *testing.T, times int, m message) map[int]int {
	t.Helper()
	codes := make(chan int, times)
	for range times {
		go func() { codes <- w.do(t, m).Code }()
	}
	got := make(map[int]int)
	for range times {
		got[<-codes]++
	}
	return got
}

// TestMessagesOfOneUserLeaveRoomToOthers lets the messages of one user take long at the
// replica that has the stream: some are refused, and those of another user are taken all
// the while.
func TestMessagesOfOneUserLeaveRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		first := true
		all := fleet(t, &replicatest.Hub{}, 2, func(w *world) {
			verify, home := w.config.Verify, first
			first = false
			w.config.Verify = func(ctx context.Context, token string) (auth.Principal, error) {
				if home && token == "alice-again" {
					<-slow
				}
				return verify(ctx, token)
			}
		})
		_, alices := all[0].openSSE(t, "alice")
		_, bobs := all[0].openSSE(t, "bob")
		answers := make(chan map[int]int)
		go func() { answers <- all[1].together(t, 1000, posted(alices, pingBody).as("alice-again")) }()
		<-time.After(time.Second)
		if got := all[1].do(t, posted(bobs, pingBody).as("bob")); got.Code != http.StatusAccepted {
			t.Errorf("another user: got %d %s, want 202", got.Code, got.Body)
		}
		close(slow)
		if got := <-answers; got[http.StatusServiceUnavailable] == 0 || got[http.StatusAccepted] == 0 {
			t.Errorf("got %v, want some taken, and 503 for the others", got)
		}
	})
}

// TestWhoLeavesAForwardedRequestIsOnRecordOnce has a client leave before the replica that
// leads its session answers, which puts the call on record. The first replica said of it
// that its answer was lost.
func TestWhoLeavesAForwardedRequestIsOnRecordOnce(t *testing.T) {
	for name, test := range map[string]struct {
		dies bool // the replica that leads the session, and not the client
		want int  // lines of the first replica
	}{
		"the client leaves":      {false, 0},
		"the other replica dies": {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := &replicatest.Hub{}
				both := fleet(t, hub, 2)
				taken := both[1].recording()
				runAll(t, both)
				id := both[0].open(t, "alice", mcp.Revision2511)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				call := legacyCall(id, "slow")
				call.headers["Accept"] = "application/json" // so that nothing is answered before the end
				done := both[1].begins(ctx, call)
				wait(t)
				if test.dies {
					hub.Leave(both[0].config.Others.(*replicatest.Member))
				} else {
					leave()
					wait(t)
					both[0].letGo() // the call goes on without its client
				}
				<-done
				lines := taken()
				if len(lines) != test.want || len(lines) > 0 &&
					(lines[0].Outcome != "unavailable" || lines[0].Reason != "DB-REPLICA-LOST") {
					t.Errorf("got %+v on record, want %d lines of a lost answer", lines, test.want)
				}
				if test.dies {
					both[0].letGo()
				}
				wait(t)
			})
		})
	}
}

// halfClosed is the connection of a client that sends a request, closes its own direction
// and reads on.
type halfClosed struct {
	net.Conn

	sent io.Reader
}

func (c *halfClosed) Read(p []byte) (int, error) { return c.sent.Read(p) }

// TestAHalfClosedConnectionGetsItsAnswer makes a call in a session, at the replica that
// leads it and at another. The other must not take the client for gone.
func TestAHalfClosedConnectionGetsItsAnswer(t *testing.T) {
	for at, name := range []string{"at the primary", "forwarded"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2)
				id := c.worlds[0].openAsking(t, mcp.Revision2511)
				call := legacyCall(id, "slow")
				call.headers["Accept"] = "application/json"
				var sent bytes.Buffer
				if err := call.request(t.Context(), "http://mcp.test").Write(&sent); err != nil {
					t.Fatal(err)
				}
				client, server := net.Pipe()
				s := &http.Server{Handler: c.worlds[at].Handler()}
				go s.Serve(&oneConnection{&halfClosed{server, &sent}})
				defer s.Close()
				synctest.Wait() // the call runs, and the end of the connection is seen
				if began, _ := c.worlds[0].counts(); began != 1 {
					t.Fatalf("got %d calls begun, want 1", began)
				}
				c.worlds[0].letGo()
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"content"`) {
					t.Errorf("got %d %q, %v, want the answer of the call", answer.StatusCode, body, err)
				}
			})
		})
	}
}
