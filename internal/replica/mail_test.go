package replica_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// post opens a Mail that runs until the test ends. heard gets what comes, and returned is called by OnReturn.
func post(t *testing.T, server *redistest.Server, ring *seal.Ring, heard func(replica.ID, replica.Word), returned ...func()) *replica.Mail {
	t.Helper()
	m := replica.NewMail(replica.MailConfig{Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler)})
	m.Handle("news 1", func(_ context.Context, from replica.ID, w replica.Word) { heard(from, w) })
	read := make(chan struct{}, 1)
	for _, f := range returned {
		m.OnReturn(f)
	}
	m.OnReturn(func() {
		select {
		case read <- struct{}{}:
		default:
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); over.Wait() })
	<-read
	return m
}

func TestWordComesInOrder(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	const words = 1000
	got := make(chan string, words+1)
	a := post(t, server, ring, func(replica.ID, replica.Word) { t.Error("word came to who sent it") })
	b := post(t, server, ring, func(from replica.ID, w replica.Word) {
		if from != a.Self() || w.Tenant != "acme" {
			t.Errorf("got word from %s for %s", from, w.Tenant)
		}
		got <- string(w.Data)
	})
	for i := range words {
		if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Tenant: "acme", Data: []byte(strconv.Itoa(i))}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range words {
		if text := <-got; text != strconv.Itoa(i) {
			t.Fatalf("word %d: got %s", i, text)
		}
	}
	if err := a.Send(t.Context(), replica.NewID(), replica.Word{Kind: "news 1"}); !errors.Is(err, replica.ErrGone) {
		t.Errorf("to nobody: got %v", err)
	}
}

// TestReplicaThatJustJoinedWasNotTold: others learnt of a replica with their next beat, and it served in between.
func TestReplicaThatJustJoinedWasNotTold(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	a := post(t, server, ring, func(replica.ID, replica.Word) { t.Error("word came to who sent it") })
	for range 5 {
		heard := make(chan struct{}, 1)
		b := post(t, server, ring, func(replica.ID, replica.Word) {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
		if !b.Joined() {
			t.Fatal("word comes to a replica that has not joined")
		}
		if err := a.Tell(t.Context(), replica.Word{Kind: "news 1", Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
		default:
			t.Fatal("the others were told, and the replica that joined last was not")
		}
	}
}

func TestTellReachesAllBeforeItReturns(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var mu sync.Mutex
	heard := 0
	count := func(replica.ID, replica.Word) { mu.Lock(); heard++; mu.Unlock() }
	a, b, c := post(t, server, ring, count), post(t, server, ring, count), post(t, server, ring, count)
	for began := time.Now(); !a.IsThere(b.Self()) || !a.IsThere(c.Self()); {
		if time.Since(began) > time.Minute {
			t.Fatal("the replicas do not know each other")
		}
		<-time.After(10 * time.Millisecond)
	}
	for i := 1; i <= 20; i++ {
		if err := a.Tell(t.Context(), replica.Word{Kind: "news 1", Tenant: "acme", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if heard != 2*i {
			t.Errorf("after %d: heard %d times, want %d", i, heard, 2*i)
		}
		mu.Unlock()
	}
}

// TestReplicaThatHadEndedSeemedToLive: others took it for there for five seconds, and put word into its mailbox for ten.
func TestReplicaThatHadEndedSeemedToLive(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	ignore := func(replica.ID, replica.Word) {}
	a, store := post(t, server, ring, ignore), server.Store(t)
	b := replica.NewMail(replica.MailConfig{Store: store, Seal: ring, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); _ = b.Run(ctx) }()
	redistest.Wait(t, func() error { return a.Send(t.Context(), b.Self(), replica.Word{Kind: "heard"}) })
	stop()
	<-over
	if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "heard"}); !errors.Is(err, replica.ErrGone) {
		t.Errorf("word for it: got %v, want ErrGone", err)
	}
	reply, err := store.Do(t.Context(), redis.Command{Name: "ZSCORE", Key: redis.CommonKey("replicas"), Args: []string{string(b.Self())}})
	if err != nil || !reply.Nil() {
		t.Errorf("it is still among those that live: %v, %v", reply, err)
	}
}

// TestTellWaitedForAReplicaThatHadEnded has a replica end with word that it has not said it heard. Whoever told it waited
// for that as long as it does for one that is there, and then took it for an error: a DELETE of a session was 503.
func TestTellWaitedForAReplicaThatHadEnded(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := replica.NewMail(replica.MailConfig{Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	b.Handle("news 1", func(context.Context, replica.ID, replica.Word) { stop() }) // and it ends before it can say so
	over := make(chan struct{})
	go func() { defer close(over); _ = b.Run(ctx) }()
	redistest.Wait(t, func() error { return a.Send(t.Context(), b.Self(), replica.Word{Kind: "heard"}) })
	if err := a.Tell(t.Context(), replica.Word{Kind: "news 1", Tenant: "acme", Data: []byte("x")}); err != nil {
		t.Errorf("got %v, want nothing, since nobody is left to hear it", err)
	}
	<-over
}
