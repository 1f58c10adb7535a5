package dial

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
)

// Post is a POST request without its body, made once and sent as often as needed. It is
// safe for concurrent use.
type Post struct {
	transport *transport
	request   *http.Request // in whose place it stands; without a body and without a context
	head      []byte        // as of appendHead
	// net/http speaks HTTP/1.1 with this server over TLS; nil: the request goes without
	// TLS
	old *atomic.Bool
}

// NewPost returns a request that the client sends at less cost than by RoundTrip, which
// gives the same responses. It is nil if the client is none of this package, or if the
// request is one that it leaves to net/http.
func NewPost(client http.RoundTripper, target *url.URL, header http.Header) *Post {
	t, ok := client.(*transport)
	if !ok {
		return nil
	}
	r := &http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host, Header: header, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
	}
	if !plain(r) {
		return nil
	}
	p := &Post{transport: t, request: r, head: appendHead(nil, r)}
	if target.Scheme == "https" {
		p.old = t.version(target.Host)
	}
	return p
}

// Send sends the request with a body, and waits for the response. more are further lines
// of the header, which the header that was prepared does not have; nil: there are none.
// It may be called twice. If the response is a usual answer, with the status 200 and JSON
// of a known length up to 1 MiB, answer is its body. Otherwise answer is nil and other is
// the response, whose body the caller closes. sent tells, beside an error, whether the
// server may have received the request. An error of memory is returned as it is; if ctx
// has ended, other errors are those of ctx.
//
// A body of more than 64 KiB is not sent like this, nor is a request over TLS before
// net/http has found out that the server speaks HTTP/1.1, and no more than that: answer,
// other and err are nil, and nothing was sent.
func (p *Post) Send(ctx context.Context, more Lines, body []byte, memory Memory) (
	answer []byte, other *http.Response, sent bool, err error,
) {
	if len(body) > maxSent || p.old != nil && !p.old.Load() {
		return nil, nil, false, nil
	}
	c, sent, err := p.transport.begin(ctx, p.request.URL, &message{
		head: p.head, more: more, method: http.MethodPost, body: body,
	})
	if err != nil {
		return nil, nil, sent, endedOr(ctx, err)
	}
	header, length, keepAlive, ok := parseAnswer(c.first)
	if !ok {
		other, err = c.respond(ctx, p.request)
		return nil, other, true, endedOr(ctx, err)
	}
	c.life = idleTime(keepAlive, c.life)
	if err := memory.Hold(length); err != nil {
		c.release(false)
		return nil, nil, true, err
	}
	c.first = c.first[header:]
	answer, err = c.readAnswer(length)
	c.release(err == nil && c.turn.unsent == nil)
	return answer, nil, true, endedOr(ctx, err)
}
