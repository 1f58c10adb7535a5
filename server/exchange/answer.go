package exchange

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Answer is what a request gets: a result, an error, or nothing at all if its client
// cancelled it.
type Answer struct {
	ID     mcp.ID
	Result mcp.Object
	Err    *mcp.Error
	Status int // of HTTP for err where the door knows better than StatusOf; zero: it does not
	Silent bool
	Ended  string             // how the desk has recorded the request; "": it has not
	Shared string             // the member of the result whose text others share, see payload; "": none
	Memory *share.Reservation // holds the result, and its encoded form after that; nil: nothing is counted
	text   [1][]byte          // the response, where payload returns it in one piece
}

// bytesEncoded is about how many bytes of an answer are encoded in a nanosecond: they are
// copied, into memory that is new.
const bytesEncoded = 2

// Message is the message of a, which is made in its turn if it is large.
func (s *Service) Message(ctx context.Context, a *Answer, requestID string) []byte {
	release, err := s.config.Turns.Finish(ctx, a.Memory.User(), time.Duration(a.Result.Size()/bytesEncoded))
	if err == nil { // otherwise the client has left, and nobody waits for what is made
		defer release()
	}
	return a.Message(requestID)
}

// Payload is the text of a message in parts, so that a long part which others share need
// not be copied. It is written part by part; only what is kept for the client is joined.
// nil: there is no message.
type Payload [][]byte

// splitFrom is the length from which a shared text is a part of its own, in bytes: it
// costs less to copy a short one.
const splitFrom = 8 << 10

// Size returns the length of the message, in bytes.
func (p Payload) Size() int {
	size := 0
	for _, part := range p {
		size += len(part)
	}
	return size
}

// Joined returns the message in one piece. It may be a part itself: do not modify it.
func (p Payload) Joined() []byte {
	if len(p) == 1 {
		return p[0]
	}
	return bytes.Join(p, nil)
}

// SharedBy returns the member of the results of a method whose text others share: the
// desk makes a page of a list once for all who see the same.
func SharedBy(method string) string {
	if asked := mcp.MethodOf(method); asked.Lists {
		return asked.Result
	}
	return ""
}

// Payload returns the response, and forgets the result. It is that of message, but for
// the text that others share: what is copied around that is too little to wait for a
// turn. It is nil if the client gets none.
func (s *Service) Payload(ctx context.Context, a *Answer, requestID string) Payload {
	if a.Silent {
		return nil
	}
	if a.Err != nil || a.Shared == "" || len(a.Result.Value(a.Shared)) < splitFrom {
		a.text[0] = s.Message(ctx, a, requestID)
		return a.text[:]
	}
	head, shared, tail := mcp.SplitResult(a.ID, a.Result, a.Shared)
	a.Result = mcp.Object{}
	return Payload{head, shared, tail}
}

// Message returns the response, and forgets the result, so that its memory is free while
// a slow client reads. An error in it names the HTTP request, by which operators find it
// in the records.
func (a *Answer) Message(requestID string) []byte {
	if a.Err != nil {
		return mcp.AppendError(nil, a.ID, a.Err.OfRequest(requestID))
	}
	message := mcp.AppendResult(nil, a.ID, a.Result)
	a.Result = mcp.Object{}
	if len(message) > share.Covered {
		a.Memory.Shrink(int64(len(message)))
	}
	return message
}

// Unkept returns what is told in the place of the response if there is no memory to keep
// that for its client.
func (a *Answer) Unkept(requestID string) []byte {
	return mcp.AppendError(nil, a.ID, ErrUnkept.OfRequest(requestID))
}

// Outcome returns the outcome in one word for the log, which is the one of the audit
// where both have a line. Of a result with isError it does not say why. It is asked for
// before the result is forgotten.
func (a *Answer) Outcome() string {
	switch {
	case a.Silent:
		return "cancelled"
	case a.Err != nil:
		return outcomeFor(a.Err)
	case string(a.Result.Value("isError")) == "true":
		return "tool_error"
	}
	return cmp.Or(a.Ended, OutcomeOK)
}

// Handle passes a request to the desk.
func (s *Service) Handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, *mcp.Error) {
	return s.Guarded(ctx, func() (mcp.Object, error) { return s.Desk.Handle(ctx, c, r) })
}

// Guarded calls the desk, and turns a panic there into an internal error. It is needed
// because the goroutine may be one that no HTTP handler recovers.
func (s *Service) Guarded(ctx context.Context, do func() (mcp.Object, error)) (result mcp.Object,
	rpcErr *mcp.Error,
) {
	defer func() {
		if problem := recover(); problem != nil {
			s.Panicked(ctx, problem)
			result, rpcErr = mcp.Object{}, ErrPanic.Err
		}
	}()
	result, err := do()
	if err != nil {
		return mcp.Object{}, ErrorOf(err)
	}
	return result, nil
}
