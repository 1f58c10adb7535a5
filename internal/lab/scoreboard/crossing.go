package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// way is a place where an id can be used.
type way struct {
	name string
	use  func(s *speaker, rid, id string) request // rid is the id of the request
}

// ways are all places where ids stand, in whatever revision the speaker talks. Each id is
// used in each of them: one that is taken for an id of another kind would be as bad.
func ways(revision string, sse bool) []way {
	in := func(name, method, format string) way {
		return way{name, func(s *speaker, rid, id string) request {
			return s.ask(write(rid), method, fmt.Sprintf(format, write(id)))
		}}
	}
	plain := func(name, format string) way {
		return way{name, func(s *speaker, _, id string) request {
			m := s.post(fmt.Sprintf(format, write(id)))
			if s.revision == mcp.Revision2607 {
				m.headers = append(m.headers, mcp.HeaderProtocolVersion, mcp.Revision2607)
			}
			return m
		}}
	}
	all := []way{
		in("cursor of tools", mcp.MethodToolsList, `"cursor":%s`),
		in("cursor of resources", mcp.MethodResourcesList, `"cursor":%s`),
		in("cursor of prompts", mcp.MethodPromptsList, `"cursor":%s`),
		in("task", mcp.MethodTasksGet, `"taskId":%s`),
		in("task to cancel", mcp.MethodTasksCancel, `"taskId":%s`),
		in("URI", mcp.MethodResourcesRead, `"uri":%s`),
		in("tool", mcp.MethodToolsCall, `"name":%s`),
		plain("cancelled request",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`),
		{"session of a stream", func(s *speaker, rid, id string) request {
			m := s.post(`{"jsonrpc":"2.0","id":"` + rid + `","method":"tools/list"}`)
			m.path, m.headers = "/messages?sessionId="+url.QueryEscape(id), nil
			return m
		}},
	}
	if revision == mcp.Revision2607 {
		return append(all,
			in("requestState", mcp.MethodToolsCall,
				`"name":"box__ask","inputResponses":{"q":{"action":"accept","content":{"name":"thief"}}},"requestState":%s`),
			in("task to update", mcp.MethodTasksUpdate, `"inputResponses":{},"taskId":%s`))
	}
	all = append(all,
		in("result of a task", mcp.MethodTasksResult, `"taskId":%s`),
		in("subscription", mcp.MethodSubscribe, `"uri":%s`),
		in("subscription to end", mcp.MethodUnsubscribe, `"uri":%s`),
		plain(
			"answer", `{"jsonrpc":"2.0","id":%s,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"thief"}}}`),
		plain("refusal", `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"thief"}}`),
		plain(
			"progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":%s}}`))
	if sse {
		return all
	}
	return append(all, sessionWays()...)
}

// sessionWays are the ways to use the id of a session.
func sessionWays() []way {
	session := func(name, method, body string, more ...string) way {
		return way{name, func(s *speaker, rid, id string) request {
			m := request{method: method, path: "/mcp", token: s.token, body: strings.ReplaceAll(body, "RID",
				rid)}
			m.headers = append([]string{mcp.HeaderSessionID, id}, more...)
			return m
		}}
	}
	return []way{
		session("session: ping", http.MethodPost, `{"jsonrpc":"2.0","id":"RID","method":"ping"}`),
		session("session: call", http.MethodPost,
			`{"jsonrpc":"2.0","id":"RID","method":"tools/call","params":{"name":"box__progress"}}`),
		session("session: batch", http.MethodPost, `[{"jsonrpc":"2.0","id":"RID","method":"ping"}]`),
		session("session: cancel", http.MethodPost,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r"}}`),
		session("session: stream", http.MethodGet, ""),
		session("session: stream from the start", http.MethodGet, "", mcp.HeaderLastEventID, "p1-0"),
		session("session: end", http.MethodDelete, ""),
		{"event", func(s *speaker, _, id string) request {
			return request{
				method: http.MethodGet, path: "/mcp", token: s.token,
				headers: []string{mcp.HeaderSessionID, s.session, mcp.HeaderLastEventID, id},
			}
		}},
	}
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
func everywhere() []string { return append(mcp.Revisions(), overSSE) }

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
func (w *world) cross(n int, revisions []string, say teller) *crossing {
	c := &crossing{tally: newTally(say), kinds: make(map[string]bool)}
	for c.all() < n {
		for _, revision := range revisions {
			w.round(c, revision)
		}
	}
	return c
}

func (w *world) round(c *crossing, revision string) {
	owners, thieves := make([]*speaker, shards), make([]*speaker, shards)
	for i, p := range people() {
		owners[i] = w.speak(p, revision)
		defer owners[i].close()
		thieves[i] = w.speak(p, revision)
		defer thieves[i].close()
	}
	var all sync.WaitGroup
	faults := make([]error, shards)
	for i, owner := range owners {
		all.Go(func() { faults[i] = must.Try(func() { c.rob(owner, thieves, ways(revisionOf(revision))) }) })
		if revision == overSSE { // each thief has one stream for all answers
			all.Wait()
		}
	}
	all.Wait()
	must.OK(errors.Join(faults...))
	for _, thief := range thieves {
		if thief.stream != nil && holdsForeign(thief.stream.out.text(), thief.person) {
			c.add(revision, wronglyServed,
				func() string { return "the stream of " + thief.person.String() + " has what is another's" })
		}
	}
}

// rob lets all others use what one owner has, and then the owner.
func (c *crossing) rob(owner *speaker, thieves []*speaker, ways []way) {
	all, open, err := owner.gather()
	must.OK(err)
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
	v := fine
	switch {
	case got.hung:
		v = lost
	case got.panics != nil:
		v = crashed
	case got.status >= http.StatusInternalServerError:
		v = ownFault
	case text != want || holdsForeign(got.body, thief.person):
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
	for _, found := range anyMarker.FindAllString(text, -1) {
		if found != p.marker() {
			return true
		}
	}
	return false
}

// control uses what is the owner's own. If it is of no use to the owner, that others
// cannot use it shows nothing.
func (c *crossing) control(owner *speaker, all []loot) {
	for _, one := range all {
		var method, params string
		switch one.kind {
		case "session":
			method = mcp.MethodToolsList
		case "cursor of " + mcp.MethodToolsList, "cursor of " + mcp.MethodResourcesList:
			method, params = strings.TrimPrefix(one.kind, "cursor of "), `"cursor":`+write(one.id)
		case "task":
			method, params = mcp.MethodTasksGet, `"taskId":`+write(one.id)
		case "requestState":
			method, params = mcp.MethodToolsCall, declined(one.id)
		default:
			continue
		}
		if _, err := owner.result(method, params); err != nil {
			c.mu.Lock()
			c.vain = append(c.vain, err.Error())
			c.mu.Unlock()
		}
	}
}

// declined is a call whose question is declined, with a state.
func declined(state string) string {
	return `"name":"box__ask","inputResponses":{"q":{"action":"decline"}},"requestState":` + write(state)
}
