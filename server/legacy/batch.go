package legacy

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// maxBatch is the most messages of a batch.
const maxBatch = 32

// Batch answers an array of messages, which only revision 2025-03-26 has. Each request in
// it is charged and answered by itself. The answers go back in one array, even if there
// is only one.
// https://modelcontextprotocol.io/specification/2025-03-26/basic/transports#sending-messages-to-the-server
func (s *Service) Batch(x *exchange.Exchange, raw mcp.RawJSON) {
	x.Method = "batch"
	if RevisionIn(x.Request.Header) >= mcp.Revision2607 {
		x.Era = mcp.Modern
		x.Refuse("", exchange.ErrBatch)
		return
	}
	x.Era = mcp.Legacy
	l := s.find(x, &mcp.Message{Method: "batch"}, raw, false)
	if l == nil {
		return
	}
	if l.Client().Revision != mcp.Revision2503 ||
		!absentOr(x.Request.Header[mcp.HeaderProtocolVersion], mcp.Revision2503) {
		x.Refuse("", exchange.ErrBatch)
		return
	}
	requests, others, refused := unpack(raw)
	if x.Refuses("", refused) {
		return
	}
	if len(requests) > 1 { // one was charged at the door
		if err := s.desk.Charge(x.Context(), x.Caller, len(requests)-1); err != nil {
			x.RefuseAdmission(err)
			return
		}
	}
	if x.Refuses("", s.allNotified(x, l, others)) {
		return
	}
	if len(requests) == 0 {
		x.WriteStatus(http.StatusAccepted)
		return
	}
	s.answerBatch(x, l, requests)
}

// absentOr tells whether a header is absent, or is there once with the value want.
func absentOr(values []string, want string) bool {
	return len(values) == 0 || len(values) == 1 && values[0] == want
}

// unpack checks every message of a batch before any of them has an effect, and returns
// the requests, and the notifications and responses.
func unpack(raw mcp.RawJSON) (requests, others []*mcp.Message, refused *exchange.Refusal) {
	elements, _ := raw.Elements()
	if len(elements) == 0 || len(elements) > maxBatch {
		return nil, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
			"Invalid request: a batch has 1 to %d messages", maxBatch)
	}
	seen := make(map[mcp.ID]bool)
	for _, element := range elements {
		m, err := mcp.DecodeRaw(element)
		switch {
		case err != nil:
			return nil, nil, exchange.BadRequest(err)
		case m.Method == mcp.MethodInitialize:
			return nil, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
				"Invalid request: initialize is never part of a batch")
		case !m.IsRequest():
			others = append(others, m)
		case seen[m.ID]:
			return nil, nil, exchange.Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
				"Invalid request: two requests of the batch have the same id")
		default:
			seen[m.ID] = true
			requests = append(requests, m)
		}
	}
	return requests, others, nil
}

// allNotified takes the messages of a batch that need no answer.
func (s *Service) allNotified(x *exchange.Exchange, l *sessions.Session, others []*mcp.Message,
) *exchange.Refusal {
	ctx, stop := context.WithTimeout(x.Context(), forward.HoldTime) // for all of them together
	defer stop()
	for _, m := range others {
		if refused := s.notified(ctx, x, l, m); refused != nil {
			return refused
		}
	}
	return nil
}

// answerBatch runs the requests of a batch at the same time, each under its own limits,
// and answers when all of them are done.
func (s *Service) answerBatch(x *exchange.Exchange, l *sessions.Session, requests []*mcp.Message) {
	ctx := x.Outliving() // a client that loses its connection can resume, so the calls go on
	p := &reply{}
	p.begin(s, x, l, "")
	responder := p.responder()
	answers := make([]exchange.Answer, len(requests))
	var all sync.WaitGroup
	var inFlight []*exchange.Job
	for i, m := range requests {
		j := &exchange.Job{}
		ctx, refused := s.beginLegacy(ctx, x, l, j, m.ID, false)
		if refused != nil {
			x.RecordRefusal(refused)
			answers[i] = exchange.Answer{ID: m.ID, Err: refused.Err}
			continue
		}
		defer s.exchanges.Jobs.Finish(j)
		defer l.EndJob(j)
		inFlight = append(inFlight, j)
		all.Go(func() {
			answers[i] = exchange.Answer{ID: m.ID, Err: exchange.ErrPanic.Err}
			s.exchanges.Safely(ctx, func() {
				answers[i] = s.legacyAnswer(ctx, x, l, m, responder.of(j))
			})
		})
	}
	all.Wait()
	for _, j := range inFlight {
		l.Answered(j)
	}
	message := s.arrayOf(ctx, answers, x.ID)
	p.finish(ctx, http.StatusOK, message, func() []byte {
		for i := range answers {
			answers[i].Err = exchange.ErrUnkept
		}
		return s.arrayOf(ctx, answers, x.ID).Joined()
	})
}

// arrayOf returns the array of the answers that are told, in parts: a client could ask
// for the same long list in every request of a batch, and nothing counts copies of that.
// It is nil if none is told.
func (s *Service) arrayOf(ctx context.Context, answers []exchange.Answer, requestID string) exchange.Payload {
	var array exchange.Payload
	before := []byte{'['}
	for i := range answers {
		if answers[i].Silent {
			continue
		}
		array = append(append(array, before), s.exchanges.Payload(ctx, &answers[i], requestID)...)
		before = []byte{','}
	}
	if array == nil {
		return nil
	}
	return append(array, []byte{']'})
}

// RevisionIn returns the revision that the header names. If the header is there several
// times, the result is a text that is no revision.
func RevisionIn(h http.Header) string { return strings.Join(h[mcp.HeaderProtocolVersion], ",") }
