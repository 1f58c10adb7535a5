package server

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// A question waits at its home, the replica that runs the request, and the id of the question names that replica. The
// answer may come to any other, which then asks the home to take it:
//
//	client ──answer──▶ another replica ──kindAnswer──▶ home ──▶ the request goes on
//	client ◀──202────── another replica ◀──kindTaken─── home
//
// The client is told 202 only when the home has taken the answer, or does not want it: it was answered before, or nobody
// asked. If the home has no memory for it, or says nothing, the client is told so and may send it again. Without that
// word back, whoever sends many large answers could fill what replicas share: so they count in what is on its way.

const (
	answerPatience = 2 * time.Second // for the home to say what became of an answer
	maxSaying      = 256             // outcomes that are on their way to other replicas at once
	receiptSize    = 8
)

// answering are the answers that are on their way to their homes. It is safe for concurrent use.
type answering struct {
	saying atomic.Int64 // outcomes that are on their way to others

	mu      sync.Mutex // guards the fields below
	newest  uint64     // receipt
	waiting map[uint64]chan outcome
}

// outcome is what became of an answer, in kindTaken: one byte.
type outcome byte

const (
	outcomeTaken  outcome = iota // or not wanted
	outcomeUser                  // the user has no memory for it
	outcomeTenant                // nor has the tenant
	outcomeTotal                 // nor has anybody
)

// refusals are the answers to outcomes; nil: none.
var refusals = [...]*refusal{outcomeTaken: nil, outcomeUser: errUserMemory, outcomeTenant: errTenantMemory, outcomeTotal: errOverloadMemory}

func newAnswering() *answering { return &answering{waiting: make(map[uint64]chan outcome)} }

// begin returns a new receipt, and where the outcome arrives.
func (p *answering) begin() (receipt uint64, became chan outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest++
	became = make(chan outcome, 1)
	p.waiting[p.newest] = became
	return p.newest, became
}

func (p *answering) end(receipt uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, receipt)
}

// hear takes an outcome. A second one for the same receipt is dropped.
func (p *answering) hear(receipt uint64, o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if became := p.waiting[receipt]; became != nil {
		became <- o
		delete(p.waiting, receipt)
	}
}

// answered takes an answer of the client to a question that was asked in its session, on this replica or another. An
// answer to anything else is dropped, and so is a second answer. If it is refused, the client may send it again.
func (s *Server) answered(ctx context.Context, l *live, m *mcp.Message) *refusal {
	id, _ := mcp.RawJSON(m.ID).Text()
	home, ok := homeOf(id)
	if !ok {
		return nil
	}
	message := mcp.AppendResult(nil, m.ID, m.Result) // a copy, so that the body of the request is not kept
	if m.Err != nil {
		message = mcp.AppendError(nil, m.ID, m.Err)
	}
	switch {
	case home == s.config.Others.Self():
		return ofMemory(l.take(id, message))
	case l.shared:
		return s.pass(ctx, l, home, message)
	}
	return nil
}

// pass passes an answer on to its home.
func (s *Server) pass(ctx context.Context, l *live, home replica.ID, message []byte) *refusal {
	user, size := share.User(l.user), int64(len(message))
	if err := s.onWay.Take(user, size); err != nil {
		return ofMemory(err)
	}
	defer s.onWay.Give(user, size)
	receipt, became := s.answers.begin()
	defer s.answers.end(receipt)
	rest := append(binary.BigEndian.AppendUint64(make([]byte, 0, receiptSize+len(message)), receipt), message...)
	err := s.config.Others.Send(ctx, home, l.word(kindAnswer, rest...))
	switch {
	case errors.Is(err, replica.ErrGone) && !s.passing.isUnsure() && !s.config.Others.IsThere(home):
		return nil // the request that asked is gone with it
	case err != nil:
		s.log.WarnContext(ctx, "answer to a question not passed on", slog.Any("error", err))
		return errReplicas
	}
	patience := time.NewTimer(answerPatience)
	defer patience.Stop()
	select {
	case o := <-became:
		return refusals[o]
	case <-patience.C:
		return errReplicas
	case <-ctx.Done():
		return errReplicas // the client is gone
	}
}

// hearAnswer takes an answer that came to another replica, and says what became of it.
func (s *Server) hearAnswer(ctx context.Context, from replica.ID, w replica.Word) {
	_, _, rest, ok := readWord(w)
	if !ok || len(rest) < receiptSize {
		return
	}
	o := outcomeTaken
	if l, _ := s.meant(w); l != nil {
		o = l.takeWord(rest[receiptSize:])
	}
	s.sayTaken(ctx, from, replica.Word{Kind: kindTaken, Tenant: w.Tenant, Data: slices.Concat(rest[:receiptSize], []byte{byte(o)})})
}

// sayTaken tells another replica what became of an answer, and does not wait for that, since all other word waits behind
// the handler. Beyond maxSaying it says nothing. Who hears nothing tells its client to try again.
func (s *Server) sayTaken(ctx context.Context, to replica.ID, said replica.Word) {
	if s.answers.saying.Add(1) > maxSaying {
		s.answers.saying.Add(-1)
		return
	}
	s.errands.begin(ctx, func(ctx context.Context) { // at most maxSaying
		defer s.answers.saying.Add(-1)
		ctx, stop := context.WithTimeout(ctx, answerPatience)
		defer stop()
		_ = s.config.Others.Send(ctx, to, said) // see above
	})
}

// takeWord takes an answer as another replica wrote it.
func (l *live) takeWord(message []byte) outcome {
	m, err := mcp.Decode(message)
	if err != nil || !m.IsResponse() {
		return outcomeTaken
	}
	id, _ := mcp.RawJSON(m.ID).Text()
	switch err := l.take(id, message); {
	case err == nil:
		return outcomeTaken
	case errors.Is(err, share.ErrUser):
		return outcomeUser
	case errors.Is(err, share.ErrTenant):
		return outcomeTenant
	}
	return outcomeTotal
}

// hearTaken takes what became of an answer that was passed on.
func (s *Server) hearTaken(_ context.Context, _ replica.ID, w replica.Word) {
	if len(w.Data) == receiptSize+1 && int(w.Data[receiptSize]) < len(refusals) {
		s.answers.hear(binary.BigEndian.Uint64(w.Data), outcome(w.Data[receiptSize]))
	}
}
