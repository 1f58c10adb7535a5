package replica

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestLease lets a lease be extended in time, and then too late.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{}
		if _, leads := g.Leads(); leads {
			t.Error("a replica leads before its first beat")
		}
		began := time.Now()
		for range 10 {
			g.lease.extend(time.Now())
			<-time.After(leaseTime - time.Millisecond)
			if since, leads := g.Leads(); !leads || !since.Equal(began) {
				t.Errorf("extended in time: got %v since %v, want since %v", leads, since, began)
			}
		}
		late := time.Now().Add(-leaseTime) // a beat whose answer came late counts from when it was sent
		g.lease.extend(late)
		<-time.After(2 * time.Millisecond)
		if _, leads := g.Leads(); leads {
			t.Error("a replica leads although others may take it for gone by now")
		}
		again := time.Now()
		g.lease.extend(again)
		if since, leads := g.Leads(); !leads || !since.Equal(again) {
			t.Errorf("after a gap: got %v since %v, want since %v", leads, since, again)
		}
		if leaseTime >= life {
			t.Errorf("a lease of %v ends after others take its holder for gone, %v", leaseTime, life)
		}
	})
}

// TestLeaseThatEndsBeforeItsBeatIsAnsweredBeginsAnew has Redis take a beat late that was
// sent in time, so that others may have taken the replica for gone before. It led again
// as if there had been no gap, and its blocks of slots were others' by then.
func TestLeaseThatEndsBeforeItsBeatIsAnsweredBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{}
		g.lease.extend(time.Now())
		began, _ := g.Leads()
		<-time.After(leaseTime - time.Millisecond)
		asked := time.Now()
		<-time.After(life - leaseTime + 2*beat)
		if _, leads := g.Leads(); leads {
			t.Fatal("a replica leads although others may take it for gone by now")
		}
		g.lease.extend(asked)
		if since, leads := g.Leads(); !leads || !since.After(asked) {
			t.Errorf("leads: %v, since %v after it began, want since it was answered", leads, since.Sub(began))
		}
	})
}

// TestWhoDoesNotKnowAReplicaThatServesLeadsNothing has a replica join that does not reach
// all others, such as one that is frozen.
func TestWhoDoesNotKnowAReplicaThatServesLeadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, other := &Group{}, &Group{}
		other.lease.extend(time.Now()) // it has looked for the last time
		joined := time.Now()
		g.joined.Store(&joined)
		for !g.Joined() {
			if time.Since(joined) > life {
				t.Fatal("it is never ready")
			}
			<-time.After(beat / 10)
		}
		if _, leads := other.Leads(); leads {
			t.Errorf("it serves after %v, and another one may take over what it leads", time.Since(joined))
		}
	})
}

// TestOthersAreAskedWhileRedisIsAway before the lease ends: they may notice later than
// this replica that Redis is away. They were asked every two seconds, and a replica that
// they told so too late led none of its sessions until Redis was back.
func TestOthersAreAskedWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(GroupConfig{Store: redis.New(redis.Config{}), Seal: seal.RandomRing()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		g.clock.Store(&clock{answered: began})
		lifetimetest.Run(t, func(ctx context.Context) error { g.beat(ctx); return nil })
		for _, after := range []time.Duration{3 * beat, 4 * beat} {
			select {
			case <-g.tryNow:
			case <-time.After(life):
			}
			if got := time.Since(began); got > after {
				t.Errorf("others are asked after %v, want %v at most", got, after)
			}
		}
	})
}

// TestWhoIsGoneWithoutAWordDoesNotTakeTheLease has one replica away that does not answer,
// as one on the machine of Redis, and another that does.
func TestWhoIsGoneWithoutAWordDoesNotTakeTheLease(t *testing.T) {
	t.Parallel()
	g, other := awayGroup(t), awayGroup(t)
	deaf, listener := listen(t), listen(t)
	t.Cleanup(func() { deaf.Close() })
	lifetimetest.Run(t, func(ctx context.Context) error { return other.link.Serve(ctx, listener) })
	members := make(map[ID]*member)
	for id, peer := range map[ID]link.Peer{
		other.id: {Address: listener.Addr().String(), Digest: other.identity.Digest()},
		NewID():  {Address: deaf.Addr().String()},
	} {
		peer.ID = string(id)
		members[id] = &member{peer: peer}
		members[id].begin()
	}
	g.members.Store(&members)
	known := link.Peer{ID: string(g.id), Digest: g.identity.Digest()}
	other.members.Store(&map[ID]*member{g.id: {peer: known}})
	var took time.Duration
	leads := false
	for range 10 { // who answers may be too late on a busy machine
		began := time.Now()
		g.tryAll(t.Context())
		took = time.Since(began)
		if _, leads = g.Leads(); leads && took <= leaseTime-3*beat {
			return
		}
	}
	t.Errorf("after %v the lease is extended: %v; whoever answers does not use Redis", took, leads)
}

// awayGroup returns a group that has never reached Redis, and does not run.
func awayGroup(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup(GroupConfig{
		Store: redis.New(redis.Config{}), Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
