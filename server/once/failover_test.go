package once_test

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// repeated sends a request again until somebody knows what became of it. It must not run.
func repeated(t *testing.T, s once.Store, r once.Request) *once.Answer {
	t.Helper()
	var answer *once.Answer
	eventually(t, "the repeat is answered", func() (done bool) {
		var err error
		if answer, err = repeat(t, s, r); err != nil && !errors.Is(err, redis.ErrDown) {
			t.Fatal(err)
		}
		return err == nil
	})
	return answer
}

// through claims a request at one replica, and sends it again at the other while a fault
// happens. Another was answered before.
func through(t *testing.T, l *lab, copied, fault func()) {
	t.Helper()
	a, b := l.join(t), l.join(t)
	want := once.Answer{Status: 200, Message: []byte("x")}
	claim(t, a, request(2, 1)).Finish(t.Context(), want)
	c := claim(t, a, request(1, 1))
	copied()
	got := make(chan *once.Answer)
	go func() { defer close(got); got <- repeated(t, forwarding{b, a}, request(1, 1)) }()
	fault()
	c.Finish(t.Context(), want)
	for i, answer := range []*once.Answer{
		<-got, repeated(t, b, request(2, 1)),
		repeated(t, a, request(2, 1)),
	} {
		if answer == nil || string(answer.Message) != "x" {
			t.Errorf("repeat %d: got %v, want the answer", i, answer)
		}
	}
}

// TestARequestDoesNotRunAgainAfterAFailover kills the master of a sentinel while a
// request runs of which the replica of Redis knows.
func TestARequestDoesNotRunAgainAfterAFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	through(t, &lab{server: w.Sentinel, ring: seal.RandomRing()}, func() {
		redistest.Wait(t, func() error {
			if w.Replica.Exec(t, "EXISTS", recordKey("01"), recordKey("02")) != "2" {
				return errors.New("the replica of Redis has no copy")
			}
			return nil
		})
	}, func() { w.FailOver(t) })
}

// TestARequestDoesNotRunAgainWhenItsSlotMoves moves the records of a tenant to another
// node of a cluster.
func TestARequestDoesNotRunAgainWhenItsSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	through(t, &lab{server: c, ring: seal.RandomRing()}, func() {}, func() {
		c.Exec(t, "SCRIPT", "FLUSH")
		c.Move(t, recordKey("01"))
		c.Exec(t, "CLIENT", "KILL", "TYPE", "normal")
	})
}

// TestWhatRunsIsClaimedAgainAfterALoss empties Redis while a request runs: soon nobody
// else can run it.
func TestWhatRunsIsClaimedAgainAfterALoss(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.join(t)
	claim(t, a, request(1, 1))
	l.server.Exec(t, "FLUSHALL")
	redistest.Wait(t, func() error {
		if l.server.Exec(t, "EXISTS", recordKey("01")) != "1" {
			return errors.New("nobody has claimed what runs")
		}
		return nil
	})
}
