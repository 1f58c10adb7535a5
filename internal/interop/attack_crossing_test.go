package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// progressThenEcho answers with a stream: two progress messages, one with somebody else's
// token, and the arguments.
func progressThenEcho(w http.ResponseWriter, id json.RawMessage, e execution, params json.RawMessage) {
	var p struct {
		Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p) // without a token there is no progress
	w.Header().Set("Content-Type", "text/event-stream")
	text, _ := json.Marshal(e.arguments)
	if p.Meta.ProgressToken != nil {
		fmt.Fprintf(w, "data: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%s}}`+"\n\n", p.Meta.ProgressToken, text)
		fmt.Fprintf(w, "data: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":2,"message":%s}}`+"\n\n", text)
		fmt.Fprintf(w, "data: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":2,"message":%s}}`+"\n\n", text)
	}
	fmt.Fprintf(w, "data: "+
		`{"jsonrpc":"2.0","id":424242,"result":{"content":[{"type":"text","text":"an answer to somebody else"}]}}`+"\n\n")
	fmt.Fprintf(w, "data: "+
		`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%s}]}}`+
		"\n\n", id, text)
}

func TestT16NothingCrosses(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern upstream %t", form.name, modern), func(t *testing.T) {
				t.Parallel()
				callsOfMany(t, form.settle(t), modern)
			})
		}
	}
}

// callsOfMany lets two people of each of two tenants call at the same time in every
// revision.
func callsOfMany(t *testing.T, g *gateway, modern bool) {
	t.Helper()
	perSpeaker := 100
	if testing.Short() { // make nightly has all of them
		perSpeaker /= 5
	}
	up := ambush(t, &hostile{tools: tool("echo"), modern: modern, answer: progressThenEcho})
	besiegeAt(t, g, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
	var all sync.WaitGroup
	for _, tenant := range []string{"acme", "globex"} {
		for _, subject := range []string{"alice", "bob"} {
			for _, revision := range revisions() {
				owner := who{tenant: tenant, subject: subject}
				s := g.speak(t, g.mint(owner), revision)
				all.Go(func() {
					for i := range perSpeaker {
						s.callAsMine(t, owner, i)
					}
				})
			}
		}
	}
	all.Wait()
	g.unhurt(t)
	rightOwners(t, g, 4*5*perSpeaker)
}

// callAsMine calls with an id and a progress token that all others use too, and arguments
// that nobody else has.
func (s *speaker) callAsMine(t *testing.T, owner who, i int) {
	mine := fmt.Sprintf(`{"owner":"%s %s %d"}`, owner, s.revision, i)
	quoted, _ := json.Marshal(mine)
	got := s.story(t, "1", "tools/call", "up__echo", s.meta(`"progressToken":1`)+
		`,"name":"up__echo","arguments":`+mine)
	for n, raw := range got {
		text := string(raw)
		var m message
		if json.Unmarshal(raw, &m) != nil {
			t.Errorf("%s is no message", text)
			continue
		}
		switch {
		case m.Method == "notifications/progress":
			if !strings.Contains(text, string(quoted)) || !strings.Contains(text, `"progressToken":1,`) &&
				!strings.Contains(text, `"progressToken":1}`) {
				t.Errorf("%v %s got the progress %s", owner, s.revision, text)
			}
		case n != len(got)-1 || string(m.ID) != "1" || !strings.Contains(string(m.Result), string(quoted)):
			t.Errorf("%v %s got %s, want an answer with %s", owner, s.revision, text, mine)
		}
	}
}

// rightOwners checks that each record names the owner that is in the arguments.
func rightOwners(t *testing.T, g *gateway, want int) {
	t.Helper()
	mine := make(map[string]string)
	for _, tenant := range []string{"acme", "globex"} {
		for _, subject := range []string{"alice", "bob"} {
			for _, revision := range revisions() {
				for i := range 1000 {
					owner := who{tenant: tenant, subject: subject}
					mine[digest(tenant, fmt.Appendf(nil, `{"owner":"%s %s %d"}`, owner, revision, i))] = owner.String()
				}
			}
		}
	}
	count := 0
	for _, line := range g.audited(t) {
		if line.Method != "tools/call" {
			continue
		}
		count++
		if owner := line.Tenant + "/" + line.Subject; mine[line.Arguments] != owner || line.Outcome != "ok" {
			t.Errorf("the record of %s (%s) is about arguments of %s", owner, line.Outcome,
				mine[line.Arguments])
		}
	}
	if count != want {
		t.Errorf("%d records of calls, want %d", count, want)
	}
}
