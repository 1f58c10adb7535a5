package main

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// way is a place where an id can be used: a request in which QUOTED stands for the id as
// JSON, ESCAPED for it as a part of a URL, PLAIN for it as it is, RID for the id of the
// request, and OWN for the speaker's session.
type way struct {
	name string
	rpc  string // the method of the message, whose params the body is; "": the body is all of it
	body string
	// where the message goes, if not to where the speaker's go: the method of HTTP with a
	// path, and the headers that are sent then
	http, path string
	headers    []string
	harmless   bool // an id that nobody was given may have a result there, as of nothing to do
}

func (y way) isHarmless() bool { return y.harmless }

// use makes a request of a speaker, with that id, that uses another id.
func (y way) use(s *speaker, rid, id string) request {
	fill := strings.NewReplacer("RID", rid, "QUOTED", write(id), "ESCAPED", url.QueryEscape(id), "OWN",
		s.session, "PLAIN", id).Replace
	if y.rpc != "" {
		return s.ask(write(rid), y.rpc, fill(y.body))
	}
	m := s.post(fill(y.body))
	switch {
	case y.http != "":
		m.method, m.path, m.headers = y.http, fill(y.path), nil
		for _, text := range y.headers {
			m.headers = append(m.headers, fill(text))
		}
	case s.revision == mcp.Revision2607:
		m.headers = append(m.headers, mcp.HeaderProtocolVersion, mcp.Revision2607)
	}
	return m
}

// The ways to use an id: those of all revisions, of one era, and of the sessions of
// Streamable HTTP.
var (
	commonWays = []way{
		{name: "cursor of tools", rpc: mcp.MethodToolsList, body: `"cursor":QUOTED`},
		{name: "cursor of resources", rpc: mcp.MethodResourcesList, body: `"cursor":QUOTED`},
		{name: "cursor of prompts", rpc: mcp.MethodPromptsList, body: `"cursor":QUOTED`},
		{name: "task", rpc: mcp.MethodTasksGet, body: `"taskId":QUOTED`},
		{name: "task to cancel", rpc: mcp.MethodTasksCancel, body: `"taskId":QUOTED`},
		{name: "URI", rpc: mcp.MethodResourcesRead, body: `"uri":QUOTED`},
		{name: "tool", rpc: mcp.MethodToolsCall, body: `"name":QUOTED`},
		{
			name: "cancelled request",
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":QUOTED}}`,
		},
		inStream,
	}
	modernWays = []way{
		{
			name: "requestState", rpc: mcp.MethodToolsCall,
			body: `"name":"box__ask","inputResponses":{"q":{"action":"accept",` +
				`"content":{"name":"thief"}}},"requestState":QUOTED`,
		},
		{name: "task to update", rpc: mcp.MethodTasksUpdate, body: `"inputResponses":{},"taskId":QUOTED`},
	}
	legacyWays = []way{
		{name: "result of a task", rpc: mcp.MethodTasksResult, body: `"taskId":QUOTED`},
		{name: "subscription", rpc: mcp.MethodSubscribe, body: `"uri":QUOTED`, harmless: true},
		{name: "subscription to end", rpc: mcp.MethodUnsubscribe, body: `"uri":QUOTED`, harmless: true},
		{
			name: "answer",
			body: `{"jsonrpc":"2.0","id":QUOTED,"result":{"role":"assistant","model":"m",` +
				`"content":{"type":"text","text":"thief"}}}`,
		},
		{name: "refusal", body: `{"jsonrpc":"2.0","id":QUOTED,"error":{"code":-1,"message":"thief"}}`},
		{
			name: "progress",
			body: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,` +
				`"progressToken":QUOTED}}`,
		},
	}
	sessionWays = []way{
		inSession("session: ping", http.MethodPost, `{"jsonrpc":"2.0","id":"RID","method":"ping"}`),
		inSession("session: call", http.MethodPost,
			`{"jsonrpc":"2.0","id":"RID","method":"tools/call","params":{"name":"box__progress"}}`),
		inSession("session: batch", http.MethodPost, `[{"jsonrpc":"2.0","id":"RID","method":"ping"}]`),
		inSession("session: cancel", http.MethodPost,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r"}}`),
		inSession("session: stream", http.MethodGet, ""),
		inSession("session: stream from the start", http.MethodGet, "", mcp.HeaderLastEventID, "p1-0"),
		inSession("session: end", http.MethodDelete, ""),
		{
			name: "event", http: http.MethodGet, path: "/mcp",
			headers: []string{mcp.HeaderSessionID, "OWN", mcp.HeaderLastEventID, "PLAIN"},
		},
	}
)

// inStream is the way to use the id of a session over HTTP+SSE.
var inStream = way{
	name: "session of a stream", http: http.MethodPost, path: "/messages?sessionId=ESCAPED",
	body: `{"jsonrpc":"2.0","id":"RID","method":"tools/list"}`,
}

// inSession is a way to use the id of a session.
func inSession(name, method, body string, more ...string) way {
	return way{
		name: name, http: method, path: "/mcp", body: body,
		headers: append([]string{mcp.HeaderSessionID, "PLAIN"}, more...),
	}
}

// ways are all places where ids stand, in whatever revision the speaker talks. Each id is
// used in each of them: one that is taken for an id of another kind would be as bad.
func ways(revision string, sse bool) []way {
	switch {
	case revision == mcp.Revision2607:
		return slices.Concat(commonWays, modernWays)
	case sse:
		return slices.Concat(commonWays, legacyWays)
	}
	return slices.Concat(commonWays, legacyWays, sessionWays)
}

// crossing counts attempts to use what is another's.
type crossing struct {
	*tally
	tries

	kinds map[string]bool
	vain  []string // ids that were of no use to their owner either: stealing them shows nothing
}

// everywhere is where it is tried: in the revisions, and over the transport of the oldest
// one.
var everywhere = append(mcp.Revisions(), overSSE)

// overSSE is the oldest revision over its own transport.
const overSSE = "over HTTP+SSE"

// revisionOf returns what a way of everywhere speaks, and whether that is over HTTP+SSE.
func revisionOf(way string) (revision string, sse bool) {
	if way == overSSE {
		return mcp.Revision2024, true
	}
	return way, false
}

// cross lets every person use every id of every other person in every way, in rounds with
// new ids, until it was tried at least n times. What comes back must be what comes back
// for an id that nobody was given, byte for byte but for the id itself and that of the
// request.
func (w *world) cross(n int, revisions []string, say reporter) *crossing {
	c := &crossing{tally: newTally(say), kinds: make(map[string]bool)}
	for c.all < n {
		for _, revision := range revisions {
			w.round(c, revision)
		}
	}
	return c
}

func (w *world) round(c *crossing, revision string) {
	owners, thieves := make([]*speaker, shards), make([]*speaker, shards)
	for i, p := range people {
		owners[i] = w.speak(p, revision)
		defer owners[i].close()
		thieves[i] = w.speak(p, revision)
		defer thieves[i].close()
	}
	most := page.Either(revision == overSSE, 1, shards) // there each thief has one stream for all answers
	must.AtOnce(shards, most, func(i int) { c.rob(owners[i], thieves, ways(revisionOf(revision))) })
	for _, thief := range thieves {
		if thief.stream != nil && holdsForeign(thief.stream.out.text(), thief.person) {
			c.add(revision, wronglyServed,
				func() string { return "the stream of " + thief.person.String() + " has what is another's" })
		}
	}
}

// rob lets all others use what one owner has, and then the owner.
func (c *crossing) rob(owner *speaker, thieves []*speaker, ways []way) {
	all, open := owner.gather()
	all = append(all, loot{"tool of a tenant", "of" + owner.person.tenant + "__own", "ofnobody__own"})
	for _, thief := range thieves {
		if thief.person == owner.person {
			continue
		}
		for _, way := range ways {
			known := make(map[string]string)
			for _, one := range all {
				c.steal(owner, thief, one, way, known)
			}
		}
	}
	if open != nil {
		if heard := open.end(); !strings.Contains(heard, owner.person.marker()) ||
			!strings.Contains(heard, `owner`) || strings.Contains(heard, "thief") {
			c.add("parked calls", wronglyServed,
				func() string { return fmt.Sprintf("the parked call of %v came to %s", owner.person, heard) })
		}
	}
	c.control(owner, all)
}

// steal tries one id in one way.
func (c *crossing) steal(owner, thief *speaker, one loot, way way, known map[string]string) {
	if isShared(owner.person, thief.person, one.kind) {
		return
	}
	got, text := c.try(thief, way, one.id)
	want, has := known[one.kind]
	if !has {
		_, want = c.try(thief, way, one.unknown)
		known[one.kind] = want
	}
	v := harm(&got)
	if v == fine && (text != want || holdsForeign(got.body, thief.person)) {
		v = wronglyServed
	}
	c.add(thief.revision, v, func() string {
		return fmt.Sprintf("%v uses the %s of %v as %s:\ngot  %.600s\nwant %.600s", thief.person, one.kind,
			owner.person, way.name, text, want)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[one.kind] = true
}

// tries numbers requests, so that no two that are in work have the same id.
type tries struct{ atomic.Int64 }

// try uses an id, and returns all of the answer that may tell one refusal from another.
func (t *tries) try(s *speaker, way way, id string) (a answer, text string) {
	rid := fmt.Sprintf("rid%09d", t.Add(1))
	in := input{request: way.use(s, rid, id)}
	if strings.Contains(in.body, rid) {
		in.id = write(rid)
	}
	a = s.do(&in)
	return a, strings.ReplaceAll(nameless(&a, id), rid, "RID")
}

// isShared tells whether the other may use it by design: cursors are the user's, whatever
// the client, and a tool of a tenant is everybody's there.
func isShared(owner, other person, kind string) bool {
	if strings.HasPrefix(kind, "cursor") {
		return owner.issuer == other.issuer && owner.tenant == other.tenant && owner.user == other.user
	}
	return kind == "tool of a tenant" && owner.tenant == other.tenant
}

// nameless returns all of an answer that may tell one refusal from another. A response
// alone on an event stream is the same as one in plain JSON: whether there is a stream
// depends on how long the answer took, and so on who else uses the machine.
func nameless(a *answer, id string) string {
	header, body := a.header.Clone(), a.body
	name := header.Get("X-Request-Id")
	drop := []string{"X-Request-Id", "Date", "Content-Length"}
	if last := client.LastEvent([]byte(body)); last != nil && strings.Count(body, `"jsonrpc"`) == 1 &&
		!strings.Contains(body, `"method"`) {
		header.Set("Content-Type", "application/json")
		body, drop = string(last), append(drop, "Cache-Control", "X-Accel-Buffering")
	}
	for _, one := range drop {
		header.Del(one)
	}
	text := fmt.Sprint(a.status, " ", header, " ", body)
	text = strings.ReplaceAll(text, name, "REQUEST")
	for length := len(id); length > 0; length-- { // errors cut long names
		if short := id[:length]; strings.Contains(text, short) && (length == len(id) || length > 60) {
			return strings.ReplaceAll(text, short, "ID")
		}
	}
	return text
}

var anyMarker = regexp.MustCompile(`marker-[A-Za-z0-9_-]+`)

// holdsForeign tells whether a text has something that was said to another person.
func holdsForeign(text string, p person) bool {
	return slices.ContainsFunc(anyMarker.FindAllString(text, -1),
		func(found string) bool { return found != p.marker() })
}

// control uses what is the owner's own. If it is of no use to the owner, that others
// cannot use it shows nothing.
func (c *crossing) control(owner *speaker, all []loot) {
	for _, one := range all {
		quoted := write(one.id)
		use, has := map[string][2]string{
			"session":                              {mcp.MethodToolsList, ""},
			"cursor of " + mcp.MethodToolsList:     {mcp.MethodToolsList, `"cursor":` + quoted},
			"cursor of " + mcp.MethodResourcesList: {mcp.MethodResourcesList, `"cursor":` + quoted},
			"task":                                 {mcp.MethodTasksGet, `"taskId":` + quoted},
			"requestState":                         {mcp.MethodToolsCall, declined(quoted)},
		}[one.kind]
		if err := must.Try(func() { owner.result(use[0], use[1]) }); has && err != nil {
			c.mu.Lock()
			c.vain = append(c.vain, err.Error())
			c.mu.Unlock()
		}
	}
}

// declined is a call whose question is declined, with a state in JSON.
func declined(state string) string {
	return `"name":"box__ask","inputResponses":{"q":{"action":"decline"}},"requestState":` + state
}
