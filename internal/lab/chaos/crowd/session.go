package crowd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// session is a session of 2025-03-26 to 2025-11-25.
type session struct {
	*person

	id       string
	revision string
	gone     atomic.Bool // it was told that there is no such session
}

// open opens a session. It returns nil if there is none now.
func (p *person) open() *session {
	ctx, cancel := p.patient()
	defer cancel()
	revisions := []string{mcp.Revision2511, mcp.Revision2506, mcp.Revision2503}
	s := &session{person: p, revision: revisions[(p.rounds+p.number)%len(revisions)]}
	response, err := p.send(ctx, "/mcp", fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},`+
			`"clientInfo":{"name":"crowd","version":"1"}}}`, p.nextID(), s.revision), nil)
	result, ok := p.result(response, err)
	if !ok {
		return nil
	}
	s.id = response.header.Get(mcp.HeaderSessionID)
	if s.id == "" || result.Text("protocolVersion") != s.revision {
		p.trouble("a session without an id, or of another revision")
		p.comeLater(soon)
		return nil
	}
	if !s.tell([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)) {
		return nil
	}
	p.crowd.sessions.Add(1)
	return s
}

// briefSessions opens sessions for one plain call each.
func (p *person) briefSessions() {
	p.eachRound(func() {
		s := p.open()
		if s == nil {
			return
		}
		ctx, cancel := s.patient()
		defer cancel()
		s.call(ctx, s.draw("touch"))
		if s.close() {
			p.crowd.lives.Add(1)
		}
	})
}

// within makes a request in the session. last is the event after which a stream is to go
// on, "" for none.
func (s *session) within(ctx context.Context, method string, body []byte, last string) (*reply, error) {
	header := map[string]string{mcp.HeaderSessionID: s.id}
	if s.revision >= mcp.Revision2506 {
		header[mcp.HeaderProtocolVersion] = s.revision
	}
	if last != "" {
		header[mcp.HeaderLastEventID] = last
	}
	r, err := s.request(ctx, method, "/mcp", body, header)
	if err == nil {
		r.session = s
	}
	return r, err
}

func (s *session) post(ctx context.Context, body []byte) (*reply, error) {
	return s.within(ctx, http.MethodPost, body, "")
}

// tell sends a notification, or an answer to a question, until it is taken. Both do no
// harm when they come twice, so they are sent again when a connection broke. It returns
// false when the session is gone or patience is over.
func (s *session) tell(body []byte) bool {
	return s.insist(s.crowd.life, http.MethodPost, body, http.StatusAccepted)
}

// close ends the session with DELETE, which is repeated while the gateway asks to come
// later. It returns whether the gateway has ended it.
func (s *session) close() (ended bool) {
	return !s.gone.Load() && s.insist(s.crowd.life, http.MethodDelete, nil, http.StatusOK, http.StatusAccepted,
		http.StatusNoContent)
}

// insist makes a request, which has no answer but a status, until it is taken. It gives
// up when somebody who knows has refused it for good, and sends it no more when wanted
// ends.
func (s *session) insist(wanted context.Context, method string, body []byte, good ...int) (taken bool) {
	ctx, cancel := s.patient()
	defer cancel()
	for {
		wait := soon
		response, err := s.within(ctx, method, body, "")
		if err == nil {
			if slices.Contains(good, response.status) {
				_ = response.body.Close() // it is empty
				return true
			}
			w := s.heard(response)
			if s.gone.Load() || w.later == 0 && !w.broken {
				return false
			}
			wait = max(wait, w.later)
		}
		if !world.Pause(wanted, wait) || ctx.Err() != nil {
			return false
		}
	}
}

// list asks for the list of tools.
func (s *session) list(ctx context.Context) (tools mcp.Object, ok bool) {
	return s.result(s.post(ctx,
		fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`, s.nextID())))
}

func (s *session) ended() bool { return s.gone.Load() }
