package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestAllRevisionsOverRedis leads a client of each revision through three replicas that
// share a real server. Each request goes to another replica than the one before, so
// nothing is answered, resumed, cancelled or ended where it began.
func TestAllRevisionsOverRedis(t *testing.T) {
	t.Parallel()
	c, bases := overRedis(t, redistest.Start(t),
		func(w *world) { w.tenants[0].Servers = []string{"box", "forms"} })
	for _, w := range c.worlds {
		for _, refusal := range w.registry.Replace((&forms{}).source()) {
			t.Fatalf("refused: %+v", refusal)
		}
	}
	stories := 0
	for _, revision := range mcp.Revisions() {
		story := &roundRobinClient{changingFleet: c, bases: bases, revision: revision}
		switch {
		case mcp.EraOf(revision) == mcp.Modern:
			t.Run(revision, story.modern)
		default:
			t.Run(revision, story.streamable)
		}
		stories++
	}
	t.Run(mcp.Revision2024+" over HTTP+SSE", (&roundRobinClient{changingFleet: c, bases: bases, revision: mcp.Revision2024}).sse)
	if stories != 5 {
		t.Errorf("%d revisions were tried, and the list of this test is for 5", stories)
	}
}

// roundRobinClient is a client that goes to the next replica with each request.
type roundRobinClient struct {
	*changingFleet
	bases    []string
	revision string
	turn     int
	home     int // the replica that leads the session
}

// next sends a request to the next replica.
func (tr *roundRobinClient) next(ctx context.Context, t *testing.T, m message) *answer {
	t.Helper()
	tr.turn++
	return call(ctx, t, tr.bases[tr.turn%len(tr.bases)], m)
}

// status sends a request to the next replica and wants that status.
func (tr *roundRobinClient) status(t *testing.T, what string, m message, status int) {
	t.Helper()
	if got := tr.next(t.Context(), t, m); got.StatusCode != status {
		t.Errorf("%s at replica %d: got %d, want %d", what, tr.turn%len(tr.bases), got.StatusCode, status)
	}
}

// world returns the replica that had the last request.
func (tr *roundRobinClient) world() *world { return tr.worlds[tr.turn%len(tr.worlds)] }

// streamable is the story of a session over Streamable HTTP.
func (tr *roundRobinClient) streamable(t *testing.T) {
	capable := strings.Replace(initialize(tr.revision).body, `"capabilities":{}`,
		`"capabilities":{"roots":{}}`, 1)
	opened := tr.next(t.Context(), t, message{method: "POST", path: "/mcp", token: "alice", body: capable})
	id := opened.Header.Get(mcp.HeaderSessionID)
	tr.home = tr.turn % len(tr.bases)
	if got := opened.until(t, `"protocolVersion"`); !strings.Contains(got, tr.revision) {
		t.Fatalf("got %s, want %s", got, tr.revision)
	}
	tr.status(t, "initialized",
		inSession("POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.StatusAccepted)
	for range 3 {
		tr.status(t, "ping", inSession("POST", id, pingBody), http.StatusOK)
		tr.next(t.Context(), t, legacyCall(id, "echo")).until(t, `"result"`)
		tr.next(t.Context(), t, inSession("POST", id,
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)).until(t, `"tools":[`)
	}
	if tr.revision == mcp.Revision2503 { // the only one with batches
		tr.next(t.Context(), t, inSession("POST", id,
			`[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"ping"}]`)).until(t,
			`"id":4`)
	}
	tr.answered(t, id)
	tr.resumed(t, id)
	tr.cancelled(t, id)
	tr.notified(t, id)
	tr.status(t, "DELETE", inSession("DELETE", id, ""), http.StatusNoContent)
	for range tr.bases {
		tr.status(t, "after DELETE", inSession("POST", id, pingBody), http.StatusNotFound)
	}
}

// answered answers a question of a call at another replica, three times; it counts once.
func (tr *roundRobinClient) answered(t *testing.T, id string) {
	stream := tr.next(t.Context(), t, inSession("POST", id, askRoots))
	question := questionID.FindStringSubmatch(stream.until(t, `"method":"roots/list"`))
	if question == nil {
		t.Fatal("no question came")
	}
	for range 3 {
		tr.status(t, "the answer", inSession("POST", id, `{"jsonrpc":"2.0","id":"`+question[1]+
			`","result":{"roots":[]}}`), http.StatusAccepted)
	}
	stream.until(t, `{\"where\":{\"roots\":[]}}`)
}

// resumed loses the stream of a call and goes on at the next replica, twice.
func (tr *roundRobinClient) resumed(t *testing.T, id string) {
	ctx, leave := context.WithCancel(t.Context())
	stream := tr.next(ctx, t, legacyCall(id, "slow_progress"))
	home := tr.worlds[tr.home]
	last := lastID(t, stream.until(t, mcp.NotifyProgress))
	leave()
	ctx, leave = context.WithCancel(t.Context())
	tr.next(ctx, t, inSession("GET", id, "").with(mcp.HeaderLastEventID, last))
	leave()
	stream = tr.next(t.Context(), t, inSession("GET", id, "").with(mcp.HeaderLastEventID, last))
	home.letGo()
	if got := stream.until(t, `"text":"late"`); strings.Contains(got, mcp.NotifyProgress) {
		t.Errorf("got %q, want only what followed", got)
	}
}

// cancelled cancels a call at another replica.
func (tr *roundRobinClient) cancelled(t *testing.T, id string) {
	tr.turn++
	at, home := tr.world(), tr.worlds[tr.home]
	started, before := home.counts()
	gone := make(chan string, 1)
	go func() { gone <- at.do(t, legacyCall(id, "slow")).Body.String() }()
	eventually(t, func() bool { now, _ := home.counts(); return now > started })
	tr.status(t, "cancel", inSession("POST", id,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), http.StatusAccepted)
	if got := <-gone; strings.Contains(got, `"result"`) {
		t.Errorf("got %s, want no answer", got)
	}
	eventually(t, func() bool { _, now := home.counts(); return now > before })
}

// notified hears of a changed list, and of a resource that was subscribed to elsewhere,
// on a stream that changes its replica.
func (tr *roundRobinClient) notified(t *testing.T, id string) {
	tr.next(t.Context(), t, inSession("POST", id,
		`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)).until(t,
		`"id":9`)
	ctx, leave := context.WithCancel(t.Context())
	stream := tr.next(ctx, t, inSession("GET", id, ""))
	part := "file:///a#1" + tr.revision
	tr.files[tr.home].change("file:///a", part)
	last := lastID(t, stream.until(t, part))
	leave()
	stream = tr.next(t.Context(), t, inSession("GET", id, "").with(mcp.HeaderLastEventID, last))
	part = "file:///a#2" + tr.revision
	tr.files[tr.home].change("file:///a", part)
	if got := stream.until(t, part); strings.Contains(got, "#1"+tr.revision) {
		t.Errorf("got %q, want only what followed", got)
	}
}

// sse is the story of a session over HTTP+SSE: its stream stays, and its messages go to
// all replicas.
func (tr *roundRobinClient) sse(t *testing.T) {
	stream := tr.next(t.Context(), t, message{method: "GET", path: "/sse", token: "alice"})
	home := tr.world()
	_, address, _ := strings.Cut(stream.until(t, "data: "), "data: ")
	address = strings.TrimSpace(address)
	send := func(body string) {
		t.Helper()
		tr.status(t, body, posted(address, body), http.StatusAccepted)
	}
	send(strings.Replace(initialize(tr.revision).body, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
	stream.until(t, tr.revision)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range 4 {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}`, 10+i))
		stream.until(t, fmt.Sprintf(`"id":%d,"result"`, 10+i))
	}
	send(askRoots)
	question := questionID.FindStringSubmatch(stream.until(t, `"method":"roots/list"`))
	if question == nil {
		t.Fatal("no question came")
	}
	send(`{"jsonrpc":"2.0","id":"` + question[1] + `","result":{"roots":[]}}`)
	stream.until(t, `{\"where\":{\"roots\":[]}}`)
	started, cancelled := home.counts()
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}`)
	eventually(t, func() bool { now, _ := home.counts(); return now > started })
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	eventually(t, func() bool { _, now := home.counts(); return now > cancelled })
}

// modern is the story of a client without a session: plain calls, progress, calls whose
// repeat is elsewhere, and a subscription.
func (tr *roundRobinClient) modern(t *testing.T) {
	for range 3 {
		tr.next(t.Context(), t, modernCall("echo")).until(t, `"text":"x"`)
		tr.next(t.Context(), t, modernCall("progress")).until(t, `"text":"done"`)
	}
	for range 3 {
		text := tr.next(t.Context(), t, sign("")).until(t, `"requestState"`)
		found := requestState.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("got %s, want a question", text)
		}
		repeat := sign(`"requestState":"` + found[1] +
			`","inputResponses":{"who":{"action":"accept","content":{"name":"Ann"}}},`)
		tr.next(t.Context(), t, repeat).until(t, "accept Ann")
	}
	stream := tr.next(t.Context(), t, modernListen())
	stream.until(t, "acknowledged")
	for _, w := range tr.worlds {
		w.offer(t, "more-for-modern")
	}
	stream.until(t, mcp.NotifyToolsChanged)
}
