package exchange

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// ReadBody reads the whole body of a POST and checks it strictly, before anything is
// answered. Its memory is never reused, because the raw values of the call are parts of
// it. A body that declares its length is charged before it is read, so that little is
// done for one that is refused. What another replica has forwarded is charged and checked
// there.
func (s *Service) ReadBody(x *Exchange, r *http.Request) (mcp.RawJSON, *Refusal) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	if r.ContentLength >= s.memoryForBody {
		return nil, tooLargeForMemory(s.memoryForBody)
	}
	if r.ContentLength >= 0 && !x.Forwarded {
		if refused := s.charge(x, r.ContentLength); refused != nil {
			return nil, refused
		}
	}
	data, refused := s.receiveBody(x, r)
	switch {
	case refused != nil:
		return nil, refused
	case x.Forwarded:
		return data, nil
	case r.ContentLength < 0:
		if refused := s.charge(x, int64(len(data))); refused != nil {
			return nil, refused
		}
	}
	return s.parse(x, data)
}

// charge takes what a body of that size costs. Who has no room for it gets the refusal
// late.
func (s *Service) charge(x *Exchange, size int64) *Refusal {
	if err := s.Desk.ChargeSize(x.Context(), x.Caller, size); err != nil {
		s.DelayLimited(x, err)
		return RefusalOf(err, 0)
	}
	return nil
}

// receiveBody reads the bytes of the body.
func (s *Service) receiveBody(x *Exchange, r *http.Request) ([]byte, *Refusal) {
	x.Reservation.Body = s.config.Memory.Allocate(share.User(x.Principal.User()))
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > fairqueue.Swift { // what is shorter is never held up
		body = s.config.Turns.Paced(x.Context(), body)
	}
	data, err := x.receive(body, r.ContentLength)
	if err != nil {
		return nil, s.unreceived(err)
	}
	_ = body.Close() // it is at its end; net/http would look for that again
	// The deadline ends only here: until then it also bounds how long net/http reads on
	// in a body that was refused.
	_ = x.Control.SetReadDeadline(time.Time{}) // a recorder has no deadlines
	return data, nil
}

// unreceived returns what is told for an error of receive.
func (s *Service) unreceived(err error) *Refusal {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return TooLarge(s.config.MaxBody)
	}
	switch {
	case errors.Is(err, share.ErrTooLarge):
		return tooLargeForMemory(s.memoryForBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooLate
	}
	return cmp.Or(RefusalOfMemory(err), errBody)
}

// parseTime is about how long it takes to check one byte of a body strictly.
const parseTime = 4 * time.Nanosecond

// parse checks a body strictly. A large one waits for its turn.
func (s *Service) parse(x *Exchange, data []byte) (mcp.RawJSON, *Refusal) {
	began := time.Now()
	release, err := s.config.Turns.Enter(x.Context(), share.User(x.Principal.User()),
		time.Duration(len(data))*parseTime)
	x.Queued = time.Since(began)
	if err != nil {
		return nil, cmp.Or(workRefusals.Of(err), errBody) // errBody: the client is gone
	}
	defer release()
	raw, err := mcp.ParseRaw(data)
	if err != nil {
		return nil, Refusalf(http.StatusBadRequest, mcp.CodeParse, "Parse error: %v", err)
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

// receive reads a body to its end, length being what its header declares, negative if it
// does not. Its memory is counted before it is allocated. An error may be one of package
// share; share.ErrTooLarge is for a body that takes all that a user can hold if nobody
// holds anything, or more.
func (x *Exchange) receive(from io.Reader, length int64) ([]byte, error) {
	x.arriving = arriving{
		Reader: from, control: &x.Control, begun: time.Now(), last: x.Started.Add(ReadTimeout),
	}
	return share.Incoming{
		Length: int(length), Most: int(x.service.memoryForBody) - 1, Trusted: share.Covered, Ahead: 2,
		Hold: func(bytes int) error { return x.Reservation.Body.Resize(int64(bytes)) },
	}.ReadAll(&x.arriving)
}
