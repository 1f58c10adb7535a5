package upstream

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// question is a request of the server that waits for an answer.
type question struct {
	id      mcp.ID
	key     string      // ours, and of this question only
	request mcp.RawJSON // as the caller gets it
	stray   bool        // another call may take it over
}

// questionKey returns the key of the nth question of a call.
func questionKey(n int) string { return "q" + string(mcp.NumberID(int64(n))) }

// inputRequest returns a question as callers get it. It has params also when they are empty: the Go SDK cannot do without.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func inputRequest(method string, params mcp.Object) mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "method", Value: mcp.String(method)}, mcp.Member{Name: "params", Value: params.JSON()},
	).JSON()
}

// Refusals of questions.
var (
	errUnasked   = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found") // that nobody can be asked
	errNoCall    = mcp.Errorf(mcp.CodeInternal, "There is no call that this could belong to")
	errCallEnded = mcp.Errorf(mcp.CodeInternal, "The call has ended")
)

func rejection(id mcp.ID, err *mcp.Error) []byte { return mcp.AppendError(nil, id, err) }

// notified takes a notification that no request's token or stream ties to a call.
func (l *legacy) notified(m *mcp.Message) {
	switch m.Method {
	case mcp.NotifyResourceUpdated:
		l.updated(m.Params.Text("uri"))
	case mcp.NotifyCancelled:
		l.withdraw(mcp.ID(m.Params.Value("requestId")))
	case mcp.NotifyMessage:
		if d := l.only(); d != nil {
			d.note(m)
		}
	}
}

// only returns the one open call whose caller can be asked, nil when there are none or several.
func (l *legacy) only() *dialogue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dialogues) != 1 {
		return nil
	}
	return l.dialogues[0]
}

// openCalls returns the open calls whose callers can be asked, in the order in which they began.
func (l *legacy) openCalls() []*dialogue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.dialogues)
}

// enter and leave bound the time in which a call may be asked.
func (l *legacy) enter(d *dialogue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialogues = append(l.dialogues, d)
}

func (l *legacy) leave(d *dialogue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialogues = slices.DeleteFunc(l.dialogues, func(other *dialogue) bool { return other == d })
}

// question gives a request of the server to the call on whose stream it came. It returns the refusal when there is none.
func (l *legacy) question(m *mcp.Message, of *wire.Request) []byte {
	switch {
	case l.capabilities.Len() == 0:
		return rejection(m.ID, errUnasked)
	case of == nil:
		return l.stray(m)
	case of.Ask == nil:
		return rejection(m.ID, errNoCall)
	}
	if err := of.Ask(m); err != nil {
		return rejection(m.ID, err)
	}
	return nil
}

// withdraw takes a question back.
func (l *legacy) withdraw(id mcp.ID) {
	for _, d := range l.openCalls() {
		d.withdraw(id)
	}
}
