package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// speaker talks one revision as one person, in a session where the revision has them.
type speaker struct {
	w        *world
	person   person
	token    string
	revision string
	session  string  // of Streamable HTTP
	stream   *stream // over HTTP+SSE; nil: the speaker uses Streamable HTTP
}

// stream is an answer that is read while it comes, as that of a session over HTTP+SSE.
type stream struct {
	path  string // where messages go, over HTTP+SSE
	out   *capture
	leave func()
	done  <-chan struct{} // closed at its end
}

// everything that a client can be asked.
const capable = `{"elicitation":{},"sampling":{},"roots":{}}`

func modernMeta(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// speak opens what the revision needs.
func (w *world) speak(p person, way string) *speaker {
	revision, sse := revisionOf(way)
	s := &speaker{w: w, person: p, token: p.token(), revision: revision}
	if revision == mcp.Revision2607 {
		return s
	}
	if sse {
		s.stream = w.open(&request{method: http.MethodGet, path: "/sse", token: s.token})
		s.stream.path = strings.TrimPrefix(s.stream.next(), "data: ")
		must.Be(s.stream.path != "", "no stream for %v: %s", p, s.stream.out.text())
	}
	hello := s.post(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` +
		revision +
		`","capabilities":` + capable + `,"clientInfo":{"name":"scoreboard","version":"1"}}}`)
	a := w.send(&hello)
	s.session = a.header.Get(mcp.HeaderSessionID)
	must.Be(s.session != "" || sse, "no session for %v: %d %s", p, a.status, a.body)
	if sse {
		s.stream.next()
	}
	ready := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.send(&ready)
	return s
}

// open begins a request whose answer may come piece by piece.
func (w *world) open(m *request) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	st := &stream{
		out: &capture{header: make(http.Header), told: make(chan struct{}, 1)}, leave: cancel, done: done,
	}
	r := m.of(ctx)
	go func() { // ends when leave is called, the answer ends, or the world is closed
		defer close(done)
		w.ServeHTTP(st.out, r)
	}()
	return st
}

// next returns the next event's data with its field name, "" when none comes in time.
func (st *stream) next() string {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if event, whole := st.out.event(); whole {
			if at := strings.Index(event, "data: "); at >= 0 {
				return event[at:]
			}
			continue
		}
		select {
		case <-st.out.told:
		case <-st.done:
			return ""
		case <-limit.C:
			return ""
		}
	}
}

// post is a message of this speaker.
func (s *speaker) post(body string, headers ...string) request {
	m := request{method: http.MethodPost, path: "/mcp", token: s.token, body: body, headers: headers}
	if s.stream != nil {
		m.path = s.stream.path
	}
	if s.session != "" {
		m.headers = append(m.headers, mcp.HeaderSessionID, s.session)
	}
	return m
}

// ask is a request of this speaker with that inside of its params, and the headers that
// repeat it.
func (s *speaker) ask(id, method, params string) request {
	if s.revision != mcp.Revision2607 {
		return s.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	}
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
		modernMeta(`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`) + `}}`
	return s.post(body, repeated(method,
		object("{"+strings.TrimSuffix(params, ",")+"}").Text(mcp.MethodOf(method).Subject))...)
}

// repeated are the headers of a modern request.
func repeated(method, subject string) []string {
	headers := []string{
		mcp.HeaderProtocolVersion, mcp.Revision2607, mcp.HeaderMethod,
		mcp.EncodeHeader(method),
	}
	if mcp.MethodOf(method).Named {
		headers = append(headers, mcp.HeaderName, mcp.EncodeHeader(subject))
	}
	return headers
}

// do sends an input, and where the answer comes on a stream of its own, waits for it
// there.
func (s *speaker) do(in *input) answer {
	a := s.w.send(&in.request)
	if s.stream == nil || a.status != http.StatusAccepted || in.id == "" {
		return a
	}
	a.header.Set("Content-Type", "application/json")
	for { // what came of inputs before, whose ids nobody could tell, may still arrive
		a.body = strings.TrimPrefix(s.stream.next(), "data: ")
		if a.hung = a.body == ""; a.hung {
			return a
		}
		if all, ok := parsed(a.body); ok && string(all[0].ID) == in.id {
			return a
		}
	}
}

// close ends the session.
func (s *speaker) close() {
	if s.stream != nil {
		s.stream.leave()
	} else if s.session != "" {
		s.w.end(s.token, s.session)
	}
}

// end ends a session of Streamable HTTP.
func (w *world) end(token, session string) {
	w.send(&request{
		method: http.MethodDelete, path: "/mcp", token: token,
		headers: []string{mcp.HeaderSessionID, session},
	})
}
