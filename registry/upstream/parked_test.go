package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

var alice = person{tenant: "a", name: "alice", asks: anyQuestion}

// TestTrap08_QuestionsAreRounds asks in the course of a call and finds questions, keys
// and answers in their rounds.
func TestTrap08_QuestionsAreRounds(t *testing.T) {
	t.Parallel()
	t.Run("questions that come together are one round", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			began := time.Now()
			asked, state := r.first("both", alice)
			if took := time.Since(began); asked.Len() != 2 || took != 25*time.Millisecond {
				t.Fatalf("got %s after %v, want two questions after 25 ms", asked.JSON(), took)
			}
			_, _, got, err := r.round(t.Context(), "both", alice.call(t, "", accept(asked, "x"), state, nil))
			if want := `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"is":"x"}}}{"jsonrpc":"2.0","id":2,"result":{"action":"accept","content":{"is":"x"}}}`; err != nil || got != want {
				t.Errorf("answers at the server: got %s, %v, want %s", got, err, want)
			}
		})
	})
	t.Run("each round says that only this process can go on", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			responses, state := "", ""
			for _, want := range []bool{true, true, false} {
				stays, c := false, alice.call(t, "", responses, state, nil)
				c.Sticky = &stays
				asked, next, got, err := r.round(t.Context(), "twice", c)
				if err != nil || stays != want {
					t.Fatalf("got %s, %q, %v, stays %v, want %v", asked.JSON(), got, err, stays, want)
				}
				responses, state = accept(asked, "x"), next
			}
		})
	})
	t.Run("questions one after the other are two rounds with keys of their own", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			asked, state := r.first("twice", alice)
			again, next, _, err := r.round(t.Context(), "twice", alice.call(t, "", accept(asked, "1"), state,
				nil))
			if err != nil || again.Len() != 1 || keys(again)[0] == keys(asked)[0] || next == state {
				t.Fatalf("second round: got %s, %q, %v", again.JSON(), next, err)
			}
			_, _, got, err := r.round(t.Context(), "twice", alice.call(t, "", accept(again, "2"), next, nil))
			if err != nil || !strings.Contains(got, `"is":"1"`) || !strings.Contains(got, `"is":"2"`) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	})
	t.Run("a missing answer is asked for again, others are not repeated", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			asked, state := r.first("both", alice)
			one := `{"` + keys(asked)[0] + `":{"action":"accept","content":{"is":"first"}},"stranger":{}}`
			left, next, _, err := r.round(t.Context(), "both", alice.call(t, "", one, state, nil))
			if err != nil || left.Len() != 1 || keys(left)[0] != keys(asked)[1] || next == state {
				t.Fatalf("got %s, %q, %v, want the other question again", left.JSON(), next, err)
			}
			_, _, got, err := r.round(t.Context(), "both", alice.call(t, "", accept(left, "second"), next,
				nil))
			if err != nil || strings.Count(got, "result") != 2 || !strings.Contains(got, "first") ||
				!strings.Contains(got, "second") {
				t.Errorf("got %s, %v", got, err)
			}
		})
	})
	t.Run("an error of the client is the answer", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			asked, state := r.first("late", alice)
			c := alice.call(t, "", "", state, nil)
			c.Refusals = map[string]*mcp.Error{keys(asked)[0]: mcp.Errorf(-1, "User rejected")}
			want := `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"User rejected"}}`
			if _, _, got, err := r.round(t.Context(), "late", c); err != nil || got != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	})
	t.Run("a server that goes on without the answer", func(t *testing.T) {
		s := &chat{}
		inBubble(t, s, nil, func(t *testing.T, r *rig) {
			asked, state := r.first("quit", alice)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if _, _, got, err := r.round(t.Context(), "quit", alice.call(t, "", accept(asked, "x"), state,
				nil)); err != nil || got != "done without" {
				t.Errorf("got %q, %v", got, err)
			}
			if got := s.sights(""); len(got) != 1 || !strings.Contains(got[0].raw, `"error"`) {
				t.Errorf("answers at the server: got %v, want one error", got)
			}
		})
	})
	t.Run("a question that is taken back is not asked", func(t *testing.T) {
		inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
			asked, state := r.first("withdraw", alice)
			if got := string(asked.JSON()); asked.Len() != 1 || !strings.Contains(got, `"message":"b"`) {
				t.Fatalf("questions: got %s, want b alone", got)
			}
			if _, _, got, err := r.round(t.Context(), "withdraw", alice.call(t, "", accept(asked, "x"), state,
				nil)); err != nil || !strings.Contains(got, `"id":2`) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	})
}

// TestTrap08_TheRepeatAnswersOnce repeats a round many times at once: one goes on, the
// server gets one answer.
func TestTrap08_TheRepeatAnswersOnce(t *testing.T) {
	t.Parallel()
	s := &chat{}
	r := start(t, s.config())
	r.untilTool("late")
	for range 20 {
		before := len(s.sights(""))
		asked, state := r.first("late", alice)
		results := make(chan error, 8)
		for range cap(results) {
			c := alice.call(t, "", accept(asked, "x"), state, nil)
			go func() {
				_, _, _, err := r.round(context.Background(), "late", c)
				results <- err
			}()
		}
		good := 0
		for range cap(results) {
			if err := await(t, results); err == nil {
				good++
			} else if !isInvalidParams(err) {
				t.Errorf("the other repeats: got %v, want invalid params", err)
			}
		}
		if got := len(s.sights("")) - before; good != 1 || got != 1 {
			t.Fatalf("got %d repeats that went on and %d answers at the server, want one of each", good, got)
		}
	}
	asked, state := r.first("late", alice)
	for _, other := range []person{{"b", "alice", anyQuestion, ""}, {"a", "bob", anyQuestion, ""}} {
		if _, _, _, err := r.round(t.Context(), "late", other.call(t, "", accept(asked, "x"), state,
			nil)); !isInvalidParams(err) {
			t.Errorf("%s of %s: got %v, want invalid params", other.name, other.tenant, err)
		}
	}
}

// TestTrap08_UnansweredCallsEnd leaves a call without answers: the server is told, the
// question is answered with an error, the place is free, and the repeat comes too late.
func TestTrap08_UnansweredCallsEnd(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		var held, released atomic.Int32
		hold := func(func()) func() {
			held.Add(1)
			return func() { released.Add(1) }
		}
		c := alice.call(t, "t", "", "", nil)
		c.Hold = hold
		asked, state, _, err := r.round(t.Context(), "late", c)
		if err != nil || held.Load() != 1 || released.Load() != 0 {
			t.Fatalf("parked: got %v, %d places kept, %d released", err, held.Load(), released.Load())
		}
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if got := len(s.sights("notifications/cancelled")); got != 0 {
			t.Errorf("cancelled before 5 minutes: %d", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		told, call := s.sights("notifications/cancelled"), s.sights("tools/call")
		if len(told) != 1 || string(told[0].m.Params.Value("requestId")) != string(call[0].m.ID) ||
			told[0].session != call[0].session {
			t.Errorf("after 5 minutes: got %v, want the call cancelled in its session", told)
		}
		if got := s.sights(""); len(got) != 1 || !strings.Contains(got[0].raw, `"error"`) {
			t.Errorf("answers: got %v, want one error", got)
		}
		if released.Load() != 1 {
			t.Errorf("places released: got %d, want 1", released.Load())
		}
		if _, _, _, err = r.round(t.Context(), "late", alice.call(t, "", accept(asked, "x"), state,
			nil)); !isInvalidParams(err) {
			t.Errorf("late repeat: got %v, want invalid params", err)
		}
	})
}

// TestParkedCallEndsWithItsPermission ends a call that waits for answers because its
// caller may not go on: the server is told at once, its question is answered with an
// error, and the place and the session are free for others.
func TestParkedCallEndsWithItsPermission(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		var end func()
		var released atomic.Int32
		c := alice.call(t, "t", "", "", nil)
		c.Hold = func(revoked func()) func() {
			end = revoked
			return func() { released.Add(1) }
		}
		asked, state, _, err := r.round(t.Context(), "late", c)
		if err != nil {
			t.Fatal(err)
		}
		end()
		end()
		synctest.Wait()
		told, call := s.sights("notifications/cancelled"), s.sights("tools/call")
		if len(told) != 1 || string(told[0].m.Params.Value("requestId")) != string(call[0].m.ID) {
			t.Errorf("got %v, want the call cancelled", told)
		}
		if got := s.sights(""); len(got) != 1 || !strings.Contains(got[0].raw, `"error"`) {
			t.Errorf("answers: got %v, want one error", got)
		}
		if released.Load() != 1 {
			t.Errorf("places released: got %d, want 1", released.Load())
		}
		if _, _, _, err = r.round(t.Context(), "late", alice.call(t, "", accept(asked, "x"), state,
			nil)); err == nil {
			t.Error("the repeat got a result")
		}
	})
}

// TestPlaceIsKeptOnce counts the places of a call with several rounds.
func TestPlaceIsKeptOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		var held, released atomic.Int32
		with := func(c *registry.Call) *registry.Call {
			c.Hold = func(func()) func() {
				held.Add(1)
				return func() { released.Add(1) }
			}
			return c
		}
		asked, state, _, _ := r.round(t.Context(), "twice", with(alice.call(t, "", "", "", nil)))
		asked, state, _, _ = r.round(t.Context(), "twice",
			with(alice.call(t, "", accept(asked, "x"), state, nil)))
		if held.Load() != 1 || released.Load() != 0 {
			t.Errorf("while it waits: got %d kept, %d released, want 1, 0", held.Load(), released.Load())
		}
		if _, _, _, err := r.round(t.Context(), "twice",
			with(alice.call(t, "", accept(asked, "x"), state, nil))); err != nil {
			t.Error(err)
		}
		if held.Load() != 1 || released.Load() != 1 {
			t.Errorf("at the end: got %d kept, %d released, want 1, 1", held.Load(), released.Load())
		}
	})
}

// TestCallerWhoLeavesEndsTheCall leaves in the first round, and in the second.
func TestCallerWhoLeavesEndsTheCall(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, _, err := r.round(limited, "hang", alice.call(t, "", "", "", nil)); err != context.DeadlineExceeded { //nolint:errorlint // exactly that
			t.Errorf("first round: got %v", err)
		}
		asked, state := r.first("both", alice)
		one := `{"` + keys(asked)[0] + `":{"action":"accept"}}`
		limited, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, _, _, err := r.round(limited, "both", alice.call(t, "", one, state, nil)); err != context.DeadlineExceeded { //nolint:errorlint // exactly that
			t.Errorf("second round: got %v", err)
		}
		synctest.Wait()
		if got := len(s.sights("notifications/cancelled")); got != 2 {
			t.Errorf("cancellations: got %d, want 2", got)
		}
	})
}

// TestRepeatOfWhoHasLeftEndsTheCall repeats a call for somebody who gave up: the server
// is told at once, with what the call kept, and another repeat comes too late.
func TestRepeatOfWhoHasLeftEndsTheCall(t *testing.T) {
	t.Parallel()
	for _, answers := range []string{"", `{}`} {
		s := &chat{}
		inBubble(t, s, nil, func(t *testing.T, r *rig) {
			var released atomic.Int32
			c := alice.call(t, "", "", "", nil)
			c.Hold = func(func()) func() { return func() { released.Add(1) } }
			asked, state, _, err := r.round(t.Context(), "late", c)
			if err != nil {
				t.Fatal(err)
			}
			left, leave := context.WithCancel(t.Context())
			leave()
			began := time.Now()
			if _, _, _, err = r.round(left, "late", alice.call(t, "", answers, state, nil)); !errors.Is(err,
				context.Canceled) {
				t.Errorf("answers %q: got %v, want what the caller's context says", answers, err)
			}
			synctest.Wait()
			if told := s.sights("notifications/cancelled"); len(told) != 1 || released.Load() != 1 ||
				time.Since(began) != 0 {
				t.Errorf(
					"answers %q: got %d cancellations and %d places released after %v, want one each at once",
					answers, len(told), released.Load(), time.Since(began))
			}
			if _, _, _, err = r.round(t.Context(), "late", alice.call(t, "", accept(asked, "x"), state,
				nil)); !isInvalidParams(err) {
				t.Errorf("answers %q: another repeat: got %v, want invalid params", answers, err)
			}
		})
	}
}

// TestWhoHasLeftNeedsNoCredential repeats a call for somebody who gave up when there is
// no credential for it any more: what the call kept is given back at once all the same.
func TestWhoHasLeftNeedsNoCredential(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a-good-token")
	var source *credential.Source
	inBubble(t, &chat{}, func(cfg *upstream.Config) {
		source = credential.New(credential.Config{Server: "up", Spec: credential.Spec{TokenFile: path}})
		cfg.Credential = source
	}, func(t *testing.T, r *rig) {
		defer source.Close()
		var released atomic.Int32
		c := alice.call(t, "", "", "", nil)
		c.Hold = func(func()) func() { return func() { released.Add(1) } }
		_, state, _, err := r.round(t.Context(), "late", c)
		if err != nil {
			t.Fatal(err)
		}
		write("no token")
		time.Sleep(15 * time.Second) // until it is seen, and before the server is asked whether it lives
		if _, _, _, err = r.round(t.Context(), "late", alice.call(t, "", "", "", nil)); err == nil {
			t.Fatal("a call was made without a credential")
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		began := time.Now()
		if _, _, _, err = r.round(left, "late", alice.call(t, "", "", state, nil)); !errors.Is(err,
			context.Canceled) || released.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("got %v and %d places released after %v, want what the caller's context says, and one at once",
				err, released.Load(), time.Since(began))
		}
	})
}

// TestParkedCallsHaveALimit parks more calls of one user than may wait. It could take all
// places once, with limits that let it have so many calls.
func TestParkedCallsHaveALimit(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		results := make(chan error, 1001)
		for range cap(results) {
			c := alice.call(t, "", "", "", nil)
			go func() {
				asked, _, _, err := r.round(t.Context(), "late", c)
				if err == nil && asked.Len() != 1 {
					err = fmt.Errorf("no question")
				}
				results <- err
			}()
		}
		failed := 0
		for range cap(results) {
			if err := <-results; err != nil {
				failed++
				if kindOf(mcp.Object{}, err) != "sent" {
					t.Errorf("got %v, want unavailable, sent", err)
				}
			}
		}
		if parked := cap(results) - failed; parked < 200 || parked > 300 {
			t.Errorf("%d calls of one user are parked, want about a quarter of 1000", parked)
		}
		for _, other := range []person{
			{tenant: "a", name: "bob", asks: anyQuestion},
			{tenant: "globex", name: "alice", asks: anyQuestion},
		} {
			if asked, _, _, err := r.round(t.Context(), "late", other.call(t, "", "", "", nil)); err != nil ||
				asked.Len() != 1 {
				t.Errorf("%s of %s: got %v, want a question", other.name, other.tenant, cause(err))
			}
		}
	})
}

// TestOnlyWhatCanBeAskedIsAsked asks anyQuestion of callers who can be asked some.
func TestOnlyWhatCanBeAskedIsAsked(t *testing.T) {
	t.Parallel()
	for asks, want := range map[string]string{
		`{"elicitation":{"form":{}}}`: "",
		`{"elicitation":{"url":{}}}`:  `{"method":"elicitation/create","params":{"mode":"url","url":"https://x.test","message":"m"}}`,
		`{"roots":{}}`:                `{"method":"roots/list","params":{}}`,
		`{"sampling":{}}`:             `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
	} {
		s := &chat{}
		inBubble(t, s, nil, func(t *testing.T, r *rig) {
			p := person{tenant: "a", name: "alice", asks: asks}
			asked, state, got, err := r.round(t.Context(), "every", p.call(t, "", "", "", nil))
			if want != "" {
				if asked.Len() != 1 || string(asked.Value(keys(asked)[0])) != want {
					t.Fatalf("%s: asked %s, want %s", asks, asked.JSON(), want)
				}
				_, _, got, err = r.round(t.Context(), "every", p.call(t, "", accept(asked, "x"), state, nil))
			}
			refused := strings.Count(got, `"error":{"code":-32601,`)
			if pong := `{"jsonrpc":"2.0","id":1,"result":{}}`; err != nil || !strings.HasPrefix(got, pong) ||
				refused != 5-asked.Len() {
				t.Errorf("%s: got %s, %v", asks, got, err)
			}
			declared := s.sights("initialize")[1].m.Params.Value("capabilities")
			if string(declared) != asks {
				t.Errorf("declared: got %s, want %s", declared, asks)
			}
		})
	}
}

// TestQuestionsOnTheStreamOfTheSession asks outside of the call's own stream: one open
// call is asked, and of several the one that has nothing to ask yet.
func TestQuestionsOnTheStreamOfTheSession(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{streams: true}, nil, func(t *testing.T, r *rig) {
		asked, state := r.first("late", alice) // opens the session and its stream
		synctest.Wait()
		question, repeat, _, err := r.round(t.Context(), "elsewhere", alice.call(t, "mine", "", "", nil))
		if err != nil || !strings.Contains(string(question.JSON()), `"mine"`) {
			t.Fatalf("with two open calls: got %s, %v, want the question", question.JSON(), err)
		}
		_, _, got, err := r.round(t.Context(), "elsewhere", alice.call(t, "", accept(question, "one"), repeat,
			nil))
		if err != nil || !strings.Contains(got, "one") {
			t.Errorf("with two open calls: got %s, %v", got, err)
		}
		if _, _, _, err = r.round(t.Context(), "late", alice.call(t, "", accept(asked, "x"), state,
			nil)); err != nil {
			t.Fatal(err)
		}
		asked, state, _, err = r.round(t.Context(), "elsewhere", alice.call(t, "mine", "", "", nil))
		if err != nil || !strings.Contains(string(asked.JSON()), `"mine"`) {
			t.Fatalf("with one open call: got %s, %v, want the question", asked.JSON(), err)
		}
		if _, _, got, err = r.round(t.Context(), "elsewhere", alice.call(t, "", accept(asked, "yes"), state,
			nil)); err != nil || !strings.Contains(got, "yes") {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// TestAddressesToOpenFirst shows what becomes of the error that asks for it.
func TestAddressesToOpenFirst(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		asked, state, _, err := r.round(t.Context(), "url", alice.call(t, "always", "", "", nil))
		want := `{"method":"elicitation/create","params":{"url":"https://one.test","message":"one","mode":"url"}}`
		calls := len(s.sights("tools/call"))
		if err != nil || asked.Len() != 1 || string(asked.Value(keys(asked)[0])) != want || calls != 1 {
			t.Fatalf("got %s, %v after %d calls, want %s after one", asked.JSON(), err, calls, want)
		}
		if _, _, got, err := r.round(t.Context(), "url", alice.call(t, "", `{"q1":{"action":"accept"}}`,
			state, nil)); err != nil || got != "opened" {
			t.Errorf("the repeat: got %q, %v, want the call made anew", got, err)
		}
		began := time.Now()
		if _, _, got, err := r.round(t.Context(), "url", alice.call(t, "soon", `{"q1":{"action":"accept"}}`,
			state, nil)); err != nil || got != "opened" || time.Since(began) != 7*time.Second {
			t.Errorf("the user takes a while: got %q, %v after %v, want no other question", got, err,
				time.Since(began))
		}
		limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if asked, _, _, err := r.round(limited, "url", alice.call(t, "always", `{"q1":{"action":"accept"}}`,
			state, nil)); err != nil || asked.Len() != 1 || limited.Err() != nil {
			t.Errorf("the user never does it: got %s, %v, want the question again in time", asked.JSON(), err)
		}
		before := len(s.sights("tools/call"))
		for _, answers := range []string{`{"q1":{"action":"decline"}}`, `{"q1":{}}`} {
			result, err := r.tool("url").Call(t.Context(), alice.call(t, "", answers, state, nil))
			if err != nil || string(result.Value("isError")) != "true" || len(s.sights("tools/call")) != before {
				t.Errorf("%s: got %s, %v, want a failure without another call", answers, result.JSON(), err)
			}
		}
		for _, asks := range []string{"", `{"elicitation":{"form":{}}}`} {
			result, err := r.tool("url").Call(t.Context(), person{tenant: "a", name: "bob", asks: asks}.call(t,
				"always", "", "", nil))
			if err != nil || string(result.Value("isError")) != "true" ||
				!strings.Contains(text(result), "https://one.test") {
				t.Errorf("%q: got %s, %v, want a failure that names the address", asks, result.JSON(), err)
			}
		}
	})
}

// TestCallsThatAskHaveALongestLife asks for the same answer again and again, each time in
// time.
func TestCallsThatAskHaveALongestLife(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		_, state := r.first("late", alice)
		for range 7 {
			time.Sleep(4 * time.Minute)
			_, next, _, err := r.round(t.Context(), "late", alice.call(t, "", "{}", state, nil))
			if err != nil || next == "" || next == state {
				t.Fatalf("got %q, %v, want the question again", next, err)
			}
			state = next
		}
		time.Sleep(3 * time.Minute)
		if _, _, _, err := r.round(t.Context(), "late",
			alice.call(t, "", "{}", state, nil)); kindOf(mcp.Object{}, err) != "sent" {
			t.Errorf("after half an hour: got %v, want unavailable, sent", err)
		}
		if got := len(s.sights("notifications/cancelled")); got != 1 {
			t.Errorf("cancellations: got %d, want 1", got)
		}
	})
}

// TestQuestionsOfACallHaveALimit asks once more than is allowed.
func TestQuestionsOfACallHaveALimit(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		_, _, got, err := r.round(t.Context(), "many", alice.call(t, "", "", "", nil))
		if want := `{"jsonrpc":"2.0","id":65,"error":{"code":-32603,"message":"Too many questions in one call"}}`; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
}

// TestARoundHasALimit asks more at once than a client takes: the rest comes in the next
// round.
func TestARoundHasALimit(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		asked, state := r.first("crowd", alice)
		rest, next, _, err := r.round(t.Context(), "crowd", alice.call(t, "", accept(asked, "1"), state, nil))
		if err != nil || asked.Len() != 32 || rest.Len() != 8 {
			t.Fatalf("got %d and %d questions, %v, want 32 and 8", asked.Len(), rest.Len(), err)
		}
		_, _, got, err := r.round(t.Context(), "crowd", alice.call(t, "", accept(rest, "2"), next, nil))
		if ones, twos := strings.Count(got, `"is":"1"`), strings.Count(got, `"is":"2"`); err != nil ||
			ones != 32 || twos != 8 {
			t.Errorf("answers: got %d and %d, %v, want 32 and 8", ones, twos, err)
		}
	})
}

// TestWhatIsSaidWhileACallIsParkedWaits lets a server log while nobody takes part in the
// call: its repeat hears it, up to a number of messages and of bytes.
func TestWhatIsSaidWhileACallIsParkedWaits(t *testing.T) {
	t.Parallel()
	bob := alice
	bob.level = "info"
	for _, test := range []struct {
		name          string
		lines, length int
		heard         int
	}{
		{"few", 3, 1, 3},
		{"as many as may wait", 256, 1, 256},
		{"one too many", 257, 1, 256},
		{"too long", 5, 30 << 10, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
				var heard notes
				line := strings.Repeat("x", test.length)
				first := bob.call(t, line, "", "", nil)
				arguments := first.Params.Object("arguments").With("lines",
					mcp.String(strconv.Itoa(test.lines)))
				first.Params = first.Params.With("arguments", arguments.JSON())
				asked, state, _, err := r.round(t.Context(), "murmur", first)
				if err != nil || asked.Len() != 1 {
					t.Fatalf("got %s, %v, want a question", asked.JSON(), err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if _, _, _, err = r.round(t.Context(), "murmur", bob.call(t, line, accept(asked, "x"), state,
					&heard)); err != nil {
					t.Fatal(err)
				}
				if got, want := heard.text(),
					strings.TrimSpace(strings.Repeat(line+" ", test.heard)); got != want {
					t.Errorf("heard %d bytes, want %d lines of %d", len(got), test.heard, test.length)
				}
				if got, want := r.count(upstream.Flooded), test.lines-test.heard; got != want {
					t.Errorf("%d messages are counted as dropped, want %d", got, want)
				}
			})
		})
	}
}
