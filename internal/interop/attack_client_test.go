package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func revisions() []string {
	return []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

const modernRevision = "2026-07-28"

// speaker talks one revision as one principal.
type speaker struct {
	g        *gateway
	token    string
	revision string
	session  string // of Streamable HTTP
	endpoint string // where messages go
	stream   *events
}

// events are the data of an event stream, in order.
type events struct {
	data  chan string
	close context.CancelFunc
}

// speak opens what the revision needs: a session, a stream, or nothing.
func (g *gateway) speak(t testing.TB, token, revision string) *speaker {
	t.Helper()
	return g.speakAs(t, token, revision, "{}")
}

// speakAs is speak of a client that declares these capabilities in its handshake.
func (g *gateway) speakAs(t testing.TB, token, revision, capabilities string) *speaker {
	t.Helper()
	s := &speaker{g: g, token: token, revision: revision, endpoint: g.url}
	if revision == modernRevision {
		return s
	}
	hello := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"attacker","version":"1"}}}`, revision, capabilities)
	if revision == "2024-11-05" {
		s.stream = g.listen(t, "http://"+g.addr+"/sse", "Authorization", "Bearer "+token)
		s.endpoint = "http://" + g.addr + s.stream.next(t)
	}
	a := s.post(t, hello)
	s.session = a.header.Get("Mcp-Session-Id")
	if s.stream != nil {
		s.stream.next(t)
	} else if s.session == "" {
		t.Fatalf("initialize of %s gave %d %s and no session", revision, a.status, a.body)
	}
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// listen opens an event stream until the test ends.
func (g *gateway) listen(t testing.TB, url string, headers ...string) *events {
	t.Helper()
	e, status := open(t, url, headers...)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d", url, status)
	}
	return e
}

// open asks for an event stream, and follows it when there is one.
func open(t testing.TB, url string, headers ...string) (e *events, status int) {
	t.Helper()
	return openWith(t, http.MethodGet, url, "", headers...)
}

func openWith(t testing.TB, method, url, body string, headers ...string) (e *events, status int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		cancel()
		return nil, response.StatusCode
	}
	e = &events{make(chan string, 4096), cancel}
	go func() { // ends with ctx
		defer close(e.data)
		defer response.Body.Close()
		for lines := bufio.NewReader(response.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data <- strings.TrimSpace(data)
			}
		}
	}()
	return e, http.StatusOK
}

// next returns the data of the next event.
func (e *events) next(t testing.TB) string {
	t.Helper()
	select {
	case data, ok := <-e.data:
		if !ok {
			t.Fatal("the event stream ended")
		}
		return data
	case <-time.After(patient):
		t.Fatalf("no event within %v", patient)
	}
	return ""
}

// post sends one body, with what the revision wants around it, and further headers.
func (s *speaker) post(t testing.TB, body string, headers ...string) answer {
	t.Helper()
	all := []string{"Authorization", "Bearer " + s.token}
	if s.session != "" {
		all = append(all, "Mcp-Session-Id", s.session)
	}
	if s.revision == modernRevision {
		all = append(all, "MCP-Protocol-Version", modernRevision)
	}
	return post(t, s.endpoint, body, append(all, headers...)...)
}

// ask sends a request of this method; params is the inside of its params. The answer is
// the last message.
func (s *speaker) ask(t testing.TB, id, method, name, params string) message {
	t.Helper()
	all := s.story(t, id, method, name, params)
	var m message
	if err := json.Unmarshal(all[len(all)-1], &m); err != nil {
		t.Fatalf("%s: %v", all[len(all)-1], err)
	}
	return m
}

// story is ask with everything that comes before the answer.
func (s *speaker) story(t testing.TB, id, method, name, params string) []json.RawMessage {
	t.Helper()
	var headers []string
	if s.revision == modernRevision {
		headers = []string{"Mcp-Method", method}
		if name != "" {
			headers = append(headers, "Mcp-Name", name)
		}
		if !strings.Contains(params, `"_meta"`) {
			params = strings.TrimSuffix(modernMeta+","+params, ",")
		}
	}
	a := s.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params),
		headers...)
	if s.stream == nil || a.status != http.StatusAccepted {
		all := a.messages(t)
		if len(all) == 0 {
			t.Fatalf("%s %s: no message in the answer: status %d, body %q", s.revision, method, a.status,
				a.body)
		}
		return all
	}
	var all []json.RawMessage
	for {
		all = append(all, json.RawMessage(s.stream.next(t)))
		var m message
		if err := json.Unmarshal(all[len(all)-1], &m); err != nil {
			t.Fatalf("%s: %v", all[len(all)-1], err)
		}
		if bytes.Equal(m.ID, []byte(id)) {
			return all
		}
	}
}

// meta returns the _meta of a request with a member of its own in it.
func (s *speaker) meta(member string) string {
	if s.revision == modernRevision {
		return strings.TrimSuffix(modernMeta, "}") + "," + member + "}"
	}
	return `"_meta":{` + member + `}`
}

// names returns the tools that the speaker is shown.
func (s *speaker) names(t testing.TB) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	m := s.ask(t, `"list"`, "tools/list", "", "")
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatalf("tools/list: %s: %v", m.Result, err)
	}
	var names []string
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}
