package crowd

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// modernMeta is what each request of 2026-07-28 says of its client.
const modernMeta = `"io.modelcontextprotocol/protocolVersion":"` + mcp.Revision2607 +
	`","io.modelcontextprotocol/clientInfo":{"name":"crowd","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`

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

// round is one request of a call.
type round struct {
	*deed

	body   []byte
	header map[string]string
}

// modernRound returns a request of a call. answers is what a repeat adds: the answers to
// questions and the state.
func (p *person) modernRound(d *deed, answers string) *round {
	meta := ""
	if d.progress {
		meta = `,"progressToken":"` + d.nonce.String() + `"`
	}
	params := fmt.Sprintf(`"name":%q,"arguments":%s,%s`, d.tool, d.arguments, answers)
	return &round{
		d, modernBody(p.nextID(), mcp.MethodToolsCall, params, meta),
		modernHeader(mcp.MethodToolsCall, d.tool),
	}
}

// attempt sends one request of a call and enters how it ends. A question ends it too:
// that is the result it returns. broken tells whether the connection broke.
func (p *person) attempt(ctx context.Context, r *round) (question mcp.Object, broken bool, later time.Duration) {
	return p.attemptUntil(ctx, r, func(err error) { p.broke(ctx, r.nonce, err) })
}

// attemptUntil is attempt where the client may end the connection itself, so that broke
// enters why that has ended.
func (p *person) attemptUntil(ctx context.Context, r *round, broke func(error),
) (question mcp.Object, broken bool, later time.Duration) {
	response, err := p.send(ctx, "/mcp", r.body, r.header)
	if err != nil {
		broke(err)
		return question, true, 0
	}
	if response.status != http.StatusOK {
		w := p.heard(response)
		return question, w.broken, p.refused(r.nonce, w)
	}
	if !response.streams() {
		p.ledger.Plain(r.nonce)
	}
	for e, wrong := range events(response) {
		if err = wrong; err != nil || e.message == nil {
			continue
		}
		if e.message.Result.Text("resultType") == "input_required" {
			return e.message.Result, false, 0
		}
		if over, later := p.told(r.deed, e.message); over {
			return question, false, later
		}
	}
	broke(err)
	return question, true, 0
}

// modernCalls calls tools that answer at once, later or at length, and cancels some
// calls.
func (p *person) modernCalls() {
	p.eachRound(func() time.Duration {
		switch p.dice.IntN(10) {
		case 0:
			return p.leave()
		case 1:
			return p.once("big", fmt.Sprintf(`,"size":%d`, 1000+p.dice.IntN(60_000)))
		case 2, 3, 4:
			return p.once("slow", fmt.Sprintf(`,"ms":%d`, p.dice.IntN(300)))
		}
		return p.once("touch", "")
	})
}

// plainCalls calls nothing but the plain tool.
func (p *person) plainCalls() {
	p.eachRound(func() time.Duration { return p.once("touch", "") })
}

// once makes one call that is sent once.
func (p *person) once(tool, arguments string) time.Duration {
	ctx, cancel := p.patient()
	defer cancel()
	began := time.Now()
	_, broken, later := p.attempt(ctx, p.modernRound(p.intend(p.server(), tool, arguments, ledger.Question{}),
		""))
	if tool == "touch" && !broken {
		longest(&p.crowd.tally.longestCall, time.Since(began))
	}
	return later
}

// leave cancels a call by closing its connection, as 2026-07-28 wants it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
func (p *person) leave() time.Duration {
	ctx, cancel := p.patient()
	defer cancel()
	d := p.intend(p.server(), "stay", "", ledger.Question{})
	left, leave := context.WithCancel(ctx)
	defer leave()
	timer := time.AfterFunc(100*time.Millisecond+time.Duration(p.dice.IntN(200))*time.Millisecond, func() {
		p.ledger.Cancelled(d.nonce)
		p.crowd.deeds.cancelled.Add(1)
		leave()
	})
	defer timer.Stop()
	_, _, later := p.attemptUntil(left, p.modernRound(d, ""), func(err error) {
		if timer.Stop() {
			p.broke(ctx, d.nonce, err) // before the client left
		}
	})
	return later
}

// modernProgress makes calls that tell of their progress.
func (p *person) modernProgress() {
	p.eachRound(func() time.Duration {
		d := p.progressing()
		ctx, cancel := p.patient()
		defer cancel()
		_, _, later := p.attempt(ctx, p.modernRound(d, ""))
		return later
	})
}

// keyedCalls makes calls with an Idempotency-Key, and repeats them byte for byte when the
// connection broke. It breaks some connections itself.
func (p *person) keyedCalls() {
	p.eachRound(func() time.Duration {
		d := p.intend(p.server(), "slow", fmt.Sprintf(`,"ms":%d`, p.dice.IntN(300)),
			ledger.Question{Keyed: true})
		ctx, cancel := p.patient()
		defer cancel()
		r := p.modernRound(d, "")
		r.header["Idempotency-Key"] = `"` + d.nonce.String() + `"`
		broken, later := p.hasty(ctx, r)
		for broken && world.Pause(ctx, later) {
			p.crowd.deeds.repeated.Add(1)
			_, again, wait := p.attempt(ctx, r)
			// what is told to come later may be repeated as well
			broken, later = again || wait > 0, max(wait, 100*time.Millisecond)
			if p.crowd.life.Err() != nil {
				return 0
			}
		}
		return later
	})
}

// hasty is the first attempt at a call with a key. Of four, the client loses one by
// itself in the middle.
func (p *person) hasty(ctx context.Context, r *round) (broken bool, later time.Duration) {
	if p.dice.IntN(4) > 0 {
		_, broken, later = p.attempt(ctx, r)
		return broken, later
	}
	short, cancel := context.WithTimeout(ctx, time.Duration(20+p.dice.IntN(100))*time.Millisecond)
	defer cancel()
	_, broken, later = p.attemptUntil(short, r, func(error) {
		p.ledger.Left(r.nonce, "left by its client, to repeat it")
	})
	return broken, later
}

// parkedCalls makes calls that ask their client something, and repeats them with the
// answer, at whatever replica.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (p *person) parkedCalls() {
	p.eachRound(func() time.Duration {
		d := p.intend(p.server(), "ask", "", ledger.Question{Events: 1})
		ctx, cancel := p.patient()
		defer cancel()
		question, _, later := p.attempt(ctx, p.modernRound(d, ""))
		if question.Len() == 0 {
			return later
		}
		p.ledger.Event(d.nonce, askedOf(question), 1)
		world.Pause(ctx, time.Duration(p.dice.IntN(200))*time.Millisecond) // the person thinks
		return p.repeat(ctx, d, question)
	})
}

// askedOf returns the call that the question of an input_required result belongs to, by
// its own words.
func askedOf(result mcp.Object) (of ledger.Nonce) {
	for _, request := range result.Object("inputRequests").Members {
		text, _ := request.Member("params").Member("message").Text()
		of = ofQuestion(text)
	}
	return of
}

// repeat repeats a parked call with the answer. Where it is told that nothing happened,
// it does so later again.
func (p *person) repeat(ctx context.Context, d *deed, question mcp.Object) time.Duration {
	answers := mcp.Object{}
	for key := range question.Object("inputRequests").Members {
		answers = answers.With(key, mcp.RawJSON(yes))
	}
	more := `"inputResponses":` + string(answers.JSON()) + `,`
	if state := question.Value("requestState"); state != nil {
		more += `"requestState":` + string(state) + `,`
	}
	for {
		again, broken, later := p.attempt(ctx, p.modernRound(d, more))
		switch {
		case again.Len() > 0:
			p.ledger.Event(d.nonce, d.nonce, 1) // the same question twice
			p.ledger.Refused(d.nonce, "asked again", true)
			return 0
		case broken || later == 0:
			p.crowd.deeds.questions.Add(1)
			return later
		case !world.Pause(ctx, later):
			return 0
		}
	}
}

// yes is the answer to a question.
const yes = `{"action":"accept","content":{"sure":true}}`
