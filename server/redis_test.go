package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// countedMail is word through a real server, of which each is counted.
type countedMail struct {
	*replica.Group
	trips *atomic.Int64
}

func (m *countedMail) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	m.trips.Add(1)
	return m.Group.Send(ctx, to, w)
}

func (m *countedMail) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	m.trips.Add(1)
	return m.Group.Forward(ctx, to, r)
}

// newGroup returns a group that listens at any free port.
func newGroup(t testing.TB, cfg replica.GroupConfig) *replica.Group {
	t.Helper()
	cfg.Listen, cfg.Count = ":0", replicatest.Uncounted{}
	g, err := replica.NewGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ownLog is a sharedLog with a part in the memory of its replica.
type ownLog struct{ *sharedLog }

func (l ownLog) End(in eventlog.Key) { l.Log.End(in) }

// recordsOf returns the records of a replica over a real server.
func recordsOf(store *redis.Store, ring *seal.Ring, others replica.Others) *primary.Redis {
	return primary.NewRedis(primary.RedisConfig{
		Store: store, Seal: ring, Others: others, Life: time.Hour,
	})
}

// onRedis opens worlds that share a real server, as so many processes do, and waits until
// they know each other. trips counts what they ask of it for sessions.
func onRedis(t *testing.T, worlds int, change ...func(*world)) (served *redistest.Server, all []*world,
	trips *atomic.Int64,
) {
	t.Helper()
	served, trips = redistest.Start(t), new(atomic.Int64)
	ring, logger := seal.RandomRing(), slog.New(slog.DiscardHandler)
	mails := make([]*replica.Group, worlds)
	for i := range worlds {
		store := redis.New(served.Config())
		mail := newGroup(t, replica.GroupConfig{Store: store, Seal: ring, Logger: logger})
		mails[i] = mail
		log := eventlog.NewRedis(eventlog.RedisConfig{Store: store, Seal: ring, Others: mail})
		w := newWorld(t, append([]func(*world){func(w *world) {
			w.store, w.config.Seal, w.config.Entries = store, ring, recordsOf(store, ring, mail)
			w.config.Log, w.config.Others = ownLog{&sharedLog{Log: log, trips: trips}}, &countedMail{
				mail,
				trips,
			}
		}}, change...)...)
		w.asking()
		redistest.Run(t, store)
		for _, run := range []func(context.Context) error{log.Run, mail.Run, w.Run} {
			ctx, stop := context.WithCancel(context.Background())
			over := make(chan struct{})
			go func() { defer close(over); _ = run(ctx) }()
			t.Cleanup(func() { stop(); <-over })
		}
		all = append(all, w)
	}
	for _, m := range mails {
		for _, other := range mails {
			eventually(t, func() bool { return m.IsThere(other.Self()) })
		}
	}
	return served, all, trips
}

// TestSessionOnReplicasWithRedis leads one session through three replicas over a real
// server: a question, its answer at another replica, a cancellation, the level, and the
// end.
func TestSessionOnReplicasWithRedis(t *testing.T) {
	t.Parallel()
	_, w, _ := onRedis(t, 3)
	base := w[0].serve(t)
	id := w[0].openAsking(t, mcp.Revision2511)
	stream := call(t.Context(), t, base, inSession("POST", id, askRoots))
	stream.expect(t, "id: p1", "data:", "id: p1")
	question := questionID.FindStringSubmatch(stream.line(t))
	if question == nil {
		t.Fatal("no question came")
	}
	for _, replica := range []int{2, 1, 0} { // it counts once
		wantStatus(t, "the answer", w[replica].do(t, answerTo(question[1], id)), http.StatusAccepted)
	}
	stream.expect(t, "id: p1", "file:///r", "")

	running := make(chan string, 1)
	go func() { running <- w[1].do(t, legacyCall(id, "slow")).Body.String() }()
	eventually(t, func() bool { started, _ := w[0].counts(); return started == 1 }) // at the primary
	wantStatus(t, "cancel", w[2].do(t,
		inSession(
			"POST", id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)),
		http.StatusAccepted)
	if got := <-running; strings.Contains(got, `"result"`) {
		t.Errorf("got %s, want no answer", got)
	}

	wantStatus(t, "level", w[2].do(t, inSession("POST", id, setLevel("error"))), http.StatusOK)
	for i, one := range w {
		if got := one.do(t, legacyCall(id, "terms")).Body.String(); !strings.Contains(got,
			`level \"error\"`) {
			t.Errorf("replica %d: got %s, want level error", i, got)
		}
	}

	wantStatus(t, "DELETE", w[1].do(t, inSession("DELETE", id, "")), http.StatusNoContent)
	for i, one := range w {
		if got := one.do(t, inSession("POST", id, pingBody)); got.Code != http.StatusNotFound {
			t.Errorf("replica %d: got %d %s, want 404 as soon as DELETE is answered", i, got.Code, got.Body)
		}
	}
}

// TestASessionThatIsLetGoOfComesBack has a replica let go of a session that goes on
// without it. Then a stream of that is opened there. On a 404 its client would give the
// session up.
func TestASessionThatIsLetGoOfComesBack(t *testing.T) {
	t.Parallel()
	for name, letGo := range map[string]func(t *testing.T, w []*world, bases []string, id string) (at int){
		"another one of its user is opened": func(t *testing.T, w []*world, bases []string, id string) int {
			ctx, leave := context.WithCancel(t.Context())
			if got := call(ctx, t, bases[1], inSession("GET", id, "")); got.StatusCode != http.StatusOK {
				t.Fatalf("the first stream: got %d, want 200", got.StatusCode)
			}
			leave()
			eventually(t, func() bool { return w[1].do(t, initialize(mcp.Revision2511)).Code == http.StatusOK })
			return 1
		},
		"its tenant is missing for a moment": func(t *testing.T, w []*world, _ []string, _ string) int {
			for open, tenants := range [][]gateway.TenantConfig{w[0].tenants[1:], w[0].tenants} {
				w[0].gateway.SetPolicy("", tenants)
				w[0].Reauthorize()
				eventually(t, func() bool { return open > 0 || w[0].sessionsOpen(t) == 0 })
			}
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w, _ := onRedis(t, 2, bounded(10, 1))
			bases := []string{w[0].serve(t), w[1].serve(t)}
			id := w[0].openAsking(t, mcp.Revision2511)
			at, status := letGo(t, w, bases, id), http.StatusTooManyRequests
			for status == http.StatusTooManyRequests { // the other one was opened just now
				status = call(t.Context(), t, bases[at], inSession("GET", id, "")).StatusCode
			}
			if status != http.StatusOK {
				t.Errorf("a stream where it was let go of: got %d, want 200", status)
			}
		})
	}
}

// TestThousandSessionsWithRedis sends the messages of a thousand sessions to three
// replicas in turn, over a real server; of two hundred where there is little time, since
// what is counted is counted for each.
func TestThousandSessionsWithRedis(t *testing.T) {
	t.Parallel()
	sessions, messages := 1000, 6
	if testing.Short() {
		sessions = 200
	}
	_, w, trips := onRedis(t, 3, bounded(2*sessions, 2*sessions))
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = w[i%3].open(t, "alice", mcp.Revision2511)
	}
	before, streams := trips.Load(), int64(0)
	for n := range messages {
		for i, id := range ids {
			answer := w[(i+n)%3].do(t, legacyCall(id, "echo"))
			wantStatus(t, "a call", answer, http.StatusOK)
			if answer.Header().Get("Content-Type") == "text/event-stream" { // it took a second
				streams++
			}
		}
	}
	used := trips.Load() - before
	for i, id := range ids {
		wantStatus(t, "DELETE", w[i%3].do(t, inSession("DELETE", id, "")), http.StatusNoContent)
		wantStatus(t, "after it", w[(i+1)%3].do(t, inSession("POST", id, pingBody)), http.StatusNotFound)
	}
	t.Logf("%d sessions, %d calls, %d of them in streams: %d words, forwards and events", sessions,
		sessions*messages, streams, used)
	// Two of three are forwarded, and a stream has its beginning and a few events.
	if most := int64(messages*sessions*2)/3 + 4*streams; used > most {
		t.Errorf("got %d round trips, want at most %d", used, most)
	}
}

// TestRedisIsDownForSessions stops the real server: sessions go on at their primary and
// through every other replica, and none is ended.
func TestRedisIsDownForSessions(t *testing.T) {
	t.Parallel()
	served, w, _ := onRedis(t, 2)
	id := w[0].open(t, "alice", mcp.Revision2511)
	served.Stop()
	for range 3 {
		for _, one := range w {
			wantStatus(t, "a call", one.do(t, legacyCall(id, "echo")), http.StatusOK)
			wantReplicas(t, "DELETE", one.do(t, inSession("DELETE", id, "")))
		}
	}
	if got := w[0].do(t, legacyCall(id, "progress")).Body.String(); !strings.Contains(got, `"text":"done"`) {
		t.Errorf("got %s, want the answer on a stream that cannot be resumed", got)
	}
}
