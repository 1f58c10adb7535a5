package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// oneUser runs a child for one user.
func oneUser(t *testing.T) *rig {
	t.Helper()
	cfg := command("chat")
	cfg.OneUser = true
	r := start(t, cfg)
	r.untilTool("who")
	return r
}

// of returns a call of one client of the user, who can be asked those things.
func of(t *testing.T, client, asks, token, responses, state string) *registry.Call {
	t.Helper()
	c := person{tenant: "dev", name: "dev", asks: asks}.call(t, token, responses, state, nil)
	c.Client = client
	return c
}

// finish makes a call that must succeed, and answers its question if there is one.
func (r *rig) finish(tool, client, asks, token string) string {
	r.t.Helper()
	t := r.t.(*testing.T)
	asked, state, got, err := r.round(t.Context(), tool, of(t, client, asks, token, "", ""))
	if err == nil && state != "" {
		if !strings.Contains(string(asked.JSON()), `"message":"`+token+`"`) {
			t.Errorf("%s asked %s, want its own question", token, asked.JSON())
		}
		_, _, got, err = r.round(t.Context(), tool, of(t, client, asks, token, accept(asked, token), state))
	}
	if err != nil {
		t.Fatalf("%s of %s: %v (%s)", tool, client, err, cause(err))
	}
	return got
}

const formsOnly = `{"elicitation":{"form":{}}}`

// TestClientsOfOneUserShareAProcess lets clients that differ in what they can be asked
// call one after the other.
func TestClientsOfOneUserShareAProcess(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	one := r.finish("answers", "plain", "", "")
	for _, client := range []struct{ name, asks string }{
		{"editor", formsOnly},
		{"terminal", anyQuestion},
		{"editor", formsOnly},
	} {
		if got, want := r.finish("who", client.name, client.asks, client.name), one+" "+client.name+
			" "; !strings.HasPrefix(got, want) || !strings.Contains(got, `{"is":"`+client.name+`"}`) {
			t.Errorf("%s: got %s, want the same process and its own answer", client.name, got)
		}
	}
	if got, want := r.up.Load(), (upstream.Load{Processes: 1, Sessions: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestOneClientsCallsShareAProcess has a client call eight times at once, and be asked
// each time.
func TestOneClientsCallsShareAProcess(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			ask := func(responses, state string) (mcp.Object, string, error) {
				c := of(t, "editor", formsOnly, "same", responses, state)
				c.InSession = true
				asked, state, _, err := r.round(ctx, "who", c)
				return asked, state, err
			}
			asked, state, err := ask("", "")
			for err == nil && state != "" {
				asked, state, err = ask(accept(asked, "same"), state)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if got, want := r.up.Load(), (upstream.Load{Processes: 1, Sessions: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestQuestionsOfTwoClientsOfOneUserStayApart lets a second client be asked while the
// question of the first is open.
func TestQuestionsOfTwoClientsOfOneUserStayApart(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	asked, state, _, err := r.round(t.Context(), "who", of(t, "editor", formsOnly, "first", "", ""))
	if err != nil || state == "" {
		t.Fatalf("the first: got %v, want a question", err)
	}
	second := r.finish("who", "terminal", formsOnly, "second")
	if got := r.up.Load().Processes; got != 2 {
		t.Errorf("while both call: got %d processes, want 2", got)
	}
	if _, _, _, err = r.round(t.Context(), "who", of(t, "terminal", formsOnly, "first",
		accept(asked, "stolen"), state)); err == nil {
		t.Error("the other client answered the first one's question")
	}
	_, _, first, err := r.round(t.Context(), "who",
		of(t, "editor", formsOnly, "first", accept(asked, "first"), state))
	if err != nil || !strings.Contains(first, `{"is":"first"}`) ||
		strings.Fields(first)[0] == strings.Fields(second)[0] {
		t.Fatalf("got %s, %v, and %s of the other client, want answers of their own from two processes",
			first, err, second)
	}
	if got := r.finish("answers", "terminal", "", ""); got != strings.Fields(first)[0] {
		t.Errorf(
			"a call when nobody else calls: got process %s, want that of the lists, so that the other becomes idle", got)
	}
}

// TestQuestionOfOneWindowReachesNoOther has two windows of a program call, which without
// sessions have one name.
func TestQuestionOfOneWindowReachesNoOther(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	asked, state, _, err := r.round(t.Context(), "who", of(t, "editor", formsOnly, "first", "", ""))
	if err != nil || state == "" {
		t.Fatalf("the first: got %v, want a question", err)
	}
	second := r.finish("who", "editor", formsOnly, "second")
	_, _, first, err := r.round(t.Context(), "who",
		of(t, "editor", formsOnly, "first", accept(asked, "first"), state))
	if err != nil || strings.Fields(first)[0] == strings.Fields(second)[0] {
		t.Errorf("got %s, %v, and %s in the other window, want answers from two processes", first, err,
			second)
	}
	if got := r.finish("who", "editor", formsOnly,
		"third"); strings.Fields(got)[0] != strings.Fields(first)[0] {
		t.Errorf("one call after the other: got %s, want the process of the lists", got)
	}
}

// TestCallThatWasLeftKeepsItsProcessFromOtherClients cancels a call that its server may
// go on with.
func TestCallThatWasLeftKeepsItsProcessFromOtherClients(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	one := r.finish("answers", "editor", formsOnly, "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := r.round(ctx, "hang", of(t, "editor", formsOnly, "", "", "")); err == nil {
		t.Fatal("a call that hangs has succeeded")
	}
	if got := r.finish("answers", "terminal", formsOnly, ""); got == one {
		t.Error("another client calls where the server may still ask the first one")
	}
	if got := r.finish("answers", "editor", formsOnly, ""); got != one {
		t.Errorf("the first client: got process %s, want still %s", got, one)
	}
}

// TestQuestionThatACallerCannotBeAskedMakesStrict calls a tool that asks, for a client
// that cannot be asked.
func TestQuestionThatACallerCannotBeAskedMakesStrict(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	first := r.finish("who", "plain", "", "x")
	if !strings.Contains(first, "Method not found") {
		t.Errorf("got %s, want that the question is refused", first)
	}
	one := strings.Fields(first)[0]
	plain, asked := r.finish("answers", "plain", "", ""), strings.Fields(r.finish("who", "editor", formsOnly,
		"y"))[0]
	if plain == one || asked == one || plain == asked {
		t.Errorf("after that: got processes %s and %s beside %s, want one for each set of what can be asked",
			plain, asked, one)
	}
	if got := r.finish("answers", "other", "", ""); got != plain {
		t.Errorf("another client that cannot be asked: got process %s, want %s", got, plain)
	}
}

// TestClientWithRootsHasAProcessOfItsOwn lets clients call a server that asks for roots
// when it starts.
func TestClientWithRootsHasAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	cfg := command("chat", "roots")
	cfg.OneUser = true
	r := start(t, cfg)
	r.untilTool("answers")
	process := func(client, asks string) string {
		t.Helper()
		asked, state, got, err := r.round(t.Context(), "answers", of(t, client, asks, "", "", ""))
		if err == nil && state != "" { // it was asked for its roots before the call ended
			_, _, got, err = r.round(t.Context(), "answers", of(t, client, asks, "", accept(asked, ""),
				state))
		}
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	without, one, other := process("form", formsOnly), process("editor", anyQuestion), process("terminal",
		anyQuestion)
	if without == one || without == other || one == other {
		t.Errorf("got processes %s, %s and %s, want one for each client with roots", without, one, other)
	}
	if again := process("editor", anyQuestion); again != one {
		t.Errorf("a client with roots again: got process %s, want %s", again, one)
	}
	if got := process("plain", ""); got != without {
		t.Errorf("another client without roots: got process %s, want %s", got, without)
	}
}

// TestOneUsersLogLinesStayWithTheirCall has a client that wants them call beside one that
// does not.
func TestOneUsersLogLinesStayWithTheirCall(t *testing.T) {
	t.Parallel()
	r := oneUser(t)
	heard := &notes{}
	c := person{tenant: "dev", name: "dev", level: "info"}.call(t, "mine", "", "", heard)
	c.Client = "inspector"
	if _, _, _, err := r.round(t.Context(), "log", c); err != nil {
		t.Fatal(err)
	}
	if got := heard.text(); got != "mine mine mine" {
		t.Errorf("got %q, want its three lines", got)
	}
	r.finish("log", "plain", "", "other")
	if got := heard.text(); got != "mine mine mine" {
		t.Errorf("after another client's call: got %q, want no more", got)
	}
}

// TestManyClientsOfOneUserAtOnce runs more clients than there may be children. Each call
// asks its own question.
func TestManyClientsOfOneUserAtOnce(t *testing.T) {
	t.Parallel()
	cfg := command("chat")
	cfg.OneUser, cfg.MaxChildren = true, 3
	r := start(t, cfg)
	r.untilTool("who")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var work sync.WaitGroup
	for i := range 6 {
		client := fmt.Sprint("client-", i)
		work.Go(func() {
			for n := range 5 {
				token := fmt.Sprint(client, "-", n)
				asked, state, got, err := r.round(ctx, "who", of(t, client, formsOnly, token, "", ""))
				if err == nil && !strings.Contains(string(asked.JSON()), `"message":"`+token+`"`) {
					t.Errorf("%s was asked %s", token, asked.JSON())
				}
				if err == nil {
					_, _, got, err = r.round(ctx, "who", of(t, client, formsOnly, token, accept(asked, token),
						state))
				}
				if err != nil || !strings.Contains(got, `{"is":"`+token+`"}`) {
					t.Errorf("%s: got %s, %v", token, got, err)
				}
				if got := r.up.Load().Processes; got > 3 {
					t.Errorf("got %d processes, want 3 at most", got)
				}
			}
		})
	}
	work.Wait()
}
