package wire

import (
	"context"
	"net/http"
	"net/url"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Site says where a server over HTTP is and how it is reached.
type Site struct {
	URL     *url.URL          // shared: not modified
	Client  http.RoundTripper // not an http.Client, so that there are no redirects and no cookies
	Headers map[string]string // sent with every request; the protocol's own cannot be set
	// what requests carry beside that
	Credential Credential
	Version    string    // of the gateway, for User-Agent
	Throttle   *Throttle // of the server; nil: what it sends is read as fast as it comes
	Memory     Memory
	Turns      *fairqueue.Queue // at reading what is large; nil: it is read at once
}

// Credential returns what a request carries on behalf of a principal, or for the link
// itself if that is nil. Nil headers are nothing. An error means that nothing may be
// sent.
type Credential func(ctx context.Context, p *auth.Principal) (*credential.Headers, error)

// sender sends HTTP requests with what they carry.
type sender struct {
	client     http.RoundTripper // not an http.Client, so that there are no redirects and no cookies
	credential Credential
}

// roundTrip sends one HTTP request on behalf of a caller. sent is as of dial.Send.
func (s *sender) roundTrip(ctx context.Context, of Caller, target *url.URL, method string,
	header http.Header, body []byte,
) (resp *response, sent bool, err error) {
	return s.carried(ctx, of, func(g *credential.Headers) (*http.Response, bool, error) {
		return dial.Send(ctx, s.client, target, method, g.Add(header, of.Trace), body)
	})
}

// carried has send send a request with what it carries, as credential.Carried does. If
// send returns neither a response nor an error, so does carried.
func (s *sender) carried(ctx context.Context, of Caller,
	send func(*credential.Headers) (answer *http.Response, sent bool, err error),
) (resp *response, sent bool, err error) {
	//nolint:bodyclose // whoever gets the response closes it
	answer, g, sent, err := credential.Carried(
		func() (*credential.Headers, error) { return s.credential(ctx, of.For) }, send)
	if answer == nil || err != nil {
		return nil, sent, err
	}
	return &response{answer, mediaType(answer.Header), g}, sent, nil
}

// postMessage posts a message that nobody answers, or that is answered elsewhere, on
// behalf of a caller. Any status of success accepts it; the body of the response has no
// meaning, and drain reads it.
func (s *sender) postMessage(ctx context.Context, of Caller, target *url.URL, header http.Header,
	body []byte, drain func(*response),
) error {
	resp, sent, err := s.roundTrip(ctx, of, target, http.MethodPost, header, body)
	if err != nil {
		return unavailable(sent, err)
	}
	drain(resp)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case resp.StatusCode < 400:
		return protocol("%w", refusedBy(resp))
	}
	return unavailable(resp.StatusCode >= 500, refusedBy(resp))
}

// baseHeader returns the headers of messages: the operator's and our own. Those of the
// protocol cannot be the operator's.
func baseHeader(at Site) http.Header {
	base := http.Header{"User-Agent": {"drawbridge/" + at.Version}} // unless the operator has another
	for name, value := range at.Headers {
		base.Set(name, value)
	}
	base.Set("Content-Type", "application/json")
	base.Set("Accept", "application/json, text/event-stream")
	for _, name := range []string{
		mcp.HeaderSessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod,
		mcp.HeaderName, mcp.HeaderLastEventID,
	} {
		base.Del(name)
	}
	return base
}

// streamHeader returns the headers of a GET for a stream, made from those of a POST.
func streamHeader(post http.Header) http.Header {
	get := post.Clone()
	get.Del("Content-Type")
	get.Set("Accept", "text/event-stream")
	return get
}
