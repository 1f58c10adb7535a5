package eventlog

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// keptLog is a replica, and a session in the server as an earlier build has left it: with
// a stream of one event.
func keptLog(t *testing.T) (l *Redis, in Key) {
	t.Helper()
	store, ring := redis.New(redistest.Start(t).Config()), sealtest.Ring(t)
	member := (&replicatest.Hub{}).Join()
	l = NewRedis(RedisConfig{Store: store, Seal: ring, Others: member})
	redistest.Run(t, store)
	in = Key{
		Name:  "00112233445566778899aabbccddeeff",
		Owner: share.User{TenantID: "acme", Issuer: "https://issuer.test", Subject: "alice"},
	}
	put := func(command ...string) {
		t.Helper()
		if _, err := store.Do(t.Context(), redis.Command{
			Name: command[0], Key: command[1],
			Args: command[2:],
		}); err != nil {
			t.Fatal(err)
		}
	}
	p, base := streamKey{in, "p1r0"}, uint64(1764000000000)
	head := sealtest.Stored(t, "head-1", ring.SealBytes(p.headPurpose(base), nil))
	event := sealtest.Stored(t, "event-1", ring.SealBytes(p.eventPurpose(entryID(base+1, false)),
		[]byte(`{"kept":true}`)))
	put("XADD", "db2:{acme}:stream:p1r0:"+in.Name, "1764000000000-0", "d", string(head))
	put("XADD", "db2:{acme}:stream:p1r0:"+in.Name, "1764000000001-0", "d", string(event))
	return l, in
}

// TestKeptSessionsAreRead reads what an earlier build has left in the server. If it
// fails, a rollout loses it.
func TestKeptSessionsAreRead(t *testing.T) {
	t.Parallel()
	l, in := keptLog(t)
	events, _, err := l.Read(t.Context(), in, "p1r0", "p1r0-1764000000000")
	if err != nil || len(events) != 1 || string(events[0].Data) != `{"kept":true}` {
		t.Errorf("events: got %v, %v", events, err)
	}
}
