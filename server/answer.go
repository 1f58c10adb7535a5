package server

import (
	"bytes"
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// answer is what a request gets: a result, an error, or nothing at all if its client
// cancelled it.
type answer struct {
	id     mcp.ID
	result mcp.Object
	err    *mcp.Error
	status int // of HTTP for err where the door knows better than statusOf; zero: it does not
	silent bool
	ended  string       // how the desk has recorded the request; "": it has not
	shared string       // the member of the result whose text others share, see payload; "": none
	room   *share.Claim // holds the result, and its encoded form after that; nil: nothing is counted
	text   [1][]byte    // the response, where payload returns it in one piece
}

// bytesEncoded is about how many bytes of an answer are encoded in a nanosecond: they are
// copied, into memory that is new.
const bytesEncoded = 2

// message is the message of a, which is made in its turn if it is large.
func (s *service) message(ctx context.Context, a *answer, requestID string) []byte {
	leave, err := s.config.Turns.Finish(ctx, a.room.User(), time.Duration(a.result.Size()/bytesEncoded))
	if err == nil { // otherwise the client has left, and nobody waits for what is made
		defer leave()
	}
	return a.message(requestID)
}

// payload is the text of a message in parts, so that a long part which others share need
// not be copied. It is written part by part; only what is kept for the client is joined.
// nil: there is no message.
type payload [][]byte

// splitFrom is the length from which a shared text is a part of its own, in bytes: it
// costs less to copy a short one.
const splitFrom = 8 << 10

// size returns the length of the message, in bytes.
func (p payload) size() int {
	size := 0
	for _, part := range p {
		size += len(part)
	}
	return size
}

// joined returns the message in one piece. It may be a part itself: do not modify it.
func (p payload) joined() []byte {
	if len(p) == 1 {
		return p[0]
	}
	return bytes.Join(p, nil)
}

// sharedBy returns the member of the results of a method whose text others share: the
// desk makes a page of a list once for all who see the same.
func sharedBy(method string) string {
	if asked := mcp.MethodOf(method); asked.Lists {
		return asked.Result
	}
	return ""
}

// payload returns the response, and forgets the result. It is that of message, but for
// the text that others share: what is copied around that is too little to wait for a
// turn.
func (s *service) payload(ctx context.Context, a *answer, requestID string) payload {
	if a.err != nil || a.shared == "" || len(a.result.Value(a.shared)) < splitFrom {
		a.text[0] = s.message(ctx, a, requestID)
		return a.text[:]
	}
	head, shared, tail := mcp.SplitResult(a.id, a.result, a.shared)
	a.result = mcp.Object{}
	return payload{head, shared, tail}
}

// message returns the response, and forgets the result, so that its memory is free while
// a slow client reads. An error in it names the HTTP request, by which operators find it
// in the records.
func (a *answer) message(requestID string) []byte {
	if a.err != nil {
		return mcp.AppendError(nil, a.id, a.err.OfRequest(requestID))
	}
	message := mcp.AppendResult(nil, a.id, a.result)
	a.result = mcp.Object{}
	if len(message) > share.Covered {
		a.room.Shrink(int64(len(message)))
	}
	return message
}

// unkept returns what is told in the place of the response if there is no memory to keep
// that for its client.
func (a *answer) unkept(requestID string) []byte {
	return mcp.AppendError(nil, a.id, errUnkept.OfRequest(requestID))
}

// outcomeOK is the outcome of a request of which nothing else is to be said.
const outcomeOK = "ok"

// outcome returns the outcome in one word for the log, which is the one of the audit where
// both have a line.
func (a *answer) outcome() string {
	switch {
	case a.silent:
		return "cancelled"
	case a.err != nil:
		return outcomeFor(a.err)
	case string(a.result.Value("isError")) == "true":
		return "tool_error"
	}
	for _, kind := range [...]string{"input_required", "task"} {
		if a.result.Value("resultType").Says(kind) {
			return kind
		}
	}
	if a.result.Has("task") && !a.result.Has("content") {
		return "task" // as clients of 2025-11-25 get it: without resultType, in the place of a result
	}
	return outcomeOK
}
