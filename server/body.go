package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"

	// writeTimeout is how long a client may take to accept one write, of writeSize bytes at most.
	writeTimeout = 10 * time.Second
	writeSize    = 256 << 10

	// maxBodies is how much the bodies of all requests in work may take, in bytes.
	maxBodies = 256 << 20
)

// readBody reads the whole body of a POST and checks it strictly, before anything is answered. Its memory is never
// reused, because the raw values of the call are parts of it.
func (s *Server) readBody(x *exchange, r *http.Request) (mcp.RawJSON, *refusal) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	if !s.setAside(x, r.ContentLength) {
		return nil, errOverload
	}
	data, err := readAll(r.Body, r.ContentLength)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errBodySize
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodyTime
	case err != nil:
		return nil, errBody
	}
	if r.ContentLength < 0 {
		s.trimBody(x, int64(len(data)))
	}
	// The deadline ends only here: until then it also bounds how long net/http reads on in a body that was refused.
	_ = x.control.SetReadDeadline(time.Time{}) // a recorder has no deadlines
	raw, err := mcp.ParseRaw(data)
	if err != nil {
		return nil, refuseAs(http.StatusBadRequest, mcp.CodeParse, "Parse error: %v", err)
	}
	return raw, nil
}

// setAside reserves, out of maxBodies, what a body of the declared length may need. A negative length means that it is
// not known, and reserves the most that a body may have. It is false if there is not that much left.
func (s *Server) setAside(x *exchange, length int64) bool {
	if length < 0 {
		length = s.config.MaxBody
	}
	length = min(length, maxBodies) // or a limit above it would let nothing pass
	if s.bodies.Add(length) > maxBodies {
		s.bodies.Add(-length)
		return false
	}
	x.held.body = length
	return true
}

// trimBody gives back the part of a reservation that the body turned out not to need.
func (s *Server) trimBody(x *exchange, length int64) {
	if rest := x.held.body - length; rest > 0 {
		x.held.body = length
		s.bodies.Add(-rest)
	}
}

// readAll reads to the end. The declared length decides only how much memory is allocated at first, and beyond 64 KiB
// it is not believed.
func readAll(from io.Reader, length int64) ([]byte, error) {
	data := make([]byte, 0, min(max(length, 511), 64<<10)+1)
	for {
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			grown := make([]byte, len(data), 2*cap(data))
			copy(grown, data)
			data = grown
		}
	}
}

// isJSON tells whether the body is declared as uncompressed JSON in UTF-8. It is also a defence: a browser does not
// send this content type to a foreign origin without asking first.
func isJSON(h http.Header) bool {
	if _, encoded := h["Content-Encoding"]; encoded {
		return false
	}
	types := h["Content-Type"]
	if len(types) != 1 {
		return false
	}
	if types[0] == jsonType {
		return true
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, found := params["charset"]
	return err == nil && media == jsonType && (!found || strings.EqualFold(charset, "utf-8"))
}

// readAccept notes which forms of an answer the client accepts, and whether it names event streams before JSON. A
// client without an Accept header accepts any.
func (x *exchange) readAccept(h http.Header) {
	values := h["Accept"]
	if len(values) == 0 {
		x.acceptsJSON, x.acceptsStream = true, true
		return
	}
	for _, value := range values {
		for value != "" {
			var one string
			one, value, _ = strings.Cut(value, ",")
			x.acceptOne(one)
		}
	}
}

func (x *exchange) acceptOne(value string) {
	media, params, _ := strings.Cut(value, ";")
	quality, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
	if found && strings.Trim(quality, "0.") == "" {
		return // q=0: anything but this
	}
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "*/*":
		x.acceptsJSON, x.acceptsStream = true, true
	case jsonType, "application/*":
		x.acceptsJSON = true
	case streamType, "text/*":
		x.acceptsStream, x.prefersStream = true, !x.acceptsJSON
	}
}

// writeJSON answers with one JSON text.
func (x *exchange) writeJSON(status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	for first := true; first || len(body) > 0; first = false {
		_ = x.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder has no deadlines
		if first {
			x.WriteHeader(status)
		}
		n := min(len(body), writeSize)
		if _, err := x.Write(body[:n]); err != nil {
			return // the client is gone
		}
		body = body[n:]
	}
}

// writeStatus answers without a body.
func (x *exchange) writeStatus(status int) {
	_ = x.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder has no deadlines
	x.WriteHeader(status)
}
