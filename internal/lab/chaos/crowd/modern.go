package crowd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// modernMeta is what each request of 2026-07-28 says of its client.
const modernMeta = `"io.modelcontextprotocol/protocolVersion":"` + mcp.Revision2607 +
	`","io.modelcontextprotocol/clientInfo":{"name":"crowd","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`

// modernBody returns a request. params are its members without braces, with a comma
// behind them unless there are none.
func modernBody(id mcp.ID, method, params, meta string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{%s%s}}}`, id, method,
		params, modernMeta, meta)
}

// modernHeader returns the headers of a request. name is "" for a method that names
// nothing.
func modernHeader(method, name string) map[string]string {
	header := map[string]string{mcp.HeaderProtocolVersion: mcp.Revision2607, mcp.HeaderMethod: method}
	if name != "" {
		header[mcp.HeaderName] = name
	}
	return header
}

// modern makes a request that names nothing.
func (p *person) modern(ctx context.Context, method, params string) (*reply, error) {
	return p.send(ctx, "/mcp", modernBody(p.nextID(), method, params, ""), modernHeader(method, ""))
}

// prepare makes the next request of a call. answers is what a repeat adds: the answers to
// questions and the state.
func (d *deed) prepare(answers string) {
	meta := ""
	if d.progress {
		meta = `,"progressToken":"` + d.nonce.String() + `"`
	}
	params := fmt.Sprintf(`"name":%q,"arguments":%s,%s`, d.tool, d.arguments, answers)
	d.body = modernBody(d.by.nextID(), mcp.MethodToolsCall, params, meta)
	d.header = modernHeader(mcp.MethodToolsCall, d.tool)
}

// attempt sends the prepared request of a call and reads what comes. over tells whether
// the request has its end: it is answered or refused, or the client is asked something.
func (d *deed) attempt(ctx context.Context) (over bool, err error) {
	d.question, d.said = mcp.Object{}, word{}
	over, err = (&stream{deed: d}).read(d.by.send(ctx, "/mcp", d.body, d.header))
	d.said.broken = d.said.broken || !over
	return over, err
}

// try is attempt, and enters a connection that broke.
func (d *deed) try(ctx context.Context) {
	if over, err := d.attempt(ctx); !over {
		d.broke(ctx, err)
	}
}

// call makes a call.
func (p *person) call(ctx context.Context, d *deed) {
	d.prepare("")
	d.try(ctx)
}

// once makes one call that is sent once. One that stays is cancelled by closing its
// connection, as 2026-07-28 wants it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
func (p *person) once(ctx context.Context, d *deed) {
	if d.stays() {
		left, leave := context.WithCancel(ctx)
		defer leave()
		d.prepare("")
		d.cancelled(ctx, func() (bool, error) { return d.attempt(left) }, leave)
		return
	}
	began := time.Now()
	p.call(ctx, d)
	if strings.HasSuffix(d.tool, "__touch") && !d.said.broken {
		longest(&p.crowd.longestCall, time.Since(began))
	}
}

// keyed makes a call with an Idempotency-Key, and repeats it byte for byte when the
// connection broke. It breaks some connections itself.
func (p *person) keyed(ctx context.Context, d *deed) {
	d.prepare("")
	d.header["Idempotency-Key"] = `"` + d.nonce.String() + `"`
	p.hasty(ctx, d)
	again, wait := d.said.broken, d.said.later
	for again && world.Pause(ctx, wait) && p.crowd.life.Err() == nil {
		p.crowd.repeated.Add(1)
		d.try(ctx)
		// what is told to come later may be repeated as well
		again, wait = d.said.broken || d.said.later > 0, max(d.said.later, soon)
	}
}

// hasty is the first attempt at a call with a key. Of four, the client loses one by
// itself in the middle.
func (p *person) hasty(ctx context.Context, d *deed) {
	if p.dice.IntN(4) > 0 {
		d.try(ctx)
		return
	}
	short, cancel := context.WithTimeout(ctx, time.Duration(20+p.dice.IntN(100))*time.Millisecond)
	defer cancel()
	if over, _ := d.attempt(short); !over {
		p.ledger.Left(d.nonce, "left by its client, to repeat it")
	}
}

// parked makes a call that asks its client something, and repeats it with the answer, at
// whatever replica. Where it is told that nothing happened, it does so later again.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (p *person) parked(ctx context.Context, d *deed) {
	p.call(ctx, d)
	if d.question.Len() == 0 {
		return
	}
	asked, answers, more := ledger.Nonce(0), mcp.Object{}, ""
	for key, request := range d.question.Object("inputRequests").Members {
		text, _ := request.Member("params").Member("message").Text()
		asked, answers = ofQuestion(text), answers.With(key, mcp.RawJSON(yes))
	}
	if state := d.question.Value("requestState"); state != nil {
		more = `"requestState":` + string(state) + `,`
	}
	p.ledger.Event(d.nonce, asked, 1)
	world.Pause(ctx, time.Duration(p.dice.IntN(200))*time.Millisecond) // the person thinks
	for again := true; again; again = !d.said.broken && d.said.later > 0 && world.Pause(ctx, d.said.later) {
		d.prepare(`"inputResponses":` + string(answers.JSON()) + `,` + more)
		if d.try(ctx); d.question.Len() > 0 {
			p.ledger.Event(d.nonce, d.nonce, 1) // the same question twice
			p.ledger.Refused(d.nonce, "asked again", true)
			return
		}
	}
	if d.said.broken || d.said.later == 0 {
		p.crowd.questions.Add(1)
	}
}

// yes is the answer to a question.
const yes = `{"action":"accept","content":{"sure":true}}`
