package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// changingFleet is a fleet whose lists and files a test changes, and one session of it.
type changingFleet struct {
	hub    *replicatest.Hub
	worlds []*world
	lists  []*asker
	files  []*files
	id     string
}

// newChangingFleet opens a fleet of three, and a session at the first.
func newChangingFleet(t *testing.T, change ...func(*world)) *changingFleet {
	t.Helper()
	c := &changingFleet{hub: &replicatest.Hub{}}
	c.worlds = fleet(t, c.hub, 3, change...)
	for _, w := range c.worlds {
		lists, files := w.asking()
		c.lists, c.files = append(c.lists, lists), append(c.files, files)
	}
	runAll(t, c.worlds)
	c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
	return c
}

// get opens a stream for notices at a replica, which resumes after the last event unless
// that is "".
func (c *changingFleet) get(t *testing.T, at int, last string) *listener {
	t.Helper()
	m := inSession("GET", c.id, "")
	if last != "" {
		m = m.with(mcp.HeaderLastEventID, last)
	}
	return c.worlds[at].hearing(t, m)
}

// subscribe sends such a request about file:///a to a replica: subscribe or unsubscribe.
func (c *changingFleet) subscribe(t *testing.T, at int, method string) {
	t.Helper()
	c.request(t, at, method, "file:///a")
}

// request sends such a request about a resource to a replica.
func (c *changingFleet) request(t *testing.T, at int, method, uri string) {
	t.Helper()
	got := c.worlds[at].do(t, inSession("POST", c.id, `{"jsonrpc":"2.0","id":9,"method":"resources/`+method+
		`","params":{"uri":"`+uri+`"}}`))
	if got.Code != http.StatusOK || strings.Contains(got.Body.String(), "error") {
		t.Fatalf("%s: got %d %s", method, got.Code, got.Body)
	}
	wait(t)
}

// changeFile changes a file at the server of a replica.
func (c *changingFleet) changeFile(t *testing.T, at int, part string) {
	t.Helper()
	c.files[at].change("file:///a", part)
	wait(t)
}

// changePrompts changes a list at some replicas. They look when any list has changed, so
// the tools change, too.
func (c *changingFleet) changePrompts(t *testing.T, at ...int) {
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

// TestUpdateReachesTheReplicaWithTheStream subscribes at one replica, listens at another,
// and unsubscribes at a third.
func TestUpdateReachesTheReplicaWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		c.subscribe(t, 0, "subscribe")
		stream := c.get(t, 1, "")
		c.changeFile(t, 0, "file:///a#part")
		expectNotices(t, "a change", stream, `"uri":"file:///a#part"`, 1)
		c.subscribe(t, 2, "subscribe") // again: it is the same one
		if first, second := c.files[0].open(), c.files[2].open(); first != 1 || second != 0 {
			t.Errorf("after it subscribed at another replica: got %d and %d subscriptions, want 1, 0", first,
				second)
		}
		c.changeFile(t, 0, "file:///a")
		expectNotices(t, "another change", stream, mcp.NotifyResourceUpdated, 1)
		c.files[0].hide()
		c.changeFile(t, 0, "file:///a")
		expectNotices(t, "a change of what may not be read at the primary", stream, mcp.NotifyResourceUpdated,
			0)
		c.subscribe(t, 1, "unsubscribe")
		if open := c.files[0].open(); open != 0 {
			t.Errorf("after it unsubscribed: got %d subscriptions, want none", open)
		}
	})
}

// TestUpdateWaitsForAStreamAtAnyReplica lets a resource change while no stream is open:
// the client is told when it opens one, wherever, and once.
func TestUpdateWaitsForAStreamAtAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
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

// TestUpdatesFindTheirWayAfterAFault loses the word that a resource has changed: the
// client is told at a heartbeat.
func TestUpdatesFindTheirWayAfterAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faulty atomic.Bool
		c := newChangingFleet(t, losing(func(w replica.Message) bool { return faulty.Load() && w.Kind == "listener 2" }))
		stream := c.get(t, 1, "")
		c.subscribe(t, 2, "subscribe")
		faulty.Store(true)
		c.changeFile(t, 0, "file:///a")
		expectNotices(t, "during the fault", stream, mcp.NotifyResourceUpdated, 0)
		faulty.Store(false)
		<-time.After(30 * time.Second)
		expectNotices(t, "after the fault", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// lateOthers answers to what is forwarded late, and not to whoever has left by then.
type lateOthers struct {
	replica.Others
	late time.Duration
}

func (o *lateOthers) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	answer, err := o.Others.Forward(ctx, to, r)
	if !pace.Wait(ctx, o.late) {
		return nil, link.ErrLost
	}
	return answer, err
}

// TestAStreamThatIsGoneKeepsNoSession has the primary of a session not hear that a stream
// at another replica is not there, or not any more. Else the session would count as in
// use until its greatest age, and none be evicted for others.
func TestAStreamThatIsGoneKeepsNoSession(t *testing.T) {
	var faulty atomic.Bool
	late := func(w *world) { w.config.Others = &lateOthers{w.config.Others, time.Second} }
	deaf := losing(func(w replica.Message) bool { return faulty.Load() && w.Kind == "listener 2" })
	for name, test := range map[string]struct {
		change func(*world)
		leave  func(t *testing.T, c *changingFleet)
	}{
		"its client leaves while it opens": {late, func(t *testing.T, c *changingFleet) {
			conn := c.worlds[1].pipe(t, inSession("GET", c.id, ""))
			<-time.After(time.Second / 2)
			conn.Close()
		}},
		"it is closed while nothing is heard": {deaf, func(t *testing.T, c *changingFleet) {
			stream := c.get(t, 1, "")
			faulty.Store(true)
			leave(t, stream)
			<-time.After(time.Minute)
			faulty.Store(false)
		}},
		"its replica may have been taken for gone": {func(*world) {}, func(t *testing.T, c *changingFleet) {
			stream, others := c.get(t, 1, ""), c.worlds[1].config.Others.(*replicatest.Member)
			others.SetLeads(false)
			<-time.After(2 * time.Second)
			others.SetLeads(true)
			<-time.After(10 * time.Second)
			if !stream.isOver() {
				t.Fatal("the stream goes on")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				brief := func(w *world) { w.config.SessionIdle = time.Minute }
				c := newChangingFleet(t, test.change, brief)
				test.leave(t, c)
				<-time.After(10 * time.Minute)
				if open := c.worlds[0].sessionsOpen(t); open != 0 {
					t.Errorf("got %d sessions that nobody uses, want none", open)
				}
			})
		})
	}
}

// cutOthers lose the answers to what is forwarded, and are told nothing, while they are
// cut.
type cutOthers struct {
	replica.Others
	cut *atomic.Bool
}

func (o cutOthers) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	answer, err := o.Others.Forward(ctx, to, r)
	if err == nil && o.cut.Load() {
		answer.Body.Close()
		return nil, link.ErrLost
	}
	return answer, err
}

func (o cutOthers) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	if o.cut.Load() {
		return nil, errBroken
	}
	return o.Others.Send(ctx, to, w)
}

// TestAStreamThatCameBackIsNotLeft resumes a stream in vain, since the link to the
// primary is cut, and then again when that is mended. The primary is yet to hear of the
// first time that the stream is not there: it forgot the one of the second time, which
// was told nothing from then on.
func TestAStreamThatCameBackIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		c := newChangingFleet(t, func(w *world) { w.config.Others = cutOthers{w.config.Others, &cut} })
		stream := c.get(t, 1, "")
		c.changePrompts(t, 0)
		last := lastID(t, stream.text())
		leave(t, stream)
		cut.Store(true)
		wantReplicas(t, "while the link is cut",
			c.worlds[1].do(t, inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last)))
		<-time.After(2 * time.Second)
		cut.Store(false)
		stream = c.get(t, 1, last)
		<-time.After(2 * time.Minute)
		c.changePrompts(t, 0)
		expectNotices(t, "after it came back", stream, mcp.NotifyPromptsChanged, 1)
	})
}

// impatientOthers wait for a second until what is forwarded is answered.
type impatientOthers struct{ replica.Others }

func (o impatientOthers) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	context.AfterFunc(ctx, stop)
	return o.Others.Forward(ctx, to, r)
}

// TestAStreamThatWasGivenUpKeepsNoSession resumes a stream of one replica at another,
// which gives up before the primary has taken the stream from the first. Then the primary
// noted the stream there, after it had heard that it is not: the session counted as in
// use until its greatest age.
func TestAStreamThatWasGivenUpKeepsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf *deafOthers
		n := 0
		c := newChangingFleet(t, func(w *world) {
			switch n {
			case 0:
				deaf = &deafOthers{Member: w.config.Others.(*replicatest.Member)}
				w.config.Others = deaf
			case 1:
				w.config.Others = impatientOthers{w.config.Others}
			}
			n++
		})
		last := lastID(t, c.get(t, 2, "").text())
		hears := c.worlds[2].config.Others.Self()
		deaf.deafTo.Store(&hears)
		wantReplicas(t, "resumed", c.worlds[1].do(t, inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last)))
		<-time.After(time.Minute)
		deaf.deafTo.Store(nil)
		c.kill(2)
		<-time.After(2 * time.Hour)
		if open := c.worlds[0].sessionsOpen(t); open != 0 {
			t.Errorf("got %d sessions that nobody uses, want none", open)
		}
	})
}

// TestUpdateWaitsForAStreamThatOpensLate opens a stream at a replica which learns late
// that the primary knows of it: what that has for the stream comes before it is there.
func TestUpdateWaitsForAStreamThatOpensLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t, func(w *world) {
			w.config.Others = &lateOthers{w.config.Others, sessions.NoticeTime * 3 / 4}
		})
		c.subscribe(t, 0, "subscribe")
		c.changeFile(t, 0, "file:///a")
		stream := c.get(t, 1, "")
		<-time.After(30 * time.Second)
		expectNotices(t, "owed when the stream opens", stream, mcp.NotifyResourceUpdated, 1)
		c.changeFile(t, 0, "file:///a")
		expectNotices(t, "a change", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// slowLink is others who get what is forwarded too slowly.
type slowLink struct{ replica.Others }

func (slowLink) Forward(context.Context, replica.ID, link.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusRequestTimeout, Header: http.Header{}, Body: http.NoBody}, nil
}

// TestSlowLinkIsNotTheClients has a request of a client, whose body was there in time,
// come too slowly to the replica that leads its session: the client may send it again.
func TestSlowLinkIsNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t, func(w *world) { w.config.Others = slowLink{w.config.Others} })
		got := c.worlds[1].do(t, inSession("POST", c.id, `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`))
		if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "DB-REPLICAS") {
			t.Errorf("got %d %s, want 503 DB-REPLICAS", got.Code, got.Body)
		}
	})
}

// losing has replicas lose some word that they give.
func losing(lost func(replica.Message) bool) func(*world) {
	return func(w *world) {
		w.config.Others = &faultyOthers{w.config.Others, func(w replica.Message) error {
			if lost(w) {
				return errBroken
			}
			return nil
		}}
	}
}

// TestChangesInAFaultAreTriedAgainTogether lets a resource change often while it cannot
// be told. All of that was tried again each few seconds, each change by itself.
func TestChangesInAFaultAreTriedAgainTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faulty atomic.Bool
		var tried atomic.Int64
		c := newChangingFleet(t, losing(func(w replica.Message) bool {
			lost := faulty.Load() && w.Kind == "listener 2"
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
			t.Errorf("it was tried %d times in a minute, want once a heartbeat", got)
		}
		faulty.Store(false)
		<-time.After(30 * time.Second)
		wait(t)
		expectNotices(t, "after the fault", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// awayLog cannot be reached for notices. It counts how often it is tried.
type awayLog struct {
	eventlog.Log
	err   error // that it answers meanwhile
	away  atomic.Bool
	tried atomic.Int64
}

func (l *awayLog) Notify(ctx context.Context, key eventlog.Key, stream string, epoch uint64,
	data []byte,
) (string, error) {
	if l.away.Load() && l.tried.Add(1) < mostTried {
		return "", l.err
	}
	return l.Log.Notify(ctx, key, stream, epoch, data)
}

// notices has the replicas of a fleet, which have one log, put notices into this one.
func (l *awayLog) notices(w *world) {
	if l.Log == nil {
		l.Log = w.config.Log
	}
	w.config.Log = l
}

// mostTried is after how many attempts a fault is over all the same: time stands still
// for as long as something is tried again without a pause.
const mostTried = 10_000

// TestUpdateIsToldWhenTheLogIsBack lets a resource change while the log does not take its
// notice where the stream is. The primary of a stream elsewhere forgot it for that, and
// its client was told nothing any more.
func TestUpdateIsToldWhenTheLogIsBack(t *testing.T) {
	for name, test := range map[string]struct {
		at   int
		err  error
		ends bool // the stream does, so that its client comes back
	}{
		"not reached, at the primary": {0, errBroken, false},
		"not reached, elsewhere":      {1, errBroken, false},
		"refused, at the primary":     {0, share.ErrUser, true},
		"refused, elsewhere":          {1, share.ErrUser, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &awayLog{err: test.err}
				c := newChangingFleet(t, log.notices)
				c.subscribe(t, 0, "subscribe")
				stream := c.get(t, test.at, "")
				log.away.Store(true)
				c.changeFile(t, 0, "file:///a")
				expectNotices(t, "meanwhile", stream, mcp.NotifyResourceUpdated, 0)
				if stream.isOver() != test.ends {
					t.Errorf("got a stream that has ended: %t, want %t", !test.ends, test.ends)
				}
				log.away.Store(false)
				if test.ends {
					stream = c.get(t, test.at, "")
				}
				<-time.After(30 * time.Second)
				wait(t)
				expectNotices(t, "then", stream, mcp.NotifyResourceUpdated, 1)
			})
		})
	}
}

// TestManyChangesAreNotTriedWithoutAPause lets more parts of a resource change than are
// put on a stream at once while they cannot be told: to the replica of the stream, or to
// the log.
func TestManyChangesAreNotTriedWithoutAPause(t *testing.T) {
	for name, at := range map[string]int{"the replica of the stream": 1, "the log": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const parts = 2 * sessions.MaxUpdates
				log := &awayLog{err: errBroken}
				c := newChangingFleet(t, losing(func(w replica.Message) bool {
					return log.away.Load() && w.Kind == "listener 2" && log.tried.Add(1) < mostTried
				}), log.notices)
				c.subscribe(t, 0, "subscribe")
				stream := c.get(t, at, "")
				log.away.Store(true)
				for i := range parts {
					c.files[0].change("file:///a", fmt.Sprintf("file:///a#%d", i))
				}
				wait(t)
				if got := log.tried.Swap(0); got >= mostTried {
					t.Fatal("it was tried without a pause")
				}
				<-time.After(time.Minute)
				if got := log.tried.Load(); got < 1 || got > 12*sessions.MaxUpdates {
					t.Errorf("it was tried %d times in a minute, want a message of notices for each heartbeat", got)
				}
				log.away.Store(false)
				<-time.After(time.Minute)
				wait(t)
				expectNotices(t, "after the fault", stream, mcp.NotifyResourceUpdated, parts)
			})
		})
	}
}

// TestUpdateIsNotLostWithTheReplicaThatTells lets the replica die where the stream was.
func TestUpdateIsNotLostWithTheReplicaThatTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		c.subscribe(t, 0, "subscribe")
		c.get(t, 1, "")
		c.hub.Leave(c.worlds[1].config.Others.(*replicatest.Member))
		c.changeFile(t, 0, "file:///a")
		stream := c.get(t, 2, "")
		expectNotices(t, "after the death", stream, mcp.NotifyResourceUpdated, 1)
	})
}

// TestNoticeTakenByADeadReplicaIsToldAgain lets the replica with the stream die after it
// has taken a notice: whether the client got that is not known, so it is told again,
// unless the replica lived long enough to send it.
func TestNoticeTakenByADeadReplicaIsToldAgain(t *testing.T) {
	for name, test := range map[string]struct {
		next      int
		meanwhile func(t *testing.T, c *changingFleet)
		files     int // notices of them at the next stream
		prompts   int
	}{
		"the next is another":     {2, func(_ *testing.T, c *changingFleet) { c.kill(1) }, 1, 1},
		"the next is the primary": {0, func(_ *testing.T, c *changingFleet) { c.kill(1) }, 1, 1},
		"the client comes back late": {
			2,
			func(_ *testing.T, c *changingFleet) { c.kill(1); <-time.After(time.Minute) }, 1, 1,
		},
		"the next dies, too": {
			0,
			func(t *testing.T, c *changingFleet) { c.kill(1); c.get(t, 2, ""); c.kill(2) }, 1, 1,
		},
		"the client has unsubscribed": {
			2,
			func(t *testing.T, c *changingFleet) { c.kill(1); c.subscribe(t, 2, "unsubscribe") }, 0, 1,
		},
		"it died much later": {
			2,
			func(_ *testing.T, c *changingFleet) { <-time.After(time.Minute); c.kill(1) }, 0, 0,
		},
		"it was told of other things until it died": {
			2,
			func(t *testing.T, c *changingFleet) {
				for range 20 {
					c.changePrompts(t, 0)
					<-time.After(time.Second)
				}
				c.kill(1)
			}, 0, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
				c.subscribe(t, 0, "subscribe")
				stream := c.get(t, 1, "")
				c.changePrompts(t, 0)
				c.changeFile(t, 0, "file:///a")
				text := stream.text()
				if strings.Count(text, mcp.NotifyResourceUpdated) != 1 ||
					strings.Count(text, mcp.NotifyPromptsChanged) != 1 {
					t.Fatalf("at the first: got %q, want both notices", text)
				}
				test.meanwhile(t, c)
				text = c.get(t, test.next, "").text()
				if n := strings.Count(text, mcp.NotifyResourceUpdated); n != test.files {
					t.Errorf("at the next: got %d notices of the file, want %d: %q", n, test.files, text)
				}
				if n := strings.Count(text, mcp.NotifyPromptsChanged); n != test.prompts {
					t.Errorf("at the next: got %d notices of the prompts, want %d: %q", n, test.prompts, text)
				}
			})
		})
	}
}

// TestListsAreKnownWhenTheReplicaOfTheHandshakeHasDied opens the first stream for notices
// after that: what its client knows stands in the entry, so it is told of lists that are
// others now, and of nothing else.
func TestListsAreKnownWhenTheReplicaOfTheHandshakeHasDied(t *testing.T) {
	for name, changed := range map[string]int{"nothing has changed": 0, "prompts have changed": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
				c.kill(0)
				if changed == 1 {
					c.changePrompts(t, 1, 2)
				}
				stream := c.get(t, 1, "")
				<-time.After(30 * time.Second)
				expectNotices(t, "by the next primary", stream, mcp.NotifyPromptsChanged, changed)
				leave(t, stream)
				stream = c.get(t, 2, "")
				<-time.After(30 * time.Second)
				expectNotices(t, "by the one after it", stream, "list_changed", 0)
			})
		})
	}
}

// TestSubscriptionsOutliveTheirReplica lets the replica die that has the subscriptions:
// the one with the stream opens them itself, and the client is told that the resources
// may have changed.
func TestSubscriptionsOutliveTheirReplica(t *testing.T) {
	for name, early := range map[string]bool{"subscribed before the stream": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
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

// TestSubscriptionsOutliveTheOnlyReplicaThatKnewThem lets the replica die that has the
// stream and the subscriptions, which no other has heard of. The replica with the next
// stream opens those that the client has not ended. It knew of none.
func TestSubscriptionsOutliveTheOnlyReplicaThatKnewThem(t *testing.T) {
	for method, want := range map[string]int{"subscribe": 1, "unsubscribe": 0} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
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

// TestListsAreToldOnceWhereverTheStreamIs moves the stream for notices from replica to
// replica, and then the session. The client is told when a list of the primary differs
// from what it was told last, and never only because something moved.
func TestListsAreToldOnceWhereverTheStreamIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
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
		stream = c.get(t, 1, "")
		c.changePrompts(t, 0)
		expectNotices(t, "changed at the primary", stream, mcp.NotifyPromptsChanged, 1)
		c.changePrompts(t, 1)
		expectNotices(t, "changed where the stream is", stream, mcp.NotifyPromptsChanged, 0)
		c.kill(0)
		wait(t)
		expectNotices(t, "led by a replica that has the same lists", stream, "list_changed", 0)
		c.changePrompts(t, 1)
		expectNotices(t, "changed at the next primary", stream, mcp.NotifyPromptsChanged, 1)
	})
}

// TestOneStreamTellsOfTwoReplicas opens two streams for notices of one session: each
// change is told on one of them, and on the other when the first has closed.
func TestOneStreamTellsOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		older := c.get(t, 0, "")
		newer := c.get(t, 1, "")
		c.changePrompts(t, 0)
		if n := strings.Count(older.text()+newer.text(), mcp.NotifyPromptsChanged); n != 1 {
			t.Errorf("got %d notices on both, want 1", n)
		}
		leave(t, older)
		c.changePrompts(t, 0)
		expectNotices(t, "the one that is left", newer, mcp.NotifyPromptsChanged, 1)
	})
}

// TestStreamIsTakenFromAnotherReplica resumes a stream at another replica while the first
// connection is open: that ends, and each event goes to the newer one alone.
func TestStreamIsTakenFromAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		first := c.get(t, 0, "")
		c.changePrompts(t, 0)
		text := first.text()
		second := c.get(t, 1, lastID(t, text))
		if !first.isOver() || second.isOver() {
			t.Errorf("got the first ended: %v, the second: %v; want true, false", first.isOver(),
				second.isOver())
		}
		second.text()
		c.changePrompts(t, 0)
		expectNotices(t, "the newer connection", second, mcp.NotifyPromptsChanged, 1)
		third := c.get(t, 0, lastID(t, text))
		expectNotices(t, "all that followed", third, mcp.NotifyPromptsChanged, 1)
		if !second.isOver() {
			t.Error("the second connection is open, want it ended")
		}
	})
}

// TestAStreamThatLostEventsBeginsAnew resumes a stream for notices, at its primary and
// elsewhere, after an event that the log does not have: the connection that has the
// stream ends, and the client is told again of all that it follows.
func TestAStreamThatLostEventsBeginsAnew(t *testing.T) {
	for at := range 2 {
		synctest.Test(t, func(t *testing.T) {
			c := newChangingFleet(t)
			c.subscribe(t, 0, "subscribe")
			first := c.get(t, 1, "")
			name, _, _ := strings.Cut(lastID(t, first.text()), "-")
			second := c.get(t, at, name+"-999999999999999")
			if !first.isOver() {
				t.Errorf("resumed at %d: the first connection is open, want it ended", at)
			}
			text := second.text()
			for _, method := range []string{
				mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged,
				mcp.NotifyResourceUpdated,
			} {
				if n := strings.Count(text, method); n != 1 {
					t.Errorf("resumed at %d: got %q, want one %s", at, text, method)
				}
			}
			c.changeFile(t, 0, "file:///a")
			expectNotices(t, "a change", second, mcp.NotifyResourceUpdated, 1)
		})
	}
}

// TestStreamsOfASupersededPrimaryEnd takes a session over from a replica that lives, and
// is known to live where the stream is, as after it stood still for seconds: the stream
// ends when the old primary learns of it, or it would get no notice.
func TestStreamsOfASupersededPrimaryEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		streams := []*listener{c.get(t, 0, ""), c.get(t, 2, "")}
		records, key := c.worlds[0].config.Entries.(*primarytest.Store), primary.Key{
			Tenant: "acme",
			Name:   nameOf(t, c.worlds[0].config.Seal, c.id),
		}
		had, err := records.Read(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := records.Take(t.Context(), key, had, c.worlds[1].config.Others.Self()); err != nil {
			t.Fatal(err)
		}
		c.worlds[0].do(t, inSession("POST", c.id, setLevel("error")))
		wait(t)
		for i, stream := range streams {
			if !stream.isOver() {
				t.Errorf("stream %d goes on although another replica leads", i)
			}
		}
	})
}

// TestStreamsOfAReplicaThatWasTakenForGoneEnd lets a replica with a stream stand still
// until the primary takes it for gone: when it is back the stream ends, since nobody
// would tell it anything, and its client is told what has changed when it comes again.
func TestStreamsOfAReplicaThatWasTakenForGoneEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		c.subscribe(t, 0, "subscribe")
		stream, still := c.get(t, 1, ""), c.worlds[1].config.Others.(*replicatest.Member)
		<-time.After(time.Second)
		c.hub.Leave(still)
		<-time.After(5 * time.Second)
		c.changeFile(t, 0, "file:///a")
		c.hub.Rejoin(still)
		<-time.After(5 * time.Second)
		if !stream.isOver() {
			t.Error("the stream goes on, and nobody tells it anything")
		}
		stream = c.get(t, 1, "")
		expectNotices(t, "what changed meanwhile", stream, mcp.NotifyResourceUpdated, 1)
		<-time.After(5 * time.Second)
		if stream.isOver() {
			t.Error("a stream that opened later has ended, too")
		}
	})
}

// TestStreamThatCameToThePrimaryStays resumes a stream at the primary, which hears only
// then that the connection at the other replica was closed.
func TestStreamThatCameToThePrimaryStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, come := make(chan struct{}), atomic.Bool{}
		c := newChangingFleet(t, func(w *world) {
			w.config.Others = &faultyOthers{w.config.Others, func(w replica.Message) error {
				if w.Kind == "listener 2" && come.CompareAndSwap(true, false) {
					<-late
				}
				return nil
			}}
		})
		stream := c.get(t, 1, "")
		last := lastID(t, stream.text())
		come.Store(true)
		leave(t, stream)
		stream = c.get(t, 0, last)
		close(late)
		c.changePrompts(t, 0)
		expectNotices(t, "at the primary", stream, mcp.NotifyPromptsChanged, 1)
		if stream.isOver() {
			t.Error("the stream has ended")
		}
	})
}

// TestAnswerOfADeadReplica waits at one replica for the answer of a call that runs on
// another, which dies: the client is told when that is known. As long as that replica
// lives, its answer comes.
func TestAnswerOfADeadReplica(t *testing.T) {
	for name, dies := range map[string]bool{"dies": true, "lives": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
				first := c.worlds[0].hearing(t, legacyCall(c.id, "slow_progress"))
				last := lastID(t, first.text())
				leave(t, first)
				stream := c.get(t, 1, last)
				if dies {
					c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
				}
				wait(t) // nobody waits for a heartbeat
				if got := stream.text(); dies && (strings.Count(got, `"id":1,"error"`) != 1 ||
					!strings.Contains(got, "DB-REPLICA-GONE") || !stream.isOver()) {
					t.Errorf("got %q, want an error for the request, and the end", got)
				} else if !dies && (strings.Contains(got, "jsonrpc") || stream.isOver()) {
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
	eventlog.Log
	broken atomic.Bool
}

var errBroken = errors.New("the log cannot be reached")

func (b *brokenLog) Append(ctx context.Context, key eventlog.Key, stream string, data []byte,
	last bool,
) (string, error) {
	if b.broken.Load() {
		return "", errBroken
	}
	return b.Log.Append(ctx, key, stream, data, last)
}

func (b *brokenLog) Notify(ctx context.Context, key eventlog.Key, stream string, epoch uint64,
	data []byte,
) (string, error) {
	if b.broken.Load() {
		return "", errBroken
	}
	return b.Log.Notify(ctx, key, stream, epoch, data)
}

func (b *brokenLog) Read(ctx context.Context, key eventlog.Key, stream, after string) ([]eventlog.Event, bool,
	error,
) {
	if b.broken.Load() {
		return nil, false, errBroken
	}
	return b.Log.Read(ctx, key, stream, after)
}

func (b *brokenLog) Find(ctx context.Context, key eventlog.Key, event string) (string, error) {
	if b.broken.Load() {
		return "", errBroken
	}
	return b.Log.Find(ctx, key, event)
}

// TestStreamsSurviveALogThatCannotBeReached keeps idle streams open through an outage,
// after which they tell what they owe. A stream that cannot be resumed now is not said to
// be gone.
func TestStreamsSurviveALogThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &brokenLog{}
		c := newChangingFleet(t, func(w *world) {
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
		for _, m := range []message{
			inSession("GET", c.id, ""),
			inSession("GET", c.id, "").with(mcp.HeaderLastEventID, last),
		} {
			if got := c.worlds[1].do(t, m); got.Code != http.StatusServiceUnavailable ||
				stable(t, got.Body) != "DB-REPLICAS" {
				t.Errorf("during the outage: got %d %s, want 503 DB-REPLICAS", got.Code, got.Body)
			}
		}
		log.broken.Store(false)
		<-time.After(time.Minute)
		expectNotices(t, "after the outage", stream, mcp.NotifyPromptsChanged, 1)
	})
}

// TestEndOfASessionAnswersItsCalls deletes a session at one replica while a call of it
// runs at another: whoever waits for its answer, there or elsewhere, is told that it was
// cancelled. The stream of the call just ended.
func TestEndOfASessionAnswersItsCalls(t *testing.T) {
	for name, test := range map[string]struct {
		stream int // the replica with the stream of the call, which runs at the first
		drains bool
	}{
		"where it runs":                          {0, false},
		"where it runs, resumed":                 {0, false},
		"elsewhere":                              {1, false},
		"where it runs, which drains":            {0, true},
		"elsewhere, while the replica drains":    {1, true},
		"at a third one, while a replica drains": {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChangingFleet(t)
				stream := c.worlds[0].hearing(t, legacyCall(c.id, "slow_progress"))
				if name != "where it runs" {
					last := lastID(t, stream.text())
					leave(t, stream)
					stream = c.get(t, test.stream, last)
				}
				if test.drains {
					c.worlds[0].DrainClients()
					wait(t) // whoever has a stream takes the session over
				}
				wantStatus(t, "DELETE", c.worlds[1].do(t, inSession("DELETE", c.id, "")), http.StatusNoContent)
				wait(t)
				if got := stream.text(); strings.Count(got, `"id":1,"error"`) != 1 || !stream.isOver() {
					t.Errorf("got %q, want an error for the request, and the end", got)
				}
			})
		})
	}
}

// taskDesk runs calls that tell of a hundred tasks of their caller.
type taskDesk struct{ *fakeDesk }

func (taskDesk) Handle(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object, error) {
	for n := range 100 {
		id := strconv.Itoa(n)
		state := object(`{"taskId":"` + id + `","statusMessage":"` + strings.Repeat("x", 1000) + `"}`)
		r.OnTaskStatus(id, mcp.Notification{Method: mcp.NotifyTasksStatus, Params: state})
	}
	return textResult("told"), nil
}

func (taskDesk) FollowsTask(gateway.Caller, string) bool { return true }

// openedDesk runs calls whose server says, when they have ended, that what their user was
// to do at some address is done.
type openedDesk struct {
	*fakeDesk
	tells chan func(id string)
}

func (d openedDesk) Handle(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object, error) {
	d.tells <- r.OnOpened
	return textResult("asked"), nil
}

// TestSessionThatWasAskedIsToldThatAnAddressIsDone has the client of a session told whose
// stream is at the same replica or another one, and neither another session of its user
// nor a client whose revision does not know that.
func TestSessionThatWasAskedIsToldThatAnAddressIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := fleet(t, &replicatest.Hub{}, 2)
		desk := openedDesk{&fakeDesk{Desk: both[0].gateway}, make(chan func(string), 1)}
		both[0].Server = server.NewWithDesk(both[0].config, desk)
		runAll(t, both)
		for name, test := range map[string]struct {
			at       int // the replica with the stream
			revision string
			want     int
		}{
			"here":         {0, mcp.Revision2511, 1},
			"elsewhere":    {1, mcp.Revision2511, 1},
			"an older one": {0, mcp.Revision2506, 0},
		} {
			id, other := both[0].open(t, "alice", test.revision), both[0].open(t, "alice", mcp.Revision2511)
			stream := both[test.at].hearing(t, inSession("GET", id, ""))
			beside := both[test.at].hearing(t, inSession("GET", other, ""))
			call := inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
			wantStatus(t, "a call", both[0].do(t, call), http.StatusOK)
			if tell := <-desk.tells; tell != nil {
				tell("the-id")
			}
			wait(t)
			const notice = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"the-id"}}`
			if got := strings.Count(stream.text(), notice); got != test.want {
				t.Errorf("%s: told %d times, want %d: %s", name, got, test.want, stream.text())
			}
			if strings.Contains(beside.text(), "elicitation") {
				t.Errorf("%s: another session was told: %s", name, beside.text())
			}
		}
	})
}

// TestManyNoticesGoInSeveralMessages has ninety-five sessions told of a hundred tasks
// each, whose streams are at another replica, while a message to that one is on its way.
// The other would refuse all of it in one message, and the notices be lost.
func TestManyNoticesGoInSeveralMessages(t *testing.T) {
	const sessions = 95
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		var largest atomic.Int64 // bytes of a message
		release := make(chan struct{})
		both := fleet(t, &replicatest.Hub{}, 2, losing(func(w replica.Message) bool {
			if w.Kind == "listener 2" && held.Load() {
				<-release
			}
			largest.Store(max(largest.Load(), int64(len(strings.Join(w.Parts, "")))))
			return false
		}))
		a := both[0]
		a.Server = server.NewWithDesk(a.config, taskDesk{&fakeDesk{Desk: a.gateway}})
		runAll(t, both)
		var ids []string
		var all []*listener
		for range sessions {
			id := a.open(t, "alice", mcp.Revision2511)
			ids, all = append(ids, id), append(all, both[1].hearing(t, inSession("GET", id, "")))
		}
		held.Store(true)
		for _, id := range ids {
			call := inSession("POST", id,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}`)
			wantStatus(t, "a call", a.do(t, call), http.StatusOK)
		}
		synctest.Wait()
		held.Store(false)
		close(release)
		wait(t)
		told := 0
		for _, l := range all {
			told += strings.Count(l.text(), mcp.NotifyTasksStatus)
		}
		if told != 100*sessions {
			t.Errorf("clients were told of %d tasks, want %d", told, 100*sessions)
		}
		if got := largest.Load(); got < 1<<20 || got > 2<<20 {
			t.Errorf("the largest message had %d bytes, want one MiB and what one session has", got)
		}
	})
}
