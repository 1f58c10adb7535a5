package eventlog_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// usedMemory returns how many bytes the server has in use.
func usedMemory(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	for line := range strings.Lines(server.Exec(t, "INFO", "memory")) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); found {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the server does not say how much memory it uses")
	return 0
}

// ownedBy is the key of a session of a tenant's user.
func ownedBy(tenant, user, name string) eventlog.Key {
	return eventlog.Key{Name: name, Owner: share.User{TenantID: tenant, Subject: user}}
}

// Four users of a tenant have answers of 0.85 MB kept as fast as they can. What is beyond
// the part of their tenant is not in the server, but their clients get it. Another tenant
// notices nothing, at any replica.
func TestOneTenantDoesNotFillTheServer(t *testing.T) {
	t.Parallel()
	const quota = 16 << 20
	h := newHouse(t)
	counted := share.New(quota)
	a := h.join(t, func(cfg *eventlog.RedisConfig) {
		cfg.Memory, cfg.Quota = share.New(1<<30), counted
	})
	b := h.join(t)
	before := usedMemory(t, h.server)
	large, fleeting := bytes.Repeat([]byte("x"), 850_000), 0
	for i := range 80 {
		key := ownedBy("acme", fmt.Sprint("user", i%4), fmt.Sprint("session", i))
		if _, err := a.Begin(t.Context(), key, "p1"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append(t.Context(), key, "p1", large, false); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		events, _, err := a.Read(t.Context(), key, "p1", "")
		if err != nil || len(events) != 1 || !bytes.Equal(events[0].Data, large) {
			t.Fatalf("answer %d: %d events, %v; want the one that was appended", i, len(events), err)
		}
		if events[0].LocalOnly {
			fleeting++
		}
	}
	if fleeting == 0 || fleeting == 80 {
		t.Errorf("%d of 80 answers are in memory only; want some, and not all", fleeting)
	}
	if used := usedMemory(t, h.server) - before; used > quota {
		t.Errorf("the server holds %d bytes; want at most the %d of the budget", used, quota)
	}
	quiet := ownedBy("globex", "ida", "quiet")
	if lasting, err := a.Begin(t.Context(), quiet, "p1"); err != nil || !lasting {
		t.Fatalf("a stream of another tenant: %v, %v; want one that lasts", lasting, err)
	}
	if _, err := a.Append(t.Context(), quiet, "p1", []byte(`{}`), true); err != nil {
		t.Fatal(err)
	}
	events, _, err := b.Read(t.Context(), quiet, "p1", "")
	if err != nil || len(events) != 1 || events[0].LocalOnly {
		t.Errorf("another tenant's events at another replica: %v, %v; want one", events, err)
	}
}

// What is counted is never less than what the server takes.
func TestQuotaCoversWhatTheServerTakes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, 200, 3000, 5000, 85_000, 850_000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			counted := share.New(1 << 30)
			a := h.join(t, func(cfg *eventlog.RedisConfig) {
				cfg.Memory, cfg.Quota, cfg.Bytes = share.New(1<<30), counted, 64<<20
			})
			data := bytes.Repeat([]byte("x"), size)
			const sessions, events = 20, 5
			fill := func(from int) {
				for i := range sessions {
					key := ownedBy("acme", "ann", fmt.Sprint("session", from+i))
					if lasting, err := a.Begin(t.Context(), key, "p1"); err != nil || !lasting {
						t.Fatal(lasting, err)
					}
					for range events {
						if _, err := a.Append(t.Context(), key, "p1", data, false); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			fill(0) // what the server needs for scripts and connections is there now
			before, held := usedMemory(t, h.server), counted.InUse()
			fill(sessions)
			more := counted.InUse() - held
			// a command that came in pieces leaves a larger buffer, which the server
			// keeps for two seconds
			eventually(t, fmt.Sprintf("the server takes no more than the %d bytes that are counted", more),
				func() bool { return usedMemory(t, h.server)-before <= more })
		})
	}
}

// A session that ends, and a stream that is dropped, give back what they had, and the
// server keeps nothing of them.
func TestQuotaIsGivenBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	counted := share.New(16 << 20)
	a := h.join(t, func(cfg *eventlog.RedisConfig) { cfg.Quota, cfg.Count = counted, 3 })
	key := ownedBy("acme", "ann", "s")
	for _, stream := range []string{"p1", "p2"} {
		if _, err := a.Begin(t.Context(), key, stream); err != nil {
			t.Fatal(err)
		}
		for range 10 { // of which three are kept
			if _, err := a.Append(t.Context(), key, stream, []byte(`{"a":1}`), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if held := counted.InUse(); held < 2*5<<10 || held > 2*8<<10 {
		t.Errorf("%d bytes are counted for two streams of three events", held)
	}
	a.End(key)
	if held := counted.InUse(); held != 0 {
		t.Errorf("%d bytes are counted after the end", held)
	}
	eventually(t, "the server keeps nothing of the session", func() bool {
		return h.server.Exec(t, "KEYS", "*{acme}*") == ""
	})
}

// TestAStreamOfAnotherReplicaTakesNoQuota: whoever began a stream in the server pays for
// it.
func TestAStreamOfAnotherReplicaTakesNoQuota(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	counted := share.New(16 << 20)
	a, b := h.join(t, func(cfg *eventlog.RedisConfig) { cfg.Quota = counted }), h.join(t)
	begin(t, b, "s", "p1", true)
	begin(t, a, "s", "p1", true)
	if held := counted.InUse(); held != 0 {
		t.Errorf("%d bytes are counted for a stream that another replica has begun", held)
	}
}

// What never was in the server is not taken out of it: another replica may have begun the
// stream there meanwhile.
func TestAStreamWithoutRoomLeavesTheServerAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	counted := share.New(1 << 20)
	store := h.newStore()
	a := eventlog.NewRedis(eventlog.RedisConfig{
		Store: store, Seal: h.ring, Others: h.hub.Join(), Quota: counted,
	})
	redistest.Run(t, store)
	b := h.join(t)
	key, other := ownedBy("acme", "ann", "s"), ownedBy("globex", "ida", "s2")
	for counted.Take(key.Owner, 1<<10) == nil {
		continue // until nothing is left
	}
	if lasting, err := a.Begin(t.Context(), key, "p1"); err != nil || lasting {
		t.Fatalf("begun without room: %v, %v; want one in memory only", lasting, err)
	}
	if _, err := b.Append(t.Context(), key, "p1", []byte("1"), false); err != nil {
		t.Fatal(err)
	}
	if lasting, err := a.Begin(t.Context(), other, "p1"); err != nil || !lasting {
		t.Fatal(lasting, err)
	}
	a.End(other)
	lifetimetest.Run(t, a.Run)
	eventually(t, "what has ended is taken out of the server", func() bool {
		return h.server.Exec(t, "KEYS", "*{globex}*") == ""
	})
	if h.server.Exec(t, "KEYS", "*{acme}*") == "" {
		t.Error("the stream that another replica has begun was taken out of the server")
	}
}
