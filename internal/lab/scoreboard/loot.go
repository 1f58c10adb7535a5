package main

import (
	"fmt"
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
	*stream

	owner    *speaker
	question string
	request  string // id of the call
}

var (
	eventID    = regexp.MustCompile(`(?m)^id: (p\S+)$`)
	questionID = regexp.MustCompile(`"id":"(q[0-9a-f]{32})"`)
)

// result asks and returns the result.
func (s *speaker) result(method, params string) mcp.Object {
	in := input{request: s.ask(`"r"`, method, params), id: `"r"`}
	a := s.do(&in)
	messages, _ := spoken(&a)
	for _, m := range messages {
		if m.IsResponse() && m.Err == nil {
			return m.Result
		}
	}
	panic(fmt.Errorf("%v in %s: %s %s: %d %s", s.person, s.revision, method, params, a.status, a.body))
}

// gather collects every kind of id that the revision has. The call that it leaves parked,
// if the revision has any, is for free to end.
func (s *speaker) gather() (all []loot, open *parked) {
	add := func(kind, id string) {
		must.Be(id != "", "there is no %s to steal of %v in %s", kind, s.person, s.revision)
		all = append(all, loot{kind, id, lookalike(id)})
	}
	if s.session != "" {
		add("session", s.session)
	}
	if s.stream != nil {
		_, id, _ := strings.Cut(s.stream.path, "=")
		add("session of a stream", id)
	}
	for _, method := range []string{mcp.MethodToolsList, mcp.MethodResourcesList} {
		add("cursor of "+method, s.result(method, "").Text("nextCursor"))
	}
	if tool := map[string]string{
		mcp.Revision2511: `"name":"box__asked","task":{"ttl":60000}`,
		mcp.Revision2607: `"name":"box__given"`,
	}[s.revision]; tool != "" {
		made := s.result(mcp.MethodToolsCall, tool)
		add("task", made.Object("task").Text("taskId")+made.Text("taskId"))
	}
	if s.revision == mcp.Revision2607 {
		add("requestState", s.result(mcp.MethodToolsCall, `"name":"box__ask"`).Text("requestState"))
	} else if s.stream == nil {
		open = s.park()
		add("question", open.question)
		add("request in work", open.request)
		event := s.ask(`"e"`, mcp.MethodToolsCall, `"name":"box__progress","_meta":{"progressToken":"t"}`)
		add("event", lastEvent(s.w.send(&event).body))
	}
	return all, open
}

// lastEvent returns the id of the last event of a stream.
func lastEvent(body string) (id string) {
	for _, found := range eventID.FindAllStringSubmatch(body, -1) {
		id = found[1]
	}
	return id
}

// ids returns what a speaker was given, for forgeries.
func (s *speaker) ids() (ids []string) {
	all, open := s.gather()
	if open != nil {
		open.end()
	}
	for _, one := range all {
		if len(one.id) > 20 {
			ids = append(ids, one.id)
		}
	}
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
func (s *speaker) park() *parked {
	id := "parked-" + strings.TrimPrefix(s.person.marker(), "marker-")
	m := s.ask(write(id), mcp.MethodToolsCall, `"name":"box__ask"`)
	p := &parked{owner: s, request: id, stream: s.w.open(&m)}
	for data := p.next(); data != ""; data = p.next() {
		if found := questionID.FindStringSubmatch(data); found != nil {
			p.question = found[1]
			break
		}
	}
	return p
}

// end answers the question, and returns what the call came to.
func (p *parked) end() string {
	m := p.owner.post(`{"jsonrpc":"2.0","id":"` + p.question +
		`","result":{"role":"assistant","model":"m","content":{"type":"text","text":"owner"}}}`)
	p.owner.w.send(&m)
	<-p.done
	return p.out.text()
}
