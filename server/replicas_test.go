package server_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// openAsking opens a session of a client that can be asked everything.
func (w *world) openAsking(t *testing.T, revision string) string {
	t.Helper()
	m := initialize(revision)
	m.body = strings.Replace(m.body, `"capabilities":{}`,
		`"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`,
		1)
	return w.do(t, m).Header().Get(mcp.HeaderSessionID)
}

const askRoots = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"rounds":[{"where":{"method":"roots/list"}}]}}}`

var questionID = regexp.MustCompile(`"id":"(q[0-9a-f]{32})"`)

// TestAnswerAtAnotherReplica asks at one replica, over a real connection, and answers at
// the other.
func TestAnswerAtAnotherReplica(t *testing.T) {
	a, b := replicas(t)
	baseA, baseB := a.serve(t), b.serve(t)
	id := a.openAsking(t, mcp.Revision2511)
	stream := call(t.Context(), t, baseA, inSession("POST", id, askRoots))
	stream.expect(t, "id: p1", "data:", "id: p1")
	question := questionID.FindStringSubmatch(stream.line(t))
	if question == nil {
		t.Fatal("no question came")
	}
	answer := inSession("POST", id, `{"jsonrpc":"2.0","id":"`+question[1]+`","result":{"roots":[]}}`)
	for _, base := range []string{baseB, baseB, baseA} { // it counts once
		if got := call(t.Context(), t, base, answer); got.StatusCode != http.StatusAccepted {
			t.Fatalf("the answer: got %d, want 202", got.StatusCode)
		}
	}
	stream.expect(t, "id: p1", `{\"where\":{\"roots\":[]}}`, "")
}

// TestEachAddressOfASessionLeadsToItsPrimary opens sessions at one replica and uses them
// at the other, at each address of the endpoint, also with a token of several tenants, of
// which the path alone says which is meant.
func TestEachAddressOfASessionLeadsToItsPrimary(t *testing.T) {
	several := func(w *world) {
		w.config.Verify = func(context.Context, string) (auth.Principal, error) {
			p := principals()["alice"]
			p.TenantID, p.Tenants = "", []string{"globex", "acme"}
			return p, nil
		}
	}
	ofOne := func(*world) {}
	for _, test := range []struct {
		token string
		of    func(*world)
		path  string
	}{
		{"of one tenant", ofOne, "/mcp"},
		{"of one tenant", ofOne, "/key/mcp"},
		{"of one tenant", ofOne, "/t/acme/mcp"},
		{"of one tenant", ofOne, "/t/acme/key/mcp"},
		{"of several tenants", several, "/t/acme/mcp"},
		{"of several tenants", several, "/t/acme/key/mcp"},
	} {
		t.Run(test.token+test.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := replicas(t, test.of, func(w *world) { w.settings.AccessKeys = true })
				at := func(m message) message {
					m.path = test.path
					return m
				}
				id := a.do(t, at(initialize(mcp.Revision2511))).Header().Get(mcp.HeaderSessionID)
				wantStatus(t, "a ping", b.do(t, at(inSession("POST", id, pingBody))), http.StatusOK)
				wantStatus(t, "a call", b.do(t, at(legacyCall(id, "rich"))), http.StatusOK)
				listening := b.follow(t, at(inSession("GET", id, "")))
				wait(t)
				wantStatus(t, "DELETE", b.do(t, at(inSession("DELETE", id, ""))), http.StatusNoContent)
				if got := <-listening; !strings.Contains(got, "id: g") {
					t.Errorf("a stream: got %s, want its beginning", got)
				}
			})
		})
	}
}

// TestCancellationsGoToThePrimaryAlone cancels what no request has: the primary is told,
// and nobody else.
func TestCancellationsGoToThePrimaryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		session := c.worlds[0].openAsking(t, mcp.Revision2511)
		wait(t) // what begins with the replicas is over
		for at, told := range []int64{0, 1, 1} {
			for _, id := range []string{`,"requestId":"1"`, `,"requestId":"` + strings.Repeat("x",
				mcp.MaxID) + `"`, ""} {
				trips := c.count(func() {
					body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r"` +
						id + `}}`
					wantStatus(t, "cancel", c.worlds[at].do(t, inSession("POST", session, body)),
						http.StatusAccepted)
				})
				if trips != told {
					t.Errorf("an id of %d bytes at replica %d: got %d words, want %d", len(id), at, trips,
						told)
				}
			}
		}
	})
}

// TestNoReplicaIsToldOfAURIThatIsTooLong: a client that unsubscribes from one is refused.
// One of megabytes was sent to every replica.
func TestNoReplicaIsToldOfAURIThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		w := c.worlds[0]
		session := w.openAsking(t, mcp.Revision2511)
		wait(t) // what begins with the replicas is over
		for _, method := range []string{"subscribe", "unsubscribe"} {
			for _, test := range []struct {
				size  int
				trips int64 // for a URI of the right size one to the entry, which forgets it
				want  string
			}{{8 << 10, 1, ``}, {8<<10 + 1, 0, `-32602`}} {
				uri := "file:///" + strings.Repeat("a", test.size-len("file:///"))
				trips := c.count(func() {
					body := `{"jsonrpc":"2.0","id":1,"method":"resources/` + method + `","params":{"uri":"` +
						uri + `"}}`
					if got := w.do(t, inSession("POST", session, body)).Body.String(); !strings.Contains(got,
						test.want) {
						t.Errorf("%s, %d bytes: got %.200s, want %s", method, test.size, got, test.want)
					}
				})
				if method == "unsubscribe" && trips != test.trips {
					t.Errorf("%s, %d bytes: %d round trips, want %d", method, test.size, trips, test.trips)
				}
			}
		}
	})
}

// TestStreamResumesAtAnotherReplica loses the connection to one replica while a question
// is open, and goes on at the other.
func TestStreamResumesAtAnotherReplica(t *testing.T) {
	a, b := replicas(t)
	baseA, baseB := a.serve(t), b.serve(t)
	id := a.openAsking(t, mcp.Revision2511)
	ctx, leave := context.WithCancel(t.Context())
	stream := call(ctx, t, baseA, inSession("POST", id, askRoots))
	first := strings.TrimPrefix(stream.line(t), "id: ")
	leave()
	stream = call(t.Context(), t, baseB, inSession("GET", id, "").with(mcp.HeaderLastEventID, first))
	stream.expect(t, "id: p1", "data:", "id: p1")
	question := questionID.FindStringSubmatch(stream.line(t))
	if question == nil {
		t.Fatal("no question came")
	}
	call(t.Context(), t, baseB, inSession("POST", id, `{"jsonrpc":"2.0","id":"`+question[1]+
		`","result":{"roots":[]}}`))
	stream.expect(t, "id: p1", `{\"where\":{\"roots\":[]}}`, "")
}

// TestReplicasKnowTheTerms shows that each replica has what the handshake said at
// another, and the level set since.
func TestReplicasKnowTheTerms(t *testing.T) {
	a, b := replicas(t)
	for _, revision := range mcp.Revisions()[1:] {
		id := a.openAsking(t, revision)
		b.do(t, inSession("POST", id,
			`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`))
		got := [2]string{}
		for i, w := range []*world{a, b} {
			text := w.do(t, legacyCall(id, "terms")).Body.String()
			_, got[i], _ = strings.Cut(text, "asks ")
		}
		if got[0] != got[1] || !strings.Contains(got[1], `level \"error\"`) ||
			!strings.Contains(got[1], "roots") {
			t.Errorf("%s: got %s and %s, want the same, with roots and level error", revision, got[0], got[1])
		}
	}
}

// TestSessionEndsOnAllReplicas shows that DELETE at one replica ends what is in work at
// the other, and that the session stays ended on all.
func TestSessionEndsOnAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := replicas(t)
		id := a.openAsking(t, mcp.Revision2511)
		in, listening := a.follow(t, legacyCall(id, "slow")), a.follow(t, inSession("GET", id, ""))
		wait(t)
		if got := b.do(t, inSession("DELETE", id, "")); got.Code != http.StatusNoContent {
			t.Fatalf("DELETE: got %d %s, want 204", got.Code, got.Body)
		}
		<-in
		<-listening
		if started, cancelled := a.counts(); started != 1 || cancelled != 1 {
			t.Errorf("got %d calls begun, %d cancelled; want 1, 1", started, cancelled)
		}
		for _, w := range []*world{a, b} {
			if got := w.do(t, inSession("POST", id, pingBody)); got.Code != http.StatusNotFound {
				t.Errorf("after DELETE: got %d, want 404", got.Code)
			}
		}
	})
}

// TestSessionEndsWhereItsFormerPrimaryLeaves has a client end its session at a replica
// that has taken it over, while the one that led it before takes nothing any more and is
// not known as gone yet. Were that refused, the client would try again, and be told that
// there is no such session.
func TestSessionEndsWhereItsFormerPrimaryLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		c.hub.Cut(a.word().Member)
		time.AfterFunc(time.Second, func() { c.hub.Leave(a.word().Member) })
		wantStatus(t, "DELETE", b.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
	})
}

// TestCancelAtAnotherReplica cancels a call by its id at the replica that does not have
// it.
func TestCancelAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := replicas(t)
		id := a.openAsking(t, mcp.Revision2511)
		in := a.follow(t, legacyCall(id, "slow"))
		synctest.Wait()
		for _, number := range []int{2, 1, 1} {
			body := fmt.Sprintf(
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, number)
			if got := b.do(t, inSession("POST", id, body)); got.Code != http.StatusAccepted {
				t.Errorf("got %d, want 202", got.Code)
			}
		}
		if got := <-in; strings.Contains(got, `"result"`) {
			t.Errorf("got %s, want no answer", got)
		}
		if started, cancelled := a.counts(); started != 1 || cancelled != 1 {
			t.Errorf("got %d calls begun, %d cancelled; want 1, 1", started, cancelled)
		}
		again := a.follow(t, legacyCall(id, "slow")) // the same id, which was cancelled before
		wait(t)
		a.letGo()
		if got := <-again; !strings.Contains(got, `"text":"late"`) {
			t.Errorf("got %s, want the result", got)
		}
	})
}

// TestSharedSessionIsItsOwners shows that another replica adopts a session for its owner
// only, and not for ever.
func TestSharedSessionIsItsOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := replicas(t, func(w *world) { w.config.SessionMaxAge = 40 * time.Minute })
		opened := time.Now()
		id := a.openAsking(t, mcp.Revision2511)
		for _, other := range []string{"bob", "alice-other", "alice-issuer", "alice-globex"} {
			if got := b.do(t, inSession("POST", id, pingBody).as(other)); got.Code != http.StatusNotFound {
				t.Errorf("%s: got %d, want 404", other, got.Code)
			}
		}
		for range 2 {
			<-time.After(20 * time.Minute) // less than a session may be idle
			if got := b.do(t, inSession("POST", id, pingBody)); time.Since(opened) < 40*time.Minute &&
				got.Code != http.StatusOK {
				t.Errorf("its owner, later: got %d %s, want 200", got.Code, got.Body)
			}
		}
		for _, w := range []*world{b, a} {
			if got := w.do(t, inSession("POST", id, pingBody)); got.Code != http.StatusNotFound {
				t.Errorf("after its age: got %d, want 404", got.Code)
			}
		}
	})
}
