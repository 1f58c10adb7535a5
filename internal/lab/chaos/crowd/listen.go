package crowd

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// roundsOpen is how many changes a client waits for before it opens another stream or
// session.
const roundsOpen = 20

// listen keeps a subscriptions/listen open, makes changes and waits until it is told of
// them. When the stream ends, with its result or without, it opens another.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (p *person) listen() {
	p.eachRound(func() time.Duration {
		ctx, begun, cancel := p.lasting()
		defer cancel()
		w, later := p.subscribe(ctx, begun)
		if w == nil {
			return later
		}
		for open := true; open && !p.crowd.stopping() && p.rounds%roundsOpen != roundsOpen-1; p.rounds++ {
			open, later = p.change(w, caller{p.callOnce, p.listModern, func() bool { return false }})
			world.Pause(ctx, max(later, p.crowd.config.Pause))
		}
		cancel()
		for range w.heard { // until it has ended
		}
		return later
	})
}

// subscribe opens a stream. It returns nil, and how long to wait, when there is none.
func (p *person) subscribe(ctx context.Context, begun func()) (*watch, time.Duration) {
	uris := p.things()
	id := p.nextID()
	params := `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["` + uris[0] + `","` +
		uris[1] + `"]},`
	response, err := p.send(ctx, "/mcp", modernBody(id, mcp.MethodListen, params, ""),
		modernHeader(mcp.MethodListen, ""))
	if err != nil {
		return nil, 100 * time.Millisecond
	}
	if response.status != http.StatusOK {
		return nil, max(p.heard(response).later, 100*time.Millisecond)
	}
	begun()
	w := &watch{own: uris, heard: make(chan *mcp.Message, watched)}
	go p.read(w, response) // listen waits until heard is closed
	timer := time.NewTimer(p.crowd.config.Patience)
	defer timer.Stop()
	select {
	case first, open := <-w.heard:
		if !open {
			break // counted where it was read, unless its replica is about to end
		}
		if first.Method != mcp.NotifyAcknowledged {
			p.trouble("a subscription began with " + first.Method)
			break
		}
		p.crowd.deeds.listened.Add(1)
		promised := first.Params.Object("notifications")
		w.lists = string(promised.Value("toolsListChanged")) == "true"
		w.uris = slices.DeleteFunc(slices.Clone(uris),
			func(uri string) bool { return !has(promised.Value("resourceSubscriptions"), uri) })
		return w, 0
	case <-timer.C:
		p.ledger.Untold(p.kind + " of " + p.tenant + ": no acknowledgement")
	case <-ctx.Done():
	}
	_ = response.body.Close() // it is of no use
	for range w.heard {       // until it has ended
	}
	return nil, 100 * time.Millisecond
}

// has tells whether a list of texts has that one.
func has(list mcp.RawJSON, text string) bool {
	elements, _ := list.Elements()
	return slices.ContainsFunc(elements, func(e mcp.RawJSON) bool { return e.Says(text) })
}

func (p *person) callOnce(ctx context.Context, d *deed) time.Duration {
	_, _, later := p.attempt(ctx, p.modernRound(d, ""))
	return later
}

// listModern asks for the list of tools.
func (p *person) listModern(ctx context.Context) (tools mcp.Object, ok bool) {
	response, err := p.send(ctx, "/mcp", modernBody(p.nextID(), mcp.MethodToolsList, "", ""),
		modernHeader(mcp.MethodToolsList, ""))
	if err != nil {
		return tools, false
	}
	return p.result(response)
}

// result reads an answer that is no call's, which is of use only if it is a result.
func (p *person) result(response *reply) (result mcp.Object, ok bool) {
	if response.status != http.StatusOK {
		p.heard(response)
		return result, false
	}
	for e, err := range events(response) {
		switch m := e.message; {
		case err != nil:
			p.garbled(err)
			return result, false
		case m == nil || !m.IsResponse():
		case m.Err != nil:
			p.failed(m.Err)
			return result, false
		default:
			return m.Result, true
		}
	}
	p.trouble("an answer without a result")
	return result, false
}
