package upstream

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	headSize   = 4 << 10
	toolCount  = 500 // that the catalogue has beside those that are called
	floodCount = 20_000
	// Sentence is what the tools of the server answer, the large answers many times.
	Sentence = "The quick brown fox jumps over the lazy dog and says so. "

	bigAnswer = 15 << 20
	// StreamedAnswer is how long the answer of the tool some is, in bytes.
	StreamedAnswer = 1 << 20
)

var (
	idOf       = regexp.MustCompile(`"id":("[^"]*"|\d+)`)
	methodOf   = regexp.MustCompile(`"method":"([^"]+)"`)
	toolOf     = regexp.MustCompile(`"name":"(?:storm__|calm__)?(\w+)"`)
	progressOf = regexp.MustCompile(`"progressToken":("[^"]*"|\d+)`)
)

// Careless is an MCP server of 2025-11-25 that works as little as it can: it finds what
// is asked in the first bytes of a message without parsing it, and its answers lie ready.
// It is safe for concurrent use.
type Careless struct {
	list string
	text map[string]string // the answer by tool
}

// NewCareless returns a server with its answers ready.
func NewCareless() *Careless {
	return &Careless{list: catalogue(), text: map[string]string{
		"echo": Sentence,
		"big":  strings.Repeat(Sentence, bigAnswer/len(Sentence)),
		"some": strings.Repeat(Sentence, StreamedAnswer/len(Sentence)),
	}}
}

func (t *Careless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "":
		(&output{w: w}).comment()
		<-r.Context().Done()
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
func (t *Careless) answer(w http.ResponseWriter, r *http.Request, asked string) {
	id := found(idOf, asked)
	switch method := found(methodOf, asked); {
	case id == "":
		w.WriteHeader(http.StatusAccepted)
	case method == "initialize":
		w.Header().Set("Mcp-Session-Id", "raid")
		respondTo(
			w, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"raid","version":"1"}}`)
	case method == "tools/list":
		respondTo(w, id, t.list)
	case method == "tools/call":
		t.call(w, r, id, asked)
	default:
		respond(w, errorOf(mcp.ID(id), mcp.CodeMethodNotFound, "Method not found"))
	}
}

func (t *Careless) call(w http.ResponseWriter, r *http.Request, id, asked string) {
	tool := found(toolOf, asked)
	text := cmp.Or(t.text[tool], Sentence)
	result := `{"content":[{"type":"text","text":"` + text + `"}]}`
	switch {
	case tool == "ask":
		askFor(w, r)
	case tool == "flood":
		floodOf(w, found(progressOf, asked), id, result)
	case tool == "some" && strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream"):
		(&output{w: w}).event(resultOf(mcp.ID(id), result))
	default:
		respondTo(w, id, result)
	}
}

// askFor asks the caller something, and waits for the answer until the caller leaves.
func askFor(w http.ResponseWriter, r *http.Request) {
	(&output{w: w}).event([]byte(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create",` +
		`"params":{"message":"Who are you?",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`))
	<-r.Context().Done()
}

// floodOf tells of progress as fast as the client reads, then answers.
func floodOf(w http.ResponseWriter, token, id, result string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range floodCount {
		if token == "" {
			break
		}
		if _, err := fmt.Fprintf(w,
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","+
				"\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", token, i+1); err != nil {
			return
		}
	}
	// the client is gone
	_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result)
}

func respondTo(w http.ResponseWriter, id, result string) {
	respond(w, resultOf(mcp.ID(id), result))
}

func found(pattern *regexp.Regexp, in string) string {
	if match := pattern.FindStringSubmatch(in); match != nil {
		return match[1]
	}
	return ""
}

// catalogue returns the result of tools/list. The pattern of match is as dear as a schema
// may have: nearly 4,000 instructions, all of them busy at every byte of a text of the
// letter a.
func catalogue() string {
	return `{"tools":[` + page.Rows([]string{"echo", "big", "some", "flood", "ask"}, func(name string) string {
		return fmt.Sprintf(`{"name":%q,"description":"Answers",`+
			`"inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}},`, name)
	}) + page.Times(toolCount, func(i int) string {
		return fmt.Sprintf(`{"name":"tool%03d","description":%q,`+
			`"inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}},`, i, Sentence+Sentence)
	}) + `{"name":"take","description":"Takes anything","inputSchema":{"type":"object"}},` +
		`{"name":"match","description":"Checks a text","inputSchema":{"type":"object",` +
		`"properties":{"text":{"type":"string","pattern":"^(?:a?){1000}(?:a?){850}$"}}}}]}`
}
