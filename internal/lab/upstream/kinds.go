package upstream

import (
	"context"
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

// asking are the params of the question that ask asks.
const asking = `{"message":"Shall it be said again?","requestedSchema":{"type":"object",` +
	`"properties":{"word":{"type":"string"}},"required":["word"]}}`

const progressSteps = 3 // notices of progress before the result of stream

// questions are those that calls of ask wait with. The zero value has none. It may be
// used from several goroutines.
type questions struct {
	last    atomic.Int64
	waiting sync.Map // a chan bool for whether the client agrees, by the id of the question
}

// answer gives a client's answer to the call that waits for it.
func (q *questions) answer(m *mcp.Message) {
	if waiting, found := q.waiting.LoadAndDelete(m.ID); found {
		waiting.(chan bool) <- m.Err == nil && m.Result.Text("action") == "accept"
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
	out := &output{w: w}
	switch name {
	case "stream":
		token := m.Params.Object("_meta").Value("progressToken")
		for step := range progressSteps {
			out.event(mcp.AppendRequest(nil, "", mcp.NotifyProgress, mcp.NewObject(
				mcp.Member{Name: "progressToken", Value: token}, mcp.Member{
					Name:  "progress",
					Value: mcp.Int(int64(step + 1)),
				})))
		}
		out.event(echo(m))
	case "ask":
		if q.ask(r.Context(), out.event, asking) {
			out.event(echo(m))
		}
	}
}

// ask asks the client something and waits for the answer. It tells whether the client
// agreed.
func (q *questions) ask(ctx context.Context, say func([]byte), params string) bool {
	id := mcp.ID(`"q` + strconv.FormatInt(q.last.Add(1), 10) + `"`)
	answer := make(chan bool, 1)
	q.waiting.Store(id, answer)
	defer q.waiting.Delete(id)
	say(mcp.AppendRequest(nil, id, mcp.MethodElicit, object(params)))
	select {
	case agreed := <-answer:
		return agreed
	case <-ctx.Done():
		return false
	}
}

// text returns so many bytes of plain words.
func text(bytes int) string {
	return strings.Repeat(Message+". ", bytes/len(Message)+1)[:bytes]
}
