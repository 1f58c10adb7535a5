package server

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
	bothTypes  = jsonType + ", " + streamType

	// writeTimeout is how long a client may take to accept one write, of writeSize bytes
	// at most.
	writeTimeout = 10 * time.Second
	writeSize    = 256 << 10
)

// readBody reads the whole body of a POST and checks it strictly, before anything is
// answered. Its memory is never reused, because the raw values of the call are parts of
// it. A body that declares its length is charged before it is read, so that little is
// done for one that is refused.
func (s *service) readBody(x *exchange, r *http.Request) (mcp.RawJSON, *refusal) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	if r.ContentLength >= s.roomForBody {
		return nil, s.tooLargeForMemory()
	}
	if r.ContentLength >= 0 {
		if refused := s.charge(x, r.ContentLength); refused != nil {
			return nil, refused
		}
	}
	data, refused := s.receiveBody(x, r)
	if refused != nil {
		return nil, refused
	}
	if r.ContentLength < 0 {
		if refused := s.charge(x, int64(len(data))); refused != nil {
			return nil, refused
		}
	}
	return s.parse(x, data)
}

// charge takes what a body of that size costs. Who has no room for it gets the refusal
// late.
func (s *service) charge(x *exchange, size int64) *refusal {
	if x.forwarded {
		return nil // the first replica has taken it
	}
	if err := s.desk.ChargeSize(x.context(), x.caller, size); err != nil {
		s.delayLimited(x, err)
		told := toldOf(err)
		return &refusal{statusOf(told.Code, 0), told}
	}
	return nil
}

// receiveBody reads the bytes of the body.
func (s *service) receiveBody(x *exchange, r *http.Request) ([]byte, *refusal) {
	x.held.body = s.config.Memory.Lease(share.User(x.principal.User()))
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > fairqueue.Swift { // what is shorter is never held up
		body = s.config.Turns.Paced(x.context(), body)
	}
	data, err := x.receive(body, r.ContentLength)
	if err != nil {
		return nil, s.unreceived(err)
	}
	_ = body.Close() // it is at its end; net/http would look for that again
	// The deadline ends only here: until then it also bounds how long net/http reads on
	// in a body that was refused.
	_ = x.control.SetReadDeadline(time.Time{}) // a recorder has no deadlines
	return data, nil
}

// unreceived returns what is told for an error of receive.
func (s *service) unreceived(err error) *refusal {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return s.tooLarge()
	}
	switch {
	case errors.Is(err, errNoRoom):
		return s.tooLargeForMemory()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.tooLate()
	case ofMemory(err) != nil:
		return ofMemory(err)
	}
	return errBody
}

// parseTime is about how long it takes to check one byte of a body strictly.
const parseTime = 4 * time.Nanosecond

// parse checks a body strictly. A large one waits for its turn.
func (s *service) parse(x *exchange, data []byte) (mcp.RawJSON, *refusal) {
	leave, err := s.config.Turns.Enter(x.context(), share.User(x.principal.User()),
		time.Duration(len(data))*parseTime)
	switch {
	case errors.Is(err, fairqueue.ErrUser):
		return nil, errUserWork
	case errors.Is(err, fairqueue.ErrTenant):
		return nil, errTenantWork
	case errors.Is(err, fairqueue.ErrTotal):
		return nil, errOverloadWork
	case err != nil:
		return nil, errBody // the client is gone
	}
	defer leave()
	raw, err := mcp.ParseRaw(data)
	if err != nil {
		return nil, refuseAs(http.StatusBadRequest, mcp.CodeParse, "Parse error: %v", err)
	}
	return raw, nil
}

// isJSON tells whether the body is declared as uncompressed JSON in UTF-8. It is also a
// defence: a browser does not send this content type to a foreign origin without asking
// first.
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

// readAccept notes which forms of an answer the client accepts, and whether it names
// event streams before JSON. A client without an Accept header accepts any.
func (x *exchange) readAccept(h http.Header) {
	values := h["Accept"]
	if len(values) == 0 || len(values) == 1 && values[0] == bothTypes { // nearly all clients send just this
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

// jsonTypes is the value of a header. It is shared: do not modify.
var jsonTypes = []string{jsonType}

// writeJSON answers with one JSON text, which may come in parts and is not empty.
func (x *exchange) writeJSON(status int, body ...[]byte) {
	x.writeAs(jsonTypes, status, body...)
}

// writeAs is writeJSON for JSON of a media type of its own.
func (x *exchange) writeAs(types []string, status int, body ...[]byte) {
	h := x.Header()
	x.measured[0] = strconv.Itoa(payload(body).size())
	h["Content-Type"], h["Content-Length"] = types, x.measured[:]
	x.WriteHeader(status)
	for _, part := range body {
		if x.writeAll(part) != nil {
			return // the client is gone
		}
	}
}

// writeAll writes data in pieces that each have a deadline, at the pace of what is large.
func (x *exchange) writeAll(data []byte) error {
	for written := 0; written < len(data); {
		x.allowWrite()
		n := min(len(data)-written, writeSize)
		if _, err := x.Write(data[written : written+n]); err != nil {
			return err
		}
		if written += n; written > fairqueue.Swift {
			x.service.config.Turns.Pace(context.Background(), n)
		}
	}
	return nil
}

// allowWrite gives the client a new deadline for accepting the next write.
func (x *exchange) allowWrite() {
	_ = x.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder has no deadlines
}

// writeStatus answers without a body.
func (x *exchange) writeStatus(status int) {
	x.allowWrite()
	x.WriteHeader(status)
}

// room implements outlet: the goroutine of a request waits for its client.
func (*exchange) room(int) error { return nil }

// flush implements outlet.
func (x *exchange) flush() error { return x.control.Flush() }
