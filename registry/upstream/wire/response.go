package wire

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// Limits of responses.
const (
	maxRefusal = 64 << 10              // bytes read of an answer that is a refusal
	drainLimit = 20 * time.Millisecond // for what follows the answer
)

// response is what a server answers to one HTTP request.
type response struct {
	*http.Response
	media media
}

// roundTrip sends one HTTP request. sent tells whether the server may have received it.
func roundTrip(
	ctx context.Context, client http.RoundTripper, target *url.URL, method string, header http.Header, body []byte,
) (resp *response, sent bool, err error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	req := (&http.Request{
		Method: method, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if body != nil {
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	answer, err := client.RoundTrip(req) //nolint:bodyclose // whoever gets the response closes it
	if err != nil {
		return nil, written.Load(), err
	}
	return &response{answer, mediaType(answer.Header)}, true, nil
}

// media is the type of a body.
type media int

const (
	typeUnknown media = iota
	typeJSON
	typeStream
)

// mediaType returns what an answer is. One that is compressed is unknown: nobody asked for that.
func mediaType(header http.Header) media {
	if header.Get("Content-Encoding") != "" {
		return typeUnknown
	}
	name := header.Get("Content-Type")
	switch name {
	case "application/json", "text/event-stream": // the usual spelling needs no parsing
	default:
		name, _, _ = mime.ParseMediaType(name)
	}
	switch name {
	case "application/json":
		return typeJSON
	case "text/event-stream":
		return typeStream
	}
	return typeUnknown
}

// read reads the body to its end, which lets its connection be used again, and closes it. It gives up beyond limit bytes,
// whatever length was announced.
func (r *response) read(limit int) ([]byte, error) {
	const trusted = 1 << 20 // bytes made room for because a server announces them
	defer r.discard()
	if r.ContentLength > int64(limit) {
		return nil, ErrTooLarge
	}
	if n := r.ContentLength; n >= 0 && n <= trusted {
		body := make([]byte, n)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(r.Body, int64(limit)+1)); err != nil {
		return nil, err
	}
	if body.Len() > limit {
		return nil, ErrTooLarge
	}
	return body.Bytes(), nil
}

// drain reads what follows the answer, so that the connection can be used again, and closes the body. It returns false
// when that did not end in time.
func (r *response) drain() (ended bool) {
	defer r.discard()
	var late atomic.Bool
	timer := time.AfterFunc(drainLimit, func() {
		late.Store(true)
		r.discard()
	})
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxRefusal)) // only the end matters
	return !late.Load()
}

// discard closes the body, which nobody reads on.
func (r *response) discard() {
	_ = r.Body.Close() // nothing depends on it
}
