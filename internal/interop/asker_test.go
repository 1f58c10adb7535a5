package interop_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// asker is an upstream with one tool, ask, that tells its caller's marker in every way
// there is: as progress, as log lines before and after it asks, in the question, and in
// the answer together with what was answered.
type asker struct {
	modern bool

	mu      sync.Mutex // guards the fields below
	next    int
	pending map[string]chan json.RawMessage // answers by the id of the question
	streams map[string]*askedSession        // of HTTP+SSE
	count   int                             // of answers to questions, also to those it never asked
}

// askedSession is who a session of a legacy asker talks to.
type askedSession struct {
	send func(text string)

	mu       sync.Mutex // guards question
	question string     // method of what it can be asked; nothing when empty
}

func newAsker(modern bool) *asker {
	return &asker{
		modern: modern, pending: make(map[string]chan json.RawMessage),
		streams: make(map[string]*askedSession),
	}
}

const askTool = `{"name":"ask","description":"Asks.","inputSchema":{"type":"object","properties":{"marker":{"type":"string"}}}}`

// hear handles one message and sends what it gives rise to. It returns when the message
// is dealt with.
func (a *asker) hear(m message, p *askedSession, question string, send func(text string)) {
	result := func(text string) { send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text)) }
	switch m.Method {
	case "":
		a.mu.Lock()
		answered := a.pending[string(m.ID)]
		delete(a.pending, string(m.ID))
		a.count++
		a.mu.Unlock()
		if answered != nil {
			answered <- m.Result
		}
	case "initialize":
		p.opened(m.Params)
		result(
			`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"asker","version":"1"}}`)
	case "server/discover":
		if a.modern {
			result(
				`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":60000,"cacheScope":"public"}`)
			return
		}
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
	case "tools/list":
		result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[` + askTool + `]}`)
	case "ping", "logging/setLevel":
		result(`{}`)
	case "tools/call":
		a.call(m, question, send, result)
	default:
		if m.ID != nil {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
		}
	}
}

// opened notes what the other side said that it can be asked.
func (p *askedSession) opened(params json.RawMessage) {
	var hello struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	_ = json.Unmarshal(params, &hello) // then it can be asked nothing
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case hello.Capabilities["elicitation"] != nil:
		p.question = "elicitation/create"
	case hello.Capabilities["sampling"] != nil:
		p.question = "sampling/createMessage"
	}
}

func (p *askedSession) can() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.question
}

// questionOf is the params of a question that names the marker.
func questionOf(method, marker string) string {
	if method == "elicitation/create" {
		return fmt.Sprintf(
			`{"message":%q,"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`,
			marker)
	}
	return fmt.Sprintf(`{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`,
		marker)
}

func (a *asker) call(m message, question string, send, result func(string)) {
	var params struct {
		Arguments      struct{ Marker string }
		InputResponses map[string]json.RawMessage
		RequestState   string
		Meta           struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return
	}
	marker := params.Arguments.Marker
	log := func(when string) {
		send(
			fmt.Sprintf(
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"%s %s"}}`, when, marker))
	}
	answered := func(answer json.RawMessage) {
		log("after")
		text, _ := json.Marshal(fmt.Sprintf("done %s with %s", marker, answer)) // a string always encodes
		result(`{"resultType":"complete","content":[{"type":"text","text":` + string(text) + `}]}`)
	}
	if a.modern && params.InputResponses != nil {
		if params.RequestState != "state of "+marker {
			send(
				fmt.Sprintf(
					`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"the state of somebody else"}}`, m.ID))
			return
		}
		answered(params.InputResponses["q"])
		return
	}
	log("before")
	if params.Meta.ProgressToken != nil {
		send(
			fmt.Sprintf(
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, params.Meta.ProgressToken, marker))
	}
	switch {
	case a.modern:
		result(
			fmt.Sprintf(
				`{"resultType":"input_required","requestState":"state of %s","inputRequests":{"q":{"method":"elicitation/create","params":%s}}}`, marker, questionOf("elicitation/create", marker)))
	case question == "":
		send(
			fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"this session cannot be asked"}}`,
				m.ID))
	default:
		answered(a.put(question, marker, send))
	}
}

func (a *asker) answers() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// put asks and waits for the answer.
func (a *asker) put(question, marker string, send func(string)) json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	a.mu.Lock()
	a.next++
	id := fmt.Sprintf(`"q%d"`, a.next)
	a.pending[id] = answer
	a.mu.Unlock()
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, question,
		questionOf(question, marker)))
	return <-answer
}

// web serves Streamable HTTP. A session id carries what its client can be asked.
func (a *asker) web(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	var m message
	if err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.ID == nil || m.Method == "" {
		a.hear(m, &askedSession{}, "", nil)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, question, _ := strings.Cut(r.Header.Get("Mcp-Session-Id"), "!")
	p := &askedSession{}
	if m.Method == "initialize" {
		p.opened(m.Params)
		a.mu.Lock()
		a.next++
		w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d!%s", a.next, p.can()))
		a.mu.Unlock()
	}
	if m.Method != "tools/call" {
		w.Header().Set("Content-Type", "application/json")
		a.hear(m, p, question, func(text string) { _, _ = io.WriteString(w, text) })
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	a.hear(m, p, question, func(text string) {
		_, _ = io.WriteString(w, "data: "+text+"\n\n") // a client that is gone misses it
		_ = http.NewResponseController(w).Flush()
	})
}

// sse serves HTTP+SSE.
func (a *asker) sse(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		a.posted(w, r)
		return
	}
	lines := make(chan string, 64)
	p := &askedSession{send: func(text string) {
		select {
		case lines <- text:
		case <-r.Context().Done():
		}
	}}
	a.mu.Lock()
	a.next++
	id := fmt.Sprint(a.next)
	a.streams[id] = p
	a.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: endpoint\ndata: /message?s=%s\n\n", id)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case text := <-lines:
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", text) // a client that is gone misses it
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// posted takes a message for a stream of HTTP+SSE.
func (a *asker) posted(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	p := a.streams[r.URL.Query().Get("s")]
	a.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var m message
	if p == nil || err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if m.Method == "tools/call" {
		go a.hear(m, p, p.can(), p.send) // ends with its answer, or with the stream
		return
	}
	a.hear(m, p, "", p.send)
}

// stdin serves over standard input and output.
func (a *asker) stdin() int {
	var mu sync.Mutex
	p := &askedSession{send: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(text)
	}}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "tools/call" {
			go a.hear(m, p, p.can(), p.send) // ends with its answer, or with the process
			continue
		}
		a.hear(m, p, "", p.send)
	}
}
