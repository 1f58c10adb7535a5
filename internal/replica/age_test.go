package replica_test

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestWordSaysHowLongItHasWaited has a replica that is stuck with one word while another waits.
func TestWordSaysHowLongItHasWaited(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	ages, goOn := make(chan time.Duration, 2), make(chan struct{})
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) {
		ages <- w.Age
		<-goOn
	})
	before := time.Now()
	for range 2 {
		if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1"}); err != nil {
			t.Fatal(err)
		}
	}
	first, sent := <-ages, time.Now()
	<-time.After(100 * time.Millisecond)
	waited := time.Since(sent)
	close(goOn)
	second := <-ages
	if most := time.Since(before) + time.Second; first < 0 || first > most || second < waited-time.Millisecond || second > most {
		t.Errorf("got %v and %v, want the second to be %v old at least, and none older than %v", first, second, waited, most)
	}
}
