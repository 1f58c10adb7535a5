package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// principals are eight that differ from the first in one thing each, or in several.
func principals() []who {
	return []who{
		{tenant: "acme", subject: "alice"},
		{tenant: "acme", subject: "alice", client: "app"},
		{tenant: "acme", subject: "alice", issuer: "https://other.test/"},
		{tenant: "acme", subject: "bob"},
		{tenant: "acme", subject: "Alice"},
		{tenant: "globex", subject: "alice"},
		{tenant: "globex", subject: "alice", client: "app"},
		{tenant: "globex", subject: "bob"},
	}
}

// get sends a request without body.
func get(t testing.TB, method, url string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") { // which may have no end
		a.body = make([]byte, 4096)
		n, _ := response.Body.Read(a.body)
		a.body = a.body[:n]
	}
	return a
}

func TestT2SessionsAreOfNoUseToOthers(t *testing.T) {
	t.Parallel()
	sections := twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate]}\n") +
		"sessions: {keys_file: ../keys}\n"
	sections = strings.Replace(sections, "../keys", writeKeys(t), 1)
	g, twin := besiege(t, sections), besiege(t, sections)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	tried := 0
	for i, owner := range principals() {
		for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			s := g.speak(t, g.mint(owner), revision)
			for j, thief := range principals() {
				if i == j {
					continue
				}
				tried += s.stolenBy(t, g, g.mint(thief), ping)
			}
			tried += s.stolenBy(t, twin, twin.mint(owner), ping) // the key is shared, the session is not
			if m := s.ask(t, `"mine"`, "ping", "", ""); m.Error != nil {
				t.Errorf("%v lost its session to a thief: %+v", owner, m.Error)
			}
			if s.session != "" {
				unknown := get(t, http.MethodDelete, g.url, "Authorization", "Bearer "+s.token,
					"Mcp-Session-Id", flip(s.session))
				if unknown.status != http.StatusNotFound {
					t.Errorf("a changed session id gave %d", unknown.status)
				}
			}
		}
	}
	g.unhurt(t)
	t.Logf("%d attempts", tried)
}

func writeKeys(t testing.TB) string {
	t.Helper()
	g := &gateway{dir: t.TempDir()}
	g.write(t, "jzwaXnudL0psjgsdP1p8no88Gl57nS9KbI4LHT9afJ4=\n")
	return g.config()
}

func flip(id string) string {
	last := byte('A')
	if id[len(id)/2] == last {
		last = 'B'
	}
	return id[:len(id)/2] + string(last) + id[len(id)/2+1:]
}

// stolenBy uses the session with another token in every way there is. Each must answer as
// for an unknown session.
func (s *speaker) stolenBy(t *testing.T, g *gateway, token, body string) int {
	t.Helper()
	auth := []string{"Authorization", "Bearer " + token}
	var all, unknown []answer
	if s.stream != nil {
		_, query, _ := strings.Cut(s.endpoint, "?")
		_, id, _ := strings.Cut(query, "=")
		for _, one := range []string{id, flip(id)} {
			a := post(t, "http://"+g.addr+"/messages?sessionId="+one, body, auth...)
			b := post(t, g.url, body, append(auth, "Mcp-Session-Id", one)...) // of the other transport
			all, unknown = append(all, a), append(unknown, b)
		}
	} else {
		for i, id := range []string{s.session, flip(s.session)} {
			with := append([]string{"Mcp-Session-Id", id}, auth...)
			got := []answer{
				post(t, g.url, body, with...),
				get(t, http.MethodGet, g.url, with...),
				get(t, http.MethodDelete, g.url, with...),
				get(t, http.MethodGet, g.url, append(with, "Last-Event-ID", "p1-1")...),
				post(t, "http://"+g.addr+"/messages?sessionId="+url.QueryEscape(id), body, auth...),
			}
			if i == 0 {
				all = got
			} else {
				unknown = got
			}
		}
	}
	for i := range all {
		if all[i].status != http.StatusNotFound || unknown[i].status != http.StatusNotFound ||
			all[i].nameless(t) != unknown[i].nameless(t) {
			t.Errorf(
				"way %d into a %s session with another's token: %d %s, unknown: %d %s; want one and the same 404",
				i, s.revision, all[i].status, all[i].body, unknown[i].status, unknown[i].body)
		}
	}
	return 2 * len(all)
}

// nameless returns all of an answer that may tell one refusal from another: not the time,
// not the id of the message, which only some of the ways repeat, and not that of the
// request, which must be there.
func (a answer) nameless(t *testing.T) string {
	t.Helper()
	id, header := a.header.Get("X-Request-Id"), a.header.Clone()
	if id == "" {
		t.Errorf("%d %s has no X-Request-Id", a.status, a.body)
		return ""
	}
	header.Del("Date")
	header.Del("Content-Length")
	body := strings.Replace(string(a.body), `"id":1,`, "", 1)
	return strings.ReplaceAll(fmt.Sprint(a.status, header, body), id, "ID")
}

func TestT2CursorsAndEventsAreOfNoUseToOthers(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("a") + "," + tool("b") + "," + tool("c"), answer: progressThenEcho})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n")+"lists: {page_size: 1}\n")
	tried := 0
	for i, owner := range principals() {
		s := g.speak(t, g.mint(owner), "2025-11-25")
		var page struct{ NextCursor string }
		if m := s.ask(t, "1", "tools/list", "", ""); json.Unmarshal(m.Result, &page) != nil ||
			page.NextCursor == "" {
			t.Fatalf("no cursor in %s", m.Result)
		}
		event := s.eventOf(t)
		for j, thief := range principals() {
			if i == j || thief.issuer == owner.issuer && thief.String() == owner.String() {
				continue // the same person in another client may go on in the list
			}
			for _, revision := range []string{"2025-06-18", "2025-11-25", modernRevision} {
				other := g.speak(t, g.mint(thief), revision)
				m := other.ask(t, "1", "tools/list", "", fmt.Sprintf(`"cursor":%q`, page.NextCursor))
				if m.Error == nil || m.Error.Code != -32602 {
					t.Errorf("%v used the cursor of %v: %s %+v", thief, owner, m.Result, m.Error)
				}
				if revision != modernRevision {
					a := get(t, http.MethodGet, g.url, "Authorization", "Bearer "+other.token,
						"Mcp-Session-Id", other.session, "Last-Event-ID", event)
					if a.status != http.StatusGone {
						t.Errorf("%v resumed with an event of %v: %d", thief, owner, a.status)
					}
				}
				tried += 2
			}
		}
		for _, forged := range []string{
			flip(page.NextCursor), "", "0", "1", strings.Repeat("A", 4096),
			"../../x", page.NextCursor + "A",
		} {
			if m := s.ask(t, "1", "tools/list", "", fmt.Sprintf(`"cursor":%q`, forged)); forged != "" &&
				(m.Error == nil || m.Error.Code != -32602) {
				t.Errorf("cursor %q: %s %+v", forged, m.Result, m.Error)
			}
		}
		for _, forged := range []string{
			event + "0", "-1", "p1", "p1-999999999999999999999", "*",
			"../x", strings.Repeat("p", 5000), "p1-1 x", event + "," + event,
		} {
			a := get(t, http.MethodGet, g.url, "Authorization", "Bearer "+s.token, "Mcp-Session-Id",
				s.session, "Last-Event-ID", forged)
			if a.status < 400 || a.status >= 500 {
				t.Errorf("Last-Event-ID %q: %d", forged, a.status)
			}
		}
	}
	g.unhurt(t)
	t.Logf("%d attempts", tried)
}

// eventOf makes a stream of the session and returns the id of an event in it.
func (s *speaker) eventOf(t *testing.T) string {
	t.Helper()
	a := s.post(
		t, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"up__a","arguments":{}}}`)
	for line := range strings.Lines(string(a.body)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return strings.TrimSpace(id)
		}
	}
	t.Fatalf("no event in %d %s", a.status, a.body)
	return ""
}
