package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// crew is a fleet whose lists and files a test changes, and one session of it.
type crew struct {
	hub    *replicatest.Hub
	worlds []*world
	lists  []*asker
	files  []*files
	id     string
}

// newCrew opens a fleet of three, and a session at the first.
func newCrew(t *testing.T, change ...func(*world)) *crew {
	t.Helper()
	c := &crew{hub: &replicatest.Hub{}}
	c.worlds = fleet(t, c.hub, 3, change...)
	for _, w := range c.worlds {
		lists, files := w.asking()
		c.lists, c.files = append(c.lists, lists), append(c.files, files)
	}
	c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
	return c
}

// get opens a stream for notices at a replica, which resumes after the last event unless that is "".
func (c *crew) get(t *testing.T, at int, last string) *listener {
	t.Helper()
	m := inSession("GET", c.id, "")
	if last != "" {
		m = m.with(mcp.HeaderLastEventID, last)
	}
	return c.worlds[at].hearing(t, m)
}

// subscribe and unsubscribe send such a request to a replica.
func (c *crew) subscribe(t *testing.T, at int, method string) {
	t.Helper()
	got := c.worlds[at].do(t, inSession("POST", c.id, `{"jsonrpc":"2.0","id":9,"method":"resources/`+method+`","params":{"uri":"file:///a"}}`))
	if got.Code != http.StatusOK || strings.Contains(got.Body.String(), "error") {
		t.Fatalf("%s: got %d %s", method, got.Code, got.Body)
	}
	wait(t)
}

// changeFile changes a file at the server of a replica.
func (c *crew) changeFile(t *testing.T, at int, part string) {
	t.Helper()
	c.files[at].change("file:///a", part)
	wait(t)
}

// changePrompts changes a list at some replicas. They look when any list has changed, so the tools change, too.
func (c *crew) changePrompts(t *testing.T, at ...int) {
	t.Helper()
	for _, i := range at {
		c.lists[i].changePrompts()
		c.worlds[i].offer(t, fmt.Sprintf("more%d", c.lists[i].prompts))
	}
	wait(t)
}

func leave(t *testing.T, l *listener) {
	t.Helper()
	l.conn.Close()
	wait(t)
}

var eventID = regexp.MustCompile(`id: (\S+)`)

// lastID returns the id of the last event in a text.
func lastID(t *testing.T, text string) string {
	t.Helper()
	all := eventID.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatalf("no event has an id: %q", text)
	}
	return all[len(all)-1][1]
}

func expectNotices(t *testing.T, when string, l *listener, method string, want int) {
	t.Helper()
	if text := l.text(); strings.Count(text, method) != want {
		t.Errorf("%s: got %q, want %d of %s", when, text, want, method)
	}
}

// TestUpdateReachesTheReplicaWithTheStream subscribes at one replica, listens at another, and unsubscribes at a third.
func TestUpdateReachesTheReplicaWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.subscribe(t, 0, "subscribe")
		stream := c.get(t, 1, "")
		c.changeFile(t, 0, "file:///a#part")
		expectNotices(t, "a change", stream, `"uri":"file:///a#part"`, 1)
		c.subscribe(t, 2, "subscribe") // again: the first one ends
		if first, second := c.files[0].open(), c.files[2].open(); first != 0 || second != 1 {
			t.Errorf("after it subscribed at another replica: got %d and %d subscriptions, want 0, 1", first, second)
		}
		c.changeFile(t, 2, "file:///a")
		expectNotices(t, "a change at another replica", stream, mcp.NotifyResourceUpdated, 1)
		c.files[1].hide()
		c.changeFile(t, 2, "file:///a")
		expectNotices(t, "a change that may not be read where the stream is", stream, mcp.NotifyResourceUpdated, 0)
		c.subscribe(t, 1, "unsubscribe")
		if open := c.files[2].open(); open != 0 {
			t.Errorf("after it unsubscribed: got %d subscriptions, want none", open)
		}
	})
}

// TestUpdateWaitsForAStreamAtAnyReplica lets a resource change while no stream is open: the client is told when it opens
// one, wherever, and once.
func TestUpdateWaitsForAStreamAtAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.subscribe(t, 0, "subscribe")
		c.changeFile(t, 0, "file:///a")
		stream := c.get(t, 1, "")
		expectNotices(t, "owed when the stream opens", stream, mcp.NotifyResourceUpdated, 1)
		leave(t, stream)
		c.changeFile(t, 0, "file:///a")
		stream = c.get(t, 2, "")
		expectNotices(t, "owed when it opens elsewhere", stream, mcp.NotifyResourceUpdated, 1)
		leave(t, stream)
		stream = c.get(t, 0, "")
		expectNotices(t, "told before", stream, mcp.NotifyResourceUpdated, 0)
	})
}

// TestTellerWithALateClockWasNotHeeded has a stream open at a replica whose clock is late, and which has not heard who told
// the client before: that one's claim was newer for ever, though it had said that it tells no more.
func TestTellerWithALateClockWasNotHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.worlds[2].config.Others.(*replicatest.Member).SetClock(-time.Hour)
		c.subscribe(t, 0, "subscribe")
		leave(t, c.get(t, 1, ""))
		stream := c.get(t, 2, "")
		c.changeFile(t, 0, "file:///a")
		expectNotices(t, "changed", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// TestUpdatesFindTheirWayAfterAFault loses the word that a stream has opened, and that a resource has changed: when word
// can be read again, the client is told.
func TestUpdatesFindTheirWayAfterAFault(t *testing.T) {
	for _, kind := range []string{"stream 1", "updated 1", "teller 1"} {
		t.Run(kind, func(t *testing.T) {
			lostForAWhile(t, kind, func(c *crew) {
				for _, w := range c.worlds[:2] {
					w.config.Others.(*faultyOthers).Others.(*replicatest.Member).Return()
				}
			})
		})
		t.Run(kind+", for a moment that nobody noticed", func(t *testing.T) {
			lostForAWhile(t, kind, func(*crew) { <-time.After(10 * time.Second) })
		})
	}
}

// lostForAWhile loses word of a kind while a stream opens, its client subscribes and the resource changes. After what
// follows the fault the client has been told.
func lostForAWhile(t *testing.T, kind string, follows func(*crew)) {
	synctest.Test(t, func(t *testing.T) {
		var faulty atomic.Bool
		c := newCrew(t, losing(func(w replica.Word) bool { return faulty.Load() && w.Kind == kind }))
		faulty.Store(true)
		stream := c.get(t, 1, "")
		c.subscribe(t, 0, "subscribe")
		c.changeFile(t, 0, "file:///a")
		faulty.Store(false)
		follows(c)
		wait(t)
		expectNotices(t, "after the fault", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// losing has replicas lose some word that they give.
func losing(lost func(replica.Word) bool) func(*world) {
	return func(w *world) {
		w.config.Others = &faultyOthers{w.config.Others, func(w replica.Word) error {
			if lost(w) {
				return errBroken
			}
			return nil
		}}
	}
}

// TestEachChangeInAFaultWasTriedAgainByItself lets a resource change often while it cannot be told. All of that was tried
// again each few seconds, each change by itself.
func TestEachChangeInAFaultWasTriedAgainByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faulty atomic.Bool
		var tried atomic.Int64
		c := newCrew(t, losing(func(w replica.Word) bool {
			lost := faulty.Load() && w.Kind == "updated 1"
			if lost {
				tried.Add(1)
			}
			return lost
		}))
		c.subscribe(t, 0, "subscribe")
		stream := c.get(t, 1, "")
		faulty.Store(true)
		for range 50 {
			c.changeFile(t, 0, "file:///a")
		}
		tried.Store(0)
		<-time.After(time.Minute)
		if got := tried.Load(); got < 1 || got > 12 {
			t.Errorf("it was tried %d times in a minute, want once in five seconds", got)
		}
		faulty.Store(false)
		<-time.After(10 * time.Second)
		wait(t)
		expectNotices(t, "after the fault", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// TestUpdateIsNotLostWithTheReplicaThatTells lets the replica die where the stream was.
func TestUpdateIsNotLostWithTheReplicaThatTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.subscribe(t, 0, "subscribe")
		c.get(t, 1, "")
		c.hub.Leave(c.worlds[1].config.Others.(*replicatest.Member))
		c.changeFile(t, 0, "file:///a")
		stream := c.get(t, 2, "")
		expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// TestSubscriptionsOutliveTheirReplica lets the replica die that has the subscriptions: the one with the stream opens them
// itself, and the client is told that the resources may have changed.
func TestSubscriptionsOutliveTheirReplica(t *testing.T) {
	for name, early := range map[string]bool{"subscribed before the stream": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t)
				var stream *listener
				if early {
					c.subscribe(t, 0, "subscribe")
				}
				stream = c.get(t, 1, "")
				if !early {
					c.subscribe(t, 0, "subscribe")
				}
				c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
				<-time.After(time.Minute)
				expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 1)
				c.changeFile(t, 1, "file:///a")
				expectNotices(t, "a change", stream, mcp.NotifyResourceUpdated, 1)
				c.subscribe(t, 2, "unsubscribe")
				if open := c.files[1].open(); open != 0 {
					t.Errorf("after it unsubscribed: got %d subscriptions, want none", open)
				}
			})
		})
	}
}

// TestSubscriptionsOutliveTheOnlyReplicaThatKnewThem lets the replica die that has the stream and the subscriptions, which no
// other has heard of. The replica with the next stream opens those that the client has not ended. It knew of none.
func TestSubscriptionsOutliveTheOnlyReplicaThatKnewThem(t *testing.T) {
	for method, want := range map[string]int{"subscribe": 1, "unsubscribe": 0} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t)
				c.subscribe(t, 0, "subscribe")
				c.get(t, 0, "")
				if method == "unsubscribe" {
					c.subscribe(t, 0, method)
				}
				c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
				stream := c.get(t, 1, "")
				<-time.After(time.Minute)
				expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, want)
				c.changeFile(t, 1, "file:///a")
				expectNotices(t, "a change", stream, mcp.NotifyResourceUpdated, want)
				if got := c.files[1].open(); got != want {
					t.Errorf("got %d subscriptions at the replica with the stream, want %d", got, want)
				}
			})
		})
	}
}

// TestListsAreToldOnceWhereverTheStreamIs moves the stream for notices from replica to replica. The client is told when a
// list differs from what it was told last, and never only because the stream moved.
func TestListsAreToldOnceWhereverTheStreamIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		stream := c.get(t, 1, "")
		expectNotices(t, "opened elsewhere", stream, "list_changed", 0)
		leave(t, stream)
		c.changePrompts(t, 0, 1, 2)
		stream = c.get(t, 2, "")
		expectNotices(t, "changed meanwhile", stream, mcp.NotifyPromptsChanged, 1)
		leave(t, stream)
		for _, at := range []int{0, 1, 2} {
			stream = c.get(t, at, "")
			expectNotices(t, "moved on", stream, "list_changed", 0)
			leave(t, stream)
		}
		stream = c.get(t, 0, "")
		c.changePrompts(t, 0)
		expectNotices(t, "changed at one", stream, mcp.NotifyPromptsChanged, 1)
		leave(t, stream)
		stream = c.get(t, 1, "")
		expectNotices(t, "at a replica that is behind", stream, mcp.NotifyPromptsChanged, 1)
		c.changePrompts(t, 1)
		expectNotices(t, "when it caught up", stream, mcp.NotifyPromptsChanged, 1)
	})
}

// TestListsAreToldWhenNobodyKnows opens the first stream for notices after the replica of the handshake has died: what its
// client knows cannot be told any more, so it is told that all may have changed.
func TestListsAreToldWhenNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
		stream := c.get(t, 1, "")
		<-time.After(30 * time.Second)
		expectNotices(t, "by a replica that knows nothing", stream, mcp.NotifyPromptsChanged, 1)
		leave(t, stream)
		stream = c.get(t, 2, "")
		<-time.After(30 * time.Second)
		expectNotices(t, "by the next one", stream, "list_changed", 0)
	})
}

// TestOneStreamTellsOfTwoReplicas opens two streams for notices of one session: only the newer one tells, and the older
// one when the newer has closed.
func TestOneStreamTellsOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		older := c.get(t, 0, "")
		newer := c.get(t, 1, "")
		c.changePrompts(t, 0, 1)
		expectNotices(t, "the newer", newer, mcp.NotifyPromptsChanged, 1)
		expectNotices(t, "the older", older, mcp.NotifyPromptsChanged, 0)
		leave(t, newer)
		c.changePrompts(t, 0, 1)
		expectNotices(t, "the older, later", older, mcp.NotifyPromptsChanged, 1)
	})
}

// TestStreamIsTakenFromAnotherReplica resumes a stream at another replica while the first connection is open: that ends,
// and each event goes to the newer one alone.
func TestStreamIsTakenFromAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		first := c.get(t, 0, "")
		c.changePrompts(t, 0)
		text := first.text()
		second := c.get(t, 1, lastID(t, text))
		if !first.isOver() || second.isOver() {
			t.Errorf("got the first ended: %v, the second: %v; want true, false", first.isOver(), second.isOver())
		}
		second.text() // replica 1 is behind, and says so
		c.changePrompts(t, 1)
		expectNotices(t, "the newer connection", second, mcp.NotifyPromptsChanged, 1)
		third := c.get(t, 0, lastID(t, text))
		expectNotices(t, "all that followed", third, mcp.NotifyPromptsChanged, 2)
		if !second.isOver() {
			t.Error("the second connection is open, want it ended")
		}
	})
}

// TestAnswerOfADeadReplica waits at one replica for the answer of a call that runs on another, which dies: the client is
// told, and not before it is certain. As long as that replica lives, its answer comes.
func TestAnswerOfADeadReplica(t *testing.T) {
	for name, dies := range map[string]bool{"dies": true, "lives": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t)
				first := c.worlds[0].hearing(t, legacyCall(c.id, "slow_progress"))
				last := lastID(t, first.text())
				leave(t, first)
				stream := c.get(t, 1, last)
				if dies {
					c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
				}
				<-time.After(15 * time.Second)
				if stream.isOver() {
					t.Fatalf("got the end %q before a heartbeat had passed", stream.text())
				}
				<-time.After(30 * time.Second)
				synctest.Wait()
				if got := stream.text(); dies && (strings.Count(got, `"id":1,"error"`) != 1 || !strings.Contains(got, "DB-REPLICA-GONE") || !stream.isOver()) {
					t.Errorf("got %q, want an error for the request, and the end", got)
				} else if !dies && (got != "" || stream.isOver()) {
					t.Errorf("got %q, want the stream to wait", got)
				}
				c.worlds[0].letGo()
				wait(t)
				if got := stream.text(); !dies && strings.Count(got, `"text":"late"`) != 1 {
					t.Errorf("got %q, want the answer once", got)
				}
			})
		})
	}
}

// brokenLog is a log that cannot be reached for a time.
type brokenLog struct {
	session.Log
	broken atomic.Bool
}

var errBroken = errors.New("the log cannot be reached")

func (b *brokenLog) Append(ctx context.Context, key session.Key, stream string, data []byte, last bool) (string, error) {
	if b.broken.Load() {
		return "", errBroken
	}
	return b.Log.Append(ctx, key, stream, data, last)
}

func (b *brokenLog) Next(ctx context.Context, key session.Key, stream, after string) ([]session.Event, bool, error) {
	if b.broken.Load() {
		return nil, false, errBroken
	}
	return b.Log.Next(ctx, key, stream, after)
}

func (b *brokenLog) Find(ctx context.Context, key session.Key, event string) (string, error) {
	if b.broken.Load() {
		return "", errBroken
	}
	return b.Log.Find(ctx, key, event)
}

// TestStreamsSurviveALogThatCannotBeReached keeps idle streams open through an outage, after which they tell what they
// owe. A stream that cannot be resumed now is not said to be gone.
func TestStreamsSurviveALogThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &brokenLog{}
		c := newCrew(t, func(w *world) {
			if log.Log == nil {
				log.Log = w.config.Log
			}
			w.config.Log = log
		})
		sse, _ := c.worlds[0].openSSE(t, "alice")
		stream := c.get(t, 0, "")
		last := lastID(t, stream.text())
		log.broken.Store(true)
		c.changePrompts(t, 0)
		<-time.After(time.Minute)
		if sse.isOver() || stream.isOver() {
			t.Fatalf("got streams ended (HTTP+SSE %v, GET %v), want both open", sse.isOver(), stream.isOver())
		}
		for _, m := range []message{inSession("GET", c.id, ""), inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last)} {
			if got := c.worlds[1].do(t, m); got.Code != http.StatusServiceUnavailable || stable(t, got.Body) != "DB-REPLICAS" {
				t.Errorf("during the outage: got %d %s, want 503 DB-REPLICAS", got.Code, got.Body)
			}
		}
		log.broken.Store(false)
		<-time.After(time.Minute)
		expectNotices(t, "after the outage", stream, mcp.NotifyPromptsChanged, 1)
	})
}
