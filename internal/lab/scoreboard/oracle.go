package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
	case in.want == serve && !served && a.status != http.StatusAccepted && a.status != http.StatusNoContent:
		return wronglyRefused
	}
	return fine
}

// spoken returns the JSON-RPC messages of an answer.
func spoken(a *answer) (all []mcp.Object, ok bool) {
	if a.body == "" {
		return nil, true
	}
	kind := a.header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		for line := range strings.Lines(a.body) {
			data, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: ")
			if !is || data == "" {
				continue
			}
			one, good := parsed(data)
			if !good {
				return nil, false
			}
			all = append(all, one...)
		}
		return all, true
	}
	if kind != "application/json" {
		return nil, false
	}
	return parsed(a.body)
}

func parsed(text string) (all []mcp.Object, ok bool) {
	raw, err := mcp.ParseRaw([]byte(text))
	if err != nil {
		return nil, false
	}
	elements := []mcp.RawJSON{raw}
	if raw.IsArray() {
		elements, _ = raw.Elements()
	}
	for _, element := range elements {
		o, is := mcp.ObjectOf(element)
		if !is || o.Text("jsonrpc") != "2.0" {
			return nil, false
		}
		all = append(all, o)
	}
	return all, len(all) > 0
}

// ids tells whether a message has the id that it should have: that of the request, but an
// error may have none.
func ids(in *input, m mcp.Object) bool {
	if m.Has("method") {
		return true // on its way to the client; it has an id of ours or none
	}
	if m.Has("result") == m.Has("error") {
		return false
	}
	id := m.Value("id")
	if m.Has("error") {
		e := m.Object("error")
		_, isInt := e.Value("code").Int()
		_, isText := e.Value("message").Text()
		if !isInt || !isText {
			return false
		}
		return id.IsNull() || in.id == "" || same(string(id), in.id)
	}
	return in.id == "" || same(string(id), in.id)
}

// same tells whether two JSON texts are the same value, however they are spelt.
func same(one, other string) bool {
	if one == other {
		return true
	}
	var a, b any
	if json.Unmarshal([]byte(one), &a) != nil || json.Unmarshal([]byte(other), &b) != nil { //nolint:forbidigo // two texts that were read before
		return false
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// isServed tells whether a message is the result of something that was done. A result
// that is an error for the model is none.
func isServed(m mcp.Object) bool {
	return m.Has("result") && string(m.Object("result").Value("isError")) != "true"
}
