package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const chatCapabilities = `{"tools":{},"logging":{},"resources":{"subscribe":true},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`

// chatTools are the tools of a server that asks back.
var chatTools = []string{
	"who", "both", "twice", "late", "quit", "withdraw", "elsewhere", "every", "url", "log", "move", "hang",
	"answers", "die", "many",
	"huge", "verbose", "murmur", "job", "crowd", "after",
}

// secondQuestion is when the tool after has asked for the second time.
const secondQuestion = 10 * time.Second

// turn is one call as such a server serves it.
type turn struct {
	m    *mcp.Message
	send func(format string, args ...any) // on the call's own stream
	side func(format string, args ...any) // on the session's stream
	put  func(send func(string, ...any), m, params string) question
	name string          // of the session
	gone <-chan struct{} // closed when the call was cancelled

	refused *atomic.Int64 // calls of "url" that were
}

// question is one that was asked.
type question struct {
	id     string
	answer chan string
}

// ask asks, and returns what waits for the answer as long as the call goes on.
func (t *turn) ask(send func(string, ...any), method, params string) func() string {
	q := t.put(send, method, params)
	return func() string {
		select {
		case got := <-q.answer:
			return got
		case <-t.gone:
			return ""
		}
	}
}

func elicit(message string) string {
	return `{"message":"` + message + `","requestedSchema":{"type":"object","properties":{}}}`
}

// serve serves one call of a tool; opened counts for "url".
func (t *turn) serve() {
	token := t.m.Params.Object("arguments").Text("token")
	answer := func(text string) {
		select {
		case <-t.gone:
			return
		default:
		}
		t.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, t.m.ID,
			quote(text))
	}
	log := func(level string) {
		t.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level,
			token)
	}
	if t.m.Method != "tools/call" {
		t.serveTask()
		return
	}
	switch t.m.Params.Text("name") {
	case "job":
		task := t.m.Params.Object("task")
		if !t.m.Params.Has("task") {
			answer("at once")
			return
		}
		t.send(
			`{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":"%s of %s","status":"working","ttl":%s},"_meta":{"x":1}}}`, t.m.ID, token, t.name, task.Value("ttl"))
	case "who":
		log("info")
		got := t.ask(t.send, "elicitation/create", elicit(token))()
		log("info")
		answer(t.name + " " + token + " " + got)
	case "both":
		a, b := t.ask(t.send, "elicitation/create", elicit("a")), t.ask(t.send, "elicitation/create",
			elicit("b"))
		answer(a() + b())
	case "twice":
		answer(t.ask(t.send, "elicitation/create", elicit("a"))() + t.ask(t.send, "elicitation/create",
			elicit("b"))())
	case "late":
		answer(t.ask(t.send, "elicitation/create", elicit("slow"))())
	case "quit":
		t.ask(t.send, "elicitation/create", elicit("never mind"))
		wait(context.Background(), 10*time.Second)
		answer("done without" + t.m.Params.Object("arguments").Text("and"))
	case "withdraw":
		q := t.put(t.send, "elicitation/create", elicit("a"))
		t.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, q.id)
		answer(t.ask(t.send, "elicitation/create", elicit("b"))())
	case "elsewhere":
		answer(t.ask(t.side, "elicitation/create", elicit(token))())
	case "every":
		var got string
		for _, one := range [][2]string{
			{"ping", `{}`},
			{"tasks/list", `{}`},
			{"elicitation/create", `{"mode":"url","url":"https://x.test","elicitationId":"1","message":"m"}`},
			{"sampling/createMessage", `{"messages":[],"maxTokens":1,"tools":[]}`},
			{"sampling/createMessage", `{"messages":[],"maxTokens":1,"_meta":{"progressToken":7}}`},
			{"roots/list", `{}`},
		} {
			got += t.ask(t.send, one[0], one[1])() + "\n"
		}
		answer(got)
	case "url":
		if token == "always" || token == "soon" && t.refused.Add(1) < 4 {
			t.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open first","data":{"elicitations":[
				{"elicitationId":"e1","url":"https://one.test","message":"one","task":{}}]}}}`, t.m.ID)
			return
		}
		answer("opened")
	case "log":
		for _, level := range []string{"debug", "info", "warning", "error"} {
			log(level)
		}
		answer("logged")
	case "move":
		raw := t.m.Params.Object("_meta").Value("progressToken")
		for i := range 5 {
			t.send(
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, raw, i, token)
		}
		answer(string(raw))
	case "many":
		var last question
		for range 65 {
			last = t.put(t.send, "elicitation/create", elicit("again"))
		}
		answer(<-last.answer)
	case "crowd":
		waits := make([]func() string, 40)
		for i := range waits {
			waits[i] = t.ask(t.send, "elicitation/create", elicit("again"))
		}
		all := ""
		for _, wait := range waits {
			all += wait()
		}
		answer(all)
	case "huge":
		first, got := t.ask(t.send, "elicitation/create", elicit(strings.Repeat("x", 3<<20))), ""
		got += t.ask(t.send, "elicitation/create", elicit(strings.Repeat("y", 1<<20)))()
		first()
		answer(got)
	case "verbose":
		for range 100 {
			t.send(
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q},"pad":%q}`, strings.Repeat("x", 100<<10), token)
		}
		answer("said")
	case "murmur":
		got := t.ask(t.send, "elicitation/create", elicit("a"))
		wait(context.Background(), time.Second)
		lines, _ := strconv.Atoi(t.m.Params.Object("arguments").Text("lines"))
		for range lines {
			log("info")
		}
		answer(got())
	case "after":
		first := t.ask(t.send, "elicitation/create", elicit("a"))
		wait(context.Background(), secondQuestion/2)
		second := t.ask(t.send, "elicitation/create", elicit(strings.Repeat("x", 1<<20)))
		answer(first() + second())
	case "hang":
		<-t.gone
	case "answers":
		answer(t.name)
	case "die":
		os.Exit(1)
	}
}

// serveTask serves what is asked about a task, which is known in its session alone.
func (t *turn) serveTask() {
	id := t.m.Params.Text("taskId")
	token, session, _ := strings.Cut(id, " of ")
	switch {
	case session != t.name:
		t.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task"}}`, t.m.ID)
	case t.m.Method != "tasks/result":
		status := "working"
		if t.m.Method == "tasks/cancel" && token == "obeys" {
			status = "cancelled"
		}
		t.send(`{"jsonrpc":"2.0","id":%s,"result":{"taskId":%q,"status":%q,"ttl":null}}`, t.m.ID, id, status)
	default:
		t.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"asking"}}`)
		text := t.ask(t.send, "elicitation/create", relatedTo(id, elicit(token)))()
		if token == "twice" {
			text += t.ask(t.send, "elicitation/create", relatedTo(id, elicit("again")))()
		}
		select {
		case <-t.gone:
			return
		default:
		}
		t.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, t.m.ID,
			quote(text))
	}
}

// relatedTo returns the params of a question with the task that it is about.
func relatedTo(task, params string) string {
	return strings.Replace(params, "{", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+task+`"}},`, 1)
}

func chatReply(m *mcp.Message) (string, bool) {
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":` + chatCapabilities +
			`,"serverInfo":{"name":"chat","version":"1"}}`, true
	case "tools/list":
		tools := make([]string, len(chatTools))
		for i, name := range chatTools {
			tools[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
			if name == "job" {
				tools[i] = `{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
			}
		}
		return `{"tools":[` + strings.Join(tools, ",") + `]}`, true
	case "resources/list":
		return `{"resources":[{"uri":"file:///a","name":"a"},{"uri":"file:///ab","name":"ab"}]}`, true
	case "resources/templates/list":
		return `{"resourceTemplates":[]}`, true
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return `{}`, true
	}
	return "", false
}

// line is the session of one such server, whatever carries it.
type line struct {
	refused atomic.Int64 // calls of "url" that were
	mu      sync.Mutex   // guards the fields below
	asked   map[string]chan string
	calls   map[string]chan struct{}
	next    int
}

func newLine() *line {
	return &line{asked: map[string]chan string{}, calls: map[string]chan struct{}{}}
}

// ask sends a question; all sessions use the same ids.
func (l *line) ask(send func(string, ...any), method, params string) question {
	l.mu.Lock()
	l.next++
	q := question{fmt.Sprint(l.next), make(chan string, 10)}
	l.asked[q.id] = q.answer
	l.mu.Unlock()
	send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, q.id, method, params)
	return q
}

// take takes an answer or a cancellation.
func (l *line) take(m *mcp.Message, raw string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case m.IsResponse():
		if answer := l.asked[string(m.ID)]; answer != nil {
			answer <- strings.TrimSpace(raw)
		}
	case m.Method == "notifications/cancelled":
		id := mcp.ID(m.Params.Value("requestId"))
		go l.drop(id)
	}
}

// drop ends a call.
func (l *line) drop(id mcp.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone := l.calls[string(id)]; gone != nil {
		close(gone)
		delete(l.calls, string(id))
	}
}

func (l *line) begin(id mcp.ID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := make(chan struct{})
	l.calls[string(id)] = gone
	return gone
}

// serveChat is the whole program when the test binary runs as such a server.
func serveChat() {
	l := newLine()
	var mu sync.Mutex // guards standard output
	send := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(strings.NewReplacer("\n", "", "\t", "").Replace(fmt.Sprintf(format, args...)))
	}
	for in := bufio.NewReader(os.Stdin); ; {
		text, err := in.ReadString('\n')
		if err != nil {
			return
		}
		m, err := mcp.Decode([]byte(text))
		reply, known := chatReply(m)
		switch {
		case m.Method == "notifications/initialized" && slices.Contains(os.Args, "roots"):
			l.ask(send, "roots/list", "{}")
		case err != nil || m.Method == "" || m.ID == "":
			l.take(m, text)
		case known:
			send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, reply)
		case m.Method == "tools/call" || strings.HasPrefix(m.Method, "tasks/"):
			t := &turn{
				m: m, send: send, side: send, put: l.ask, name: fmt.Sprint(os.Getpid()),
				gone: l.begin(m.ID), refused: &l.refused,
			}
			go t.serve()
		default:
			send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}
}

// chat is such a server over Streamable HTTP, without a network.
type chat struct {
	streams bool // it offers the stream of a session

	mu       sync.Mutex // guards the fields below
	sessions map[string]*line
	sides    map[string]func(string, ...any)
	seen     []seenByChat
	born     int
}

type seenByChat struct {
	session, http string
	m             *mcp.Message
	raw           string
}

func (s *chat) config() upstream.Config {
	s.sessions, s.sides = map[string]*line{}, map[string]func(string, ...any){}
	return upstream.Config{URL: "http://chat.invalid/mcp", Client: &http.Client{Transport: s}}
}

// sights returns what was sent with that method.
func (s *chat) sights(method string) (found []seenByChat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.seen {
		if one.http == "POST" && one.m.Method == method || method == one.http {
			found = append(found, one)
		}
	}
	return found
}

// forget ends all sessions, and their streams.
func (s *chat) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]*line{}
}

// forgetCalls ends all sessions but that of the control connection, which is the first
// one.
func (s *chat) forgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]*line{"session-1": s.sessions["session-1"]}
}

// push sends on the stream of every session that has one.
func (s *chat) push(message string) {
	s.mu.Lock()
	sides := s.sides
	s.mu.Unlock()
	for _, side := range sides {
		side("%s", message)
	}
}

func (s *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var raw []byte
	if r.Body != nil {
		raw, _ = io.ReadAll(r.Body)
	}
	m, _ := mcp.Decode(raw)
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	s.seen = append(s.seen, seenByChat{id, r.Method, m, string(raw)})
	if m.Method == "initialize" {
		s.born++
		id = fmt.Sprint("session-", s.born)
		s.sessions[id] = newLine()
	}
	l := s.sessions[id]
	s.mu.Unlock()
	reply, known := chatReply(m)
	switch {
	case m.Method == "server/discover":
		return answerWith(http.StatusBadRequest, "text/plain", io.NopCloser(strings.NewReader("no"))), nil
	case l == nil:
		return answerWith(http.StatusNotFound, "text/plain", io.NopCloser(strings.NewReader("unknown"))), nil
	case r.Method == http.MethodGet && s.streams:
		body, send := stream(r.Context())
		s.mu.Lock()
		s.sides[id] = send
		s.mu.Unlock()
		return answerWith(http.StatusOK, "text/event-stream", body), nil
	case r.Method != http.MethodPost:
		return answerWith(http.StatusMethodNotAllowed, "", http.NoBody), nil
	case m.Method == "" || m.ID == "":
		l.take(m, string(raw))
		return answerWith(http.StatusAccepted, "", http.NoBody), nil
	case known:
		resp := answerWith(http.StatusOK, "application/json", io.NopCloser(strings.NewReader(
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, reply))))
		if m.Method == "initialize" {
			resp.Header.Set("Mcp-Session-Id", id)
		}
		return resp, nil
	}
	body, send := stream(r.Context())
	s.mu.Lock()
	side := s.sides[id]
	s.mu.Unlock()
	t := &turn{m: m, send: send, side: side, put: l.ask, name: id, gone: l.begin(m.ID), refused: &l.refused}
	context.AfterFunc(r.Context(), func() { l.drop(m.ID) })
	go t.serve()
	return answerWith(http.StatusOK, "text/event-stream", body), nil
}

// stream returns a body and what writes events to it; it ends with ctx.
func stream(ctx context.Context) (io.ReadCloser, func(string, ...any)) {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	var mu sync.Mutex // guards in
	return out, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(in, data(format, args...))
	}
}

func answerWith(status int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}},
		Body:   body, ContentLength: -1,
	}
}

// person is one who calls.
type person struct {
	tenant, name string
	asks         string // what can be asked, in canonical form
	level        string // of log messages
}

// anyQuestion can be asked.
const anyQuestion = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`

// notes are the notifications of one call.
type notes struct {
	mu  sync.Mutex // guards the field below
	all []string
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, " ")
}

// call is one round of a call. responses and state are those of the round before, "" for
// the first.
func (p person) call(t testing.TB, token, responses, state string, heard *notes) *registry.Call {
	t.Helper()
	params := parse(t, `{"name":"x","arguments":{"token":`+quote(token)+`}}`)
	if responses != "" {
		params = params.With("inputResponses", mcp.RawJSON(responses))
	}
	if state != "" {
		params = params.With("requestState", mcp.String(state))
	}
	level, _ := mcp.LevelOf(p.level)
	c := &registry.Call{
		Method: mcp.MethodToolsCall, Params: params, LogLevel: level,
		Principal: auth.Principal{Issuer: "i", Subject: p.name, TenantID: p.tenant},
		Notify: func(_ context.Context, n mcp.Notification) error {
			if heard != nil {
				heard.mu.Lock()
				defer heard.mu.Unlock()
				heard.all = append(heard.all, n.Params.Text("data")+n.Params.Text("message"))
			}
			return nil
		},
	}
	if p.asks != "" {
		c.Capabilities = parse(t, p.asks)
	}
	return c
}

// round plays one round and returns its questions and state, or the text of the result.
func (r *rig) round(ctx context.Context, tool string, c *registry.Call) (asked mcp.Object, state, got string,
	err error,
) {
	result, err := r.tool(tool).Call(ctx, c)
	if err == nil && result.Text("resultType") == "input_required" {
		return result.Object("inputRequests"), result.Text("requestState"), "", nil
	}
	return mcp.Object{}, "", text(result), err
}

// first plays a first round that must end with questions.
func (r *rig) first(tool string, p person) (asked mcp.Object, state string) {
	r.t.Helper()
	asked, state, got, err := r.round(r.t.Context(), tool, p.call(r.t, "t", "", "", nil))
	if err != nil || asked.Len() == 0 || state == "" {
		r.t.Fatalf("%s: got %q, %v, want questions", tool, got, err)
	}
	return asked, state
}

// accept answers all questions with the same content.
func accept(asked mcp.Object, content string) string {
	answers := mcp.Object{}
	for key := range asked.Members {
		answers = answers.With(key, mcp.RawJSON(`{"action":"accept","content":{"is":`+quote(content)+`}}`))
	}
	return string(answers.JSON())
}

// keys returns the keys of the questions.
func keys(asked mcp.Object) (found []string) {
	for key := range asked.Members {
		found = append(found, key)
	}
	return found
}

// inBubble runs an upstream on exact time.
func inBubble(t *testing.T, s *chat, change func(*upstream.Config), story func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := s.config()
		if change != nil {
			change(&cfg)
		}
		r := start(t, cfg)
		synctest.Wait()
		story(t, r)
		r.stop()
		synctest.Wait()
	})
}

func isInvalidParams(err error) bool {
	var answered *mcp.Error
	return errors.As(err, &answered) && answered.Code == mcp.CodeInvalidParams
}

// isNotSent tells whether err says that the call never left.
func isNotSent(err error) bool {
	unavailable, ok := errors.AsType[*registry.UnavailableError](err)
	return ok && !unavailable.Sent
}

// sorted returns the values in order.
func sorted(values []string) []string {
	slices.Sort(values)
	return values
}
