package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// model stands in for the language model of an agent. It has no mind: what its user says
// is its script, a line for each call ("call toolbox__calculate {"expression":"6*7"}"),
// made in order. When all are made it says what came back, which is so read by the
// agent's user. It keeps what it was shown.
type model struct {
	url string

	mu      sync.Mutex // guards the fields below
	turns   []talk     // requests that offered tools, oldest first
	unknown []string   // requests that its provider's API does not have
}

// dialect is the API of one provider.
type dialect interface {
	// read returns what a request shows the model; ok is false for a request that is not
	// one for an answer.
	read(r *http.Request, body []byte) (shown talk, ok bool, err error)
	// write answers the request.
	write(w http.ResponseWriter, body []byte, said reply)
}

// talk is what a model is shown: what is new since its user last spoke.
type talk struct {
	offered  []string     // names of the tools, as the agent calls them
	deferred []string     // names of more, which the model has to ask for first, with asksFor
	asksFor  string       // the tool for that
	wish     string       // what the user said last
	answers  []toolAnswer // of the calls since then, in order
}

// toolAnswer is the result of a call as the model sees it.
type toolAnswer struct {
	text   string
	images []string // media types
	failed bool     // where the API can say so
}

// reply is what a model says: a call or, without a tool, text.
type reply struct {
	tool      string
	arguments json.RawMessage // an object
	text      string
}

// newModel starts a model that answers in one dialect until the test ends.
func newModel(t testing.TB, d dialect) *model {
	t.Helper()
	m := &model{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the agent is gone
		}
		shown, ok, err := d.read(r, body)
		if err != nil || !ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unknown = append(m.unknown, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err))
			http.NotFound(w, r)
			return
		}
		m.mu.Lock()
		if len(shown.offered) > 0 {
			m.turns = append(m.turns, shown)
		}
		m.mu.Unlock()
		d.write(w, body, shown.reply())
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// reply follows the script as far as the answers show that it went.
func (s talk) reply() reply {
	if len(s.offered) == 0 {
		return reply{text: "A title"} // agents ask for such things beside the conversation
	}
	var calls []string
	for line := range strings.Lines(s.wish) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "call "); found {
			calls = append(calls, rest)
		}
	}
	if len(s.answers) >= len(calls) {
		return reply{text: s.report()}
	}
	name, arguments, _ := strings.Cut(calls[len(s.answers)], " ")
	named := func(offer string) bool { return strings.HasSuffix(offer, name) }
	if at := slices.IndexFunc(s.offered, named); at >= 0 {
		return reply{tool: s.offered[at], arguments: json.RawMessage(arguments)}
	}
	if at := slices.IndexFunc(s.deferred, named); at >= 0 {
		return reply{tool: s.asksFor, arguments: fmt.Appendf(nil, `{"query":"select:%s"}`, s.deferred[at])}
	}
	return reply{text: name + " is not offered"}
}

// report says what came back, for the agent's user.
func (s talk) report() string {
	text := "Done."
	for _, a := range s.answers {
		text += fmt.Sprintf(" The tool said %q with %d pictures.", a.text, len(a.images))
	}
	return text
}

// first returns what the model was shown first.
func (m *model) first() talk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.turns) == 0 {
		return talk{}
	}
	return m.turns[0]
}

// last returns what the model was shown last.
func (m *model) last() talk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.turns) == 0 {
		return talk{}
	}
	return m.turns[len(m.turns)-1]
}

// offers says whether the model was offered a tool whose name ends so when it last was
// asked.
func (m *model) offers(name string) bool {
	shown := m.last()
	return slices.ContainsFunc(slices.Concat(shown.offered, shown.deferred),
		func(offer string) bool { return strings.HasSuffix(offer, name) })
}

// strays returns the requests that the model did not understand.
func (m *model) strays() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unknown)
}

// result returns the last answer to a call, or one that says that there is none.
func (s talk) result() toolAnswer {
	if len(s.answers) == 0 {
		return toolAnswer{text: "no tool was called"}
	}
	return s.answers[len(s.answers)-1]
}

// eventsTo begins a stream, and returns what writes an event to it, with its kind as the
// type of what it holds.
func eventsTo(w http.ResponseWriter) func(kind string, fields map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	return func(kind string, fields map[string]any) {
		fields["type"] = kind
		data, err := json.Marshal(fields)
		if err != nil {
			panic(err) // plain values always encode
		}
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data) // the agent may be gone
	}
}
