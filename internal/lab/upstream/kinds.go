package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// kindTools are the tools of the upstream that do not just answer: stream tells of its
// progress first, ask asks its client first, and text_N answers with N bytes.
const kindTools = `{"tools":[
{"name":"echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}},
{"name":"stream","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}},
{"name":"ask","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}},
{"name":"text_1024","inputSchema":{"type":"object"}},
{"name":"text_65536","inputSchema":{"type":"object"}},
{"name":"text_1048576","inputSchema":{"type":"object"}}]}`

const progressSteps = 3 // notices of progress before the result of stream

// questions are those that calls of ask wait with. The zero value has none. It may be
// used from several goroutines.
type questions struct {
	last    atomic.Int64
	waiting sync.Map // a chan mcp.Object for the answer, by the id of the question
}

// answer gives a client's answer to the call that waits for it.
func (q *questions) answer(m *mcp.Message) {
	if waiting, found := q.waiting.LoadAndDelete(m.ID); found {
		waiting.(chan mcp.Object) <- m.Result
	}
}

// serveKind runs the tools of kindTools.
func (q *questions) serveKind(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	name := m.Params.Text("name")
	if size, found := strings.CutPrefix(name, "text_"); found {
		n, _ := strconv.Atoi(size) // our own name
		respond(w, mcp.AppendResult(nil, m.ID, mcp.TextResult(text(n))))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	say := func(message []byte) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", message) // the client is gone
		_ = out.Flush()                                // as above
	}
	switch name {
	case "stream":
		token := m.Params.Object("_meta").Value("progressToken")
		for step := range progressSteps {
			say(mcp.AppendRequest(nil, "", mcp.NotifyProgress, mcp.NewObject(
				mcp.Member{Name: "progressToken", Value: token}, mcp.Member{
					Name:  "progress",
					Value: mcp.Int(int64(step + 1)),
				})))
		}
		say(echo(m))
	case "ask":
		if q.ask(r.Context(), say) {
			say(echo(m))
		}
	}
}

// ask asks the client something and waits for the answer. It tells whether the client
// agreed.
func (q *questions) ask(ctx context.Context, say func([]byte)) bool {
	id := mcp.ID(`"q` + strconv.FormatInt(q.last.Add(1), 10) + `"`)
	answer := make(chan mcp.Object, 1)
	q.waiting.Store(id, answer)
	defer q.waiting.Delete(id)
	say(mcp.AppendRequest(nil, id, mcp.MethodElicit, object(
		`{"message":"Shall it be said again?","requestedSchema":{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}}`)))
	select {
	case result := <-answer:
		return result.Text("action") == "accept"
	case <-ctx.Done():
		return false
	}
}

// text returns so many bytes of plain words.
func text(bytes int) string {
	return strings.Repeat(Message+". ", bytes/len(Message)+1)[:bytes]
}
