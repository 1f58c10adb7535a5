package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// fastMCP behaves on the wire as a server made with FastMCP of the Python SDK 1.29 does,
// over Streamable HTTP, HTTP+SSE and stdio. What no request is named for goes to the GET
// stream of the session, and nowhere when there is none: news of lists always, and
// questions that a tool asks through its session and not through its context.
type fastMCP struct {
	store    bool   // an event store: events have ids, and the stream of a POST begins with an empty one
	lags     bool   // unlike FastMCP: a GET stream opens with its first event
	declares string // of listChanged; "": false, which is all that FastMCP itself says

	mu       sync.Mutex // guards the fields below
	grown    int        // of each kind of item beside the first
	lists    int        // tools/list
	events   int
	sessions map[string]*pySession
	born     int
	crowd    int               // calls at once in one session, at most
	servedBy map[string]string // the session by the token of the call
}

// pySession is one session, with what is running in it.
type pySession struct {
	server *fastMCP
	id     string
	one    func(message string) // the only stream, over HTTP+SSE and stdio

	mu      sync.Mutex // guards the fields below
	streams map[string]func(message string)
	next    int
	asked   map[string]chan *mcp.Message
	calls   int
	ended   map[string]chan struct{} // of calls that were cancelled
}

const getStream = "_GET_stream"

func (f *fastMCP) session(one func(string)) *pySession {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.born++
	s := &pySession{
		server: f, id: fmt.Sprintf("%032x", f.born), one: one, streams: map[string]func(string){},
		asked: map[string]chan *mcp.Message{}, ended: map[string]chan struct{}{},
	}
	if f.sessions == nil {
		f.sessions, f.servedBy = map[string]*pySession{}, map[string]string{}
	}
	f.sessions[s.id] = s
	return s
}

// write sends a message for the request with that id, "" for none.
func (s *pySession) write(related, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if s.one != nil {
		s.one(message)
		return
	}
	if related == "" {
		related = getStream
	}
	s.mu.Lock()
	send := s.streams[related]
	s.mu.Unlock()
	if send != nil {
		send(message)
	}
}

// ask sends a question and waits for its answer.
func (s *pySession) ask(ctx context.Context, related, method, params string) mcp.Object {
	s.mu.Lock()
	id, answer := fmt.Sprint(s.next), make(chan *mcp.Message, 1)
	s.next++
	s.asked[id] = answer
	s.mu.Unlock()
	s.write(related, `{"method":%q,%s"jsonrpc":"2.0","id":%s}`, method, params, id)
	select {
	case m := <-answer:
		if m.Err != nil {
			return mcp.NewObject(mcp.Member{Name: "failed", Value: mcp.String(m.Err.Message)})
		}
		return m.Result
	case <-ctx.Done():
		return mcp.Object{}
	}
}

// take takes a message of the client.
func (s *pySession) take(m *mcp.Message) {
	id := string(m.ID)
	switch {
	case m.IsResponse():
		s.mu.Lock()
		answer := s.asked[id]
		delete(s.asked, id)
		s.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		if ended := s.ended[string(m.Params.Value("requestId"))]; ended != nil {
			close(ended)
			delete(s.ended, string(m.Params.Value("requestId")))
		}
		s.mu.Unlock()
	case id == "":
	case m.Method == "tools/call":
		s.call(m)
	default:
		s.write(id, `{"jsonrpc":"2.0","id":%s,%s}`, id, s.server.reply(m))
	}
}

// reply answers what is no call.
func (f *fastMCP) reply(m *mcp.Message) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	named := func(what, rest string) string {
		var all []string
		for i := range f.grown + 1 {
			all = append(all, fmt.Sprintf(`{"name":"%s_%d"%s}`, what, i,
				strings.ReplaceAll(rest, "#", fmt.Sprint(i))))
		}
		return strings.Join(all, ",")
	}
	switch m.Method {
	case "initialize":
		told := "false"
		if f.declares != "" {
			told = f.declares
		}
		return fmt.Sprintf(
			`"result":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{},"prompts":{"listChanged":%s},"resources":{"subscribe":false,"listChanged":%s},"tools":{"listChanged":%s}},"serverInfo":{"name":"fast","version":"1.29.0"}}`,
			told, told, told)
	case "tools/list":
		f.lists++
		tools := named(
			"tool", `,"description":"","inputSchema":{"properties":{},"title":"toolArguments","type":"object"}`)
		for _, name := range []string{
			"grow", "grow_related", "sample", "roots", "elicit", "twice", "quick",
			"ctx_elicit", "log",
		} {
			tools += fmt.Sprintf(
				`,{"name":%q,"description":"","inputSchema":{"properties":{"token":{"title":"Token","type":"string"}},"title":"Arguments","type":"object"}}`, name)
		}
		return `"result":{"tools":[` + tools + `]}`
	case "prompts/list":
		return `"result":{"prompts":[` + named("prompt", `,"description":"","arguments":[]`) + `]}`
	case "resources/list":
		return `"result":{"resources":[` + named("resource", `,"uri":"file:///#","mimeType":"text/plain"`) +
			`]}`
	case "resources/templates/list":
		return `"result":{"resourceTemplates":[]}`
	case "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32602,"message":"Invalid request parameters","data":""}`
}

// grow adds an item of each kind.
func (f *fastMCP) grow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.grown++
}

// news tells that the lists changed.
func (s *pySession) news(related string, kinds ...string) {
	for _, kind := range kinds {
		s.write(related, `{"method":"notifications/%s/list_changed","jsonrpc":"2.0"}`, kind)
	}
}

// everywhere does something in all sessions.
func (f *fastMCP) everywhere(do func(s *pySession)) {
	f.mu.Lock()
	all := make([]*pySession, 0, len(f.sessions))
	for _, s := range f.sessions {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		do(s)
	}
}

// listed returns how often the tools were listed.
func (f *fastMCP) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

// crowded returns how many calls ran in one session at once, at most, and forgets it.
func (f *fastMCP) crowded() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, f.crowd = f.crowd, 0
	return n
}

// call runs a tool. Each runs beside the others.
func (s *pySession) call(m *mcp.Message) {
	ended := make(chan struct{})
	s.mu.Lock()
	s.calls++
	calls := s.calls
	s.ended[string(m.ID)] = ended
	s.mu.Unlock()
	s.server.mu.Lock()
	s.server.crowd = max(s.server.crowd, calls)
	s.server.servedBy[m.Params.Object("arguments").Text("token")] = s.id
	s.server.mu.Unlock()
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		got := s.tool(ctx, m)
		s.mu.Lock()
		s.calls--
		s.mu.Unlock()
		s.write(
			string(
				m.ID), `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"isError":false}}`, m.ID, quote(got))
	}()
}

// tool is what the author of the server wrote.
func (s *pySession) tool(ctx context.Context, m *mcp.Message) string {
	token, related := m.Params.Object("arguments").Text("token"), ""
	elicit := func() string {
		got := s.ask(ctx, related, "elicitation/create", `"params":{"mode":"form","message":`+quote(token)+
			`,"requestedSchema":{"properties":{"is":{"type":"string"}},"type":"object"}},`)
		return got.Object("content").Text("is") + got.Text("failed")
	}
	name := m.Params.Text("name")
	if !strings.HasPrefix(name, "grow") && name != "quick" {
		wait(ctx, 10*time.Millisecond) // so that calls at once have all come
	}
	switch name {
	case "grow":
		s.server.grow()
		s.news("", "tools", "prompts", "resources")
	case "grow_related":
		s.server.grow()
		s.news(string(m.ID), "tools", "prompts", "resources")
	case "sample":
		got := s.ask(ctx, "", "sampling/createMessage",
			`"params":{"messages":[{"role":"user","content":{"type":"text","text":`+quote(token)+
				`}}],"maxTokens":100},`)
		return got.Object("content").Text("text") + got.Text("failed")
	case "roots":
		got := s.ask(ctx, "", "roots/list", "")
		roots, _ := got.Value("roots").Elements()
		if len(roots) != 1 {
			return "no roots: " + got.Text("failed")
		}
		root, _ := mcp.ObjectOf(roots[0])
		return root.Text("name")
	case "elicit":
		return elicit()
	case "twice":
		return elicit() + " " + elicit()
	case "ctx_elicit":
		related = string(m.ID)
		return elicit()
	case "log": // without declaring it
		for range 2 {
			s.write(
				string(
					m.ID), `{"method":"notifications/message","params":{"level":"info","data":%s},"jsonrpc":"2.0"}`, quote(token))
		}
	case "quick":
		takes, _ := time.ParseDuration(token)
		wait(ctx, takes)
		return "quick"
	}
	return "ok"
}

// ServeHTTP serves Streamable HTTP at /mcp, and HTTP+SSE at /sse and /messages/.
func (f *fastMCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	f.mu.Lock()
	s := f.sessions[id]
	if legacy := r.URL.Query().Get("session_id"); legacy != "" {
		s = f.sessions[legacy]
	}
	f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	m, _ := mcp.Decode(body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/sse") && r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case strings.HasSuffix(r.URL.Path, "/sse"):
		f.serveSSE(w, r)
	case strings.HasSuffix(r.URL.Path, "/messages/"):
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "Accepted")
		s.take(m)
	case id != "" && s == nil:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(
			w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`)
	case s == nil && m.Method != "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(
			w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`)
	case s == nil:
		f.post(w, r, f.session(nil), m)
	case r.Method == http.MethodGet:
		s.serveStream(w, r, getStream, nil)
	case r.Method == http.MethodDelete:
		f.mu.Lock()
		delete(f.sessions, id)
		f.mu.Unlock()
	default:
		f.post(w, r, s, m)
	}
}

func (f *fastMCP) post(w http.ResponseWriter, r *http.Request, s *pySession, m *mcp.Message) {
	w.Header().Set("Mcp-Session-Id", s.id)
	if m.Method == "" || m.ID == "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		s.take(m)
		return
	}
	s.serveStream(w, r, string(m.ID), m)
}

// serveStream serves a stream until it has brought the answer, which the GET stream never
// does.
func (s *pySession) serveStream(w http.ResponseWriter, r *http.Request, name string, m *mcp.Message) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	messages := make(chan string, 1000)
	s.mu.Lock()
	if s.streams[name] != nil {
		s.mu.Unlock()
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.streams[name] = func(message string) {
		select {
		case messages <- message:
		case <-ctx.Done():
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, name)
	}()
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Header().Set("Content-Type", "text/event-stream")
	if m != nil || !s.server.lags {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
	}
	if m != nil {
		if s.server.store {
			_, _ = fmt.Fprintf(w, "id: %s\r\ndata: \r\n\r\n", s.server.eventID())
		}
		s.take(m)
	}
	for {
		select {
		case message := <-messages:
			id := ""
			if s.server.store {
				id = "id: " + s.server.eventID() + "\r\n"
			}
			_, _ = fmt.Fprintf(w, "%sevent: message\r\ndata: %s\r\n\r\n", id, message)
			w.(http.Flusher).Flush()
			if answer, _ := mcp.Decode([]byte(message)); answer.IsResponse() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (f *fastMCP) eventID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	return fmt.Sprintf("%08d-event", f.events)
}

// serveSSE serves the stream of a session of 2024-11-05.
func (f *fastMCP) serveSSE(w http.ResponseWriter, r *http.Request) {
	messages := make(chan string, 1000)
	s := f.session(func(message string) {
		select {
		case messages <- message:
		case <-r.Context().Done():
		}
	})
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = fmt.Fprintf(w, "event: endpoint\r\ndata: /messages/?session_id=%s\r\n\r\n", s.id)
	w.(http.Flusher).Flush()
	for {
		select {
		case message := <-messages:
			_, _ = fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", message)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			f.mu.Lock()
			delete(f.sessions, s.id)
			f.mu.Unlock()
			return
		}
	}
}

// growthFile is the variable that names a file whose length says how many items a child
// has, because children of one server share nothing else.
const growthFile = "DRAWBRIDGE_FAKE_GROWTH"

// serveFastMCP is the whole program when the test binary runs as such a server.
func serveFastMCP() {
	f := &fastMCP{}
	var mu sync.Mutex // guards standard output
	s := f.session(func(message string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(message)
	})
	for in := bufio.NewReader(os.Stdin); ; {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := mcp.Decode(text)
		if err != nil {
			continue
		}
		if path := os.Getenv(growthFile); path != "" {
			if m.Params.Text("name") == "grow" {
				file, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				_, _ = file.WriteString("+")
				_ = file.Close()
			}
			grown, _ := os.ReadFile(path)
			f.mu.Lock()
			f.grown = len(grown)
			f.mu.Unlock()
		}
		s.take(m)
	}
}
