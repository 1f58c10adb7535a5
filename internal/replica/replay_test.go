package replica_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

func mailboxOf(id replica.ID) string { return "db1:mail:{" + string(id) + "}" }

// waits waits until so many words are in a mailbox, besides the one that shows that it is there.
func waits(t *testing.T, server *redistest.Server, id replica.ID, words int) {
	t.Helper()
	redistest.Wait(t, func() error {
		if n, err := strconv.Atoi(server.Exec(t, "XLEN", mailboxOf(id))); err != nil || n < words {
			return fmt.Errorf("%d words wait: %w", n, err)
		}
		return nil
	})
}

// TestWordThatWasPutThereAgainWasHandledAgain: who could write to Redis had a call that came by word run once more.
func TestWordThatWasPutThereAgainWasHandledAgain(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	begun, goOn, got := make(chan struct{}, 10), make(chan struct{}), make(chan string, 10)
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) {
		begun <- struct{}{}
		<-goOn
		got <- string(w.Data)
	})
	say := func(text string) {
		t.Helper()
		if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Tenant: "acme", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	say("one")
	<-begun
	say("two")
	const again = `for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do redis.call('XADD', KEYS[1], '*', unpack(e[2])) end return 'done'`
	if said := server.Exec(t, "EVAL", again, "1", mailboxOf(b.Self())); said != "done" {
		t.Fatal(said)
	}
	say("three")
	close(goOn)
	for _, want := range []string{"one", "two", "three"} {
		if text := <-got; text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

// TestWordThatWasKeptBackPassedForNew: word that somebody took out of a mailbox and put there later was as old as its entry,
// so that a message began long after its client had been told to try again.
func TestWordThatWasKeptBackPassedForNew(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	begun, goOn, ages := make(chan struct{}, 10), make(chan struct{}), make(chan time.Duration, 10)
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) {
		begun <- struct{}{}
		<-goOn
		ages <- w.Age
	})
	for range 2 {
		if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
	}
	sent := time.Now()
	<-begun
	waits(t, server, b.Self(), 1)
	<-time.After(100 * time.Millisecond)
	kept := time.Since(sent)
	const again = `for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
  redis.call('XDEL', KEYS[1], e[1])
  redis.call('XADD', KEYS[1], '*', unpack(e[2]))
end return 'done'`
	if said := server.Exec(t, "EVAL", again, "1", mailboxOf(b.Self())); said != "done" {
		t.Fatal(said)
	}
	close(goOn)
	<-ages
	if age := <-ages; age < kept-time.Millisecond {
		t.Errorf("word that was kept back for %v: got an age of %v", kept, age)
	}
}

// TestEachTellCostItsReaderARoundTrip: a replica that was told much thanked for each word before it read the next, so that
// one tenant's word kept the others waiting.
func TestEachTellCostItsReaderARoundTrip(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	const words = 100
	begun, goOn := make(chan struct{}, words+1), make(chan struct{})
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(replica.ID, replica.Word) { begun <- struct{}{}; <-goOn })
	if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1"}); err != nil {
		t.Fatal(err)
	}
	<-begun
	var told errgroup.Group
	for range words {
		told.Go(func() error { return a.Tell(context.Background(), replica.Word{Kind: "news 1", Tenant: "acme"}) })
	}
	waits(t, server, b.Self(), words)
	close(goOn)
	if err := told.Wait(); err != nil {
		t.Fatal(err)
	}
	const added = `local i = redis.call('XINFO', 'STREAM', KEYS[1]) for n = 1, #i, 2 do if i[n] == 'entries-added' then return i[n + 1] end end`
	if n, err := strconv.Atoi(server.Exec(t, "EVAL", added, "1", mailboxOf(a.Self()))); err != nil || n > words/4 {
		t.Errorf("%d words came back for %d, %v", n, words, err)
	}
}
