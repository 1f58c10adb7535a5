package dial

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// Send sends one request by client, and waits for its response, be that a redirect or
// not. sent tells, beside an error, whether the server may have received the request: if
// its header was written, it may.
func Send(ctx context.Context, client http.RoundTripper, target *url.URL, method string, header http.Header,
	body []byte,
) (response *http.Response, sent bool, err error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	req := (&http.Request{
		Method: method, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	response, err = client.RoundTrip(req)
	return response, err == nil || written.Load(), err
}
