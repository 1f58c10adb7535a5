package upstream

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// call is one tools/call in work.
type call struct {
	side      *side
	id        mcp.RawJSON
	tool      string
	arguments mcp.Object
	params    mcp.Object
	out       *output
	// ask asks the caller something and returns whether it answered. It is nil for a
	// modern call, which answers with a question instead.
	ask func(ctx context.Context, params string) bool
}

func newCall(s *side, m *mcp.Message, out *output) *call {
	return &call{
		side: s, id: mcp.RawJSON(m.ID), tool: m.Params.Text("name"), arguments: m.Params.Object("arguments"),
		params: m.Params, out: out,
	}
}

func (c *call) nonce() ledger.Nonce { return ledger.ParseNonce(c.arguments.Text("nonce")) }

func (c *call) number(name string, otherwise int64) int64 {
	n, ok := c.arguments.Value(name).Int()
	return page.Either(ok, n, otherwise)
}

// otherID returns the id of another call in work on this side, or one that nobody used.
func (c *call) otherID() string {
	id := `987654321`
	c.side.calls.Range(func(one, _ any) bool {
		if other, is := one.(*call); is && string(other.id) != string(c.id) {
			id = string(other.id)
		}
		return true
	})
	return id
}

// stayLimit is how long stay stays when nobody cancels it.
const stayLimit = 2 * time.Minute

// serve does the call and answers it. ctx ends when it is cancelled, or the server
// crashes.
func (c *call) serve(ctx context.Context) {
	c.side.calls.Store(c, true)
	defer c.side.calls.Delete(c)
	if c.tool == "ask" {
		switch {
		case c.ask == nil && !c.params.Has("inputResponses"):
			c.out.end(c.question())
			return
		case c.ask != nil && !c.ask(ctx, c.elicitation()):
			if ctx.Err() == nil {
				c.out.end(errorOf(mcp.ID(c.id), mcp.CodeInvalidParams, "the answer is no"))
			}
			return
		}
	}
	serial, end := c.side.server.begin(c)
	extra, ok := c.work(ctx)
	end(!ok)
	if !ok {
		return // a cancelled call gets no answer
	}
	answer := resultOf(mcp.ID(c.id), c.result(serial, extra))
	if misanswer := answers[c.side.server.behaves()]; misanswer != nil {
		misanswer(ctx, c, answer)
		return
	}
	c.out.end(answer)
}

// work is what the tool does. extra is further text of the answer. It returns false if
// ctx ended before the work did.
func (c *call) work(ctx context.Context) (extra string, ok bool) {
	switch c.tool {
	case "slow":
		return "", pace.Wait(ctx, time.Duration(c.number("ms", 100))*time.Millisecond)
	case "progress":
		return "", c.progress(ctx)
	case "stay":
		return "", pace.Wait(ctx, stayLimit)
	case "big":
		const words = "as large as it was asked to be "
		return strings.Repeat(words, 1+int(c.number("size", 64<<10))/len(words)), true
	case "change":
		if uri := c.arguments.Text("uri"); uri != "" {
			return fmt.Sprint("version ", c.side.changeThing(uri)), true
		}
		return fmt.Sprint("version ", c.side.changeList()), true
	}
	return "", true
}

// progress tells of its progress in numbered steps, if the caller wants to know.
func (c *call) progress(ctx context.Context) bool {
	n, gap := c.number("n", 4), time.Duration(c.number("ms", 20))*time.Millisecond
	token := c.params.Object("_meta").Value(mcp.MetaProgressToken)
	for i := range n {
		if !pace.Wait(ctx, gap) {
			return false
		}
		if token != nil {
			c.out.event(fmt.Appendf(nil,
				`{"jsonrpc":"2.0","method":%q,"params":{"progressToken":%s,"progress":%d,"total":%d,`+
					`"message":"%s"}}`,
				mcp.NotifyProgress, token, i+1, n, c.nonce()))
		}
	}
	return pace.Wait(ctx, gap)
}

// result returns a result that says which execution it is of.
func (c *call) result(serial uint64, extra string) string {
	says := mcp.String(fmt.Sprintf("serial %d nonce %s tenant %s", serial, c.nonce(),
		c.arguments.Text("tenant")))
	more := page.Either(extra != "", `,{"type":"text","text":`+string(mcp.String(extra))+`}`, "")
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(says) + `}` + more + `]}`
}

// elicitation returns the params of the question that the tool ask asks. It names the
// call.
func (c *call) elicitation() string {
	return `{"mode":"form","message":"Shall ` + c.nonce().String() + ` be done?",` +
		`"requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}}`
}

// question returns the answer of a modern call that asks first.
func (c *call) question() []byte {
	return resultOf(mcp.ID(c.id),
		`{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":`+
			c.elicitation()+
			`}},"requestState":"`+c.nonce().String()+`"}`)
}
