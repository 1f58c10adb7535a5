package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// Each streaming path once over a real connection, as only that shows a missing flush.

func TestStreamModernCall(t *testing.T) {
	w := newWorld(t)
	got := call(t.Context(), t, w.serve(t), modernCall("slow_progress"))
	got.expect(t, `"method":"notifications/progress"`) // while the call is in work
	w.letGo()
	got.expect(t, `"text":"late"`, "")
}

func TestStreamListen(t *testing.T) {
	w := newWorld(t)
	got := call(t.Context(), t, w.serve(t), modernListen())
	got.expect(t, `"method":"notifications/subscriptions/acknowledged"`)
	w.offer(t, "extra")
	got.expect(
		t, `"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}`)
	w.EndStreams()
	got.expect(t, `"id":"l","result":{"resultType":"complete"`, "")
}

func TestStreamLegacyPost(t *testing.T) {
	w := newWorld(t)
	base := w.serve(t)
	got := call(t.Context(), t, base, legacyCall(w.open(t, "alice", mcp.Revision2511), "slow_progress"))
	got.expect(t, "id: p1-0", "data:", "id: p1-1", `"method":"notifications/progress"`)
	w.letGo()
	got.expect(t, "id: p1-2", `"text":"late"`, "")
}

func TestStreamLegacyGetAndResume(t *testing.T) {
	w := newWorld(t)
	base, id := w.serve(t), w.open(t, "alice", mcp.Revision2511)
	ctx, leave := context.WithCancel(t.Context())
	got := call(ctx, t, base, inSession("GET", id, ""))
	got.expect(t, "id: g1-0", "data:")
	w.offer(t, "extra")
	got.expect(t, "id: g1-1", mcp.NotifyToolsChanged)
	leave()
	got = call(t.Context(), t, base, inSession("GET", id, "").with("Last-Event-ID", "g1-0"))
	got.expect(t, "id: g1-1", mcp.NotifyToolsChanged)
	w.offer(t)
	got.expect(t, "id: g1-2", mcp.NotifyToolsChanged)
	w.EndStreams()
	got.expect(t, "retry: ", "")
}

// TestAStreamWithoutAnEventBeginsAnew asks for a stream with the header of a client that
// has no id yet. It was refused as one whose events are gone.
func TestAStreamWithoutAnEventBeginsAnew(t *testing.T) {
	w := newWorld(t)
	base, id := w.serve(t), w.open(t, "alice", mcp.Revision2511)
	got := call(t.Context(), t, base, inSession("GET", id, "").with(mcp.HeaderLastEventID, ""))
	got.expect(t, "id: g1-0", "data:")
}

func TestStreamResumePost(t *testing.T) {
	w := newWorld(t)
	base, id := w.serve(t), w.open(t, "alice", mcp.Revision2511)
	ctx, leave := context.WithCancel(t.Context())
	got := call(ctx, t, base, legacyCall(id, "slow_progress"))
	got.expect(t, "id: p1-0", "data:", "id: p1-1", mcp.NotifyProgress)
	leave()
	got = call(t.Context(), t, base, inSession("GET", id, "").with("Last-Event-ID", "p1-1"))
	got.expect(t, "id: p1-1", "data:")
	w.letGo()
	got.expect(t, "id: p1-2", `"text":"late"`, "")
}

func TestStreamLegacySSE(t *testing.T) {
	w := newWorld(t)
	base := w.serve(t)
	got := call(t.Context(), t, base, message{method: "GET", path: "/sse", token: "alice"})
	got.expect(t, "event: endpoint")
	path := strings.TrimPrefix(got.line(t), "data: ")
	post := func(body string) {
		t.Helper()
		if got := call(t.Context(), t, base, message{
			method: "POST", path: path, token: "alice",
			body: body,
		}); got.StatusCode != http.StatusAccepted {
			t.Fatalf("got %d, want 202", got.StatusCode)
		}
	}
	post(initialize(mcp.Revision2024).body)
	got.expect(t, "event: message", `"protocolVersion":"2024-11-05"`)
	post(legacyCall("", "slow_progress").body)
	got.expect(t, "event: message", mcp.NotifyProgress)
	w.letGo()
	got.expect(t, "event: message", `"text":"late"`)
	w.EndStreams()
	got.expect(t, "")
}

// TestTrap23_EndpointBehindPathPrefix shows that the endpoint event works where clients
// see the gateway under a path.
func TestTrap23_EndpointBehindPathPrefix(t *testing.T) {
	w := newWorld(t, func(w *world) { w.settings.PublicURL = "https://mcp.test/tools/" })
	got := call(t.Context(), t, w.serve(t), message{method: "GET", path: "/sse", token: "alice"})
	got.expect(t, "event: endpoint", "data: /tools/messages?sessionId=")
}

// What leaving means.

func TestTrap01_LeavingCancelsModernCall(t *testing.T) {
	for _, tool := range []string{"slow", "slow_progress"} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.pipe(t, modernCall(tool))
			go io.Copy(io.Discard, c)
			synctest.Wait()
			c.Close()
			synctest.Wait()
			if started, cancelled := w.counts(); started != 1 || cancelled != 1 {
				t.Errorf("%s: got %d calls begun, %d cancelled; want 1, 1", tool, started, cancelled)
			}
		})
	}
}

func TestTrap01_LeavingDoesNotCancelLegacyCall(t *testing.T) {
	for _, tool := range []string{"slow", "slow_progress"} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.pipe(t, legacyCall(w.open(t, "alice", mcp.Revision2511), tool))
			go io.Copy(io.Discard, c)
			synctest.Wait()
			c.Close()
			<-time.After(time.Minute)
			if started, cancelled := w.counts(); started != 1 || cancelled != 0 {
				t.Errorf("%s: got %d calls begun, %d cancelled; want 1, 0", tool, started, cancelled)
			}
			w.letGo()
		})
	}
}

func TestTrap01_LeavingEndsSessionOverSSE(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.pipe(t, message{method: "GET", path: "/sse", token: "alice"})
		lines := bufio.NewReader(c)
		path := ""
		for !strings.HasPrefix(path, "data: ") {
			path, _ = lines.ReadString('\n')
		}
		path = strings.TrimSpace(strings.TrimPrefix(path, "data: "))
		if got := w.do(t, message{
			method: "POST", path: path, token: "alice",
			body: legacyCall("", "slow").body,
		}); got.Code != http.StatusAccepted {
			t.Fatalf("got %d %s, want 202", got.Code, got.Body)
		}
		synctest.Wait()
		c.Close()
		synctest.Wait()
		if started, cancelled := w.counts(); started != 1 || cancelled != 1 {
			t.Errorf("got %d calls begun, %d cancelled; want 1, 1", started, cancelled)
		}
		if got := w.do(t, message{
			method: "POST", path: path, token: "alice",
			body: pingBody,
		}); got.Code != http.StatusNotFound {
			t.Errorf("after the stream: got %d, want 404", got.Code)
		}
	})
}

// pipe sends m over a connection in memory, from which nothing is read but by the test.
// The server stops with the test.
func (w *world) pipe(t *testing.T, m message) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	s := &http.Server{Handler: w.Handler()}
	go s.Serve(&oneConnection{server})
	t.Cleanup(func() { client.Close(); s.Close(); synctest.Wait() })
	if err := m.request(t.Context(), "").Write(client); err != nil {
		t.Fatal(err)
	}
	return client
}

// TestT40SlowReader lets clients open streams and read nothing: each is cut off after the
// time of one write, and what is kept for it is bounded.
func TestT40SlowReader(t *testing.T) {
	flood := func(ctx context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object, error) {
		big := mcp.NewObject(mcp.Member{Name: "message", Value: mcp.String(strings.Repeat("x", 10_000))})
		for range 1000 {
			if err := r.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: big}); err != nil {
				return mcp.Object{}, err
			}
		}
		return textResult("done"), nil
	}
	for name, m := range map[string]func(t *testing.T, w *world) message{
		"modern": func(*testing.T, *world) message { return modernCall("echo") },
		"legacy": func(t *testing.T,
			w *world,
		) message {
			return legacyCall(w.open(t, "alice", mcp.Revision2511), "echo")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.behind(&fakeDesk{handle: flood})
				w.pipe(t, m(t, w))
				<-time.After(10*time.Second + time.Millisecond)
				ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
				defer stop()
				if left := w.Wait(ctx); left != 0 {
					t.Errorf("got %d calls in work after the time of one write, want none", left)
				}
			})
		})
	}
}

// TestT40SlowReaderOfPlainAnswer cuts off a client that does not take a large answer.
func TestT40SlowReaderOfPlainAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
			error,
		) {
			return textResult(strings.Repeat("x", 1<<20)), nil
		}})
		w.pipe(t, modernCall("echo"))
		<-time.After(10*time.Second + time.Millisecond)
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if left := w.Wait(ctx); left != 0 {
			t.Errorf("got %d calls in work, want none", left)
		}
	})
}

// TestT39StreamCaps opens more streams than there are places.
func TestT39StreamCaps(t *testing.T) {
	open := map[string]func(t *testing.T, w *world, token string) message{
		"listen": func(_ *testing.T, _ *world, token string) message { return modernListen().as(token) },
		"get": func(t *testing.T, w *world, token string) message {
			return inSession("GET", w.open(t, token, mcp.Revision2511), "").as(token)
		},
		"sse": func(_ *testing.T, _ *world, token string) message {
			return message{method: "GET", path: "/sse", token: token}
		},
	}
	for kind, m := range open {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.config.MaxStreams = 2 })
			base := w.serve(t)
			ctx, leave := context.WithCancel(t.Context())
			call(ctx, t, base, m(t, w, "poor"))
			got := call(t.Context(), t, base, m(t, w, "poor"))
			if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
				t.Errorf("one more than the tenant may: got %d, want 429 with Retry-After", got.StatusCode)
			}
			call(t.Context(), t, base, m(t, w, "alice"))
			got = call(t.Context(), t, base, m(t, w, "outsider"))
			if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
				t.Errorf("one more than the server has: got %d, want 503 with Retry-After", got.StatusCode)
			}
			leave()
			eventually(
				t, func() bool {
					return call(t.Context(), t, base, m(t, w, "poor")).StatusCode == http.StatusOK
				})
		})
	}
}

// TestOneTenantLeavesStreamsToOthers opens streams of two users of a tenant until no more
// are let in.
func TestOneTenantLeavesStreamsToOthers(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.MaxStreams = 64 })
	base := w.serve(t)
	opened := map[string]int{}
	for _, token := range []string{"alice", "bob"} {
		for {
			got := call(t.Context(), t, base, modernListen().as(token))
			if got.StatusCode != http.StatusOK {
				if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" ||
					!strings.Contains(got.line(t), "DB-LIMIT-STREAMS") {
					t.Errorf(
						"one stream too many of %s: got %d, want 429 with Retry-After and DB-LIMIT-STREAMS",
						token, got.StatusCode)
				}
				break
			}
			opened[token]++
		}
	}
	if n := opened["alice"] + opened["bob"]; opened["alice"] < 16 || opened["bob"] < 6 || n > 48 {
		t.Errorf(
			"got %d streams of alice and %d of bob, want a quarter of 64 for the first and some for each",
			opened["alice"], opened["bob"])
	}
	for range 4 {
		if got := call(t.Context(), t, base, modernListen().as("outsider")); got.StatusCode != http.StatusOK {
			t.Errorf("a stream of another tenant: got %d, want 200", got.StatusCode)
		}
	}
}

// TestNoSlotForAnswerStream shows that a call is answered plainly when there is no slot
// for a stream.
func TestNoSlotForAnswerStream(t *testing.T) {
	w := newWorld(t, func(w *world) {
		zero := 0
		many := ratelimit.Limit{Rate: 1e6, Burst: 1e6}
		w.tenants[3].Limits = gateway.Limits{Streams: &zero, UserCalls: &many}
	})
	id := w.open(t, "poor", mcp.Revision2511)
	for name, m := range map[string]message{
		"modern": modernCall("progress"),
		"legacy": legacyCall(id, "progress"),
	} {
		got := w.do(t, m.as("poor"))
		if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "application/json" ||
			!strings.Contains(got.Body.String(), `"text":"done"`) {
			t.Errorf("%s: got %d %v %s, want the plain result", name, got.Code, got.Header(), got.Body)
		}
	}
}

func eventually(t testing.TB, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 2 minutes")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestIdleStreamsTakeNoSlotOfCalls shows that an open stream is no request in work.
func TestIdleStreamsTakeNoSlotOfCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.open(t, "alice", mcp.Revision2511)
		for range 3 {
			w.pipe(t, inSession("GET", id, ""))
			w.pipe(t, message{method: "GET", path: "/sse", token: "alice"})
			w.pipe(t, modernListen())
		}
		synctest.Wait()
		if got := w.do(t, modernCall("echo")); got.Code != http.StatusOK {
			t.Errorf("got %d %s, want 200", got.Code, got.Body)
		}
	}, func(w *world) { w.config.MaxRequests = 1 })
}

func TestOverload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.pipe(t, modernCall("slow"))
		synctest.Wait()
		got := w.do(t, modernCall("echo"))
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" ||
			stable(t, got.Body) != "DB-OVERLOAD" {
			t.Errorf("got %d %s, want 503 DB-OVERLOAD", got.Code, got.Body)
		}
		w.letGo()
	}, func(w *world) { w.config.MaxRequests = 1 })
}

// TestWait shows the end of a process: what is in work ends or is cancelled, and nothing
// begins.
func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.open(t, "alice", mcp.Revision2511)
		w.pipe(t, modernCall("slow"))
		w.pipe(t, legacyCall(id, "slow")).Close() // goes on without its client
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if left := w.Wait(ctx); left != 2 {
			t.Errorf("got %d calls left, want 2", left)
		}
		synctest.Wait()
		if started, cancelled := w.counts(); started != 2 || cancelled != 2 {
			t.Errorf("got %d calls begun, %d cancelled; want 2, 2", started, cancelled)
		}
		if got := w.do(t, modernCall("echo")); got.Code != http.StatusServiceUnavailable ||
			stable(t, got.Body) != "DB-DRAINING" {
			t.Errorf("after that: got %d %s, want 503 DB-DRAINING", got.Code, got.Body)
		}
		if left := w.Wait(t.Context()); left != 0 {
			t.Errorf("again: got %d calls left, want 0", left)
		}
	})
}

// TestAStopLogsThatItWaitsForCalls ends a process with a call in work, and one that has
// nothing to wait for.
func TestAStopLogsThatItWaitsForCalls(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(t *testing.T, w *world) {
		w.pipe(t, modernCall("slow"))
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		go func() {
			<-time.After(time.Second)
			w.letGo()
		}()
		if left := w.Wait(ctx); left != 0 {
			t.Errorf("got %d calls left, want 0", left)
		}
		synctest.Wait() // for the line of the request
		said := object(strings.SplitN(log.String(), "\n", 2)[0])
		if said.Text("msg") != "waiting for calls" || string(said.Value("calls")) != "1" ||
			string(said.Value("at_most")) != "25000000000" {
			t.Errorf("got %s, want that one call is waited for, for 25 s at most", &log)
		}
		log.Reset()
		if w.Wait(ctx); log.Len() > 0 {
			t.Errorf("without calls: got %s, want nothing", &log)
		}
	}, logging(&log))
}

// TestLongCallOutlivesReadTimeout guards against a deadline of the body that is still set
// while the call is in work.
func TestLongCallOutlivesReadTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.pipe(t, modernCall("slow").with("Accept", "application/json"))
		<-time.After(time.Minute)
		go w.letGo()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("got %v, %v; want 200", resp, err)
		}
	})
}

// TestEventGoesToOneConnection resumes one stream many times while events come: each
// event reaches the last connection or one before it, none reaches two that ask for what
// follows.
func TestEventGoesToOneConnection(t *testing.T) {
	w := newWorld(t)
	base, id := w.serve(t), w.open(t, "alice", mcp.Revision2511)
	got := call(t.Context(), t, base, inSession("GET", id, ""))
	got.expect(t, "id: g1-0", "data:")
	for n := 1; n <= 20; n++ {
		next := call(t.Context(), t, base, inSession("GET", id, "").with("Last-Event-ID",
			fmt.Sprintf("g1-%d", n-1)))
		got.expect(t, "") // the stream was taken over, and nothing more comes on the old connection
		w.offer(t, fmt.Sprintf("extra_%d", n))
		next.expect(t, fmt.Sprintf("id: g1-%d", n), mcp.NotifyToolsChanged)
		got = next
	}
}

// TestLostEventsAreNotPassedOver shows that a client is told when what it has not is no
// longer kept: of an answer that it is gone, and of notices all that they may have said.
func TestLostEventsAreNotPassedOver(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.Log = eventlog.NewMemory(eventlog.MemoryConfig{Count: 2}) })
	id := w.open(t, "alice", mcp.Revision2506)
	w.do(t, legacyCall(id, "progress")) // 4 events
	if got := w.do(t, inSession("GET", id, "").with("Last-Event-ID",
		"p1-1")); got.Code != http.StatusGone {
		t.Errorf("event 2 is gone: got %d %s, want 410", got.Code, got.Body)
	}
	got := w.do(t, inSession("GET", id, "").with("Last-Event-ID", "p1-2"))
	if body := got.Body.String(); got.Code != http.StatusOK || strings.Count(body, "id: ") != 2 ||
		!strings.Contains(body, "id: p1-4") {
		t.Errorf("nothing is gone: got %d %s, want events 3 and 4", got.Code, body)
	}
	w = newWorld(t)
	id = w.open(t, "alice", mcp.Revision2506)
	again := call(t.Context(), t, w.serve(t), inSession("GET", id, "").with("Last-Event-ID", "g9-99"))
	again.expect(t, "id: g1-1", mcp.NotifyToolsChanged, "id: g1-2", mcp.NotifyPromptsChanged, "id: g1-3",
		mcp.NotifyResourcesChanged)
}

// TestAnOpenStreamOutlivesTheAgeOfItsEvents keeps events for a shorter time than passes
// between two heartbeats. A call tells of its progress and is silent then, and a stream
// for notices has nothing to say, while somebody else makes calls: both streams go on.
func TestAnOpenStreamOutlivesTheAgeOfItsEvents(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id, bobs := w.open(t, "alice", mcp.Revision2511), w.open(t, "bob", mcp.Revision2511)
		answered, listening := w.follow(t, legacyCall(id, "slow_progress")), w.hearing(t, inSession("GET", id, ""))
		for range 50 {
			<-time.After(time.Second)
			w.do(t, legacyCall(bobs, "progress").as("bob"))
		}
		if listening.isOver() {
			t.Error("the stream for notices has ended")
		}
		w.letGo()
		if got := <-answered; !strings.Contains(got, `"text":"late"`) {
			t.Errorf("got %s, want the answer", got)
		}
	}, func(w *world) {
		w.config.Log = eventlog.NewMemory(eventlog.MemoryConfig{Age: time.Second})
	})
}

// endedLog is a log in which sessions end before anybody follows them.
type endedLog struct{ eventlog.Log }

func (l endedLog) Follow(ctx context.Context, session eventlog.Key, f eventlog.Follower) error {
	l.End(session)
	return l.Log.Follow(ctx, session, f)
}

// TestAStreamOfASessionThatEndsMeanwhileSaysSo holds for a session that ends while a
// stream of it is opened: its client has to open another.
func TestAStreamOfASessionThatEndsMeanwhileSaysSo(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.Log = endedLog{eventlog.NewMemory(eventlog.MemoryConfig{})} })
	for name, ask := range map[string]func(id string) message{
		"a GET":  func(id string) message { return inSession("GET", id, "") },
		"a call": func(id string) message { return legacyCall(id, "progress") },
	} {
		if got := w.do(t, ask(w.open(t, "alice", mcp.Revision2506))); got.Code != http.StatusNotFound ||
			stable(t, got.Body) != "DB-SESSION" {
			t.Errorf("%s: got %d %s, want 404", name, got.Code, got.Body)
		}
	}
}
