package upstream_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// replies answers questions as the client of a person does: with their own text, or with
// a root in the person's name.
func (p person) replies(asked mcp.Object) (answers string, shown []string) {
	all := mcp.Object{}
	for key, raw := range asked.Members {
		request, _ := mcp.ObjectOf(raw)
		params, answer := request.Object("params"), ""
		switch request.Text("method") {
		case "elicitation/create":
			shown = append(shown, params.Text("message"))
			answer = `{"action":"accept","content":{"is":` + quote(params.Text("message")) + `}}`
		case "sampling/createMessage":
			messages, _ := params.Value("messages").Elements()
			first, _ := mcp.ObjectOf(messages[0])
			said := first.Object("content").Text("text")
			shown = append(shown, said)
			answer = `{"role":"assistant","content":{"type":"text","text":` + quote(said) + `},"model":"m"}`
		case "roots/list":
			answer = `{"roots":[{"uri":"file:///","name":` + quote(p.tenant+p.name) + `}]}`
		}
		all = all.With(key, mcp.RawJSON(answer))
	}
	return string(all.JSON()), shown
}

// outcome is what became of a call with all its rounds.
type outcome struct {
	got   string
	shown []string // the questions with a text
	err   error
}

// play calls a tool and answers what it asks, after some time.
func (r *rig) play(tool string, p person, token string, after time.Duration) (o outcome) {
	answers, state := "", ""
	for range 10 {
		asked, next, got, err := r.round(r.t.Context(), tool, p.call(r.t, token, answers, state, nil))
		if o.got, o.err = got, err; err != nil || asked.Len() == 0 {
			return o
		}
		wait(r.t.Context(), after)
		var shown []string
		answers, shown = p.replies(asked)
		o.shown, state = append(o.shown, shown...), next
	}
	return o
}

// TestCallsAtOnceGetTheirQuestions makes calls at once, of two users, whose server asks
// on the stream of the session. Each gets the answer to its own question, and nobody sees
// a question of the other user. The first ones share a session; later ones have sessions
// alone.
func TestCallsAtOnceGetTheirQuestions(t *testing.T) {
	t.Parallel()
	for tool, rounds := range map[string]int{"sample": 1, "roots": 1, "elicit": 1, "twice": 2} {
		for _, store := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s store=%v", tool, store), func(t *testing.T) {
				t.Parallel()
				f := &fastMCP{store: store}
				fastBubble(t, f, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
					f.crowded()
					for _, batch := range []string{"first", "second"} {
						r.batch(t, tool, batch, rounds, time.Second)
						if got := f.crowded(); (got > 1) != (batch == "first") {
							t.Errorf("%s calls: %d in one session at once", batch, got)
						}
					}
				})
			})
		}
	}
}

// batch makes four calls at once of each of two users, who take some time to answer, the
// later ones less.
func (r *rig) batch(t *testing.T, tool, batch string, rounds int, after time.Duration) {
	t.Helper()
	var work sync.WaitGroup
	for _, p := range []person{
		{tenant: "a", name: "alice", asks: anyQuestion},
		{tenant: "a", name: "bob", asks: anyQuestion},
	} {
		for i := range 4 {
			work.Go(func() {
				token := fmt.Sprint(p.name, "-", batch, "-", i)
				want := strings.TrimSpace(strings.Repeat(token+" ", rounds))
				if tool == "roots" {
					want = p.tenant + p.name
				}
				o := r.play(tool, p, token, time.Duration(4-i)*after)
				if o.err != nil || o.got != want {
					t.Errorf("%s: got %q, %v, want %q", token, o.got, o.err, want)
				}
				for _, text := range o.shown {
					if !strings.HasPrefix(text, p.name+"-") {
						t.Errorf("%s: was shown %q", token, text)
					}
				}
			})
		}
	}
	work.Wait()
}

// TestCallsShareASessionAgainLater waits until a server is no longer remembered for its
// questions, which is longer than a connection lasts.
func TestCallsShareASessionAgainLater(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
		p := person{tenant: "a", name: "alice", asks: anyQuestion}
		together := func() int {
			f.crowded()
			var work sync.WaitGroup
			for range 3 {
				work.Go(func() {
					if o := r.play("quick", p, "1s", 0); o.err != nil {
						t.Error(o.err)
					}
				})
			}
			work.Wait()
			return f.crowded()
		}
		ask := func(tool string) {
			if o := r.play(tool, p, "x", 0); o.err != nil || o.got != "x" {
				t.Fatalf("%s: got %q, %v", tool, o.got, o.err)
			}
		}
		ask("ctx_elicit")
		if got := together(); got != 3 {
			t.Errorf("after a question on the stream of its call: %d calls in one session, want 3", got)
		}
		ask("elicit")
		if got := together(); got != 1 {
			t.Errorf("after one on the stream of the session: %d calls in one session, want 1", got)
		}
		o := r.cfg.Client.Transport.(*origin)
		o.become(nil)
		time.Sleep(2 * time.Minute)
		o.become(f)
		time.Sleep(time.Minute)
		if got := together(); got != 1 || r.last().Restarts == 0 {
			t.Errorf("after the server was lost: %d calls in one session, want 1; status %+v", got, r.last())
		}
		time.Sleep(47 * time.Minute)
		if got := together(); got != 1 {
			t.Errorf("50 minutes later: %d calls in one session, want 1", got)
		}
		time.Sleep(11 * time.Minute)
		if got := together(); got != 3 {
			t.Errorf("an hour later: %d calls in one session, want 3", got)
		}
	})
}

// TestQuestionOfAnotherCallOutlivesTheCall lets a call end that took the question of
// another one, before and after its user was asked: nobody is asked twice, and the other
// call gets the answer.
func TestQuestionOfAnotherCallOutlivesTheCall(t *testing.T) {
	t.Parallel()
	for takes, shown := range map[string][2]int{"20ms": {0, 1}, "2s": {1, 0}} {
		t.Run(takes, func(t *testing.T) {
			t.Parallel()
			fastBubble(t, &fastMCP{}, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
				p := person{tenant: "a", name: "alice", asks: anyQuestion}
				if o := r.play("quick", p, "0s", 0); o.err != nil {
					t.Fatal(o.err)
				}
				var quick, asks outcome
				var work sync.WaitGroup
				work.Go(func() { quick = r.play("quick", p, takes, 5*time.Second) })
				synctest.Wait()
				work.Go(func() { asks = r.play("elicit", p, "question", 5*time.Second) })
				work.Wait()
				if quick.err != nil || quick.got != "quick" || asks.err != nil || asks.got != "question" {
					t.Errorf("got %q, %v and %q, %v", quick.got, quick.err, asks.got, asks.err)
				}
				if got := [2]int{len(quick.shown), len(asks.shown)}; got != shown {
					t.Errorf("asked %v times, want %v", got, shown)
				}
			})
		})
	}
}

// TestUnansweredQuestionOfAnotherCallMovesOn parks a call with the question of another
// one and never repeats it: when its time is over, the other call's user is asked.
func TestUnansweredQuestionOfAnotherCallMovesOn(t *testing.T) {
	t.Parallel()
	for _, takes := range []string{"2s", "20m"} { // ends before its time is over, or does not
		t.Run(takes, func(t *testing.T) {
			t.Parallel()
			fastBubble(t, &fastMCP{}, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
				p := person{tenant: "a", name: "alice", asks: anyQuestion}
				asked := make(chan mcp.Object, 1)
				var work sync.WaitGroup
				work.Go(func() {
					one, _, _, err := r.round(t.Context(), "quick", p.call(t, takes, "", "", nil))
					if err != nil {
						t.Error(err)
					}
					asked <- one
				})
				synctest.Wait()
				work.Go(func() {
					began := time.Now()
					if o := r.play("elicit", p, "question", time.Second); o.err != nil ||
						o.got != "question" || len(o.shown) != 1 {
						t.Errorf("got %+v", o)
					}
					if took := time.Since(began); took < 5*time.Minute || took > 6*time.Minute {
						t.Errorf("took %v, want the time of a round and a little more", took)
					}
				})
				if one := <-asked; one.Len() != 1 {
					t.Errorf("asked %s, want the question", one.JSON())
				}
				work.Wait()
			})
		})
	}
}

// TestQuestionThatCouldBeAnybodysIsRefused shares sessions between users, by the
// operator's word: a question while both call reaches neither. From then on each call has
// a session alone.
func TestQuestionThatCouldBeAnybodysIsRefused(t *testing.T) {
	t.Parallel()
	fastBubble(t, &fastMCP{}, upstream.Config{URL: overHTTP, Shared: true}, func(t *testing.T, r *rig) {
		for _, batch := range []string{"first", "second"} {
			var refused atomic.Int32
			var work sync.WaitGroup
			for _, name := range []string{"alice", "bob"} {
				work.Go(func() {
					o := r.play("elicit", person{tenant: "a", name: name, asks: anyQuestion}, name,
						time.Second)
					for _, text := range o.shown {
						if text != name {
							t.Errorf("%s calls: %s was shown a question of %s", batch, name, text)
						}
					}
					if o.err != nil {
						t.Error(o.err)
					}
					if o.got != name {
						// the other one's call may have ended by now, so that its own is
						// certain
						refused.Add(1)
					}
				})
			}
			work.Wait()
			if got := refused.Load(); (got > 0) != (batch == "first") {
				t.Errorf("%s calls: %d questions were refused", batch, got)
			}
		}
	})
}

// TestQuestionOfAnEndedCallReachesNoOtherUser leaves a question with a call that ends, in
// a session that users share by the operator's word, while only another user's call is
// open.
func TestQuestionOfAnEndedCallReachesNoOtherUser(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP, Shared: true}, func(t *testing.T, r *rig) {
		alice, bob := person{tenant: "a", name: "alice", asks: anyQuestion}, person{
			tenant: "a", name: "bob",
			asks: anyQuestion,
		}
		var work sync.WaitGroup
		work.Go(func() {
			// and never again
			asked, _, _, err := r.round(t.Context(), "quick", alice.call(t, "2s", "", "", nil))
			if err != nil || asked.Len() != 1 {
				t.Errorf("alice is asked %s, %v, want the question", asked.JSON(), err)
			}
		})
		synctest.Wait()
		work.Go(func() {
			if o := r.play("quick", alice, "3s", 0); o.err != nil {
				t.Error(o.err)
			}
		})
		synctest.Wait()
		f.everywhere(func(s *pySession) {
			s.write(
				"", `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}},"jsonrpc":"2.0","id":77}`)
		})
		work.Wait()
		if o := r.play("quick", bob, "10m", 0); o.err != nil || o.got != "quick" || len(o.shown) > 0 {
			t.Errorf("bob: got %+v, want no question", o)
		}
	})
}

// TestQuestionOfAnAbandonedCallReachesNoOtherUser has a user leave, whose call the server
// may still run, while another user calls in a session that both share by the operator's
// word. A question may be the first one's for some time.
func TestQuestionOfAnAbandonedCallReachesNoOtherUser(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP, Shared: true}, func(t *testing.T, r *rig) {
		alice, bob := person{tenant: "a", name: "alice", asks: anyQuestion}, person{
			tenant: "a", name: "bob",
			asks: anyQuestion,
		}
		asked := 0
		ask := func(who person) []string {
			asked++
			done := make(chan outcome, 1)
			go func() { done <- r.play("quick", who, "10s", 0) }()
			synctest.Wait()
			f.everywhere(func(s *pySession) {
				s.write(
					"", `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}},"jsonrpc":"2.0","id":%d}`, 70+asked)
			})
			o := <-done
			if o.err != nil {
				t.Error(o.err)
			}
			return o.shown
		}
		leaving, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, _, _, err := r.round(leaving, "quick", alice.call(t, "10m", "", "", nil))
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; err == nil {
			t.Error("alice left, and got no error")
		}
		if shown := ask(bob); len(shown) > 0 {
			t.Errorf("bob was shown %q, which may be for alice", shown)
		}
		if shown := ask(alice); len(shown) != 1 {
			t.Errorf("alice was shown %q, want the question", shown)
		}
		time.Sleep(4 * time.Minute)
		ask(bob) // so that the session stays
		time.Sleep(2 * time.Minute)
		if shown := ask(bob); len(shown) != 1 {
			t.Errorf("bob was shown %q later, want the question", shown)
		}
	})
}

// TestQuestionOfAnotherCallIsNotAnswered repeats a call, which has ended, without the
// answer to the question of another one: that one's user is asked.
func TestQuestionOfAnotherCallIsNotAnswered(t *testing.T) {
	t.Parallel()
	fastBubble(t, &fastMCP{}, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
		p := person{tenant: "a", name: "alice", asks: anyQuestion}
		var work sync.WaitGroup
		work.Go(func() {
			_, state, _, err := r.round(t.Context(), "quick", p.call(t, "2s", "", "", nil))
			wait(t.Context(), 5*time.Second)
			if err == nil {
				_, _, got, err := r.round(t.Context(), "quick", p.call(t, "2s", "{}", state, nil))
				if err != nil || got != "quick" {
					t.Errorf("repeat: got %q, %v", got, err)
				}
			}
		})
		synctest.Wait()
		work.Go(func() {
			began := time.Now()
			if o := r.play("elicit", p, "question", time.Second); o.err != nil || o.got != "question" ||
				len(o.shown) != 1 {
				t.Errorf("got %+v", o)
			}
			if took := time.Since(began); took < 5*time.Second || took > 10*time.Second {
				t.Errorf("took %v, want the time until the repeat and a little more", took)
			}
		})
		work.Wait()
	})
}

// TestQuestionThatComesAgainIsAskedOnce lets the stream of a session bring a question
// twice while two calls are open.
func TestQuestionThatComesAgainIsAskedOnce(t *testing.T) {
	t.Parallel()
	f := &fastMCP{}
	fastBubble(t, f, upstream.Config{URL: overHTTP}, func(t *testing.T, r *rig) {
		var one, other outcome
		var work sync.WaitGroup
		p := person{tenant: "a", name: "alice", asks: anyQuestion}
		work.Go(func() { one = r.play("quick", p, "3s", time.Second) })
		work.Go(func() { other = r.play("quick", p, "3s", time.Second) })
		synctest.Wait()
		f.everywhere(func(s *pySession) {
			for range 2 {
				s.write(
					"", `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}},"jsonrpc":"2.0","id":77}`)
			}
		})
		work.Wait()
		if one.err != nil || other.err != nil || len(one.shown)+len(other.shown) != 1 {
			t.Errorf("got %+v and %+v, want one question", one, other)
		}
	})
}

// TestFastMCPOverAConnection has questions and news on the stream of the session over
// real connections.
func TestFastMCPOverAConnection(t *testing.T) {
	t.Parallel()
	f := &fastMCP{store: true}
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r := start(t, upstream.Config{URL: server.URL + "/mcp"})
	r.untilTool("grow")
	r.batch(t, "sample", "first", 1, 0)
	r.batch(t, "elicit", "second", 1, 0)
	if _, _, got, err := r.round(t.Context(), "grow", person{tenant: "b"}.call(t, "", "", "",
		nil)); err != nil || got != "ok" {
		t.Errorf("got %q, %v", got, err)
	}
	r.until("the lists are read again", func() bool { return r.has("1") })
}
