package batch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/batch"
)

// TestWhatComesMeanwhileGoesTogether adds values while the first is on its way: each goes
// once, in order, with as many others as may go together. Another key waits for nobody.
func TestWhatComesMeanwhileGoesTogether(t *testing.T) {
	var running sync.WaitGroup
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var got [][]int
	q := batch.Queue[string, int]{
		Most: 3, Go: func(run func(context.Context)) { running.Go(func() { run(t.Context()) }) },
		Do: func(_ context.Context, key string, values []int) {
			if key != "slow" {
				close(goOn)
				return
			}
			got = append(got, slices.Clone(values))
			once.Do(func() { close(begun); <-goOn })
		},
	}
	q.Add("slow", 1)
	<-begun
	for _, value := range []int{5, 1, 4, 5, 1, 3, 2} {
		q.Add("slow", value)
	}
	q.Add("other", 1)
	running.Wait()
	if want := "[[1] [5 1 4] [3 2]]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	got = nil
	q.Add("slow", 1) // it has been idle
	running.Wait()
	if len(got) != 1 {
		t.Errorf("after a pause: got %v, want one batch", got)
	}
}

// TestNoValueIsLostAtOnce adds from several goroutines.
func TestNoValueIsLostAtOnce(t *testing.T) {
	const adders, each = 8, 200
	var running, adding sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int]int)
	q := batch.Queue[int, int]{
		Most: 7, Go: func(run func(context.Context)) { running.Go(func() { run(t.Context()) }) },
		Do: func(_ context.Context, _ int, values []int) {
			mu.Lock()
			defer mu.Unlock()
			for _, value := range values {
				seen[value]++
			}
		},
	}
	for a := range adders {
		adding.Go(func() {
			for i := range each {
				q.Add(i%3, a*each+i)
			}
		})
	}
	adding.Wait()
	running.Wait()
	if len(seen) != adders*each {
		t.Errorf("got %d values, want %d", len(seen), adders*each)
	}
}
