package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The server is an MCP server of 2025-11-25 that works as little as it can: it finds what is asked in the first bytes
// of a message without parsing it, and its answers lie ready. The gateway has it behind it twice, for the quiet tenant
// and for the loud one. A third time it is the dummy of the baseline: attackers meet it instead of the gateway, with the
// same requests. It does not ask who calls and does nothing for each tenant.

const (
	headSize   = 4 << 10
	toolCount  = 500 // that the catalogue has beside those that are called
	floodCount = 20_000
	sentence   = "The quick brown fox jumps over the lazy dog and says so. "

	bigAnswer      = 15 << 20
	streamedAnswer = 1 << 20
)

var (
	idOf       = regexp.MustCompile(`"id":("[^"]*"|\d+)`)
	methodOf   = regexp.MustCompile(`"method":"([^"]+)"`)
	toolOf     = regexp.MustCompile(`"name":"(?:storm__|calm__)?(\w+)"`)
	progressOf = regexp.MustCompile(`"progressToken":("[^"]*"|\d+)`)
)

// tools is what the server has ready.
type tools struct {
	done <-chan struct{} // closed when the server ends
	list string
	text map[string]string // the answer by tool
}

// serveTools is a part: the server at an address.
func serveTools(ctx context.Context, addr string, in io.Reader, _ io.Writer) error {
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	t := &tools{done: ctx.Done(), list: catalogue(), text: map[string]string{
		"echo": sentence,
		"big":  strings.Repeat(sentence, bigAnswer/len(sentence)),
		"some": strings.Repeat(sentence, streamedAnswer/len(sentence)),
	}}
	server := &http.Server{Addr: addr, Handler: t, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the process ends with it
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// untilEnd returns a context that ends with ctx or when in does. The part before ends its children by closing their
// standard input, and if it dies they end as well.
func untilEnd(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process, or before it
		_, _ = io.Copy(io.Discard, in) // nothing is ever sent
		cancel()
	}()
	return ctx, cancel
}

func (t *tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "":
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush() // the client may be gone
		select {
		case <-r.Context().Done():
		case <-t.done:
		}
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body := bufio.NewReaderSize(r.Body, headSize)
	head, err := body.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return // the client left, or takes too long
	}
	asked := string(head)
	if _, err := io.Copy(io.Discard, body); err != nil {
		return // the same
	}
	t.answer(w, r, asked)
}

// answer answers the message that begins with asked.
func (t *tools) answer(w http.ResponseWriter, r *http.Request, asked string) {
	id := found(idOf, asked)
	switch method := found(methodOf, asked); {
	case id == "":
		w.WriteHeader(http.StatusAccepted)
	case method == "initialize":
		w.Header().Set("Mcp-Session-Id", "fair")
		respond(w, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fair","version":"1"}}`)
	case method == "tools/list":
		respond(w, id, t.list)
	case method == "tools/call":
		t.call(w, r, id, asked)
	default:
		respondRaw(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

func (t *tools) call(w http.ResponseWriter, r *http.Request, id, asked string) {
	tool := found(toolOf, asked)
	text, ready := t.text[tool]
	if !ready {
		text = sentence
	}
	result := `{"content":[{"type":"text","text":"` + text + `"}]}`
	switch {
	case tool == "flood":
		flood(w, found(progressOf, asked), id, result)
	case tool == "some" && strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result) // the client is gone
	default:
		respond(w, id, result)
	}
}

// flood tells of progress as fast as the client reads, then answers.
func flood(w http.ResponseWriter, token, id, result string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range floodCount {
		if token == "" {
			break
		}
		if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", token, i+1); err != nil {
			return
		}
	}
	_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result) // the client is gone
}

func respond(w http.ResponseWriter, id, result string) {
	respondRaw(w, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
}

func respondRaw(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body) // the client is gone
}

func found(pattern *regexp.Regexp, in string) string {
	if match := pattern.FindStringSubmatch(in); match != nil {
		return match[1]
	}
	return ""
}

// catalogue returns the result of tools/list. The pattern of match is as dear as a schema may have: nearly 4,000
// instructions, all of them busy at every byte of a text of the letter a.
func catalogue() string {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for _, name := range []string{"echo", "big", "some", "flood"} {
		fmt.Fprintf(&b, `{"name":%q,"description":"Answers","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}},`, name)
	}
	b.WriteString(`{"name":"take","description":"Takes anything","inputSchema":{"type":"object"}},`)
	b.WriteString(`{"name":"match","description":"Checks a text","inputSchema":{"type":"object","properties":{"text":{"type":"string","pattern":"^(?:a?){1000}(?:a?){850}$"}}}}`)
	for i := range toolCount {
		fmt.Fprintf(&b, `,{"name":"tool%03d","description":%q,"inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}}`, i, sentence+sentence)
	}
	b.WriteString(`]}`)
	return b.String()
}
