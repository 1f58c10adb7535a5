package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"math"
	"net/url"
)

// Peers keeps connections over TLS to other processes of this gateway, which carry what
// these say to each other. Like a plain request, what is sent is sent once, over a
// connection that was looked at. It is safe for concurrent use.
type Peers struct{ transport *transport }

// NewPeers returns Peers whose hosts need not be addresses: find tells the address of a
// host, and how to talk TLS with it. A connection is there within 2 s, with TLS, or not
// at all.
func NewPeers(find func(host string) (address string, secure *tls.Config, err error)) *Peers {
	t := newTransport(newDialer(true, nil))
	t.find = find
	return &Peers{t}
}

// Exchange is what was sent, while the answer is read. The end of its context closes the
// connection.
type Exchange struct {
	In   *bufio.Reader // the answer, and nothing behind it
	conn *conn
}

// Send sends a head and then a body, which may be empty, and waits for the first bytes of
// the answer. sent tells, beside an error, whether the other process may have got all of
// it.
func (p *Peers) Send(ctx context.Context, host string, head, body []byte) (x Exchange, sent bool, err error) {
	target := &url.URL{Scheme: "https", Host: host}
	c, sent, err := p.transport.begin(ctx, target, &message{raw: head, body: body})
	if err != nil {
		return Exchange{}, sent, endedOr(ctx, err)
	}
	c.left = math.MaxInt64
	if c.in == nil {
		c.in = bufio.NewReader(c)
	}
	return Exchange{c.in, c}, true, nil
}

// Release ends the exchange. whole says that the answer was read to its end.
func (x *Exchange) Release(whole bool) { x.conn.release(whole && x.conn.turn.unsent == nil) }
