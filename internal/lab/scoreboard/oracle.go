package main

import (
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// wanted says what has to become of an input.
type wanted int

const (
	behave wanted = iota // whatever becomes of it: no crash, no fault of ours, and an answer that is JSON-RPC
	refuse               // no result, because of how it was made
	// a result: it is as it should be, so that the judge can be trusted when it sees
	// refusals
	serve
	deny // 401 and nothing else
)

// input is one thing that is tried.
type input struct {
	request

	class string // what it is a case of
	what  string // how it was made
	want  wanted
	id    string // JSON text of its id; "" if it has none or nobody can tell
}

// verdict is what is wrong with an answer; "" is nothing.
type verdict string

// The verdicts.
const (
	fine           verdict = ""
	crashed        verdict = "crash"
	ownFault       verdict = "5xx"
	wronglyServed  verdict = "wrongly accepted"
	wronglyRefused verdict = "wrongly refused"
	malformed      verdict = "no JSON-RPC"
	lost           verdict = "no answer"
)

// harm says what no answer may be, whatever was asked.
func harm(a *answer) verdict {
	switch {
	case a.panics != nil:
		return crashed
	case a.hung:
		return lost
	case a.status >= http.StatusInternalServerError:
		return ownFault
	}
	return fine
}

// judge says what is wrong with the answer to an input.
func judge(in *input, a *answer) verdict {
	if v := harm(a); v != fine {
		return v
	}
	messages, ok := spoken(a)
	if !ok {
		return malformed
	}
	served := false
	for _, m := range messages {
		if !ids(in, m) {
			return malformed
		}
		served = served || isServed(m)
	}
	switch {
	case in.want == deny && (a.status != http.StatusUnauthorized || served):
		return wronglyServed
	case in.want == refuse && served:
		return wronglyServed
	case in.want == serve && !served:
		return wronglyRefused
	}
	return fine
}

// spoken returns the JSON-RPC messages of an answer.
func spoken(a *answer) (all []*mcp.Message, ok bool) {
	kind := a.header.Get("Content-Type")
	switch {
	case a.body == "":
		return nil, true
	case kind == "application/json":
		return parsed(a.body)
	case !strings.HasPrefix(kind, "text/event-stream"):
		return nil, false
	}
	for e, err := range sse.Read(strings.NewReader(a.body), len(a.body)) {
		if len(e.Data) == 0 && err == nil {
			continue
		}
		one, good := parsed(string(e.Data))
		if !good {
			return nil, false
		}
		all = append(all, one...)
	}
	return all, true
}

func parsed(text string) (all []*mcp.Message, ok bool) {
	raw, _ := mcp.ParseRaw([]byte(text)) // what is none is no message either
	elements := []mcp.RawJSON{raw}
	if raw.IsArray() {
		elements, _ = raw.Elements()
	}
	for _, element := range elements {
		m, err := mcp.DecodeRaw(element)
		if err != nil || m.Err != nil && m.Err.Message == "" {
			return nil, false
		}
		all = append(all, m)
	}
	return all, len(all) > 0
}

// ids tells whether a message has the id that it should have: that of the request, but an
// error may have none. What is on its way to the client has an id of ours or none.
func ids(in *input, m *mcp.Message) bool {
	return !m.IsResponse() || m.Err != nil && m.ID == "" || in.id == "" || string(m.ID) == in.id
}

// isServed tells whether a message is the result of something that was done. A result
// that is an error for the model is none.
func isServed(m *mcp.Message) bool {
	return m.IsResponse() && m.Err == nil && string(m.Result.Value("isError")) != "true"
}
