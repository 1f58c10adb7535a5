package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// rest returns what comes on a connection until the end of the answer.
func rest(conn net.Conn) string {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return string(body) + err.Error()
	}
	return string(body)
}

var retryAtEnd = regexp.MustCompile(`\n\nretry: (\d+)\n\n$`)

// TestStreamsOfAStopEndSpreadOverTime, and their clients come back after different times.
// Else they would all come back in one moment, too.
func TestStreamsOfAStopEndSpreadOverTime(t *testing.T) {
	const streams = 100
	plenty := 2 * streams
	bubble(t, func(t *testing.T, w *world) {
		type end struct {
			at   time.Time
			body string
		}
		ends := make(chan end, streams)
		for range streams {
			conn := w.pipe(t, inSession("GET", w.open(t, "alice", mcp.Revision2511), ""))
			go func() { body := rest(conn); ends <- end{time.Now(), body} }()
		}
		synctest.Wait()
		began := time.Now()
		w.EndStreams()
		moments, waits := make(map[time.Time]bool), make(map[int]bool)
		for range streams {
			e := <-ends
			found := retryAtEnd.FindStringSubmatch(e.body)
			if found == nil {
				t.Fatalf("got %q, want a time after which to come back at its end", e.body)
			}
			wait, err := strconv.Atoi(found[1])
			if err != nil || wait < 1000 || wait >= 3000 {
				t.Errorf("a client is to come back after %d ms, want 1 to 3 s", wait)
			}
			if e.at.Sub(began) > streams*time.Millisecond {
				t.Errorf("a stream ended %v after the stop began, want 1 ms for each at most",
					e.at.Sub(began))
			}
			moments[e.at], waits[wait] = true, true
		}
		if len(moments) < streams/2 || len(waits) < streams/2 {
			t.Errorf("%d streams ended at %d moments and come back after %d different times, want more",
				streams, len(moments), len(waits))
		}
		w.CloseStreams(t.Context())
	}, func(w *world) {
		limits := &w.tenants[0].Limits
		limits.Streams, limits.Sessions, limits.UserSessions = &plenty, &plenty, &plenty
	})
}

// TestAStreamWithoutEmptyEventsGetsNone: clients of revisions before 2025-11-25 take an
// event without data for a message.
func TestAStreamWithoutEmptyEventsGetsNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		conn := w.pipe(t, inSession("GET", w.open(t, "alice", mcp.Revision2506), ""))
		ended := make(chan string, 1)
		go func() { ended <- rest(conn) }()
		synctest.Wait()
		w.EndStreams()
		if got := <-ended; got != "" {
			t.Errorf("got %q, want nothing but the end", got)
		}
	})
}

// TestARequestIsServedWhileOthersAreWaitedFor: a load balancer that does not ask goes on
// sending to a gateway that stops until its connections are closed.
func TestARequestIsServedWhileOthersAreWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.open(t, "alice", mcp.Revision2511)
		w.pipe(t, modernCall("slow"))
		synctest.Wait()
		w.EndStreams()
		left := make(chan int, 1)
		go func() { left <- w.Wait(t.Context()) }()
		<-time.After(5 * time.Second)
		for what, m := range map[string]message{
			"a call": modernCall("echo"), "a list": modernList(""),
			"a handshake": initialize(mcp.Revision2511), "a call in a session": legacyCall(id, "progress"),
			"a stream of a session": inSession("GET", id, ""), "a stream of notices": modernListen(),
		} {
			if got := w.do(t, m); got.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", what, got.Code, got.Body)
			}
		}
		w.letGo()
		if n := <-left; n != 0 {
			t.Errorf("%d calls were cancelled, want none", n)
		}
	})
}

// TestACallWhoseBodyStillComesIsWaitedFor, although it is no call yet when the stop
// looks.
func TestACallWhoseBodyStillComesIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		body, sent := io.Pipe()
		r := modernCall("echo").request(t.Context(), "")
		whole, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = body
		answer := httptest.NewRecorder()
		go w.Handler().ServeHTTP(answer, r)
		send(t, sent, whole[:10])
		synctest.Wait()
		w.EndStreams()
		left := make(chan int, 1)
		go func() { left <- w.Wait(t.Context()) }()
		<-time.After(time.Second)
		select {
		case n := <-left:
			t.Error("it is not waited for")
			left <- n
		default:
		}
		send(t, sent, whole[10:])
		if err := sent.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-time.After(time.Second)
		if n := <-left; n != 0 || answer.Code != http.StatusOK {
			t.Errorf("%d calls were cancelled, and the answer is %d %s, want 200", n, answer.Code,
				answer.Body)
		}
	})
}

func send(t *testing.T, to io.Writer, data []byte) {
	t.Helper()
	if _, err := to.Write(data); err != nil {
		t.Fatal(err)
	}
}

// TestACallThatAStopCancelsMayHaveTakenEffect ends calls that take too long: their
// clients are told that they may have taken effect, and so is the record.
func TestACallThatAStopCancelsMayHaveTakenEffect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	record, err := audit.Open(audit.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(w *world) { w.audit = record })
	base := w.serve(t)
	answers := make(chan string, 2)
	for _, m := range []message{modernCall("slow"), legacyCall(w.open(t, "alice", mcp.Revision2511),
		"slow")} {
		go func() {
			body, err := io.ReadAll(call(t.Context(), t, base, m).Body)
			if err != nil {
				t.Error(err)
			}
			answers <- string(body)
		}()
	}
	eventually(t, func() bool { started, _ := w.counts(); return started == 2 })
	over, stop := context.WithCancel(t.Context())
	stop()
	if n := w.Wait(over); n != 2 {
		t.Errorf("%d calls were cancelled, want 2", n)
	}
	for range 2 {
		if got := <-answers; !strings.Contains(got, "DB-STOPPED") ||
			!strings.Contains(got, "may have taken effect") {
			t.Errorf("got %s, want DB-STOPPED", got)
		}
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	tw := &worldPair{records: [2]string{file}}
	lines := strings.Join(tw.recorded(t, 0, "slow"), "")
	if strings.Count(lines, `"outcome":"cancelled"`) != 2 || strings.Count(lines, `"reason":"stopped"`) != 2 {
		t.Errorf("got the records %s, want two that say stopped", lines)
	}
}

// stuck is a client that reads nothing of its answer until it is freed.
type stuck struct {
	*httptest.ResponseRecorder

	free chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.ResponseRecorder.Write(p)
}

// TestACallThatAStopCancelsIsCountedOnce has a stop wait again for a call that it has
// cancelled, and whose client takes the answer late. The log has one line for it.
func TestACallThatAStopCancelsIsCountedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		client := stuck{httptest.NewRecorder(), make(chan struct{})}
		go w.Handler().ServeHTTP(client, modernCall("slow").request(t.Context(), ""))
		synctest.Wait()
		for i, want := range []int{1, 0} {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			if n := w.Wait(ctx); n != want {
				t.Errorf("wait %d: %d calls were cancelled, want %d", i, n, want)
			}
			if ctx.Err() == nil {
				t.Errorf("wait %d: the call was not waited for", i)
			}
			stop()
		}
		close(client.free)
		if w.Wait(t.Context()); !strings.Contains(client.Body.String(), "DB-STOPPED") {
			t.Errorf("got %s, want DB-STOPPED", client.Body)
		}
	})
}

// TestAnswerOfAStoppingReplicaComesElsewhere has a call run at a replica that stops, and
// its client resumed at another: it gets the answer there, once, or what became of the
// call.
func TestAnswerOfAStoppingReplicaComesElsewhere(t *testing.T) {
	for name, patience := range map[string]time.Duration{
		"text\":\"late": time.Minute,
		"DB-STOPPED":    time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := replicas(t)
			id := a.open(t, "alice", mcp.Revision2511)
			first := a.pipe(t, legacyCall(id, "slow_progress"))
			lines := bufio.NewReader(first)
			last := ""
			for !strings.HasPrefix(last, "id: ") || strings.HasSuffix(last, "-0") {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				last = strings.TrimSpace(line)
			}
			first.Close()
			resumed := b.pipe(t, inSession("GET", id, "").with("Last-Event-ID",
				strings.TrimPrefix(last, "id: ")))
			ended := make(chan string, 1)
			go func() { ended <- rest(resumed) }()
			synctest.Wait()
			a.EndStreams()
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			go func() { <-time.After(10 * time.Second); a.letGo() }()
			a.Wait(ctx)
			if got := <-ended; strings.Count(got, name) != 1 {
				t.Errorf("got %s, want %s once", got, name)
			}
			<-time.After(10 * time.Second) // letGo
		})
	}
}

// TestAnAnswerToAStoppingReplicaIsTaken asks a person something while the gateway stops,
// who answers there and elsewhere.
func TestAnAnswerToAStoppingReplicaIsTaken(t *testing.T) {
	for _, at := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			c := together(t, 2)
			a := c.worlds[0]
			id := a.openAsking(t, mcp.Revision2511)
			question, over := a.ask(t, id)
			a.EndStreams()
			left := make(chan int, 1)
			go func() { left <- a.Wait(t.Context()) }()
			<-time.After(5 * time.Second)
			wantStatus(t, "the answer", c.worlds[at].do(t, answerTo(question, id)), http.StatusAccepted)
			if got := <-over; !strings.Contains(got, "file:///r") {
				t.Errorf("got %s, want the answer in it", got)
			}
			if n := <-left; n != 0 {
				t.Errorf("%d calls were cancelled, want none", n)
			}
		})
	}
}

// TestARepeatOfACallThatAStopCancelledDoesNotRun repeats a call with a key at another
// replica, after the one that ran it has cancelled it.
func TestARepeatOfACallThatAStopCancelledDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, a *world) {
		b := newWorld(t, func(b *world) { b.config.Once = a.config.Once })
		keyed := modernCall("slow").with("Idempotency-Key", "k")
		first := a.pipe(t, keyed)
		ended := make(chan string, 1)
		go func() { ended <- rest(first) }()
		synctest.Wait()
		over, stop := context.WithCancel(t.Context())
		stop()
		a.Wait(over)
		want := <-ended
		got := b.do(t, keyed).Body.String()
		if started, _ := b.counts(); started != 0 || got != want || !strings.Contains(got, "DB-STOPPED") {
			t.Errorf("the repeat: got %s and %d calls, want %s and none", got, started, want)
		}
	}, func(w *world) { w.config.Once = once.NewMemory(share.New(share.DefaultMemory)) })
}

// TestAStopWaitsForCallsOfOtherReplicas stops a replica at which a parked call goes on
// for a client at another one, which hears how that ended.
func TestAStopWaitsForCallsOfOtherReplicas(t *testing.T) {
	t.Parallel()
	tw := newWorldPair(t, nil)
	baseA, baseB := tw.a.serve(t), tw.b.serve(t)
	_, parked := round(t, baseA, asks("asker__hang", ""))
	if n := tw.a.gateway.Ongoing(); n != 1 {
		t.Errorf("%d calls go on while one is parked, want 1", n)
	}
	got := make(chan mcp.Object)
	go func() {
		_, answer := round(t, baseB, asks("asker__hang", repeatOf(t, parked, "elicitation/create", accepted)))
		got <- answer
	}()
	<-tw.asker.begun
	if n := tw.a.gateway.Ongoing(); n == 0 {
		t.Error("no call goes on while one runs")
	}
	over, end := context.WithCancel(t.Context())
	end()
	tw.a.Wait(over)
	if answer := <-got; answer.Object("error").Object("data").Text("code") != "DB-STOPPED" {
		t.Errorf("got %s, want DB-STOPPED", answer.JSON())
	}
	<-tw.asker.ended
}
