package server_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// ask makes a call that asks for roots. It returns the id of the question, and what came
// when the call is over.
func (w *world) ask(t *testing.T, id string) (question string, over <-chan string) {
	t.Helper()
	asked, ended := make(chan string, 1), make(chan string, 1)
	read := w.pipe(t, inSession("POST", id, askRoots))
	go func() {
		defer close(ended)
		buffer, all := make([]byte, 64<<10), ""
		for {
			n, err := read.Read(buffer)
			all += string(buffer[:n])
			if found := questionID.FindStringSubmatch(all); found != nil && len(asked) == 0 {
				asked <- found[1]
			}
			if err != nil || strings.Contains(all, `"id":1,`) {
				ended <- all
				return
			}
		}
	}()
	return <-asked, ended
}

func answerTo(question, id string) message {
	return inSession("POST", id, `{"jsonrpc":"2.0","id":"`+question+
		`","result":{"roots":[{"uri":"file:///r"}]}}`)
}

// wantReplicas checks that a request was refused because of what replicas share, and may
// come again.
func wantReplicas(t *testing.T, what string, got *httptest.ResponseRecorder) {
	t.Helper()
	if got.Code != http.StatusServiceUnavailable || stable(t, got.Body) != "DB-REPLICAS" ||
		got.Header().Get("Retry-After") == "" {
		t.Errorf("%s: got %d %s %v, want 503 DB-REPLICAS with Retry-After", what, got.Code, got.Body,
			got.Header())
	}
}

func wantStatus(t *testing.T, what string, got *httptest.ResponseRecorder, status int) {
	t.Helper()
	if got.Code != status {
		t.Errorf("%s: got %d %s, want %d", what, got.Code, got.Body, status)
	}
}

// TestAnswerOfAnotherSessionIsDropped answers a question in sessions that were not asked,
// at each replica: of somebody else, and another of the same owner. The right one is
// heard after all.
func TestAnswerOfAnotherSessionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		<-time.After(time.Minute) // it is known who is there, and who is not
		a, b := c.worlds[0], c.worlds[1]
		id, second, bobs := a.openAsking(t, mcp.Revision2511), a.openAsking(t, mcp.Revision2511), a.open(t,
			"bob", mcp.Revision2511)
		question, over := a.ask(t, id)
		for _, w := range []*world{a, b} {
			wantStatus(t, "another session", w.do(t, answerTo(question, second)), http.StatusAccepted)
			wantStatus(t, "another owner", w.do(t, answerTo(question, bobs).as("bob")), http.StatusAccepted)
			wantStatus(t, "the owner is bob", w.do(t, answerTo(question, id).as("bob")), http.StatusNotFound)
			for _, forged := range []string{
				question[:32], question + "0", strings.ToUpper(question), strings.Replace(question, "q", "x", 1),
			} {
				wantStatus(t, forged, w.do(t, answerTo(forged, id)), http.StatusAccepted)
			}
			wantReplicas(t, "of a replica that is not there",
				w.do(t, answerTo("q"+strings.Repeat("0", 32), id)))
		}
		wait(t)
		select {
		case got := <-over:
			t.Fatalf("the call is over, with %s", got)
		default:
		}
		trips := c.count(func() {
			wantStatus(t, "the answer", b.do(t, answerTo(question, id)), http.StatusAccepted)
			if got := <-over; !strings.Contains(got, `file:///r`) {
				t.Errorf("got %s, want the answer in it", got)
			}
		})
		if trips != 1+1 {
			t.Errorf(
				"an answer at another replica: got %d trips, want one to it, and the answer of the call put on its stream", trips)
		}
		b.do(t, inSession("DELETE", id, ""))
	})
}

// TestAnswerIsNotLostWithItsWord answers at another replica, when the home cannot be
// told, and when it is cut off, and the call there waits on. Its client must not read
// 202.
func TestAnswerIsNotLostWithItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		question, over := a.ask(t, id)
		wantStatus(t, "ping", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		b.word().cut.Store(true)
		wantReplicas(t, "word cannot be sent", b.do(t, answerTo(question, id)))
		b.word().cut.Store(false)
		wantStatus(t, "again", b.do(t, answerTo(question, id)), http.StatusAccepted)
		if got := <-over; strings.Count(got, `file:///r`) != 1 {
			t.Errorf("got %s, want the answer once", got)
		}
		question, over = a.ask(t, id)
		c.hub.Leave(a.word().Member)
		<-time.After(time.Minute) // it is known who is there, and who is not
		wantReplicas(t, "the home is cut off", b.do(t, answerTo(question, id)))
		c.hub.Rejoin(a.word().Member)
		wantStatus(t, "it is back", b.do(t, answerTo(question, id)), http.StatusAccepted)
		if got := <-over; strings.Count(got, `file:///r`) != 1 {
			t.Errorf("got %s, want the answer once", got)
		}
	})
}

// TestAnswerWaitsForItsHome answers at another replica while the home is not reached for
// some seconds. SDKs do not send again what was refused.
func TestAnswerWaitsForItsHome(t *testing.T) {
	for name, cut := range map[string]func(c *common) (heal func()){
		"the link is cut": func(c *common) func() {
			cut := &c.worlds[1].word().cut
			cut.Store(true)
			return func() { cut.Store(false) }
		},
		"the other was cut off itself": func(c *common) func() {
			home := c.worlds[0].word().Member
			c.hub.Leave(home)
			c.worlds[1].word().Return()
			return func() { c.hub.Rejoin(home) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 2)
				a, b := c.worlds[0], c.worlds[1]
				id := a.openAsking(t, mcp.Revision2511)
				question, over := a.ask(t, id)
				heal := cut(c)
				time.AfterFunc(5*time.Second, heal)
				wantStatus(t, "the answer", b.do(t, answerTo(question, id)), http.StatusAccepted)
				if got := <-over; strings.Count(got, `file:///r`) != 1 {
					t.Errorf("got %s, want the answer once", got)
				}
			})
		})
	}
}

// TestAnswersOfABatchHaveOneBound sends several answers at once to a replica that reaches
// the one with the question slowly.
func TestAnswersOfABatchHaveOneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2503)
		question, over := a.ask(t, id)
		a.word().Drain() // the other leads the session from now on
		b.word().delay = 3 * time.Second
		answers := answerTo(question, id)
		answers.body = "[" + strings.Repeat(answers.body+",", 5) + answers.body + "]"
		began := time.Now()
		wantReplicas(t, "six answers", b.do(t, answers))
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("they were refused after %v, want 9 seconds at most", took)
		}
		if got := <-over; strings.Count(got, `file:///r`) != 1 {
			t.Errorf("got %s, want the first answer", got)
		}
	})
}

// TestAnswerAfterAFaultIsNotTakenForNothing answers a question whose home has no mailbox
// yet, because Redis was away until just now for longer than it keeps one. After a 202
// the call would wait for the answer until its end.
func TestAnswerAfterAFaultIsNotTakenForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		question, over := a.ask(t, id)
		<-time.After(time.Minute)
		c.hub.Leave(a.word().Member)
		b.word().Return()
		wantReplicas(t, "without its mailbox", b.do(t, answerTo(question, id)))
		c.hub.Rejoin(a.word().Member)
		wantStatus(t, "with it", b.do(t, answerTo(question, id)), http.StatusAccepted)
		if got := <-over; !strings.Contains(got, "file:///r") {
			t.Errorf("got %s, want the answer in it", got)
		}
	})
}

// TestAnswerWithoutMemoryAtItsHomeMayComeAgain sends an answer for which its user has no
// memory where the question waits.
func TestAnswerWithoutMemoryAtItsHomeMayComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2, func(w *world) { w.config.Memory = share.New(8 << 20) })
		a, b := c.worlds[0], c.worlds[1]
		id := a.openAsking(t, mcp.Revision2511)
		question, over := a.ask(t, id)
		large := answerTo(question, id)
		large.body = strings.Replace(large.body, "file:///r", "file:///"+strings.Repeat("r", 100<<10), 1)
		alice := share.User{TenantID: "acme", Issuer: "https://issuer.test", Subject: "alice"}
		held := int64(0)
		for a.config.Memory.Take(alice, 4<<10) == nil {
			held += 4 << 10
		}
		if got := b.do(t, large); got.Code != http.StatusTooManyRequests ||
			stable(t, got.Body) != "DB-LIMIT-MEMORY" {
			t.Errorf("without memory: got %d %s, want 429 DB-LIMIT-MEMORY", got.Code, got.Body)
		}
		a.config.Memory.Give(alice, held)
		before := a.config.Memory.InUse()
		wantStatus(t, "with memory", b.do(t, large), http.StatusAccepted)
		if got := <-over; !strings.Contains(got, "rrrr") {
			t.Errorf("got %.200s, want the answer in it", got)
		}
		a.do(t, inSession("DELETE", id, ""))
		wait(t)
		if got := a.config.Memory.InUse(); got >= before {
			t.Errorf("%d bytes are held, want less than %d: the answer and the session are gone", got, before)
		}
	})
}

// TestOnlyTheSessionCancels sends the cancellation of a request by its id in other
// sessions, at the other replica.
func TestOnlyTheSessionCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		a, b := c.worlds[0], c.worlds[1]
		id, second, bobs := a.openAsking(t, mcp.Revision2511), a.openAsking(t, mcp.Revision2511), a.open(t,
			"bob", mcp.Revision2511)
		in := a.follow(t, legacyCall(id, "slow"))
		wait(t)
		cancel := func(in string) message {
			return inSession("POST", in,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}
		wantStatus(t, "another session", b.do(t, cancel(second)), http.StatusAccepted)
		wantStatus(t, "another owner", b.do(t, cancel(bobs).as("bob")), http.StatusAccepted)
		wantStatus(t, "not bob's", b.do(t, cancel(id).as("bob")), http.StatusNotFound)
		synctest.Wait()
		if _, cancelled := a.counts(); cancelled != 0 {
			t.Error("the call was cancelled by another session")
		}
		b.do(t, cancel(id))
		synctest.Wait()
		if _, cancelled := a.counts(); cancelled != 1 {
			t.Error("202 was told, and the call goes on")
		}
		<-in
	})
}

// lostSessions are the ways in which a session of alice is not there. Each returns the id
// to ask for.
var lostSessions = map[string]func(t *testing.T, c *common) string{
	"nobody ever made it": func(*testing.T, *common) string { return "unknown" },
	"bob's": func(t *testing.T,
		c *common,
	) string {
		return c.worlds[0].open(t, "bob", mcp.Revision2503)
	},
	"sealed by others": func(t *testing.T, _ *common) string {
		return together(t, 1).worlds[0].open(t, "alice", mcp.Revision2503)
	},
	"of HTTP+SSE, as it were": func(t *testing.T, c *common) string {
		return c.reseal(t, c.worlds[0].open(t, "alice", mcp.Revision2503), "sse", func([]byte) {})
	},
	"of an unknown version": func(t *testing.T, c *common) string {
		return c.reseal(t, c.worlds[0].open(t, "alice", mcp.Revision2503), "session",
			func(ticket []byte) { ticket[0]++ })
	},
	"ended": func(t *testing.T, c *common) string {
		id := c.worlds[0].open(t, "alice", mcp.Revision2503)
		wantStatus(t, "DELETE", c.worlds[1].do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		return id
	},
	"ended where no replica has it": func(t *testing.T, c *common) string {
		id := c.worlds[0].open(t, "alice", mcp.Revision2503)
		c.worlds[0].do(t, inSession("DELETE", id, ""))
		<-time.After(11 * time.Minute) // no replica remembers its end
		return id
	},
	"idle": func(t *testing.T, c *common) string {
		id := c.worlds[0].open(t, "alice", mcp.Revision2503)
		<-time.After(34 * time.Minute)
		return id
	},
	"expired": func(t *testing.T, c *common) string {
		id := c.worlds[0].open(t, "alice", mcp.Revision2503)
		for range 4 {
			<-time.After(15 * time.Minute)
			c.worlds[1].do(t, inSession("POST", id, pingBody).as("alice-again"))
		}
		return id
	},
	"revoked, and accepted again": func(t *testing.T, c *common) string {
		id := c.worlds[0].open(t, "alice", mcp.Revision2503)
		wantStatus(t, "ping", c.worlds[1].do(t, inSession("POST", id, pingBody)), http.StatusOK)
		for _, w := range c.worlds {
			w.revoke(func(p auth.Principal) bool { return p.Subject == "alice" })
			synctest.Wait()
		}
		for _, w := range c.worlds {
			w.revoke(nil)
		}
		wait(t)
		return id
	},
}

// reseal changes what is sealed in the id of a session, as only a gateway with the keys
// can.
func (c *common) reseal(t *testing.T, id, purpose string, change func(ticket []byte)) string {
	t.Helper()
	ticket, err := c.ring.Open("session", id)
	if err != nil {
		t.Fatal(err)
	}
	change(ticket)
	if id, err = c.ring.Seal(purpose, ticket); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestSessionsThatAreNotThereHaveOneAnswer asks every replica for sessions that are not
// there, in every way an id can be used. All answers to one request are the same bytes,
// but for the id of the request.
func TestSessionsThatAreNotThereHaveOneAnswer(t *testing.T) {
	for name, lose := range lostSessions {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := together(t, 3, func(w *world) { w.config.SessionMaxAge = time.Hour })
				id := lose(t, c)
				for i, w := range c.worlds {
					for _, use := range []func(id string) message{
						func(id string) message { return inSession("POST", id, pingBody) },
						func(id string) message { return legacyCall(id, "echo") },
						func(id string) message { return inSession("POST", id, "["+pingBody+"]") },
						func(id string) message {
							return inSession("POST", id,
								`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
						},
						func(id string) message { return inSession("GET", id, "") },
						func(id string) message {
							return inSession("GET", id, "").with("Last-Event-ID",
								"p1-0")
						},
						func(id string) message { return inSession("DELETE", id, "") },
					} {
						got, want := w.do(t, use(id).as("alice-again")),
							w.do(t, use("unknown").as("alice-again"))
						if got.Code != http.StatusNotFound || nameless(t, got) != nameless(t, want) {
							t.Errorf("replica %d: got %d %s %v, want %s %v", i, got.Code, got.Body,
								got.Header(), want.Body, want.Header())
						}
					}
				}
			})
		})
	}
}

// TestSessionOfARevokedCallerEndsOnEveryReplica revokes a key, an issuer or a tenant at
// one replica after the other, while none can tell another: what is in work there ends
// when that replica judges, whatever the others do.
func TestSessionOfARevokedCallerEndsOnEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		id := c.worlds[0].open(t, "alice", mcp.Revision2511)
		streams := make([]<-chan string, len(c.worlds))
		for i, w := range c.worlds {
			streams[i] = w.follow(t, inSession("GET", id, ""))
		}
		wait(t)
		c.setDown(true)
		for i, w := range c.worlds {
			w.word().cut.Store(true)
			select {
			case got := <-streams[i]:
				t.Errorf("replica %d has not judged, and its stream is over: %s", i, got)
			default:
			}
			w.revoke(func(p auth.Principal) bool { return p.Subject == "alice" })
			<-streams[i]
			wantStatus(t, "its token", w.do(t, inSession("POST", id, pingBody)), http.StatusUnauthorized)
		}
	})
}

// TestEndIsNeverALie deletes a session while what replicas share is down, at its primary
// and at another replica.
func TestEndIsNeverALie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		c.setDown(true)
		for _, w := range c.worlds {
			wantReplicas(t, "DELETE while the store is down", w.do(t, inSession("DELETE", id, "")))
			wantStatus(t, "nothing has happened", w.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		}
		c.setDown(false)
		stream := b.follow(t, inSession("GET", id, ""))
		wait(t)
		wantStatus(t, "DELETE", a.do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		<-stream
		for _, w := range c.worlds {
			wantStatus(t, "it has ended", w.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
		}
	})
}

// TestSessionGoesOnWhenTheAnswerToItsEndIsLost deletes a session of which the store
// removes the entry, though the primary never hears so. What was refused has not
// happened: the primary writes the entry again, and DELETE ends the session when it comes
// again.
func TestSessionGoesOnWhenTheAnswerToItsEndIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		id := c.worlds[0].open(t, "alice", mcp.Revision2511)
		c.setDown(true)
		wantReplicas(t, "DELETE", c.worlds[0].do(t, inSession("DELETE", id, "")))
		c.records.Lose()
		c.records.Settle()
		c.setDown(false)
		wait(t)
		if _, found := c.records.Of(c.name(t, id)); !found {
			t.Error("the primary has not written the entry again")
		}
		for _, w := range c.worlds {
			wantStatus(t, "it goes on", w.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		}
		wantStatus(t, "DELETE again", c.worlds[1].do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		wantStatus(t, "it has ended", c.worlds[0].do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
	})
}

// TestEntryIsWrittenAgainSoonWhereOneAnswerWasLost is the same where nothing else goes
// wrong, so that nobody suspects a loss: a replica that knows no more of the session than
// its entry serves it a moment later.
func TestEntryIsWrittenAgainSoonWhereOneAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		id := c.worlds[0].open(t, "alice", mcp.Revision2511)
		c.records.Mute(true)
		wantReplicas(t, "DELETE", c.worlds[0].do(t, inSession("DELETE", id, "")))
		c.records.Mute(false)
		wait(t)
		if _, found := c.records.Of(c.name(t, id)); !found {
			t.Error("the primary has not written the entry again")
		}
	})
}

// TestSessionsWhileTheStoreIsDown uses sessions at their primary and elsewhere, and opens
// new ones. What could not be recorded is recorded when the store is back.
func TestSessionsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		c.setDown(true)
		for _, w := range c.worlds {
			wantStatus(t, "a call", w.do(t, legacyCall(id, "echo")), http.StatusOK)
			wantReplicas(t, "its end", w.do(t, inSession("DELETE", id, "")))
			wantStatus(t, "its level", w.do(t, inSession("POST", id, setLevel("error"))), http.StatusOK)
		}
		opened := b.open(t, "alice", mcp.Revision2511)
		for _, w := range c.worlds {
			wantStatus(t, "opened meanwhile", w.do(t, inSession("POST", opened, pingBody)), http.StatusOK)
		}
		if n := c.records.Count(); n != 1 {
			t.Errorf("got %d records, want that of the first session", n)
		}
		c.setDown(false)
		wait(t)
		for _, one := range []string{id, opened} {
			r, found := c.records.Of(c.name(t, one))
			if !found || one == id && r.Facts["level"] != "error" {
				t.Errorf("afterwards: got record %v, %v", r, found)
			}
		}
	})
}

// TestASessionThatWasTakenOverIsFoundWhileTheStoreIsDown, by replicas that have never
// looked it up, after the replica that opened it has ended. One that nobody leads is not.
// Another replica has just died, of which the others do not know.
func TestASessionThatWasTakenOverIsFoundWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 5)
		a, b := c.worlds[0], c.worlds[1]
		id, other := a.open(t, "alice", mcp.Revision2511), a.open(t, "alice", mcp.Revision2511)
		a.word().Drain()
		wantStatus(t, "taken over", b.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		c.hub.Leave(a.word().Member)
		c.setDown(true)
		defer c.hub.Cut(c.worlds[4].word().Member)()
		for _, w := range c.worlds[2:4] {
			for range 5 {
				wantStatus(t, "a call", w.do(t, legacyCall(id, "echo")), http.StatusOK)
			}
			wantReplicas(t, "a session that nobody leads", w.do(t, inSession("POST", other, pingBody)))
		}
		if r, _ := c.records.Of(c.name(t, id)); r.Primary != b.config.Others.Self() {
			t.Errorf("got %s as primary, want the replica that took the session over", r.Primary)
		}
	})
}

// TestASessionThatCannotBeTakenOverYetSaysNothing in the log, each time that it is tried
// for the sake of its stream. It is taken over when the store is back, and the stream
// goes on.
func TestASessionThatCannotBeTakenOverYetSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		c := together(t, 2, noting(&log))
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		stream := b.hearing(t, inSession("GET", id, ""))
		wait(t)
		c.setDown(true)
		c.hub.Leave(a.word().Member)
		<-time.After(15 * time.Second)
		if n := len(log.lines("looked up")); n != 0 {
			t.Errorf("the log has %d lines about it, want none", n)
		}
		c.setDown(false)
		wait(t)
		if r, _ := c.records.Of(c.name(t, id)); r.Primary != b.config.Others.Self() || stream.isOver() {
			t.Errorf("got %s as primary, and the stream is over: %v; want the replica with the stream, open",
				r.Primary, stream.isOver())
		}
	})
}

// name returns the name of a session in the entries.
func (c *common) name(t *testing.T, id string) string {
	t.Helper()
	return nameOf(t, c.ring, id)
}

// nameOf returns the name of a session in the entries.
func nameOf(t *testing.T, ring *seal.Ring, id string) string {
	t.Helper()
	ticket, err := ring.Open("session", id)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(ticket[9 : 9+16])
}

func setLevel(level string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"` + level + `"}}`
}

// TestEvictedSessionIsGoneEverywhere opens a session more than one may have at a replica.
func TestEvictedSessionIsGoneEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2, bounded(10, 1))
		id := c.worlds[0].open(t, "alice", mcp.Revision2511)
		wait(t)
		<-time.After(time.Second)
		next := c.worlds[0].open(t, "alice", mcp.Revision2511)
		for _, w := range c.worlds {
			wantStatus(t, "evicted", w.do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
			wantStatus(t, "the next", w.do(t, inSession("POST", next, pingBody)), http.StatusOK)
		}
		if n := c.records.Count(); n != 1 {
			t.Errorf("got %d records, want 1", n)
		}
	})
}

// TestSessionIsIdleOnAllReplicas uses a session at one replica only. The other, which has
// it too, does not let it end; and it ends when neither was used, and takes no memory
// then.
func TestSessionIsIdleOnAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3, func(w *world) { w.config.Memory = share.New(share.DefaultMemory) })
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		use := func(w *world, status int) {
			t.Helper()
			wantStatus(t, time.Now().Format(time.TimeOnly),
				w.do(t, inSession("POST", id, pingBody).as("alice-again")), status)
		}
		use(b, http.StatusOK)
		for range 2 {
			<-time.After(25 * time.Minute)
			use(b, http.StatusOK)
		}
		use(a, http.StatusOK)
		<-time.After(29 * time.Minute)
		use(c.worlds[2], http.StatusOK)
		<-time.After(34 * time.Minute) // more than 30 minutes, and a tenth
		for i, w := range c.worlds {
			if held := w.config.Memory.InUse(); held != 0 {
				t.Errorf("replica %d holds %d bytes of a session that is over", i, held)
			}
			use(w, http.StatusNotFound)
		}
	})
}

// TestFaultMakesNoSessionIdle lets the store be down for longer than a session may be
// idle. The session is used meanwhile where it is; when the store is back, another
// replica does not take it for idle.
func TestFaultMakesNoSessionIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		<-time.After(10 * time.Minute)
		c.setDown(true)
		for range 4 {
			<-time.After(10 * time.Minute)
			wantStatus(t, "where it is", a.do(t, inSession("POST", id, pingBody).as("alice-again")),
				http.StatusOK)
		}
		c.setDown(false)
		wantStatus(t, "elsewhere", b.do(t, inSession("POST", id, pingBody).as("alice-again")), http.StatusOK)
	})
}

// TestLevelHoldsAtAllReplicas sets the level at each replica.
func TestLevelHoldsAtAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		id := c.worlds[0].openAsking(t, mcp.Revision2511)
		for at, level := range []string{"info", "error", "debug"} {
			wantStatus(t, level, c.worlds[at].do(t, inSession("POST", id, setLevel(level))), http.StatusOK)
			for i, w := range c.worlds {
				if got := w.do(t, legacyCall(id, "terms")).Body.String(); !strings.Contains(got,
					`level \"`+level) {
					t.Errorf("replica %d: got %s, want level %s", i, got, level)
				}
			}
		}
	})
}

// TestJunkIsNoWord sends word that no replica says, and word of replicas that do not lead
// the session.
func TestJunkIsNoWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a := c.worlds[0]
		id := a.openAsking(t, mcp.Revision2511)
		question, over := a.ask(t, id)
		ticket, err := c.ring.Open("session", id)
		if err != nil {
			t.Fatal(err)
		}
		key := string(ticket[9 : 9+16])
		junk := c.hub.Join()
		for _, one := range []replica.Message{
			{Kind: "taken 3", Tenant: "acme", Parts: []string{key, "1"}}, // a version that is not known
			{Kind: "taken 2", Tenant: "acme", Parts: []string{key}},      // another form
			{Kind: "taken 2", Tenant: "acme"},
			{Kind: "taken 2", Tenant: "acme", Parts: []string{key, "-1"}},
			// another tenant's
			{Kind: "taken 2", Tenant: "globex", Parts: []string{key, "18446744073709551615"}},
			// an epoch of before
			{Kind: "taken 2", Tenant: "acme", Parts: []string{key, "1"}},
			{Kind: "listener 2", Parts: []string{key}},
			{Kind: "listener 2", Parts: []string{key, "g1", ""}},
			{Kind: "listener 2", Parts: []string{key[:8], "g1", "1", "{}"}},
			{Kind: "listener 2", Parts: []string{key, "g1", "one", "{}"}},
			{Kind: "listener 2", Parts: []string{key, "g1", "1", "{}"}},
		} {
			_, _ = junk.Send(t.Context(), a.word().Self(), one) // some is refused
		}
		synctest.Wait()
		wantStatus(t, "the answer", a.do(t, answerTo(question, id)), http.StatusAccepted)
		if got := <-over; !strings.Contains(got, "file:///r") {
			t.Errorf("got %s, want the answer in it", got)
		}
		wantStatus(t, "ping", a.do(t, inSession("POST", id, pingBody)), http.StatusOK)
	})
}

// TestRoundTripsOfASession states what each message costs in round trips to what replicas
// share.
func TestRoundTripsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		a, b := c.worlds[0], c.worlds[1]
		<-time.After(4 * time.Second) // every replica is known by now
		id := ""
		for _, step := range []struct {
			name string
			do   func()
			want int64
		}{
			{
				"initialize, and the message that it is over",
				func() { id = a.open(t, "alice", mcp.Revision2511) }, 1,
			},
			{"a message where it was opened", func() { a.do(t, inSession("POST", id, pingBody)) }, 0},
			{"a call there", func() { a.do(t, legacyCall(id, "echo")) }, 0},
			{"ten messages elsewhere, each forwarded", func() {
				for range 10 {
					b.do(t, inSession("POST", id, pingBody))
				}
			}, 10},
			{"a call, forwarded", func() { b.do(t, legacyCall(id, "echo")) }, 1},
			{"a cancellation, forwarded", func() {
				b.do(t, inSession("POST", id,
					`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
			}, 1},
			{
				"somebody else's message",
				func() { c.worlds[2].do(t, inSession("POST", id, pingBody).as("bob")) }, 0,
			},
			{"DELETE, forwarded, and the entry", func() { b.do(t, inSession("DELETE", id, "")) }, 2},
			{
				"a message after that, forwarded, and a look",
				func() { c.worlds[2].do(t, inSession("POST", id, pingBody)) }, 2,
			},
		} {
			if got := c.count(step.do); got != step.want {
				t.Errorf("%s: got %d round trips, want %d", step.name, got, step.want)
			}
		}
	})
}

// TestThousandSessionsOnThreeReplicas sends the messages of a thousand sessions to three
// replicas in turn; of two hundred where there is little time, since what is counted is
// counted for each.
func TestThousandSessionsOnThreeReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions, messages := 1000, 9
		if testing.Short() {
			sessions = 200
		}
		c := together(t, 3, bounded(2*sessions, 2*sessions))
		<-time.After(4 * time.Second) // every replica is known by now
		next := 0
		one := func(m message, status int) *httptest.ResponseRecorder {
			next++
			got := c.worlds[next%len(c.worlds)].do(t, m)
			if got.Code != status {
				t.Fatalf("request %d: got %d %s, want %d", next, got.Code, got.Body, status)
			}
			return got
		}
		ids := make([]string, sessions)
		opened := c.count(func() {
			for i := range ids {
				ids[i] = one(initialize(mcp.Revision2511), http.StatusOK).Header().Get(mcp.HeaderSessionID)
			}
		})
		used := c.count(func() {
			for n := range messages {
				for _, id := range ids {
					m := legacyCall(id, "echo")
					if n == 0 {
						m = inSession("POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					}
					one(m, map[bool]int{true: http.StatusAccepted, false: http.StatusOK}[n == 0])
				}
				next++ // so that the next message of each session is at another replica
			}
		})
		ended := c.count(func() {
			for _, id := range ids {
				one(inSession("DELETE", id, ""), http.StatusNoContent)
			}
		})
		t.Logf("%d sessions, %d messages each: %d round trips to open, %d to use, %d to end", sessions,
			messages, opened, used, ended)
		if n := int64(sessions); opened != n || used > int64(messages)*n || ended > 2*n {
			t.Errorf(
				"got %d, %d, %d; want an entry for each, no more than one forward a message, and the same and the entry for each end", opened, used, ended)
		}
		for _, id := range ids[:10] {
			one(inSession("POST", id, pingBody), http.StatusNotFound)
		}
	})
}

// TestSessionIsTakenOverOnceByManyMessages lets the primary of a session die, and sends
// many messages to each of two replicas at the same time: one of these leads the session
// from then on, and all are answered.
func TestSessionIsTakenOverOnceByManyMessages(t *testing.T) {
	c := together(t, 3)
	id := c.worlds[0].open(t, "alice", mcp.Revision2511)
	c.hub.Leave(c.worlds[0].word().Member)
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() {
			m := legacyCall(id, "echo").id(fmt.Sprint(100 + n))
			if got := c.worlds[1+n%2].do(t, m); got.Code != http.StatusOK {
				t.Errorf("got %d %s, want 200", got.Code, got.Body)
			}
		})
	}
	all.Wait()
	if got := c.worlds[1].sessionsOpen(t) + c.worlds[2].sessionsOpen(t); got != 1 {
		t.Errorf("got %d sessions, want 1", got)
	}
}

// slowTakes are entries whose replica hears late that it has taken a session over.
type slowTakes struct{ primary.Store }

func (s slowTakes) Take(ctx context.Context, k primary.Key, from primary.Entry, to replica.ID) (
	primary.Entry, error,
) {
	entry, err := s.Store.Take(ctx, k, from, to)
	<-time.After(time.Second)
	return entry, err
}

// TestASessionThatIsBeingTakenOverIsNotTakenAgain has a request reach the replica that
// has just taken a session over and does not serve it yet, by way of another one.
func TestASessionThatIsBeingTakenOverIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t, func(w *world) { w.config.Entries = slowTakes{w.config.Entries} })
		c.kill(0)
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() {
				<-time.After(time.Duration(n) * 100 * time.Millisecond)
				m := inSession("POST", c.id, `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
				if got := c.worlds[1+n].do(t, m); got.Code != http.StatusOK {
					t.Errorf("got %d %s, want 200", got.Code, got.Body)
				}
			})
		}
		all.Wait()
		if got := c.worlds[1].sessionsOpen(t) + c.worlds[2].sessionsOpen(t); got != 1 {
			t.Errorf("got %d sessions, want 1", got)
		}
	})
}
