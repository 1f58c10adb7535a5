package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// The tests in this file run two processes that share a real Redis, before a server of
// 2025-11-25 whose tool asks twice in the middle of a call. Its result begins with how
// often the tool was called so far, so that nothing can run twice unseen.

// processes are two of them.
type processes struct {
	a, b  *recorder
	calls atomic.Int64 // that reached the server
}

func startProcesses(t *testing.T) *processes {
	t.Helper()
	return startBuilds(t, "")
}

// startBuilds is startProcesses where the second process is of that build of the program.
func startBuilds(t *testing.T, second string) *processes {
	t.Helper()
	p := &processes{}
	server := sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "twice"}, func(ctx context.Context, req *sdk.CallToolRequest,
		_ map[string]any,
	) (*sdk.CallToolResult, any, error) {
		serial := p.calls.Add(1)
		text := fmt.Sprintf("call %d:", serial)
		for _, question := range []string{"first", "second"} {
			heard, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: question})
			if err != nil {
				return nil, nil, fmt.Errorf("elicit: %w", err)
			}
			text += fmt.Sprint(" ", heard.Content["is"])
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "plain"}, func(context.Context, *sdk.CallToolRequest,
		map[string]any,
	) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("call %d",
			p.calls.Add(1))}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "few"}, func(context.Context, *sdk.CallToolRequest,
		map[string]any,
	) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "one of few"}}}, nil, nil
	})
	upstream := httptest.NewServer(
		sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() { upstream.CloseClientConnections(); upstream.Close() })
	redis := redistest.Start(t)
	config := func(listen, operator string) string {
		text := fmt.Sprintf(keyed, listen, operator, "replicas: 2\nredis: {url: \"redis://"+redis.Address+
			"\", patience: 5s}\n")
		text = strings.Replace(text, "servers: [toolbox]", "servers: [toolbox, asker]", 1)
		text = strings.Replace(text, "limits: {", "limits: {tools: {asker__few: {rate: 0.001, burst: 10}}, ",
			1)
		return text + "  asker: {url: \"" + upstream.URL +
			"\", revision: \"2025-11-25\", private_addresses: true}\n"
	}
	p.a, p.b = startReplica(t, config), startBuild(t, second, config)
	for _, r := range []*recorder{p.a, p.b} {
		eventually(t, "the server's tools are there",
			func() bool { return strings.Contains(r.log(), `"server up","server":"asker"`) })
	}
	return p
}

const askedMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// call calls a tool as a client of 2026-07-28; more are members of the params.
func (r *recorder) call(tool, more string, headers ...string) outcome {
	return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{},`+
		more+askedMeta+`}}`,
		append([]string{
			mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/call",
			mcp.HeaderName, tool,
		}, headers...)...)
}

var (
	stateOf    = regexp.MustCompile(`"requestState":"([^"]+)"`)
	requestKey = regexp.MustCompile(`"inputRequests":\{"([^"]+)"`)
)

// repeat returns the members of params that answer what an outcome asks.
func repeat(t *testing.T, asked outcome, is string) string {
	t.Helper()
	state, key := stateOf.FindStringSubmatch(asked.body), requestKey.FindStringSubmatch(asked.body)
	if state == nil || key == nil {
		t.Fatalf("got %v, want a question", asked)
	}
	return `"inputResponses":{"` + key[1] + `":{"action":"accept","content":{"is":"` + is +
		`"}}},"requestState":"` + state[1] + `",`
}

func wantText(t *testing.T, what string, got outcome, text string) {
	t.Helper()
	if !strings.Contains(got.body, text) {
		t.Errorf("%s: got %v, want %q in it", what, got, text)
	}
}

// TestParkedCallGoesOnInAnotherProcess answers each question of a call at another process
// than the one before, and then kills the one in which a call is parked.
func TestParkedCallGoesOnInAnotherProcess(t *testing.T) {
	t.Parallel()
	p := startProcesses(t)
	for i, order := range [][3]*recorder{{p.a, p.b, p.a}, {p.b, p.a, p.b}, {p.a, p.b, p.b}} {
		asked := order[0].call("asker__twice", "")
		asked = order[1].call("asker__twice", repeat(t, asked, "one"))
		got := order[2].call("asker__twice", repeat(t, asked, "two"))
		wantText(t, "the result", got, fmt.Sprintf("call %d: one two", i+1))
	}
	again := repeat(t, p.a.call("asker__twice", ""), "one")
	if err := p.a.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.a.ended
	eventually(t, "the call is lost with its process", func() bool {
		got := p.b.call("asker__twice", again)
		if !strings.Contains(got.body, "DB-REPLICA-LOST") && !strings.Contains(got.body, "DB-REPLICAS") {
			t.Fatalf("got %v, want that the call is lost", got)
		}
		return strings.Contains(got.body, "DB-REPLICA-LOST")
	})
	if calls := p.calls.Load(); calls != 4 {
		t.Errorf("the server was called %d times, want 4", calls)
	}
}

// TestKeysRotateInTheMiddle takes two processes through a rotation of keys while a call
// is parked, a stream is to be resumed, a question waits and an answer is kept. In the
// middle of it one process seals with the new key and the other with the old one, and
// word goes both ways. Nothing is lost before the old key is gone; what it has sealed is
// then refused as if it were forged, and nothing runs again.
func TestKeysRotateInTheMiddle(t *testing.T) {
	t.Parallel()
	p := startProcesses(t)
	both := func(fills ...byte) { p.a.rotate(t, fills...); p.b.rotate(t, fills...) }
	late := repeat(t, p.a.call("asker__twice", ""), "never")
	asked := p.a.call("asker__twice", "")
	kept := p.a.call("asker__plain", "", "Idempotency-Key", `"k"`)
	wantText(t, "a call with a key", kept, "call 3")
	session := p.a.askable(t)
	ctx, leave := context.WithCancel(t.Context())
	lines := p.a.reads(ctx, t, http.MethodPost,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asker__twice","arguments":{}}}`,
		mcp.HeaderSessionID, session)
	event := lineWith(t, lines, "id: ")
	firstQuestion := lineWith(t, lines, `"elicitation/create"`)
	leave()

	both(1, 2)
	p.a.rotate(t, 2, 1) // b seals with the old key still
	asked = p.b.call("asker__twice", repeat(t, asked, "one"))
	lines = p.b.reads(t.Context(), t, http.MethodGet, "", mcp.HeaderSessionID, session, mcp.HeaderLastEventID,
		strings.TrimPrefix(event, "id: "))
	if again := lineWith(t, lines, `"elicitation/create"`); again != firstQuestion {
		t.Errorf("resumed: got %s, want %s", again, firstQuestion)
	}
	p.b.answer(t, session, firstQuestion, "uno")
	secondQuestion := lineWith(t, lines, `"elicitation/create"`)
	p.b.rotate(t, 2, 1)
	p.b.answer(t, session, secondQuestion, "due")
	if got := lineWith(t, lines, `"id":7`); !strings.Contains(got, "call 4: uno due") {
		t.Errorf("the stream ends with %s, want the result", got)
	}
	wantText(t, "the call that was parked", p.b.call("asker__twice", repeat(t, asked, "two")),
		"call 2: one two")
	wantText(t, "the answer that was kept", p.b.call("asker__plain", "", "Idempotency-Key", `"k"`), "call 3")

	both(2)
	forged := regexp.MustCompile(`"requestState":"....`).ReplaceAllString(late, `"requestState":"AAAA`)
	code := regexp.MustCompile(`"code":"DB-[A-Z-]+"`)
	for _, r := range []*recorder{p.a, p.b} {
		got, want := code.FindString(r.call("asker__twice", late).body),
			code.FindString(r.call("asker__twice", forged).body)
		if got == "" || got != want {
			t.Errorf("a call parked under the key that is gone: got %s, want %s as for a forged one", got,
				want)
		}
		if got := r.ping(session); got.status != http.StatusNotFound {
			t.Errorf("a session of it: got %v, want 404", got)
		}
		if got := r.call("asker__plain", "", "Idempotency-Key", `"k"`); got.status == http.StatusOK {
			t.Errorf("an answer of it: got %v, want a refusal", got)
		}
	}
	if calls := p.calls.Load(); calls != 4 {
		t.Errorf("the server was called %d times, want 4", calls)
	}
}

// askable opens a session of 2025-11-25 whose client can be asked.
func (r *recorder) askable(t *testing.T) string {
	t.Helper()
	opened := r.post(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"test","version":"1"}}}`)
	if opened.status != http.StatusOK {
		t.Fatalf("initialize: %v", opened)
	}
	return opened.body
}

// reads opens an event stream, of which the lines come until ctx ends.
func (r *recorder) reads(ctx context.Context, t *testing.T, method, body string,
	headers ...string,
) *bufio.Scanner {
	t.Helper()
	request, err := r.request(ctx, method, r.url, body, headers)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return bufio.NewScanner(response.Body)
}

// lineWith returns the next line that has a text in it.
func lineWith(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	t.Fatalf("the stream ends without %s: %v", text, lines.Err())
	return ""
}

// answer answers a question that stands in a line of a stream.
func (r *recorder) answer(t *testing.T, session, question, is string) {
	t.Helper()
	id := regexp.MustCompile(`"id":"(q[0-9a-f]+)"`).FindStringSubmatch(question)
	if id == nil {
		t.Fatalf("no question: %s", question)
	}
	got := r.post(`{"jsonrpc":"2.0","id":"`+id[1]+`","result":{"action":"accept","content":{"is":"`+is+`"}}}`,
		mcp.HeaderSessionID, session)
	if got.status != http.StatusAccepted {
		t.Errorf("the answer: got %v, want 202", got)
	}
}
