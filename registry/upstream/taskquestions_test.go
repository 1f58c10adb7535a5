package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// asksOf returns what a task asks now.
func (r *rig) asksOf(p person, id string) mcp.Object {
	r.t.Helper()
	asks, err := r.ofJob(p, "tasks/update", id, "", "")
	if err != nil {
		r.t.Fatalf("what the task asks: %v (%s)", err, cause(err))
	}
	return asks.Object("inputRequests")
}

// answers sends answers to what a task asks.
func (r *rig) answers(p person, id, answers string) error {
	result, err := r.ofJob(p, "tasks/update", id, answers, "")
	if err == nil && result.Len() > 0 {
		r.t.Errorf("the answers are answered with %s", result.JSON())
	}
	synctest.Wait()
	return err
}

// begun has a person begin a task.
func (r *rig) begun(p person, token, ttl string) string {
	r.t.Helper()
	id, err := r.job(p, token, ttl)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// TestTaskAsksAClientWithoutItsResult follows two tasks whose client knows no
// tasks/result.
func TestTaskAsksAClientWithoutItsResult(t *testing.T) {
	t.Parallel()
	s, dropped := &chat{}, 0
	count := func(cfg *upstream.Config) { cfg.Count = func(upstream.Anomaly, int) { dropped++ } }
	inBubble(t, s, count, func(t *testing.T, r *rig) {
		id, other := r.begun(alice, "twice", "600000"), r.begun(alice, "other", "600000")
		if err := r.answers(alice, id, `{"k":{}}`); err != nil || len(s.sights("tasks/result")) > 0 {
			t.Errorf("answers to nothing: %v, and the result is read", err)
		}
		asks, began := r.asksOf(alice, id), time.Now()
		want := `{"method":"elicitation/create","params":{"message":"twice","requestedSchema":{"type":"object","properties":{}}}}`
		if len(keys(asks)) != 1 || string(asks.Value(keys(asks)[0])) != want {
			t.Fatalf("it asks %s, want one question %s", asks.JSON(), want)
		}
		if again := r.asksOf(alice, id); string(again.JSON()) != string(asks.JSON()) || time.Since(began) > 0 {
			t.Errorf("it asks %s the second time after %v, want the same at once", again.JSON(), time.Since(began))
		}
		if got := r.asksOf(alice, other); !strings.Contains(string(got.JSON()), `"other"`) {
			t.Errorf("the other task asks %s", got.JSON())
		}
		bob := person{tenant: "a", name: "bob", asks: anyQuestion}
		if got := r.asksOf(bob, id); got.Len() > 0 {
			t.Errorf("somebody else is asked %s", got.JSON())
		}
		if err := r.answers(bob, id, accept(asks, "bob")); err != nil || r.asksOf(alice, id).Len() != 1 {
			t.Errorf("somebody else answers: %v", err)
		}
		if err := r.answers(alice, id, `{"stranger":{}}`); err != nil || r.asksOf(alice, id).Len() != 1 {
			t.Errorf("an answer to no question of it: %v", err)
		}
		if err := r.answers(alice, id, accept(asks, "first")); err != nil {
			t.Fatal(err)
		}
		second := r.asksOf(alice, id)
		if len(keys(second)) != 1 || keys(second)[0] == keys(asks)[0] {
			t.Fatalf("after the answer it asks %s, want another question under another key", second.JSON())
		}
		if err := r.answers(alice, id, accept(second, "second")); err != nil {
			t.Fatal(err)
		}
		for key := range r.asksOf(alice, id).Members { // the server answered, so that it is read anew
			if key == keys(asks)[0] || key == keys(second)[0] {
				t.Errorf("the key %s is used twice", key)
			}
		}
		if got := len(s.sights("tasks/result")); got != 3 || dropped > 0 {
			t.Errorf("results were read %d times, and %d things dropped, want 3 and none", got, dropped)
		}
	})
}

// TestTaskWhoseAnswerWasNotSentIsAskedAnew has a client leave while its answer is sent.
// The server still waits for that, and nobody has the question any more.
func TestTaskWhoseAnswerWasNotSentIsAskedAnew(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		id := r.begun(alice, "x", "600000")
		asks := r.asksOf(alice, id)
		left, leave := context.WithCancel(t.Context())
		leave()
		c := alice.call(t, "", accept(asks, "late"), "", nil)
		c.Method, c.Tasks, c.Task = mcp.MethodTasksUpdate, mcp.TasksAsked, id
		_, err := r.tool("job").Call(left, c)
		if _, fault := errors.AsType[*registry.UnavailableError](err); fault || !errors.Is(err, context.Canceled) {
			t.Errorf("the client left: got %T %v, want that of its context", err, err)
		}
		synctest.Wait()
		if got := r.asksOf(alice, id); got.Len() != 1 || keys(got)[0] == keys(asks)[0] {
			t.Errorf("afterwards it asks %s, want what is new", got.JSON())
		}
	})
}

// TestTaskThatAsksNothingIsWaitedForBriefly asks what a task asks of whom it cannot ask,
// and of whom it does not.
func TestTaskThatAsksNothingIsWaitedForBriefly(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		mute := person{tenant: "a", name: "mute"}
		if got := r.asksOf(mute, r.begun(mute, "x", "60000")); got.Len() > 0 || len(s.sights("tasks/result")) > 0 {
			t.Errorf("who can be asked nothing is asked %s", got.JSON())
		}
		roots := person{tenant: "a", name: "roots", asks: `{"roots":{}}`}
		id, began := r.begun(roots, "twice", "60000"), time.Now()
		if got := r.asksOf(roots, id); got.Len() > 0 || time.Since(began) > time.Second {
			t.Errorf("who can be asked other things is asked %s after %v", got.JSON(), time.Since(began))
		}
		if _, err := r.ofJob(roots, "tasks/update", "nobody's", "", ""); !isInvalidParams(err) {
			t.Errorf("a task that there is not: %v", err)
		}
	})
}

// TestTheEndOfATaskEndsItsQuestions ends tasks with an open question in each way that
// there is. The server gets an answer to its question, the place is given back, and no
// goroutine is left, or the bubble would not end.
func TestTheEndOfATaskEndsItsQuestions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token string
		end   func(t *testing.T, r *rig, id string, revoke func())
		told  bool // the server is told
	}{
		"it is cancelled": {"obeys", func(t *testing.T, r *rig, id string, _ func()) {
			if _, err := r.ofJob(alice, "tasks/cancel", id, "", ""); err != nil {
				t.Error(err)
			}
		}, true},
		"its time is over":          {"x", func(*testing.T, *rig, string, func()) { time.Sleep(10 * time.Minute) }, true},
		"its client may not use it": {"x", func(_ *testing.T, _ *rig, _ string, revoke func()) { revoke() }, true},
		"the upstream ends":         {"x", func(_ *testing.T, r *rig, _ string, _ func()) { r.stop() }, false},
	} {
		s := &chat{}
		inBubble(t, s, func(cfg *upstream.Config) { cfg.Memory = share.New(64 << 20) }, func(t *testing.T, r *rig) {
			id, released := r.begun(alice, test.token, "600000"), 0
			c := alice.call(t, "", "", "", nil)
			memory := share.New(64 << 20)
			c.Tasks, c.Task, c.Memory = mcp.TasksAsked, id, memory.Reserve(share.User(c.Principal.User()))
			var revoke func()
			c.Hold = func(end func()) func() { revoke = end; return func() { released++ } }
			asks, err := useTask(r, r.tool("job"), c, "tasks/update")
			if err != nil || !asks.Has("inputRequests") || released > 0 || memory.InUse() == 0 {
				t.Fatalf("%s: it asks %s, %v; %d bytes are held, the place was given back: %d", name, asks.JSON(), err,
					memory.InUse(), released)
			}
			c.Memory.Release()
			test.end(t, r, id, revoke)
			synctest.Wait()
			refused := 0
			for _, one := range s.sights("") {
				if one.http == "POST" && strings.Contains(one.raw, `"error"`) {
					refused++
				}
			}
			if cancelled := len(s.sights("notifications/cancelled")); test.told && (cancelled != 1 || refused != 1) {
				t.Errorf("%s: the server was told %d times, and had %d answers; want 1", name, cancelled, refused)
			}
			if released != 1 || memory.InUse() != 0 {
				t.Errorf("%s: the place was given back %d times, and %d bytes are held", name, released, memory.InUse())
			}
		})
	}
}

// TestTasksThatAskHaveALimit has no room for what a task asks: a user has no place left
// among the parked calls, or no memory.
func TestTasksThatAskHaveALimit(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		id := r.begun(alice, "x", "600000")
		for n := 0; ; n++ {
			_, _, _, err := r.round(t.Context(), "late", alice.call(t, fmt.Sprint(n), "", "", nil))
			if err != nil {
				break
			}
		}
		if _, err := r.ofJob(alice, "tasks/update", id, "", ""); !isUnavailable(err) || len(s.sights("tasks/result")) > 0 {
			t.Errorf("without a place: %v", err)
		}
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		full := share.New(1)
		c := alice.call(t, "", "", "", nil)
		c.Tasks, c.Task, c.Memory = mcp.TasksAsked, id, full.Reserve(share.User(c.Principal.User()))
		asks, err := useTask(r, r.tool("job"), c, "tasks/update")
		refused := s.sights("")[len(s.sights(""))-1].raw
		if err != nil || asks.Len() > 0 || !strings.Contains(refused, "too large") {
			t.Errorf("without memory it asks %s, %v; the server has %s", asks.JSON(), err, refused)
		}
		if got := r.asksOf(alice, id); got.Len() != 1 {
			t.Errorf("with room it asks %s", got.JSON())
		}
	})
}

// TestQuestionsThatNameATask come on the stream of the session, as does one that names
// none, while a call and a task of one client are open.
func TestQuestionsThatNameATask(t *testing.T) {
	t.Parallel()
	s := &chat{streams: true}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		id := r.begun(alice, "obeys", "600000")
		first := r.asksOf(alice, id)
		heard := &notes{}
		p := alice
		p.level = "info"
		asked, state, _, err := r.round(t.Context(), "late", p.call(t, "", "", "", heard))
		if err != nil || asked.Len() != 1 {
			t.Fatalf("the call asks %s, %v", asked.JSON(), err)
		}
		own := s.sights("tasks/result")[0].m.Params.Text("taskId")
		// the task was there first, and would take the first of two
		s.push(`{"jsonrpc":"2.0","id":"s2","method":"elicitation/create","params":` + elicit("of the call") + `}`)
		s.push(`{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":` + relatedTo(own, elicit("of the task")) + `}`)
		s.push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"aside"}}`)
		synctest.Wait()
		if got := string(r.asksOf(alice, id).Without(keys(first)...).JSON()); !strings.Contains(got, "of the task") ||
			strings.Contains(got, "of the call") {
			t.Errorf("the task asks %s", got)
		}
		if _, err := r.ofJob(alice, "tasks/cancel", id, "", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait() // what the task asked is over, and nothing for the call
		rest, _, _, err := r.round(t.Context(), "late", p.call(t, "", "{}", state, heard))
		if got := string(rest.JSON()); err != nil || !strings.Contains(got, "of the call") || strings.Contains(got, "of the task") {
			t.Errorf("the call asks %s, %v", got, err)
		}
		if !strings.Contains(heard.text(), "aside") {
			t.Errorf("the call heard %q, want what is said to it", heard.text())
		}
	})
}
