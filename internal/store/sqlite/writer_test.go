package sqlite

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// TestNobodyConflictsWithWhatWasUndone shows that of two writers of one new record, in a
// transaction that then fails, neither is told that the record is there.
func TestNobodyConflictsWithWhatWasUndone(t *testing.T) {
	t.Parallel()
	s := opened(t)
	var over sync.WaitGroup
	waitFor := func(writes int) {
		for deadline := time.Now().Add(time.Minute); len(s.writes) < writes; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("got %d writes that wait, want %d", len(s.writes), writes)
			}
		}
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	over.Go(func() { // so that those that come meanwhile are one transaction
		_, _ = s.write(t.Context(), func(*conn) ([]int64, error) { close(began); <-goOn; return nil, nil })
	})
	<-began
	var faults [2]error
	for i := range faults {
		over.Go(func() {
			_, faults[i] = s.Put(t.Context(), store.Record{Kind: "k", ID: "1", Expires: time.Now().Add(time.Hour)})
		})
	}
	waitFor(2)
	broken := errors.New("the disk is full")
	over.Go(func() {
		_, _ = s.write(t.Context(), func(*conn) ([]int64, error) { return nil, broken })
	})
	waitFor(3)
	close(goOn)
	over.Wait()
	for _, err := range faults {
		if !errors.Is(err, broken) || errors.Is(err, store.ErrConflict) {
			t.Errorf("got error %v, want %v", err, broken)
		}
	}
	if _, err := s.Get(t.Context(), "k", "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got error %v, want that there is no such record", err)
	}
}
