package upstream_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// askableCaller is a caller who can be asked, in a session or not.
type askableCaller struct {
	r         *rig
	tool      string
	inSession bool
}

func (g askableCaller) call(t testing.TB, responses, state string) (asked mcp.Object, next, got string, err error) {
	c := person{"a", "alice", anyQuestion, ""}.call(t, "x", responses, state, nil)
	c.Params = c.Params.With("name", mcp.String(g.tool))
	c.InSession = g.inSession
	return g.r.round(t.Context(), g.tool, c)
}

// talk calls, accepts whatever is asked, and returns the result.
func (g askableCaller) talk(t *testing.T) (got string, err error) {
	t.Helper()
	responses, state := "", ""
	for range 4 {
		asked, next, got, err := g.call(t, responses, state)
		if err != nil || asked.Len() == 0 {
			return got, err
		}
		responses, state = accept(asked, "4"), next
	}
	t.Fatalf("%s asks for ever", g.tool)
	return "", nil
}

func (g askableCaller) must(t *testing.T, want string) {
	t.Helper()
	if got, err := g.talk(t); err != nil || !strings.HasPrefix(got, want) ||
		!strings.Contains(got, `{"is":"4"}`) {
		t.Errorf("%s, in a session %v: got %q, %v (%s), want %s with the answer", g.tool, g.inSession, got,
			err, cause(err), want)
	}
}

// TestToolOfBothErasAsksInTheMiddleOfACall has a server that speaks both eras ask as a
// direct client of an older revision lets it. In 2026-07-28 its tool is refused that.
func TestToolOfBothErasAsksInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	server := play(t, "python2")
	r := start(t, server.config())
	r.untilTool("book")
	askableCaller{r, "book", true}.must(t, "booked")
	askableCaller{r, "order", true}.must(t, "ordered")
	askableCaller{r, "order", false}.must(t, "ordered")
	if got := server.asked("legacy initialize"); got != 1 {
		t.Errorf("sessions of one caller: got %d, want 1", got)
	}
	if got, modern := server.asked("legacy tools/call order"),
		server.asked("modern tools/call order"); got != 1 || modern != 1 {
		t.Errorf(
			"calls of order: got %d in the session and %d beside it, want the one of the client in a session there", got, modern)
	}
	if r.last().Advice != "" {
		t.Errorf("advice: got %q, want none: nothing was refused", r.last().Advice)
	}
}

// TestCallersWhoCannotBeAskedOpenNoSession keeps the price of sessions to those who may
// need one.
func TestCallersWhoCannotBeAskedOpenNoSession(t *testing.T) {
	t.Parallel()
	server := play(t, "python2")
	r := start(t, server.config())
	c := request(t, `{"name":"order"}`, nil)
	c.InSession = true
	r.untilTool("order")
	if result, err := r.tool("order").Call(t.Context(), c); err != nil ||
		result.Text("resultType") != "input_required" {
		t.Errorf("got %s, %v, want the answer of the modern side", result.JSON(), err)
	}
	if got := server.asked("legacy initialize"); got != 0 {
		t.Errorf("sessions: got %d, want none", got)
	}
}

// TestServersWithoutAnOlderSideKeepAsking calls tools of servers whose older side is not
// there or cannot ask, by a client in a session: what worked in 2026-07-28 goes on to
// work there.
func TestServersWithoutAnOlderSideKeepAsking(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes string
		lost    int // calls until the side is known
	}{
		"no sessions":       {"python2-stateless", 0},
		"no older revision": {"modern-only", 0},
		"no place to ask":   {"python2-json", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := play(t, "python2", test.changes)
			r := start(t, server.config())
			r.untilTool("order")
			order := askableCaller{r, "order", true}
			for range test.lost {
				_, err := order.talk(t)
				if answered := new(mcp.Error); !errors.As(err, &answered) ||
					answered.Code != mcp.CodeInvalidRequest {
					t.Errorf("the call that finds out: got %v, want what the server says", err)
				}
			}
			order.must(t, "ordered")
			order.must(t, "ordered")
			if got := server.asked("legacy initialize"); got != 1 {
				t.Errorf("attempts at a session: got %d, want 1", got)
			}
		})
	}
}

// TestQuestionsInTheResultOfASessionArePassedOn has a server ask in the middle of the
// call first, and then in its result, as the Go SDK does for a tool with two rounds. The
// repeat belongs to the modern side.
func TestQuestionsInTheResultOfASessionArePassedOn(t *testing.T) {
	t.Parallel()
	server := play(t, "gosdk-rounds")
	r := start(t, server.config())
	r.untilTool("order")
	askableCaller{r, "order", true}.must(t, "ordered")
	if got := server.asked("modern tools/call order again"); got != 1 {
		t.Errorf("repeats on the modern side: got %d, want 1", got)
	}
}

// TestNoOlderSideByTheOperatorsWord shows what keeps all calls on the modern side.
func TestNoOlderSideByTheOperatorsWord(t *testing.T) {
	t.Parallel()
	named, all := play(t, "python2"), play(t, "python2")
	word, one := named.config(), shared(all.config())
	word.Revision = mcp.Revision2607
	for _, r := range []*rig{start(t, word), start(t, one)} {
		r.untilTool("order")
		askableCaller{r, "order", true}.must(t, "ordered")
	}
	if got := named.asked("legacy initialize") + all.asked("legacy initialize"); got != 0 {
		t.Errorf("sessions: got %d, want none", got)
	}
}

// TestRefusedQuestionNamesTheCure has a client that is in no session call a tool that
// asks in the middle of the call. The refusal has a code, from which the operator learns
// of revision.
func TestRefusedQuestionNamesTheCure(t *testing.T) {
	t.Parallel()
	server := play(t, "python2")
	var log lockedBuffer
	cfg := server.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, cfg)
	r.untilTool("book")
	for range 3 {
		_, err := askableCaller{r, "book", false}.talk(t)
		if answered := new(mcp.Error); !errors.As(err, &answered) || answered.Code != mcp.CodeInvalidRequest {
			t.Fatalf("got %v, want the server's refusal", err)
		}
		r.until("the status advises",
			func() bool { return strings.Contains(r.last().Advice, "revision: 2025-11-25") })
	}
	if got := log.String(); strings.Count(got, "server cannot ask") != 1 ||
		!strings.Contains(got, "revision: 2025-11-25") {
		t.Errorf("log: got %s, want the advice once", got)
	}
	cfg = server.config()
	cfg.Revision = mcp.Revision2511
	cured := start(t, cfg)
	cured.untilTool("book")
	askableCaller{cured, "book", false}.must(t, "booked")
}

// TestRefusedQuestionToNobodyAdvisesNothing has a caller who cannot be asked anything run
// into the same refusal, which no revision would mend.
func TestRefusedQuestionToNobodyAdvisesNothing(t *testing.T) {
	t.Parallel()
	visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
		c := request(t, `{"name":"book"}`, nil)
		c.InSession = true
		var answered *mcp.Error
		if _, err := r.tool("book").Call(t.Context(), c); !errors.As(err, &answered) ||
			answered.Code != mcp.CodeInvalidRequest {
			t.Errorf("got %v, want the server's refusal", err)
		}
		synctest.Wait()
		if got := r.last().Advice; got != "" {
			t.Errorf("advice: got %q, want none", got)
		}
	}, readScript(t, "python2"))
}

// TestShutSideIsTriedAgain has a server learn to serve older revisions while its
// connection lasts.
func TestShutSideIsTriedAgain(t *testing.T) {
	t.Parallel()
	visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
		askableCaller{r, "order", true}.must(t, "ordered")
		o.learn(readScript(t, "python2"))
		time.Sleep(11 * time.Minute)
		askableCaller{r, "book", true}.must(t, "booked")
	}, readScript(t, "python2", "modern-only"))
}

// TestSideThatWasAwayIsTriedSoon has a balancer refuse the first session with the older
// side of a server, or break its connection, which says nothing of whether there is one.
func TestSideThatWasAwayIsTriedSoon(t *testing.T) {
	t.Parallel()
	const broken = 0
	for _, status := range []int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, broken,
	} {
		server := readScript(t, "python2")
		var back atomic.Bool
		visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
			askableCaller{r, "order", true}.must(t, "ordered") // on the modern side
			back.Store(true)
			time.Sleep(2 * time.Minute)
			askableCaller{r, "book", true}.must(t, "booked")
		}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if !back.Load() && bytes.Contains(body, []byte(`"initialize"`)) {
				if status == broken {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
				return
			}
			server.ServeHTTP(w, r)
		}))
	}
}

// TestUserWhomAServerRefusesCostsOthersNoQuestions has one of two users call whom the
// server does not let in.
func TestUserWhomAServerRefusesCostsOthersNoQuestions(t *testing.T) {
	t.Parallel()
	k := &knowing{next: readScript(t, "python2"), refuse: func(subject string) bool {
		return strings.HasSuffix(subject, "#mallory")
	}}
	r := start(t, k.listen(t, credential.NewSigner(time.Now), ""))
	r.untilTool("book")
	call := person{"a", "mallory", anyQuestion, ""}.call(t, "x", "", "", nil)
	call.InSession = true
	if _, err := r.tool("book").Call(t.Context(), call); credential.FaultOf(err) != credential.FaultRefused {
		t.Errorf("a user who is refused: got %v, want that", err)
	}
	askableCaller{r, "book", true}.must(t, "booked")
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex // guards the field below
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
