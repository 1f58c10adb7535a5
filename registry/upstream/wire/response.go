package wire

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"
)

// Media types of answers.
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

// readBody reads a body to its end, which lets its connection be used again. It gives up beyond limit bytes, whatever
// length was announced.
func readBody(resp *http.Response, limit int) ([]byte, error) {
	const trusted = 1 << 20 // bytes made room for because a server announces them
	if resp.ContentLength > int64(limit) {
		return nil, ErrTooLarge
	}
	if n := resp.ContentLength; n >= 0 && n <= trusted {
		body := make([]byte, n)
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1)); err != nil {
		return nil, err
	}
	if body.Len() > limit {
		return nil, ErrTooLarge
	}
	return body.Bytes(), nil
}

// drain reads what follows the answer, so that the connection can be used again, and closes the body. A server that
// does not end its streams is waited for once.
func (l *HTTP) drain(resp *http.Response) {
	defer discard(resp)
	if l.hasty.Load() {
		return
	}
	var late atomic.Bool
	timer := time.AfterFunc(drainLimit, func() {
		late.Store(true)
		discard(resp)
	})
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal)) // only the end matters
	if late.Load() {
		l.hasty.Store(true)
	}
}

// discard closes a body that nobody reads on.
func discard(resp *http.Response) {
	_ = resp.Body.Close() // nothing depends on it
}
