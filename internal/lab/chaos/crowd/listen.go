package crowd

import (
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// roundsOpen is how many changes a client waits for before it opens another stream or
// session.
const roundsOpen = 20

// listen keeps a subscriptions/listen open, makes changes and waits until it is told of
// them. When the stream ends, with its result or without, it opens another.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (p *person) listen() {
	p.eachRound(func() {
		ctx, begun, cancel := p.lasting()
		defer cancel()
		w := p.subscribe(ctx, begun)
		if w == nil {
			p.comeLater(soon)
			return
		}
		for open := true; open && !p.crowd.stopping() && p.rounds%roundsOpen != roundsOpen-1; p.rounds++ {
			open = p.change(w, p)
			p.rest(ctx, p.pause)
		}
		cancel()
		for range w.heard { // until it has ended
		}
	})
}

// subscribe opens a stream. It returns nil when there is none.
func (p *person) subscribe(ctx context.Context, begun func()) *watch {
	uris := p.things()
	response := p.opened(p.modern(ctx, mcp.MethodListen, `"notifications":{"toolsListChanged":true,`+
		`"resourceSubscriptions":["`+uris[0]+`","`+uris[1]+`"]},`))
	if response == nil {
		return nil
	}
	begun()
	w := &watch{own: uris, heard: make(chan *mcp.Message, watched)}
	go p.read(w, response) // listen waits until heard is closed
	patient, stop := p.patient()
	defer stop()
	select {
	case first, open := <-w.heard:
		if open && first.Method == mcp.NotifyAcknowledged {
			p.crowd.listened.Add(1)
			promised := first.Params.Object("notifications")
			w.lists = string(promised.Value("toolsListChanged")) == "true"
			w.uris = slices.DeleteFunc(slices.Clone(uris),
				func(uri string) bool { return !has(promised.Value("resourceSubscriptions"), uri) })
			return w
		}
		if open { // else it was counted where it was read, unless its replica is about to end
			p.trouble("a subscription began with " + first.Method)
		}
	case <-patient.Done():
		if silent(patient) {
			p.ledger.Untold(p.kind + " of " + p.tenant + ": no acknowledgement")
		}
	}
	_ = response.body.Close() // it is of no use
	for range w.heard {       // until it has ended
	}
	return nil
}

// has tells whether a list of texts has that one.
func has(list mcp.RawJSON, text string) bool {
	elements, _ := list.Elements()
	return slices.ContainsFunc(elements, func(e mcp.RawJSON) bool { return e.Says(text) })
}

// list asks for the list of tools.
func (p *person) list(ctx context.Context) (tools mcp.Object, ok bool) {
	return p.result(p.modern(ctx, mcp.MethodToolsList, ""))
}

// ended tells whether nothing more is told and listed, as without sessions it never is.
func (p *person) ended() bool { return false }

// result reads an answer that is no call's, which is of use only if it is a result.
// Without one, the client comes later.
func (p *person) result(r *reply, err error) (result mcp.Object, ok bool) {
	if r = p.opened(r, err); r == nil {
		return result, false
	}
	for e, err := range events(r) {
		switch m := e.message; {
		case err != nil:
			p.garbled(err)
		case m == nil || !m.IsResponse():
			continue
		case m.Err != nil:
			p.failed(m.Err)
		default:
			return m.Result, true
		}
		p.comeLater(soon)
		return result, false
	}
	p.trouble("an answer without a result")
	p.comeLater(soon)
	return result, false
}
