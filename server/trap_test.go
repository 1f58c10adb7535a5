package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// What is easy to get wrong at a door for both eras. The wire scripts show most of it in
// full.

// TestTrap02_EraByHeaderAndMetadata shows that each of both marks a modern request, whose
// fault is then the lack of the other.
func TestTrap02_EraByHeaderAndMetadata(t *testing.T) {
	w := newWorld(t)
	bare := modernCall("echo")
	bare.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`
	future := bare.with(mcp.HeaderProtocolVersion, "2099-01-01")
	for name, test := range map[string]struct {
		m    message
		code int
	}{
		"header without metadata": {bare, mcp.CodeInvalidParams},
		"metadata without header": {
			modernCall("echo").with(mcp.HeaderProtocolVersion, ""),
			mcp.CodeHeaderMismatch,
		},
		"metadata, older header": {
			modernCall("echo").with(mcp.HeaderProtocolVersion, mcp.Revision2511),
			mcp.CodeHeaderMismatch,
		},
		"newer header, nothing else": {future, mcp.CodeInvalidParams},
		"modern without method": {
			modernCall("echo").with(mcp.HeaderMethod, ""),
			mcp.CodeHeaderMismatch,
		},
		"modern with a session of no": {modernCall("nothing").with(mcp.HeaderSessionID, "x"), 0},
	} {
		got := w.do(t, test.m)
		if test.code == 0 {
			if got.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200: the header means nothing", name, got.Code, got.Body)
			}
			continue
		}
		if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(),
			fmt.Sprintf(`"code":%d,`, test.code)) {
			t.Errorf("%s: got %d %s, want 400 with %d", name, got.Code, got.Body, test.code)
		}
	}
}

// TestTrap07_InvalidArgumentsAreResults shows which faults of a call are the model's to
// mend.
func TestTrap07_InvalidArgumentsAreResults(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "alice", mcp.Revision2511)
	wrong := modernCall("echo")
	wrong.body = strings.Replace(wrong.body, `{"text":"x"}`, `{}`, 1)
	for name, m := range map[string]message{"modern": wrong, "legacy": legacyCall(id, "echo")} {
		if got := w.do(t, m); got.Code != http.StatusOK || !strings.Contains(got.Body.String(),
			`"isError":true`) {
			t.Errorf("%s, argument missing: got %d %s, want a result with isError", name, got.Code, got.Body)
		}
	}
	noObject := modernCall("echo")
	noObject.body = strings.Replace(noObject.body, `{"text":"x"}`, `7`, 1)
	for name, m := range map[string]message{
		"arguments that are no object": noObject,
		"no name": inSession("POST", id,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`),
		"unknown tool": legacyCall(id, "nothing"),
	} {
		if got := w.do(t, m); got.Code != http.StatusOK || !strings.Contains(got.Body.String(),
			`"error":{"code":-32602`) {
			t.Errorf("%s: got %d %s, want -32602", name, got.Code, got.Body)
		}
	}
}

// TestTrap10_ListenSubscribesBeforeItAcknowledges changes a resource as soon as the
// acknowledgement is there.
func TestTrap10_ListenSubscribesBeforeItAcknowledges(t *testing.T) {
	w := newWorld(t)
	_, files := w.asking()
	for _, id := range []string{`"l"`, `7`} {
		m := modernListen()
		m.body = strings.Replace(m.body, `"id":"l"`, `"id":`+id, 1)
		m.body = strings.Replace(m.body, `{"toolsListChanged":true}`,
			`{"resourceSubscriptions":["file:///a"]}`, 1)
		ctx, leave := context.WithCancel(t.Context())
		got := call(ctx, t, w.serve(t), m)
		got.expect(t, mcp.NotifyAcknowledged)
		files.change("file:///a", "file:///a")
		got.expect(
			t, `"method":"notifications/resources/updated","params":{"uri":"file:///a","_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}}`)
		leave()
		eventually(t, func() bool { return files.open() == 0 })
	}
}

// TestTrap18_BatchBelongsToOneRevision shows that a batch of one is answered with an
// array, and who may send it.
func TestTrap18_BatchBelongsToOneRevision(t *testing.T) {
	w := newWorld(t)
	for _, revision := range mcp.Revisions()[1:] {
		got := w.do(t, inSession("POST", w.open(t, "alice", revision), "["+pingBody+"]"))
		if want := `[{"jsonrpc":"2.0","id":1,"result":{}}]`; revision == mcp.Revision2503 &&
			got.Body.String() != want {
			t.Errorf("%s: got %d %s, want %s", revision, got.Code, got.Body, want)
		}
		if revision != mcp.Revision2503 && got.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", revision, got.Code, got.Body)
		}
	}
}

// TestTrap19_CodesFollowTheRevision shows which code says that there is no such resource.
func TestTrap19_CodesFollowTheRevision(t *testing.T) {
	w := newWorld(t)
	w.asking()
	for _, revision := range mcp.Revisions()[1:] {
		id := w.open(t, "alice", revision)
		for method, want := range map[string]string{
			"resources/read":      "-32002",
			"resources/subscribe": "-32002", "prompts/get": "-32602",
		} {
			got := w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"`+method+
				`","params":{"uri":"file:///none"}}`))
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"error":{"code":`+want) {
				t.Errorf("%s in %s: got %d %s, want %s", method, revision, got.Code, got.Body, want)
			}
		}
	}
	modern := modernCall("")
	modern.body = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///none",` +
		modernMeta + `}}`
	got := w.do(t, modern.with(mcp.HeaderMethod, mcp.MethodResourcesRead).with(mcp.HeaderName,
		"file:///none"))
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"error":{"code":-32602`) {
		t.Errorf("modern: got %d %s, want -32602", got.Code, got.Body)
	}
}

// TestTrap20_IDs shows that no answer has the id null, how a session id is spelt, and
// that it is unknown once it ended.
func TestTrap20_IDs(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "alice", mcp.Revision2511)
	if strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e }) {
		t.Errorf("got session id %q, want visible ASCII", id)
	}
	for _, body := range []string{
		"", "{", "7", "[]", `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`,
	} {
		if got := w.do(t, inSession("POST", id, body)); got.Code < 400 ||
			strings.Contains(got.Body.String(), `"id"`) {
			t.Errorf("%q: got %d %s, want an error without id", body, got.Code, got.Body)
		}
	}
	if got := w.do(t, inSession("DELETE", id, "")); got.Code != http.StatusNoContent {
		t.Errorf("DELETE: got %d, want 204", got.Code)
	}
	for _, m := range []message{
		inSession("DELETE", id, ""), inSession("POST", id, pingBody),
		inSession("GET", id, ""),
	} {
		if got := w.do(t, m); got.Code != http.StatusNotFound {
			t.Errorf("%s after DELETE: got %d, want 404", m.method, got.Code)
		}
	}
}

// TestTrap21_ResultsFollowTheRevision shows what a client of each revision is spared.
func TestTrap21_ResultsFollowTheRevision(t *testing.T) {
	w := newWorld(t)
	w.asking()
	unknown := map[string][]string{
		mcp.Revision2511: {`"outputSchema"`, `"resultType"`, `"ttlMs"`},
		mcp.Revision2506: {`"icons"`, `"execution"`},
		mcp.Revision2503: {`"title"`, `"_meta"`, `"resource_link"`},
		mcp.Revision2024: {`"annotations"`, `"type":"audio"`},
	}
	var absent []string
	for _, revision := range mcp.Revisions()[1:] {
		absent = append(absent, unknown[revision]...)
		id := w.open(t, "alice", revision)
		for _, method := range []string{
			"tools/list", "prompts/list", "resources/list",
			"resources/templates/list", "resources/read", "prompts/get",
		} {
			got := w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"`+method+
				`"}`)).Body.String()
			for _, word := range absent {
				if strings.Contains(got, word) || !strings.Contains(got, `"result"`) {
					t.Errorf("%s in %s: got %s, want no %s", method, revision, got, word)
				}
			}
		}
	}
}

// TestTrap24_EmptyCursorIsACursor shows that the desk gets it as one, in both eras.
func TestTrap24_EmptyCursorIsACursor(t *testing.T) {
	w := newWorld(t)
	var cursors []string
	w.behind(&fakeDesk{handle: func(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object,
		error,
	) {
		cursors = append(cursors, string(r.Params.Value("cursor")))
		return object(`{"tools":[],"nextCursor":"","resultType":"complete"}`), nil
	}})
	modern := modernCall("").with(mcp.HeaderMethod, mcp.MethodToolsList).with(mcp.HeaderName, "")
	modern.body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"",` + modernMeta + `}}`
	legacy := inSession("POST", w.open(t, "alice", mcp.Revision2511),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}`)
	for _, m := range []message{modern, legacy} {
		if got := w.do(t, m).Body.String(); !strings.Contains(got, `"nextCursor":""`) {
			t.Errorf("got %s, want the empty cursor", got)
		}
	}
	if fmt.Sprint(cursors) != `["" ""]` {
		t.Errorf("the desk got cursors %v, want two that are empty", cursors)
	}
}

// TestTrap26_OneStreamTellsEachChange opens several streams of one session, and changes
// everything at once.
func TestTrap26_OneStreamTellsEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		asker, files := w.asking()
		id := w.open(t, "alice", mcp.Revision2511)
		w.do(t, inSession("POST", id,
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
		for range 3 { // nobody listens: it is kept, once
			files.change("file:///a", "file:///a")
			asker.changePrompts()
		}
		var streams []<-chan string
		for range 3 {
			streams = append(streams, w.follow(t, inSession("GET", id, "")))
		}
		synctest.Wait()
		for range 2 {
			asker.changePrompts() // before what wakes the streams
			files.change("file:///a", "file:///a")
			w.offer(t)
			wait(t)
		}
		w.do(t, inSession("DELETE", id, ""))
		var all strings.Builder
		for _, stream := range streams {
			all.WriteString(<-stream)
		}
		for method, want := range map[string]int{
			mcp.NotifyResourceUpdated: 3, mcp.NotifyPromptsChanged: 3,
			mcp.NotifyToolsChanged: 0,
		} {
			if got := strings.Count(all.String(), method); got != want {
				t.Errorf("got %d of %s, want %d; the streams:\n%s", got, method, want, all.String())
			}
		}
		if open := files.open(); open != 0 {
			t.Errorf("got %d subscriptions after the session, want none", open)
		}
	})
}

// TestTrap27_NoLevelMeansNoLogs shows what the desk is told of a client's wish for log
// messages.
func TestTrap27_NoLevelMeansNoLogs(t *testing.T) {
	w := newWorld(t)
	w.asking()
	id := w.open(t, "alice", mcp.Revision2511)
	for name, m := range map[string]message{
		"modern": modernCall("terms"),
		"legacy": legacyCall(id, "terms"),
	} {
		if got := w.do(t, m).Body.String(); !strings.Contains(got, `level \"\"`) ||
			strings.Contains(got, mcp.NotifyMessage) {
			t.Errorf("%s: got %s, want no level and no log message", name, got)
		}
	}
}

// TestSubscriptionsAreBounded opens one subscription more than a session, and a listen
// request, may have.
func TestSubscriptionsAreBounded(t *testing.T) {
	w := newWorld(t)
	_, files := w.asking()
	id := w.open(t, "alice", mcp.Revision2511)
	subscribe := func(n int) string {
		body := fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///%d"}}`, n)
		return w.do(t, inSession("POST", id, body)).Body.String()
	}
	for n := range 256 {
		if got := subscribe(n); !strings.Contains(got, `"result":{}`) {
			t.Fatalf("subscription %d: got %s", n, got)
		}
	}
	if got := subscribe(256); !strings.Contains(got, `"code":-32602`) || files.open() != 256 {
		t.Errorf("one more: got %s and %d open, want -32602 and 256", got, files.open())
	}
	if got := subscribe(0); !strings.Contains(got, `"result":{}`) || files.open() != 256 {
		t.Errorf("one that is there: got %s and %d open, want {} and 256", got, files.open())
	}
	m := modernListen()
	uris := strings.Repeat(`"file:///a",`, 256) + `"file:///b"`
	m.body = strings.Replace(m.body, `{"toolsListChanged":true}`, `{"resourceSubscriptions":[`+uris+`]}`, 1)
	if got := w.do(t, m); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(),
		`"code":-32602`) {
		t.Errorf("listen: got %d %s, want 400", got.Code, got.Body)
	}
}

// TestUpdatesAreBounded changes more parts of a resource than are remembered.
func TestUpdatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, files := w.asking()
		id := w.open(t, "alice", mcp.Revision2511)
		w.do(t, inSession("POST", id,
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
		for n := range 5000 {
			files.change("file:///a", fmt.Sprintf("file:///a/%d", n))
		}
		stream := w.follow(t, inSession("GET", id, ""))
		wait(t)
		w.do(t, inSession("DELETE", id, ""))
		if got := strings.Count(<-stream, mcp.NotifyResourceUpdated); got != 1025 {
			t.Errorf("got %d updates, want 1024 parts and the whole", got)
		}
	})
}

// TestQuestionsAreBounded lets a server ask more at once than one may.
func TestQuestionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		asker, _ := w.asking()
		var round []string
		for n := range 33 {
			round = append(round, fmt.Sprintf(`"k%d":{"method":"roots/list"}`, n))
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"rounds":[{` + strings.Join(round, ",") + `}]}}}`
		got := w.do(t, inSession("POST", w.open(t, "alice", mcp.Revision2511), body)).Body.String()
		if !strings.Contains(got, `"isError":true`) || asker.endings() != 1 {
			t.Errorf("got %s, the desk told %d times of the end; want an error, once", got, asker.endings())
		}
	})
}

// TestQuestionHasNoSlot shows that a client for whom there is no stream is taken to
// cancel.
func TestQuestionHasNoSlot(t *testing.T) {
	w := newWorld(t, func(w *world) {
		zero := 0
		w.tenants[0].Limits.Streams = &zero
	})
	w.asking()
	m := initialize(mcp.Revision2511)
	m.body = strings.Replace(m.body, `"capabilities":{}`, `"capabilities":{"elicitation":{},"roots":{}}`, 1)
	id := w.do(t, m).Header().Get(mcp.HeaderSessionID)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"rounds":[{"who":{"method":"elicitation/create","params":{}},"where":{"method":"roots/list"}}]}}}`
	got := w.do(t, inSession("POST", id, body)).Body.String()
	if !strings.Contains(got, `{\"who\":{\"action\":\"cancel\"}} where refused`) {
		t.Errorf("got %s, want both answered for the client", got)
	}
}

// TestCallsThatWaitAreBounded lets calls of one user wait for answers until there are too
// many: one more is answered for its client, and others of the tenant still have their
// places. They take no place of requests in work.
func TestCallsThatWaitAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.asking()
		id := w.openAsking(t, mcp.Revision2511)
		ask := func(id, token string, n int) <-chan string {
			stream := w.follow(t, inSession("POST", id,
				strings.Replace(askRoots, `"id":1`, fmt.Sprintf(`"id":"c%d"`, n), 1)).as(token))
			synctest.Wait()
			return stream
		}
		for n := range 128 {
			ask(id, "alice", n)
		}
		const refused = "where refused: The client cannot be asked this"
		if got := w.do(t, inSession("POST", id, askRoots)).Body.String(); !strings.Contains(got, refused) {
			t.Errorf("one more: got %s, want its question refused", got)
		}
		m := initialize(mcp.Revision2511).as("bob")
		m.body = strings.Replace(m.body, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
		other := w.do(t, m).Header().Get(mcp.HeaderSessionID)
		last := ask(other, "bob", 0)
		w.do(t, inSession("DELETE", other, "").as("bob"))
		if got := <-last; !strings.Contains(got, mcp.MethodRoots) {
			t.Errorf("another user: got %s, want the question", got)
		}
		w.do(t, inSession("DELETE", id, ""))
		synctest.Wait()
		id = w.openAsking(t, mcp.Revision2511)
		again := ask(id, "alice", 0)
		w.do(t, inSession("DELETE", id, ""))
		if got := <-again; !strings.Contains(got, mcp.MethodRoots) {
			t.Errorf("after that: got %s, want the question", got)
		}
	}, func(w *world) {
		many := 1000
		w.config.MaxRequests, w.tenants[0].Limits.Streams = 8, &many
	})
}

// TestCallsThatWaitLeaveRoomForBodies lets one user's calls with large bodies wait for
// answers: they must not take what the bodies of all have together. Those that find no
// room are refused, and others still find some.
func TestCallsThatWaitLeaveRoomForBodies(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.asking()
		id := w.openAsking(t, mcp.Revision2511)
		large := strings.Replace(askRoots, `"arguments":{`, `"arguments":{"pad":"`+strings.Repeat("x", 3<<20)+
			`",`, 1)
		for n := range 4 {
			stream := w.follow(t, inSession("POST", id,
				strings.Replace(large, `"id":1`, fmt.Sprintf(`"id":"c%d"`, n), 1)))
			synctest.Wait()
			select {
			case end := <-stream:
				t.Fatalf("call %d of 3 MiB: got %s, want that it waits", n+1, end)
			default:
			}
		}
		if got := w.do(t, inSession("POST", id, large)); got.Code != http.StatusTooManyRequests ||
			stable(t, got.Body) != "DB-LIMIT-MEMORY" {
			t.Errorf("one more: got %d %s, want 429 and DB-LIMIT-MEMORY", got.Code, got.Body)
		}
		for _, token := range []string{"bob", "alice-globex"} {
			other := modernCall("echo").as(token)
			other.body = strings.Replace(other.body, `"text":"x"`, `"text":"`+strings.Repeat("x", 3<<20)+`"`,
				1)
			if got := w.do(t, other); got.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", token, got.Code, got.Body)
			}
		}
		w.do(t, inSession("DELETE", id, ""))
		synctest.Wait()
		if held := w.config.Memory.InUse(); held != 0 {
			t.Errorf("%d bytes are held after the session, want none", held)
		}
	}, func(w *world) { w.config.Memory = share.New(52 << 20) })
}

// TestSmallCallsThatWaitTakeMemory lets calls wait whose place among the requests in work
// covered their memory.
func TestSmallCallsThatWaitTakeMemory(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.asking()
		id := w.openAsking(t, mcp.Revision2511)
		session := w.config.Memory.InUse()
		for n := range 8 {
			w.follow(t, inSession("POST", id,
				strings.Replace(askRoots, `"id":1`, fmt.Sprintf(`"id":"c%d"`, n), 1)))
			synctest.Wait()
			if held, want := w.config.Memory.InUse()-session, int64(n+1)*share.Covered; held != want {
				t.Errorf("%d bytes are held while %d calls wait, want %d", held, n+1, want)
			}
		}
		w.do(t, inSession("DELETE", id, ""))
		synctest.Wait()
		if held := w.config.Memory.InUse(); held != 0 {
			t.Errorf("%d bytes are held after the session, want none", held)
		}
	}, func(w *world) { w.config.Memory = share.New(64 << 20) })
}

// TestPausesTakeNoSlots lets calls of one tenant wait until their server is ready,
// as many as are answered at once.
func TestPausesTakeNoSlots(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.asking()
		id := w.openAsking(t, mcp.Revision2511)
		later := strings.Replace(askRoots, `{"where":{"method":"roots/list"}}`, `{},{},{},{}`, 1)
		for n := range 8 {
			w.follow(t, inSession("POST", id, strings.Replace(later, `"id":1`, fmt.Sprintf(`"id":"c%d"`, n),
				1)))
			synctest.Wait()
		}
		other := w.do(t, initialize(mcp.Revision2511).as("alice-globex"))
		if other.Code != http.StatusOK {
			t.Errorf("another tenant: got %d %s, want 200", other.Code, other.Body)
		}
		w.do(t, inSession("DELETE", id, ""))
	}, func(w *world) { w.config.MaxRequests = 8 })
}

// TestPanicInSubscribe shows that a desk that panics ends one request.
func TestPanicInSubscribe(t *testing.T) {
	w := newWorld(t)
	_, files := w.asking()
	files.told = nil // the next subscription panics
	got := w.do(t, inSession("POST", w.open(t, "alice", mcp.Revision2511),
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
	if !strings.Contains(got.Body.String(), `"code":-32603`) {
		t.Errorf("got %s, want -32603", got.Body)
	}
}
