package replica_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestMailboxThatWasLostIsMadeAgain loses it in each way. It was not made again while no call failed, so that the replica
// heard nothing until its end.
func TestMailboxThatWasLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	got := make(chan string, 10)
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) { got <- string(w.Data) })
	box := "db1:mail:{" + string(b.Self()) + "}"
	for i, lose := range []func(){
		func() {},
		func() { server.Exec(t, "FLUSHALL") },
		func() { server.Exec(t, "DEL", box) },
		func() { server.Exec(t, "DEL", box); server.Exec(t, "SET", box, "junk") },
		func() { server.Exec(t, "SET", box+":room", "junk") },
		func() { server.Exec(t, "DEL", "db1:replicas"); server.Exec(t, "SET", "db1:replicas", "junk") },
		func() {
			server.Exec(t, "XADD", box, "*", "junk", "junk")
			server.Exec(t, "XADD", box, "*", "k", "news 1", "t", "acme", "d", "forged")
		},
		func() { server.Stop(); server.Begin(t) },
	} {
		lose()
		want := fmt.Sprint(i)
		redistest.Wait(t, func() error {
			return a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Tenant: "acme", Data: []byte(want)})
		})
		for text := ""; text != want; { // what was sent before may have been lost
			if text = <-got; text == "forged" {
				t.Error("forged word was handled")
			}
		}
		redistest.Wait(t, func() error {
			if !a.IsThere(b.Self()) {
				return errors.New("the replica is not known any more")
			}
			return nil
		})
	}
}

// TestReplicaThatWasOutOfSightIsToldSo removes a replica from those that are known, as happens to one that stands still for
// a few seconds. Others told it nothing meanwhile, and it took what it knew for certain.
func TestReplicaThatWasOutOfSightIsToldSo(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var returns atomic.Int64
	m := post(t, server, ring, func(replica.ID, replica.Word) {}, func() { returns.Add(1) })
	before := returns.Load()
	server.Exec(t, "ZREM", "db1:replicas", string(m.Self()))
	redistest.Wait(t, func() error {
		if returns.Load() == before {
			return errors.New("it has not noticed that others did not know of it")
		}
		return nil
	})
}

// TestTenantThatFillsMailboxLeavesRoom has a reader that hangs. The mailbox grew without a bound on bytes, and dropped the
// oldest word of anybody.
func TestTenantThatFillsMailboxLeavesRoom(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	hang, got := make(chan struct{}), make(chan string, 1000)
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) { <-hang; got <- w.Tenant })
	send := func(tenant string, size int) error {
		return a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Tenant: tenant, Data: make([]byte, size)})
	}
	sent := 0
	for ; ; sent++ {
		if err := send("loud", 1<<20); errors.Is(err, replica.ErrFull) {
			break
		} else if err != nil || sent > 64 {
			t.Fatalf("word %d: %v", sent, err)
		}
	}
	if sent < 10 || sent > 20 {
		t.Errorf("%d MB of one tenant wait", sent)
	}
	if err := send("quiet", 1<<20); err != nil {
		t.Errorf("the other tenant: %v", err)
	}
	close(hang)
	for range sent {
		if tenant := <-got; tenant != "loud" {
			t.Errorf("got word of %s out of turn", tenant)
		}
	}
	if tenant := <-got; tenant != "quiet" {
		t.Errorf("got word of %s", tenant)
	}
	redistest.Wait(t, func() error { return send("loud", 1<<20) })
	redistest.Wait(t, func() error {
		if left := server.Exec(t, "EXISTS", "db1:mail:{"+string(b.Self())+"}:room"); left != "0" {
			return errors.New("something is still said to wait")
		}
		return nil
	})
}
