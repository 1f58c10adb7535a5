package session

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// keptLog is a replica, and a session in the server as an earlier build has left it: with a fact, and a stream of one event.
func keptLog(t *testing.T) (l *Redis, member *replicatest.Member, in Key, put func(...string)) {
	t.Helper()
	store, ring := redistest.Start(t).Store(t), sealtest.Ring(t)
	member = (&replicatest.Hub{}).Join()
	l = NewRedis(RedisConfig{Store: store, Seal: ring, Others: member, Logger: slog.New(slog.DiscardHandler)})
	in = Key{Name: "00112233445566778899aabbccddeeff", Owner: share.User{TenantID: "acme", Issuer: "https://issuer.test", Subject: "alice"}}
	put = func(command ...string) {
		t.Helper()
		if _, err := store.Do(t.Context(), redis.Command{Name: command[0], Key: command[1], Args: command[2:]}); err != nil {
			t.Fatal(err)
		}
	}
	p, base := place{in, "p1r0"}, uint64(1764000000000)
	fact := sealtest.Kept(t, "fact-1", ring.SealBytes(factPurpose(in, "level"), []byte("error")))
	head := sealtest.Kept(t, "head-1", ring.SealBytes(p.headPurpose(base), nil))
	event := sealtest.Kept(t, "event-1", ring.SealBytes(p.eventPurpose(entryID(base+1, false)), []byte(`{"kept":true}`)))
	put("HSET", "db2:{acme}:session:"+in.Name, "level", string(fact))
	put("XADD", "db2:{acme}:stream:p1r0:"+in.Name, "1764000000000-0", "d", string(head))
	put("XADD", "db2:{acme}:stream:p1r0:"+in.Name, "1764000000001-0", "d", string(event))
	return l, member, in, put
}

// TestKeptSessionsAreRead reads what an earlier build has left in the server. If it fails, a rollout loses it.
func TestKeptSessionsAreRead(t *testing.T) {
	t.Parallel()
	l, _, in, put := keptLog(t)
	if facts, err := l.Facts(t.Context(), in); err != nil || facts["level"] != "error" {
		t.Errorf("facts: got %v, %v", facts, err)
	}
	events, _, err := l.Read(t.Context(), in, "p1r0", "p1r0-1764000000000")
	if err != nil || len(events) != 1 || string(events[0].Data) != `{"kept":true}` {
		t.Errorf("events: got %v, %v", events, err)
	}
	put("HSET", "db2:{acme}:session:"+in.Name, "later", string(l.config.Seal.SealBytes(factPurpose(in, "later"), []byte("x"))))
	if facts, err := l.Facts(t.Context(), in); err != nil || facts["level"] != "error" {
		t.Errorf("with a fact that this version does not know: got %v, %v", facts, err)
	}
	mark := sealtest.Kept(t, "end-1", l.config.Seal.SealBytes(factPurpose(in, ""), nil))
	put("HSET", "db2:{acme}:session:"+in.Name, "", string(mark))
	if facts, err := l.Facts(t.Context(), in); !errors.Is(err, ErrUnknown) {
		t.Errorf("after its end: got %v, %v", facts, err)
	}
}

// TestAFactOfALaterVersionEndedTheSession: while a new version was rolled out, a replica of the old one took a session for
// ended of which it could not read something, and its client threw it away.
func TestAFactOfALaterVersionEndedTheSession(t *testing.T) {
	t.Parallel()
	l, member, in, put := keptLog(t)
	purpose := strings.Replace(factPurpose(in, "level"), "fact 1", "fact 2", 1)
	put("HSET", "db2:{acme}:session:"+in.Name, "level", string(l.config.Seal.SealBytes(purpose, []byte("x"))))
	member.Outdate(true)
	if facts, err := l.Facts(t.Context(), in); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("while a later version runs: got %v, %v, want an error that says nothing of an end", facts, err)
	}
	member.Outdate(false)
	if facts, err := l.Facts(t.Context(), in); !errors.Is(err, ErrUnknown) {
		t.Errorf("when none runs: got %v, %v, want that it is not used", facts, err)
	}
}
