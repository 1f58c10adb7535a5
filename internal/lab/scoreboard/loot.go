package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// loot is one id that somebody has, of whatever kind.
type loot struct {
	kind, id string
	unknown  string // of the same form, which nobody was ever given
}

// parked is a call that waits for the answer to a question.
type parked struct {
	owner    *speaker
	question string
	request  string // id of the call
	out      *capture
	done     chan struct{}
}

var (
	eventID    = regexp.MustCompile(`(?m)^id: (p\S+)$`)
	questionID = regexp.MustCompile(`"id":"(q[0-9a-f]{32})"`)
)

// result asks and returns the result.
func (s *speaker) result(method, params string) (mcp.Object, error) {
	in := input{request: s.ask(`"r"`, method, params), id: `"r"`}
	a := s.do(&in)
	messages, _ := spoken(&a)
	for _, m := range messages {
		if m.Has("result") {
			return m.Object("result"), nil
		}
	}
	return mcp.Object{}, fmt.Errorf("%v in %s: %s %s: %d %s", s.person, s.revision, method, params, a.status,
		a.body)
}

// gather collects every kind of id that the revision has. The call that it leaves parked,
// if the revision has any, is for free to end.
func (s *speaker) gather() (all []loot, open *parked, err error) {
	add := func(kind, id string) { all = append(all, loot{kind, id, lookalike(id)}) }
	if s.session != "" {
		add("session", s.session)
	}
	if s.stream != nil {
		_, id, _ := strings.Cut(s.stream.path, "=")
		add("session of a stream", id)
	}
	for _, method := range []string{mcp.MethodToolsList, mcp.MethodResourcesList} {
		page, err := s.result(method, "")
		if err != nil {
			return nil, nil, err
		}
		add("cursor of "+method, page.Text("nextCursor"))
	}
	if tool := map[string]string{
		mcp.Revision2511: `"name":"box__asked","task":{"ttl":60000}`,
		mcp.Revision2607: `"name":"box__given"`,
	}[s.revision]; tool != "" {
		made, err := s.result(mcp.MethodToolsCall, tool)
		if err != nil {
			return nil, nil, err
		}
		add("task", made.Object("task").Text("taskId")+made.Text("taskId"))
	}
	if s.revision == mcp.Revision2607 {
		made, err := s.result(mcp.MethodToolsCall, `"name":"box__ask"`)
		if err != nil {
			return nil, nil, err
		}
		add("requestState", made.Text("requestState"))
		return all, nil, nonempty(all)
	}
	if s.stream == nil {
		if open, err = s.park(); err != nil {
			return nil, nil, err
		}
		add("question", open.question)
		add("request in work", open.request)
		event := s.ask(`"e"`, mcp.MethodToolsCall, `"name":"box__progress","_meta":{"progressToken":"t"}`)
		found := eventID.FindAllStringSubmatch(s.w.send(&event).body, -1)
		if found == nil {
			return nil, open, fmt.Errorf("no event for %v in %s", s.person, s.revision)
		}
		add("event", found[len(found)-1][1])
	}
	return all, open, nonempty(all)
}

func nonempty(all []loot) error {
	for _, one := range all {
		if one.id == "" {
			return fmt.Errorf("there is no %s to steal", one.kind)
		}
	}
	return nil
}

// ids returns what a speaker was given, for forgeries.
func (s *speaker) ids() []string {
	all, open, err := s.gather()
	if open != nil {
		open.end()
	}
	var ids []string
	for _, one := range all {
		if len(one.id) > 20 {
			ids = append(ids, one.id)
		}
	}
	must.OK(err)
	return ids
}

// lookalike returns an id of the same form that nobody was given.
func lookalike(id string) string {
	if strings.HasPrefix(id, "p") && strings.Contains(id, "-") && len(id) < 12 {
		return "p99-99" // an event
	}
	other := []byte(id)
	for i := range other {
		switch c := other[i]; {
		case i == 0 && len(other) == 33: // the letter of questions
		case '0' <= c && c <= '9':
			other[i] = '0' + (c-'0'+7)%10
		case 'a' <= c && c <= 'f':
			other[i] = 'a' + (c-'a'+5)%6
		case 'A' <= c && c <= 'Z':
			other[i] = 'A' + (c-'A'+11)%26
		}
	}
	return string(other)
}

// park makes a call that waits for its caller's answer.
func (s *speaker) park() (*parked, error) {
	p := &parked{
		owner: s, request: "parked-" + strings.TrimPrefix(s.person.marker(), "marker-"),
		done: make(chan struct{}),
	}
	p.out = &capture{header: make(http.Header), told: make(chan struct{}, 1)}
	m := s.ask(write(p.request), mcp.MethodToolsCall, `"name":"box__ask"`)
	r := m.of(context.Background())
	go func() { // ends with the answer, which end waits for
		defer close(p.done)
		s.w.ServeHTTP(p.out, r)
	}()
	events := &stream{out: p.out, done: p.done}
	for {
		data := events.next()
		if found := questionID.FindStringSubmatch(data); found != nil {
			p.question = found[1]
			return p, nil
		}
		if data == "" {
			return nil, fmt.Errorf("no question for %v in %s: %s", s.person, s.revision, p.out.text())
		}
	}
}

// end answers the question, and returns what the call came to.
func (p *parked) end() string {
	m := p.owner.post(`{"jsonrpc":"2.0","id":"` + p.question +
		`","result":{"role":"assistant","model":"m","content":{"type":"text","text":"owner"}}}`)
	p.owner.w.send(&m)
	<-p.done
	return p.out.text()
}
