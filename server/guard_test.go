package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// bug panics once: when bite has been called as often as was said to set. Before that it
// does nothing.
type bug struct{ left atomic.Int64 }

func (b *bug) set(bites int64) { b.left.Store(bites) }

func (b *bug) bite() {
	if b.left.Add(-1) == 0 {
		panic("a bug")
	}
}

// brittleLog, brittleDesk and brittleOthers have bugs.
type brittleLog struct {
	eventlog.Log
	begin, next, add, end bug
	ended                 atomic.Int64
}

func (l *brittleLog) Begin(ctx context.Context, key eventlog.Key, stream string) (bool, error) {
	l.begin.bite()
	return l.Log.Begin(ctx, key, stream)
}

func (l *brittleLog) Read(ctx context.Context, key eventlog.Key, stream, after string) ([]eventlog.Event, bool,
	error,
) {
	l.next.bite()
	return l.Log.Read(ctx, key, stream, after)
}

func (l *brittleLog) Append(ctx context.Context, key eventlog.Key, stream string, data []byte,
	last bool,
) (string, error) {
	l.add.bite()
	return l.Log.Append(ctx, key, stream, data, last)
}

func (l *brittleLog) End(key eventlog.Key) {
	l.ended.Add(1)
	l.end.bite()
	l.Log.End(key)
}

type brittleDesk struct {
	server.Desk
	stream, judge bug
	judged        atomic.Int64
}

func (d *brittleDesk) OpenStream(ctx context.Context, c gateway.Caller, kind string) (func(), error) {
	d.stream.bite()
	return d.Desk.OpenStream(ctx, c, kind)
}

func (d *brittleDesk) Reauthorize(now func(auth.Principal) (gateway.Caller, bool)) int {
	d.judged.Add(1)
	d.judge.bite()
	return d.Desk.Reauthorize(now)
}

type brittleOthers struct {
	replica.Others
	there, send bug
}

func (o *brittleOthers) IsThere(id replica.ID) bool {
	o.there.bite()
	return o.Others.IsThere(id)
}

func (o *brittleOthers) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	o.send.bite()
	return o.Others.Send(ctx, to, w)
}

// noting lets a test read the log, which several goroutines write.
func noting(j *logBuffer) func(*world) {
	return func(w *world) { w.config.Logger = slog.New(slog.NewJSONHandler(j, nil)) }
}

// logged has the world keep its events in a log that has bugs.
func logged(l *brittleLog) func(*world) {
	l.Log = eventlog.NewMemory(eventlog.MemoryConfig{})
	return func(w *world) { w.config.Log = l }
}

// expectPanics fails unless that many panics were logged, and counted.
func (w *world) expectPanics(t *testing.T, j *logBuffer, want int) {
	t.Helper()
	if got := len(j.lines(`"msg":"panic"`, `"problem":"a bug"`, "guard_test.go")); got != want {
		t.Errorf("got %d panics in the log, want %d", got, want)
	}
	if got := metricstest.Sum(t, w.metrics, "drawbridge_panics_total"); got != float64(want) {
		t.Errorf("got drawbridge_panics_total %v, want %d", got, want)
	}
}

// A panic in what Run does ended the process, or was hidden while nothing was looked
// after any more.

func TestCallersAreJudgedAgainAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := newWorld(t, noting(&log))
		ids := make(map[string]string)
		for _, who := range []string{"alice", "bob", "outsider"} {
			ids[who] = w.open(t, who, mcp.Revision2511)
		}
		expect := func(who string, want int) {
			t.Helper()
			if got := w.do(t, inSession("POST", ids[who], pingBody).as(who)); got.Code != want {
				t.Errorf("%s: got %d %s, want %d", who, got.Code, got.Body, want)
			}
		}
		revoke := func(whose func(auth.Principal) bool) {
			w.revoke(whose)
			wait(t)
			w.refuse(nil)
		}
		var b bug
		b.set(1)
		revoke(func(p auth.Principal) bool {
			if p.Subject == "alice" {
				b.bite()
			}
			return p.Subject == "bob"
		})
		expect("alice", http.StatusNotFound) // who could not be judged keeps nothing
		expect("bob", http.StatusNotFound)
		expect("outsider", http.StatusOK)
		revoke(func(p auth.Principal) bool { return p.Subject == "olga" })
		expect("outsider", http.StatusNotFound)
		w.expectPanics(t, &log, 1)
	})
}

func TestCallsAreJudgedAgainAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := newWorld(t, noting(&log))
		desk := &brittleDesk{Desk: w.gateway}
		desk.judge.set(1)
		w.Server = server.NewWithDesk(w.config, desk)
		w.run(t)
		w.Reauthorize()
		<-time.After(10 * time.Minute)
		if got := desk.judged.Load(); got != 2 {
			t.Errorf("calls were judged %d times, want once more after the panic", got)
		}
		w.expectPanics(t, &log, 1)
	})
}

func TestTheSweepGoesOnAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var events brittleLog
		w := newWorld(t, noting(&log), logged(&events))
		events.end.set(1)
		w.open(t, "alice", mcp.Revision2511)
		w.open(t, "bob", mcp.Revision2511)
		<-time.After(40 * time.Minute)
		if got := events.ended.Load(); got != 2 {
			t.Errorf("%d sessions have ended, want both", got)
		}
		w.expectPanics(t, &log, 1)
	})
}

func TestTheRecordOfStrangersGoesOnAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var b bug
		var recorded atomic.Int64
		w := newWorld(t, noting(&log))
		w.behind(&fakeDesk{refuse: func(r audit.Record) {
			if r.Count > 0 {
				b.bite()
				recorded.Add(1)
			}
		}})
		w.run(t)
		b.set(1)
		for _, want := range []int64{1, 3} { // two sums in each window, of which the first is lost
			for range 10 {
				w.do(t, modernCall("echo").as("genuine-lifetime"))
				w.do(t, modernCall("echo").as("not-understood-key"))
			}
			// between two ends of windows, which would split the next requests
			<-time.After(2*time.Minute + time.Second)
			if got := recorded.Load(); got != want {
				t.Errorf("got %d sums, want %d", got, want)
			}
		}
		w.expectPanics(t, &log, 1)
	})
}

func TestSubscriptionsOfGoneReplicasEndAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var members []*replicatest.Member
		var others []*brittleOthers
		c := newChangingFleet(t, noting(&log), func(w *world) {
			members = append(members, w.config.Others.(*replicatest.Member))
			others = append(others, &brittleOthers{Others: w.config.Others})
			w.config.Others = others[len(others)-1]
		})
		c.worlds[0].run(t)
		c.subscribe(t, 0, "subscribe")
		c.get(t, 1, "")
		synctest.Wait()
		others[0].there.set(1)
		c.hub.Leave(members[1])
		<-time.After(time.Hour)
		if open := c.files[0].open(); open != 0 {
			t.Errorf("got %d subscriptions for a client that nobody tells, want none", open)
		}
		c.worlds[0].expectPanics(t, &log, 1)
	})
}

// brittleRecords are records that have a bug.
type brittleRecords struct {
	primary.Store
	look  bug
	asked atomic.Int64
}

func (r *brittleRecords) Renew(ctx context.Context, keys []primary.Key) ([]primary.Key, error) {
	r.asked.Add(1)
	r.look.bite()
	return r.Store.Renew(ctx, keys)
}

func TestRecordsOfSessionsAreRenewedAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		records := &brittleRecords{}
		worlds := fleet(t, &replicatest.Hub{}, 1, noting(&log), func(w *world) {
			records.Store = w.config.Entries
			w.config.Entries = records
		})
		runAll(t, worlds)
		wait(t)
		records.look.set(1)
		before := records.asked.Load()
		<-time.After(20 * time.Minute)
		if got := records.asked.Load() - before; got < 5 {
			t.Errorf("records were renewed %d times in twenty minutes, want every third", got)
		}
		worlds[0].expectPanics(t, &log, 1)
	})
}

func TestUpdatesArriveAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var others []*brittleOthers
		c := newChangingFleet(t, noting(&log), func(w *world) {
			others = append(others, &brittleOthers{Others: w.config.Others})
			w.config.Others = others[len(others)-1]
		})
		c.subscribe(t, 0, "subscribe")
		stream := c.get(t, 1, "")
		others[0].send.set(1)
		c.changeFile(t, 0, "file:///a#lost")
		c.changeFile(t, 0, "file:///a#next")
		text := stream.text()
		if !strings.Contains(text, "#lost") || !strings.Contains(text, "#next") {
			t.Errorf("got %q, want both changes", text)
		}
		c.worlds[0].expectPanics(t, &log, 1)
	})
}
