package crowd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// session is a session of 2025-03-26 to 2025-11-25.
type session struct {
	*person

	id       string
	revision string
	gone     bool // it was told that there is no such session
}

// open opens a session, or returns nil and how long to wait before the next attempt.
func (p *person) open() (s *session, later time.Duration) {
	ctx, cancel := p.patient()
	defer cancel()
	revisions := []string{mcp.Revision2511, mcp.Revision2506, mcp.Revision2503}
	s = &session{person: p, revision: revisions[(p.rounds+p.number)%len(revisions)]}
	body := fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},`+
			`"clientInfo":{"name":"crowd","version":"1"}}}`, p.nextID(), s.revision)
	response, err := p.send(ctx, "/mcp", body, nil)
	if err != nil {
		return nil, 100 * time.Millisecond
	}
	s.id = response.header.Get(mcp.HeaderSessionID)
	if response.status != http.StatusOK {
		return nil, max(p.heard(response).later, 100*time.Millisecond)
	}
	result, ok := p.result(response)
	if !ok {
		return nil, 100 * time.Millisecond
	}
	if s.id == "" || result.Text("protocolVersion") != s.revision {
		p.trouble("a session without an id, or of another revision")
		return nil, 100 * time.Millisecond
	}
	if !s.tell(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)) {
		return nil, 0
	}
	p.crowd.deeds.sessions.Add(1)
	return s, 0
}

// briefSessions opens sessions for one plain call each.
func (p *person) briefSessions() {
	p.eachRound(func() time.Duration {
		s, later := p.open()
		if s == nil {
			return later
		}
		ctx, cancel := s.patient()
		defer cancel()
		later = s.call(ctx, s.intend(s.server(), "touch", "", ledger.Question{}))
		if s.close() {
			p.crowd.deeds.lives.Add(1)
		}
		return later
	})
}

// header returns the headers of a request of the session.
func (s *session) header() map[string]string {
	header := map[string]string{mcp.HeaderSessionID: s.id}
	if s.revision >= mcp.Revision2506 {
		header[mcp.HeaderProtocolVersion] = s.revision
	}
	return header
}

// tell sends a notification, or an answer to a question, until it is taken. Both do no
// harm when they come twice, so they are sent again when a connection broke. It returns
// false when the session is gone or patience is over.
func (s *session) tell(ctx context.Context, body []byte) bool {
	return s.insist(ctx, func() (*reply, error) { return s.send(ctx, "/mcp", body, s.header()) },
		http.StatusAccepted)
}

// refusal reads a refusal of a request of the session. 404 says that there is no such
// session, unless it speaks of an event.
func (s *session) refusal(response *reply) word {
	w := s.heard(response)
	if w.status == http.StatusNotFound && w.code != "DB-EVENT" && !s.gone {
		s.gone = true
		s.crowd.deeds.reconnects.Add(1)
	}
	return w
}

// close ends the session with DELETE, which is repeated while the gateway asks to come
// later. It returns whether the gateway has ended it.
func (s *session) close() (ended bool) {
	ctx, cancel := s.patient()
	defer cancel()
	return !s.gone && s.insist(ctx,
		func() (*reply, error) { return s.get(ctx, http.MethodDelete, "/mcp", s.header()) },
		http.StatusOK, http.StatusAccepted, http.StatusNoContent)
}

// insist makes a request, which has no answer but a status, until it is taken. It gives up
// when somebody who knows has refused it for good.
func (s *session) insist(ctx context.Context, do func() (*reply, error), good ...int) (taken bool) {
	for {
		wait := 100 * time.Millisecond
		response, err := do()
		if err == nil {
			if slices.Contains(good, response.status) {
				_ = response.body.Close() // it is empty
				return true
			}
			w := s.refusal(response)
			if s.gone || w.later == 0 && !w.broken {
				return false
			}
			wait = max(wait, w.later)
		}
		if !world.Pause(ctx, wait) {
			return false
		}
	}
}

// list asks for the list of tools.
func (s *session) list(ctx context.Context) (tools mcp.Object, ok bool) {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`, s.nextID())
	response, err := s.send(ctx, "/mcp", body, s.header())
	if err != nil {
		return tools, false
	}
	if response.status != http.StatusOK {
		s.refusal(response)
		return tools, false
	}
	return s.result(response)
}
