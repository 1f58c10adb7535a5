package streams

import (
	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// Slot is one of the slots for event streams, of the tenant and of the whole
// server. It was taken and must be given back.
type Slot struct {
	set       *Set
	closed    func()
	Principal auth.Principal
}

// Kinds of streams that are special: one answers a POST, and the other one's end is that
// of its session.
const (
	KindPost    = "post"
	KindSession = "sse"
)

// slotRefusals are for who gets no slot.
var slotRefusals = exchange.Refusals{
	{share.ErrTotal, exchange.ErrStreams},
	{share.ErrTenant, exchange.ErrStreamShare},
	{share.ErrUser, exchange.ErrStreamShare},
}

// TakeSlot takes a slot for a stream of one of these kinds: get, post, listen,
// sse.
func (fs *Set) TakeSlot(x *exchange.Exchange, kind string) (*Slot, *exchange.Refusal) {
	if kind == KindSession && fs.IsDraining() {
		return nil, exchange.ErrDraining
	}
	if refused := slotRefusals.Of(fs.slots.Take(share.User(x.Principal.User()), 1)); refused != nil {
		return nil, refused
	}
	closed, err := fs.config.Exchanges.Desk.OpenStream(x.Context(), x.Caller, kind)
	if err != nil {
		fs.slots.Give(share.User(x.Principal.User()), 1)
		return nil, exchange.RefusalOf(err, x.Era)
	}
	p := &Slot{set: fs, closed: closed, Principal: x.Principal}
	if kind != KindPost && x.IsOutdated() { // one that answers a POST ends with its request
		p.Release()
		return nil, x.RefuseOutdated()
	}
	return p, nil
}

// TakeLastingSlot takes a slot for a stream that lasts for as long as its client wants.
// HTTP/1.0 cannot tell the end of such a stream from a broken connection.
func (fs *Set) TakeLastingSlot(x *exchange.Exchange, kind string) (*Slot, *exchange.Refusal) {
	if !x.Request.ProtoAtLeast(1, 1) {
		return nil, exchange.ErrHTTPVersion
	}
	return fs.TakeSlot(x, kind)
}

// Release gives the slot back.
func (p *Slot) Release() {
	p.set.slots.Give(share.User(p.Principal.User()), 1)
	p.closed()
}
