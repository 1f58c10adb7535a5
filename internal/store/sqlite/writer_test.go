package sqlite

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// TestNobodyConflictsWithWhatWasUndone shows that of two writers of one new record, in a
// transaction that then fails, neither is told that the record is there.
func TestNobodyConflictsWithWhatWasUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		var over sync.WaitGroup
		goOn := make(chan struct{})
		over.Go(func() { // so that those that come meanwhile are one transaction
			_, _ = s.write(t.Context(), func(*conn) ([]int64, error) { <-goOn; return nil, nil })
		})
		synctest.Wait()
		var faults [2]error
		for i := range faults {
			over.Go(func() {
				_, faults[i] = s.Put(t.Context(), store.Record{Kind: "k", ID: "1", Expires: time.Now().Add(time.Hour)})
			})
		}
		synctest.Wait() // until both wait
		broken := errors.New("the disk is full")
		over.Go(func() {
			_, _ = s.write(t.Context(), func(*conn) ([]int64, error) { return nil, broken })
		})
		synctest.Wait()
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
	})
}
