package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// TestListsReadPastManyDamagedRowsInFewSteps lists one record behind a thousand rows that
// cannot be read.
func TestListsReadPastManyDamagedRowsInFewSteps(t *testing.T) {
	cfg := store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)}
	var all []store.Row
	for i := range 1002 {
		row, err := cfg.Seal(store.Record{Kind: "k", ID: fmt.Sprintf("%04d", i), Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if i < 1000 {
			row.Value[len(row.Value)-1] ^= 1
		}
		all = append(all, row)
	}
	steps := 0
	s := store.SQL{Config: &cfg, Select: func(_ context.Context, of store.Statement) ([]store.Row, error) {
		steps++
		from, after, limit := 0, of.Values[1].(string), of.Values[3].(int)
		for from < len(all) && all[from].ID <= after {
			from++
		}
		return all[from:min(from+limit, len(all))], nil
	}}
	found, err := s.List(t.Context(), store.Query{Kind: "k", Limit: 1})
	if err != nil || len(found) != 1 || found[0].ID != "1000" {
		t.Errorf("got %v, %v, want the first that can be read", found, err)
	}
	if steps > 11 {
		t.Errorf("it took %d steps", steps)
	}
}
