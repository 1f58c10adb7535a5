package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// patience is for what must happen on a machine whose processors are busy.
const patience = time.Minute

func start(t *testing.T) *upstream.Server {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s := upstream.Start(address)
	t.Cleanup(s.Close)
	return s
}

// client speaks to one side of a server.
type client struct {
	t       *testing.T
	url     string
	modern  bool
	session string
	http    *http.Client
	ids     int
}

// sides returns a client of each era.
func sides(t *testing.T, s *upstream.Server) map[string]*client {
	t.Helper()
	all := map[string]*client{
		"modern": {t: t, url: "http://" + s.Address + "/mcp", modern: true},
		"legacy": {t: t, url: "http://" + s.Address + "/legacy"},
	}
	for _, c := range all {
		c.http = &http.Client{Transport: &http.Transport{}}
		t.Cleanup(c.http.CloseIdleConnections)
	}
	response := all["legacy"].post(t.Context(),
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	if all["legacy"].session = response.Header.Get("Mcp-Session-Id"); all["legacy"].session == "" {
		t.Fatal("there is no session")
	}
	response.Body.Close()
	return all
}

// try sends a message.
func (c *client) try(ctx context.Context, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	return c.http.Do(r)
}

// post is try for a message that must arrive.
func (c *client) post(ctx context.Context, body string) *http.Response {
	c.t.Helper()
	response, err := c.try(ctx, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response
}

// body returns a request; params are members without braces, with a comma behind them.
func (c *client) body(method, params string) string {
	c.ids++
	meta := `"progressToken":"p"`
	if c.modern {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{%s}}}`, c.ids, method,
		params, meta)
}

func (c *client) tool(name string, nonce ledger.Nonce, more string) string {
	return c.body("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"nonce":"%s","tenant":"red"%s},`, name,
		nonce, more))
}

// messages returns what was answered, until the end of the answer or a message that has
// stop in it.
func messages(t *testing.T, response *http.Response, stop string) (all []string) {
	t.Helper()
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != "text/event-stream" {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return []string{string(body)}
	}
	for e, err := range sse.Read(response.Body, 1<<20) {
		if err != nil {
			t.Error(err)
			break
		}
		all = append(all, string(bytes.Clone(e.Data)))
		if stop != "" && strings.Contains(string(e.Data), stop) {
			break
		}
	}
	return all
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a claim is true.
func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	for ctx := within(t); !claim(); {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestEachExecutionHasASerialAndSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t)
	book := ledger.New()
	serials := map[uint64]bool{}
	for era, c := range sides(t, s) {
		for _, tool := range []string{"touch", "slow", "big"} {
			n := book.Ask(ledger.Question{})
			got := messages(t, c.post(within(t), c.tool(tool, n, `,"ms":1,"size":100`)), "")
			executions := s.Executions()
			last := executions[len(executions)-1]
			if want := fmt.Sprintf("serial %d nonce %s tenant red", last.Serial, n); len(got) != 1 ||
				!strings.Contains(got[0], want) {
				t.Errorf("%s %s: got %q, want %q in it", era, tool, got, want)
			}
			if last.Nonce != n || last.Tool != tool || last.Era != era || last.Tenant != "red" ||
				last.Ended.Before(last.At) || last.Cancelled || serials[last.Serial] {
				t.Errorf("%s %s: got %+v", era, tool, last)
			}
			serials[last.Serial] = true
		}
	}
	if len(s.Executions()) != 6 {
		t.Errorf("got %d executions, want 6", len(s.Executions()))
	}
}

func TestProgressIsNumbered(t *testing.T) {
	t.Parallel()
	n := ledger.New().Ask(ledger.Question{})
	for era, c := range sides(t, start(t)) {
		got := messages(t, c.post(within(t), c.tool("progress", n, `,"n":3,"ms":1`)), "")
		for i := range min(3, len(got)) {
			if want := fmt.Sprintf(`"progressToken":"p","progress":%d,"total":3,"message":"%s"`, i+1,
				n); !strings.Contains(got[i], want) {
				t.Errorf("%s: got %s, want %s in it", era, got[i], want)
			}
		}
		if len(got) != 4 || !strings.Contains(got[3], "serial") {
			t.Errorf("%s: got %q, want three notifications and the answer", era, got)
		}
	}
}

func TestAskIsExecutedOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	s := start(t)
	book := ledger.New()
	all := sides(t, s)

	n, c := book.Ask(ledger.Question{}), all["modern"]
	got := messages(t, c.post(within(t), c.tool("ask", n, "")), "")
	if len(got) != 1 || !strings.Contains(got[0], "input_required") ||
		!strings.Contains(got[0], n.String()) || len(s.Executions()) != 0 {
		t.Fatalf("got %q and %d executions, want a question", got, len(s.Executions()))
	}
	repeat := strings.Replace(c.tool("ask", n, ""), `"arguments"`,
		`"inputResponses":{"sure":{"action":"accept"}},"arguments"`, 1)
	if got = messages(t, c.post(within(t), repeat), ""); !strings.Contains(got[0], "serial") ||
		len(s.Executions()) != 1 {
		t.Errorf("got %q and %d executions, want one", got, len(s.Executions()))
	}

	n, c = book.Ask(ledger.Question{}), all["legacy"]
	response := c.post(within(t), c.tool("ask", n, ""))
	for e, err := range sse.Read(response.Body, 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		if data := string(e.Data); strings.Contains(data, "elicitation/create") {
			if !strings.Contains(data, n.String()) || len(s.Executions()) != 1 {
				t.Errorf("got %s and %d executions, want a question about the call and no further one", data,
					len(s.Executions()))
			}
			c.post(
				within(
					t), `{"jsonrpc":"2.0","id":"q1","result":{"action":"accept","content":{"sure":true}}}`).Body.Close()
		} else if !strings.Contains(data, "serial") {
			t.Errorf("got %s, want the answer", data)
		}
	}
	response.Body.Close()
	if len(s.Executions()) != 2 {
		t.Errorf("got %d executions, want 2", len(s.Executions()))
	}
}

func TestCancelledCallsAreKnown(t *testing.T) {
	t.Parallel()
	s := start(t)
	book := ledger.New()
	cancelled := func(n ledger.Nonce) bool {
		for _, x := range s.Executions() {
			if x.Nonce == n {
				return x.Cancelled
			}
		}
		return false
	}
	begun := func(n int) func() bool { return func() bool { return len(s.Executions()) == n } }
	all := sides(t, s)

	n, c := book.Ask(ledger.Question{}), all["modern"]
	ctx, leave := context.WithCancel(within(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := c.try(ctx, c.tool("stay", n, "")); err == nil {
			response.Body.Close()
		}
	}()
	eventually(t, "the modern call runs", begun(1))
	leave()
	<-ended
	eventually(t, "the modern call is cancelled", func() bool { return cancelled(n) })

	n, c = book.Ask(ledger.Question{}), all["legacy"]
	ended = make(chan struct{})
	body := c.tool("stay", n, "")
	go func() {
		defer close(ended)
		if response, err := c.try(within(t), body); err == nil {
			response.Body.Close()
		}
	}()
	eventually(t, "the legacy call runs", begun(2))
	c.post(
		within(t), fmt.Sprintf(
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`,
			c.ids)).Body.Close()
	eventually(t, "the legacy call is cancelled", func() bool { return cancelled(n) })
	<-ended
}

func TestChangesAreToldToWhoeverAsked(t *testing.T) {
	t.Parallel()
	all := sides(t, start(t))
	for era, c := range all {
		uri := era + "://thing/a"
		var stream *http.Response
		if c.modern {
			stream = c.post(within(t), c.body("subscriptions/listen",
				`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`"]},`))
		} else {
			c.post(within(t), c.body("resources/subscribe", `"uri":"`+uri+`",`)).Body.Close()
			r, err := http.NewRequestWithContext(within(t), http.MethodGet, c.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Mcp-Session-Id", c.session)
			if stream, err = c.http.Do(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, more := range []string{`,"uri":"` + era + `://thing/b"`, `,"uri":"` + uri + `"`, ``} {
			c.post(within(t), c.tool("change", 1, more)).Body.Close()
		}
		got := strings.Join(messages(t, stream, "list_changed"), "\n")
		if !strings.Contains(got, uri) || strings.Contains(got, "thing/b") {
			t.Errorf("%s: got %s, want the change of a, and not that of b", era, got)
		}
	}
	if got := messages(t, all["modern"].post(within(t), all["modern"].body("tools/list", "")),
		""); !strings.Contains(got[0], "version 1.") {
		t.Errorf("got %s, want version 1 of the list", got[0])
	}
}

// TestWhatItDoesWrongComesAfterTheExecution tries each behaviour.
func TestWhatItDoesWrongComesAfterTheExecution(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behaviour upstream.Behaviour
		wrong     func(body string, err error) bool
	}{
		"hang": {
			upstream.Hang,
			func(_ string, err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		},
		"drip": {
			upstream.Drip,
			func(body string, err error) bool {
				return errors.Is(err, context.DeadlineExceeded) &&
					len(body) < 10
			},
		},
		"garbage": {
			upstream.Garbage,
			func(body string, _ error) bool { return !strings.Contains(body, "jsonrpc") },
		},
		"oversized": {upstream.Oversized, func(body string, _ error) bool { return len(body) > 10<<20 }},
		"wrong id": {
			upstream.WrongID,
			func(body string, _ error) bool { return strings.Contains(body, `"id":987654321`) },
		},
		"two answers": {
			upstream.TwoAnswers,
			func(body string, _ error) bool { return strings.Count(body, "serial") == 2 },
		},
		"other's id": {
			upstream.OthersID,
			func(body string, _ error) bool { return strings.Contains(body, `"id":987654321`) },
		},
		"flood": {upstream.Flood, func(body string, _ error) bool {
			return strings.Count(body, "flood") == 5000 && strings.Contains(body, "serial")
		}},
		"half close": {
			upstream.HalfClose,
			func(_ string, err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
		},
		"reset": {upstream.Reset, func(_ string, err error) bool { return err != nil }},
		"wrong version": {
			upstream.Version,
			func(body string, _ error) bool { return strings.HasPrefix(body, `{"jsonrpc":"1.0",`) },
		},
		"bomb": {upstream.Bomb, func(body string, _ error) bool {
			return strings.HasPrefix(body, `{"jsonrpc":"2.0",`) && len(body) > 10<<20
		}},
		"page": {upstream.HTML, func(body string, _ error) bool { return strings.Contains(body, "<html>") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.Behave(test.behaviour)
			for era, c := range sides(t, s) {
				before := len(s.Executions())
				ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
				if test.behaviour != upstream.Hang && test.behaviour != upstream.Drip {
					ctx = within(t)
				}
				response, err := c.try(ctx, c.tool("touch", 1, ""))
				body := ""
				if err == nil {
					var text []byte
					text, err = io.ReadAll(io.LimitReader(response.Body, 11<<20))
					response.Body.Close()
					body = string(text)
				}
				cancel()
				if !test.wrong(body, err) {
					t.Errorf("%s: got %.200q and %v", era, body, err)
				}
				if got := len(s.Executions()) - before; got != 1 {
					t.Errorf("%s: %d executions, want 1", era, got)
				}
			}
			s.Behave(upstream.Well)
			c := sides(t, s)["modern"]
			if got := messages(t, c.post(within(t), c.tool("touch", 1, "")), ""); len(got) != 1 ||
				!strings.Contains(got[0], "serial") {
				t.Errorf("healed: got %q", got)
			}
		})
	}
}

func TestEndlessListsHaveANextPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Behave(upstream.Endless)
	for era, c := range sides(t, s) {
		if got := messages(t, c.post(within(t), c.body("tools/list", "")), ""); !strings.Contains(got[0],
			"nextCursor") {
			t.Errorf("%s: got %s", era, got[0])
		}
	}
}

// TestManyPagesHaveAnEnd reads the first page and the last one, which names no next one.
func TestManyPagesHaveAnEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Behave(upstream.Pages)
	for era, c := range sides(t, s) {
		for params, next := range map[string]bool{
			"": true, `"cursor":"17",`: true,
			`"cursor":"9999",`: false,
		} {
			got := messages(t, c.post(within(t), c.body("tools/list", params)), "")[0]
			if strings.Contains(got, "nextCursor") != next {
				t.Errorf("%s with %q: got %s", era, params, got)
			}
			if first := params == ""; strings.Contains(got, `"touch"`) != first {
				t.Errorf("%s with %q: got %s", era, params, got)
			}
		}
	}
}

// TestACrowdedListIsOnePage reads a million tools.
func TestACrowdedListIsOnePage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Behave(upstream.Crowded)
	c := sides(t, s)["modern"]
	response, err := c.try(within(t), c.body("tools/list", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), `{"name":`); got != 1_000_001 || !json.Valid(text) {
		t.Errorf("got %d tools, %.200s", got, text)
	}
}

func TestExecutionsOutliveACrash(t *testing.T) {
	t.Parallel()
	s := start(t)
	legacy := sides(t, s)["legacy"]
	legacy.post(within(t), legacy.tool("touch", 1, "")).Body.Close()
	ended := make(chan error, 1)
	body := legacy.tool("stay", 2, "")
	go func() {
		response, err := legacy.try(within(t), body)
		if err == nil {
			response.Body.Close()
		}
		ended <- err
	}()
	eventually(t, "the call runs", func() bool { return len(s.Executions()) == 2 })
	s.Crash()
	if err := <-ended; err == nil {
		t.Error("the call in flight ended well")
	}
	if _, err := legacy.try(within(t), legacy.tool("touch", 3, "")); err == nil {
		t.Error("it serves after a crash")
	}
	s.Revive()
	response := legacy.post(within(t), legacy.tool("touch", 4, ""))
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("a session from before the crash: got status %d, want 404", response.StatusCode)
	}
	if must.Try(s.Revive) == nil {
		t.Error("it was revived twice")
	}
	if got := s.Executions(); len(got) != 2 || !got[1].Cancelled {
		t.Errorf("got %+v, want two, of which the second was cancelled", got)
	}
}
