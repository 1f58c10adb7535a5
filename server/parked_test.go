package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// askingServer is a server of the official SDK, spoken to in 2025-11-25, whose tools ask
// in the middle of a call.
type askingServer struct {
	url   string
	begun chan struct{} // gets a value when a call of hang, stream or wait has its answer
	ended chan struct{} // gets a value when a call of hang or stream was cancelled
	goOn  chan struct{} // lets a call of wait end
}

func newAskingServer(t *testing.T) *askingServer {
	t.Helper()
	a := &askingServer{begun: make(chan struct{}, 1), ended: make(chan struct{}, 1), goOn: make(chan struct{}, 1)}
	server := sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "all"}, askAll)
	hang := func(ctx context.Context, req *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, any, error) {
		if _, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?"}); err != nil {
			return nil, nil, fmt.Errorf("elicit: %w", err)
		}
		if req.Params.Name == "stream" {
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: 1,
			}); err != nil {
				return nil, nil, fmt.Errorf("progress: %w", err)
			}
		}
		a.begun <- struct{}{}
		<-ctx.Done()
		a.ended <- struct{}{}
		return nil, nil, ctx.Err()
	}
	sdk.AddTool(server, &sdk.Tool{Name: "hang"}, hang)
	sdk.AddTool(server, &sdk.Tool{Name: "stream"}, hang)
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(ctx context.Context, req *sdk.CallToolRequest,
		_ map[string]any,
	) (*sdk.CallToolResult, any, error) {
		if _, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?"}); err != nil {
			return nil, nil, fmt.Errorf("elicit: %w", err)
		}
		a.begun <- struct{}{}
		select {
		case <-a.goOn:
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "waited"}}}, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	})
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		nil))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	a.url = s.URL
	return a
}

// askAll asks for all there is, one after the other, and tells of its progress in the
// second round.
func askAll(ctx context.Context, req *sdk.CallToolRequest,
	_ map[string]any,
) (*sdk.CallToolResult, any, error) {
	elicited, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?"})
	if err != nil {
		return nil, nil, fmt.Errorf("elicit: %w", err)
	}
	for i := range 3 {
		if err = req.Session.NotifyProgress(ctx,
			&sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(),
				Progress:      float64(i + 1),
			}); err != nil {
			return nil, nil, fmt.Errorf("progress: %w", err)
		}
	}
	sampled, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5, Messages: []*sdk.SamplingMessage{ //nolint:staticcheck // servers of the legacy era do it
		{Role: "user", Content: &sdk.TextContent{Text: "say"}},
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("sample: %w", err)
	}
	roots, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // servers of the legacy era do it
	if err != nil {
		return nil, nil, fmt.Errorf("roots: %w", err)
	}
	said := sampled.Content.(*sdk.TextContent).Text
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{
		Text: fmt.Sprint(elicited.Action, " ", elicited.Content["is"], " ", said, " ", roots.Roots[0].URI),
	}}}, nil, nil
}

// worldPair are two worlds in front of one askingServer, which share keys and can send
// each other word.
type worldPair struct {
	a, b    *world
	records [2]string // files of the audit
	asker   *askingServer
	hub     replicatest.Hub
	memberA *replicatest.Member // nil over Redis
}

// newWorldPair opens them. A nil server means that they do not need Redis to talk.
func newWorldPair(t *testing.T, server *redistest.Server) *worldPair {
	t.Helper()
	tw := &worldPair{asker: newAskingServer(t)}
	ring := seal.RandomRing()
	open := func(number int) *world {
		others, run := tw.join(t, server, ring)
		tw.records[number] = filepath.Join(t.TempDir(), "audit.jsonl")
		record, err := audit.Open(audit.Config{File: tw.records[number]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = record.Close() }) // what it lost would show in the test
		w := newWorld(t, func(w *world) {
			w.audit, w.config.Seal, w.config.Others = record, ring, others
			w.tenants[0].Servers = append(w.tenants[0].Servers, "asker")
		})
		run()
		tw.follow(t, w)
		return w
	}
	tw.a, tw.b = open(0), open(1)
	return tw
}

// join returns what one of the twins knows the other by, and what makes it live once
// everybody who takes word has said so.
func (tw *worldPair) join(t *testing.T, server *redistest.Server,
	ring *seal.Ring,
) (others replica.Others, run func()) {
	t.Helper()
	if server == nil {
		member := tw.hub.Join()
		if tw.memberA == nil {
			tw.memberA = member
		}
		return member, func() {}
	}
	mail := newGroup(t, replica.GroupConfig{
		Store: server.Store(t), Seal: ring,
		Logger: slog.New(slog.DiscardHandler),
	})
	read := make(chan struct{}, 1)
	mail.OnReturn(func() {
		select {
		case read <- struct{}{}:
		default:
		}
	})
	return mail, func() { runUntilEnd(t, mail.Run); <-read }
}

// follow puts the inquirer behind a world, and waits until its tools are there.
func (tw *worldPair) follow(t *testing.T, w *world) {
	t.Helper()
	client := dial.Client(dial.Config{PrivateAddresses: true})
	t.Cleanup(client.CloseIdleConnections)
	up := upstream.New(upstream.Config{
		Name: "asker", Prefix: "asker", URL: tw.asker.url, Client: client, Revision: mcp.Revision2511,
		Version: "test",
		Logger:  slog.New(slog.DiscardHandler), Status: func(upstream.Status) {},
		Count: func(upstream.Anomaly,
			int) {
		},
	}, w.registry)
	runUntilEnd(t, up.Run)
	eventually(
		t, func() bool { return strings.Contains(w.do(t, modernList("")).Body.String(), "asker__hang") })
}

// runUntilEnd runs f until the test ends.
func runUntilEnd(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); over.Wait() })
}

// asks is a call of a client of 2026-07-28 that can be asked everything; more are members
// of its params.
func asks(tool, more string) message {
	m := modernCall(tool)
	m.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` +
		more +
		strings.Replace(modernMeta, `clientCapabilities":{}`,
			`clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}}`, 1) + `}}`
	return m
}

// round sends one round of a call and returns what came before its answer, and the
// answer.
func round(t *testing.T, base string, m message) (before string, answer mcp.Object) {
	t.Helper()
	got := call(t.Context(), t, base, m)
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(body))
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		before, text = text[:i], text[i+len("data: "):]
	}
	answer, err = mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return before, answer
}

// roundMeanwhile sends one round of a call, whose answer comes over the channel.
func roundMeanwhile(t *testing.T, base string, m message) <-chan mcp.Object {
	t.Helper()
	got := make(chan mcp.Object, 1)
	go func() {
		defer close(got) // also where the round fails
		_, answer := round(t, base, m)
		got <- answer
	}()
	return got
}

// await returns what comes next. When nothing does, the test fails, and does not wait for
// the end of all tests.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case one := <-from:
		return one
	case <-time.After(2 * time.Minute):
		t.Fatalf("not within 2 minutes: %s", what)
		panic("unreachable")
	}
}

// repeatOf returns the members of params with which a call is repeated after an answer
// that asks one question.
func repeatOf(t *testing.T, answer mcp.Object, method, response string) string {
	t.Helper()
	result := answer.Object("result")
	for key, raw := range result.Object("inputRequests").Members {
		if question, _ := mcp.ObjectOf(raw); question.Text("method") == method {
			return `"inputResponses":{"` + key + `":` + response + `},"requestState":"` +
				result.Text("requestState") + `",`
		}
	}
	t.Fatalf("got %s, want %s", answer.JSON(), method)
	return ""
}

const accepted = `{"action":"accept","content":{"is":"me"}}`

// TestParkedCallGoesOnAtAnyReplica asks a client of 2026-07-28 for all there is, and each
// of its repeats comes to another replica than the one before.
func TestParkedCallGoesOnAtAnyReplica(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ over, path string }{
		{"a hub", "/mcp"},
		{"redis", "/mcp"},
		{"redis", "/t/acme/mcp"},
	} {
		t.Run(test.over+test.path, func(t *testing.T) {
			t.Parallel()
			var server *redistest.Server
			if test.over == "redis" {
				server = redistest.Start(t)
			}
			asks := func(tool, more string) message {
				m := asks(tool, more)
				m.path = test.path
				return m
			}
			tw := newWorldPair(t, server)
			baseA, baseB := tw.a.serve(t), tw.b.serve(t)
			_, answer := round(t, baseA, asks("asker__all", ""))
			before, answer := round(t, baseB,
				asks("asker__all", repeatOf(t, answer, "elicitation/create", accepted)))
			if strings.Count(before, "notifications/progress") != 3 ||
				strings.Index(before, `"progress":1`) > strings.Index(before, `"progress":3`) {
				t.Errorf("before the second round's answer came %q, want progress, in order", before)
			}
			_, answer = round(t, baseA, asks("asker__all", repeatOf(t, answer, "sampling/createMessage",
				`{"role":"assistant","model":"m","content":{"type":"text","text":"said"}}`)))
			_, answer = round(t, baseB,
				asks("asker__all", repeatOf(t, answer, "roots/list",
					`{"roots":[{"uri":"file:///r","name":"r"}]}`)))
			if got := string(answer.JSON()); !strings.Contains(got, "accept me said file:///r") {
				t.Errorf("the result: got %s", got)
			}
			home, elsewhere := tw.recorded(t, 0, "asker__all"), tw.recorded(t, 1, "asker__all")
			if len(home) != 4 || len(elsewhere) != 0 {
				t.Errorf("records at home %q, elsewhere %q; want one for each round, at home", home,
					elsewhere)
			}
		})
	}
}

// TestParkedCallOutlivesRedis loses Redis, with all that is in it, while a call is
// parked: its repeat at another replica goes on with it.
func TestParkedCallOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	tw := newWorldPair(t, server)
	baseA, baseB := tw.a.serve(t), tw.b.serve(t)
	_, answer := round(t, baseA, asks("asker__all", ""))
	again := asks("asker__all", repeatOf(t, answer, "elicitation/create", accepted))
	a, b := tw.a.config.Others, tw.b.config.Others
	eventually(t, func() bool { return a.IsThere(b.Self()) && b.IsThere(a.Self()) })
	server.Stop()
	if _, answer = round(t, baseB, again); !strings.Contains(string(answer.JSON()),
		"sampling/createMessage") {
		t.Errorf("without redis: got %s, want the next question", answer.JSON())
	}
}

// recorded returns the records of a twin that are about a tool.
func (tw *worldPair) recorded(t *testing.T, number int, tool string) []string {
	t.Helper()
	data, err := os.ReadFile(tw.records[number])
	if err != nil {
		t.Fatal(err)
	}
	var about []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, `"item":"`+tool+`"`) {
			about = append(about, line)
		}
	}
	return about
}

// TestClientOfAParkedCallLeavesElsewhere shows that the server behind is told when the
// client leaves the second round, at another replica, and that the home alone has it on
// record. A client that closes its own direction alone reads that its call was cancelled.
func TestClientOfAParkedCallLeavesElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		reads bool
	}{
		"it closes both directions":        {"asker__hang", false},
		"it closes its own":                {"asker__hang", true},
		"it closes its own after progress": {"asker__stream", true},
	} {
		tool, reads := c.tool, c.reads
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tw := newWorldPair(t, nil)
			baseA, baseB := tw.a.serve(t), tw.b.serve(t)
			_, answer := round(t, baseA, asks(tool, ""))
			again := asks(tool, repeatOf(t, answer, "elicitation/create", accepted))
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(baseB, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := again.request(t.Context(), baseB).Write(c); err != nil {
				t.Fatal(err)
			}
			await(t, "the call has its answer", tw.asker.begun)
			if reads {
				in := bufio.NewReader(c)
				if tool == "asker__stream" {
					_, err := in.Peek(1) // the stream is open
					if err != nil {
						t.Fatal(err)
					}
				}
				c.(*net.TCPConn).CloseWrite()
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "DB-CANCELLED") {
					t.Errorf("got %d %q, %v, want that the call was cancelled", resp.StatusCode, body, err)
				}
			} else {
				c.Close()
			}
			await(t, "the server behind is told", tw.asker.ended)
			eventually(t, func() bool {
				records := tw.recorded(t, 0, tool)
				return len(records) == 2 && strings.Contains(records[1], `"outcome":"cancelled"`)
			})
			if records, err := os.ReadFile(tw.records[1]); err != nil || len(records) > 0 {
				t.Errorf("where the client was: got %s on record, %v, want nothing", records, err)
			}
		})
	}
}

// TestTwoRepeatsOfAParkedCall sends the same repeat to two replicas at once: one goes on
// with the call.
func TestTwoRepeatsOfAParkedCall(t *testing.T) {
	t.Parallel()
	tw := newWorldPair(t, nil)
	bases := []string{tw.a.serve(t), tw.b.serve(t)}
	_, answer := round(t, bases[0], asks("asker__all", ""))
	again := asks("asker__all", repeatOf(t, answer, "elicitation/create", accepted))
	got := make(chan string, len(bases))
	for _, base := range bases {
		go func() {
			resp, err := http.DefaultClient.Do(again.request(t.Context(), base))
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			got <- fmt.Sprint(string(body), err)
		}()
	}
	all := <-got + <-got
	if strings.Count(all, "sampling/createMessage") != 1 ||
		strings.Count(all, "does not wait for an answer") != 1 {
		t.Errorf("got %s, want one to go on and one refused", all)
	}
}

// TestParkedCallWhoseReplicaIsGone shows that a call is not made again when the replica
// that kept it has died.
func TestParkedCallWhoseReplicaIsGone(t *testing.T) {
	t.Parallel()
	tw := newWorldPair(t, nil)
	baseA, baseB := tw.a.serve(t), tw.b.serve(t)
	_, parked := round(t, baseA, asks("asker__all", ""))
	_, attached := round(t, baseA, asks("asker__hang", ""))
	got := roundMeanwhile(t, baseB,
		asks("asker__hang", repeatOf(t, attached, "elicitation/create", accepted)))
	await(t, "the call has its answer", tw.asker.begun)
	tw.hub.Leave(tw.memberA)
	for _, answer := range []mcp.Object{
		await(t, "the repeat is answered", got),
		second(round(t, baseB, asks("asker__all", repeatOf(t, parked, "elicitation/create", accepted)))),
	} {
		if code := answer.Object("error").Object("data").Text("code"); code != "DB-REPLICA-LOST" {
			t.Errorf("got %s, want DB-REPLICA-LOST", answer.JSON())
		}
	}
}

// TestResultOfALostRepeatIsKept breaks the link while the repeat of a parked call, which
// was forwarded, runs: with a key its result is asked for again, by the replica where it
// came as long as its client waits, and then by the client.
func TestResultOfALostRepeatIsKept(t *testing.T) {
	t.Parallel()
	for name, lasts := range map[string]bool{"for a moment": false, "until the client is told": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tw := newWorldPair(t, nil)
			baseA, baseB := tw.a.serve(t), tw.b.serve(t)
			_, parked := round(t, baseA, asks("asker__wait", ""))
			again := asks("asker__wait", repeatOf(t, parked, "elicitation/create", accepted)).
				with("Idempotency-Key", "k")
			got := roundMeanwhile(t, baseB, again)
			await(t, "the call has its answer", tw.asker.begun)
			mend := tw.hub.Cut(tw.memberA)
			if lasts {
				answer := await(t, "the repeat is answered", got)
				if code := answer.Object("error").Object("data").Text("code"); code != "DB-REPLICA-LOST" {
					t.Errorf("got %s, want that it may have taken effect", answer.JSON())
				}
			}
			mend()
			tw.asker.goOn <- struct{}{}
			if !lasts {
				if answer := await(t, "the repeat is answered", got); !strings.Contains(string(answer.JSON()), "waited") {
					t.Errorf("the client that waited got %s, want the result", answer.JSON())
				}
			}
			for _, base := range []string{baseB, baseA} {
				if _, answer := round(t, base, again); !strings.Contains(string(answer.JSON()), "waited") {
					t.Errorf("asked for again: got %s, want the result", answer.JSON())
				}
			}
		})
	}
}

// TestAHalfClosedRepeatWithAKeyIsNotToldThatItWasCancelled repeats a parked call at
// another replica, with a key, and closes one direction of the connection: the call goes
// on.
func TestAHalfClosedRepeatWithAKeyIsNotToldThatItWasCancelled(t *testing.T) {
	t.Parallel()
	tw := newWorldPair(t, nil)
	baseA, baseB := tw.a.serve(t), tw.b.serve(t)
	_, parked := round(t, baseA, asks("asker__wait", ""))
	again := asks("asker__wait", repeatOf(t, parked, "elicitation/create", accepted)).
		with("Idempotency-Key", "k")
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(baseB, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := again.request(t.Context(), baseB).Write(c); err != nil {
		t.Fatal(err)
	}
	await(t, "the call has its answer", tw.asker.begun)
	c.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "DB-REPLICA-LOST") {
		t.Errorf("got %q, %v, want that it may have taken effect", body, err)
	}
	tw.asker.goOn <- struct{}{}
	if _, answer := round(t, baseA, again); !strings.Contains(string(answer.JSON()), "waited") {
		t.Errorf("asked for again: got %s, want the result", answer.JSON())
	}
}

// TestLostRepeatWithoutAKey breaks the link while the repeat of a parked call, which was
// forwarded, runs without a key: it may have taken effect, and is cancelled where it
// runs. Whoever asks again is not told that nothing happened, and nothing is done again.
func TestLostRepeatWithoutAKey(t *testing.T) {
	t.Parallel()
	tw := newWorldPair(t, nil)
	baseA, baseB := tw.a.serve(t), tw.b.serve(t)
	_, parked := round(t, baseA, asks("asker__hang", ""))
	again := asks("asker__hang", repeatOf(t, parked, "elicitation/create", accepted))
	got := roundMeanwhile(t, baseB, again)
	await(t, "the call has its answer", tw.asker.begun)
	mend := tw.hub.Cut(tw.memberA)
	answer := await(t, "the repeat is answered", got)
	if code := answer.Object("error").Object("data").Text("code"); code != "DB-REPLICA-LOST" {
		t.Errorf("got %s, want that it may have taken effect", answer.JSON())
	}
	await(t, "the server behind is told", tw.asker.ended)
	mend()
	for _, base := range []string{baseB, baseA} {
		_, answer := round(t, base, again)
		if code := answer.Object("error").Object("data").Text("code"); code != "DB-UPSTREAM-ERROR" {
			t.Errorf("asked for again: got %s, want that the call waits no more", answer.JSON())
		}
	}
}

func second(_ string, answer mcp.Object) mcp.Object { return answer }

// taskAtAnotherReplica returns a replica, the id of a session at another one, and that of
// a task which was made there and asks its client.
func taskAtAnotherReplica(t *testing.T) (b *world, id, task string) {
	t.Helper()
	hub, ring, log, records := &replicatest.Hub{}, seal.RandomRing(),
		eventlog.NewMemory(eventlog.MemoryConfig{}), &primarytest.Store{}
	open := func() *world {
		return newTasksWorld(t, func(w *world) {
			w.config.Seal, w.config.Log, w.config.Entries, w.config.Others = ring, log, records, hub.Join()
		})
	}
	a, b := open(), open()
	id = a.openAsking(t, mcp.Revision2511)
	made := a.do(t, inSession("POST", id,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asked","arguments":{},"task":{"ttl":5}}}`)).Body.String()
	_, rest, _ := strings.Cut(made, `"taskId":"`)
	task, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("got %s, want a task", made)
	}
	return b, id, task
}

// TestTaskOfAnEndedSessionIsNotServed ends a session at its primary while a request about
// a task waits in it at another replica.
func TestTaskOfAnEndedSessionIsNotServed(t *testing.T) {
	t.Parallel()
	b, _, task := taskAtAnotherReplica(t)
	id := b.openAsking(t, mcp.Revision2511)
	about := func(method string) message {
		return inSession("POST", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"%s","params":{"taskId":"%s"}}`,
			method, task))
	}
	waits := call(t.Context(), t, b.serve(t), about(mcp.MethodTasksResult))
	for line := "first"; !questionID.MatchString(line); line = waits.line(t) {
		if line == "" {
			t.Fatal("no question came")
		}
	}
	if got := b.do(t, inSession("DELETE", id, "")); got.Code != http.StatusNoContent {
		t.Fatalf("DELETE: got %d %s", got.Code, got.Body)
	}
	if got := b.do(t, about(mcp.MethodTasksGet)); got.Code != http.StatusNotFound {
		t.Errorf("tasks/get after it: got %d %s", got.Code, got.Body)
	}
}

// TestTaskOfASessionAtAnotherReplica waits at one replica for the result of a task that
// another one made, and is asked something meanwhile: in the session that made it, and in
// one of the same owner that the other replica has never heard of.
func TestTaskOfASessionAtAnotherReplica(t *testing.T) {
	t.Parallel()
	b, id, task := taskAtAnotherReplica(t)
	baseB := b.serve(t)
	for _, id := range []string{id, b.openAsking(t, mcp.Revision2511)} {
		about := func(number int, method string) message {
			return inSession("POST", id,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"taskId":"%s"}}`, number, method,
					task))
		}
		if got := b.do(t, about(2, mcp.MethodTasksGet)).Body.String(); !strings.Contains(got,
			`"status":"working"`) || !strings.Contains(got, task) {
			t.Errorf("tasks/get: got %s", got)
		}
		stream := call(t.Context(), t, baseB, about(3, mcp.MethodTasksResult))
		var question []string
		for question == nil {
			line := stream.line(t)
			if line == "" {
				t.Fatal("no question came")
			}
			question = questionID.FindStringSubmatch(line)
		}
		b.do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":"`+question[1]+`","result":{"roots":[]}}`))
		for line := stream.line(t); !strings.Contains(line, `"done"`); line = stream.line(t) {
			if line == "" {
				t.Fatal("no result came")
			}
		}
	}
}
