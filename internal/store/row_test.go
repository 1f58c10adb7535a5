package store_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// columns are those of a row, as a database has them.
type columns store.Row

func (c columns) ColumnText(place int) string {
	return []string{c.Kind, c.ID, c.Tenant, c.Owner}[place]
}

func (c columns) ColumnInt64(place int) int64 { return []int64{c.Expires, c.Version}[place-4] }

func (c columns) ColumnBlob(_ int, to []byte) []byte { return append(to, c.Value...) }

// querying returns the function of a database whose statements select those rows.
func querying(rows func(store.Statement) []store.Row) func(context.Context, store.Statement,
	func(store.Columns)) error {
	return func(_ context.Context, of store.Statement, each func(store.Columns)) error {
		for _, row := range rows(of) {
			each(columns(row))
		}
		return nil
	}
}

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
	s := store.SQL{Config: &cfg, Query: querying(func(of store.Statement) []store.Row {
		steps++
		from, after, limit := 0, of.Values[1].(string), of.Values[3].(int)
		for from < len(all) && all[from].ID <= after {
			from++
		}
		return all[from:min(from+limit, len(all))]
	})}
	found, err := s.List(t.Context(), store.Query{Kind: "k", Limit: 1})
	if err != nil || len(found) != 1 || found[0].ID != "1000" {
		t.Errorf("got %v, %v, want the first that can be read", found, err)
	}
	if steps > 11 {
		t.Errorf("it took %d steps", steps)
	}
}

// TestALogTellsOfADamagedRowOnce lists it several times, as those who poll do, and then
// beside another one.
func TestALogTellsOfADamagedRowOnce(t *testing.T) {
	var log bytes.Buffer
	cfg := store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	var all []store.Row
	damage := func(id string) {
		row, err := cfg.Seal(store.Record{Kind: "k", ID: id, Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		row.Value[len(row.Value)-1] ^= 1
		all = append(all, row)
	}
	s := store.SQL{Config: &cfg, Query: querying(func(store.Statement) []store.Row { return all })}
	list := func() string {
		log.Reset()
		for range 3 {
			if found, err := s.List(t.Context(), store.Query{Kind: "k"}); err != nil || len(found) > 0 {
				t.Fatalf("got %v and error %v", found, err)
			}
		}
		return log.String()
	}
	damage("1")
	damage("2")
	if got := list(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "records=2") {
		t.Errorf("of two damaged rows the log has %q", got)
	}
	damage("3")
	if got := list(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "records=1") {
		t.Errorf("of one more the log has %q", got)
	}
	if got := list(); got != "" {
		t.Errorf("the log says once more %q", got)
	}
}

// TestSweepAfterOneThatFailedSealsTheRest shows that rows which could not be sealed again
// are sealed by the next sweep, and no others: an operator ends the older key then.
func TestSweepAfterOneThatFailedSealsTheRest(t *testing.T) {
	cfg := store.Config{Ring: ring(t, 1), Log: slog.New(slog.DiscardHandler)}
	var all []store.Row
	for i := range store.MostSwept + 2 {
		row, err := cfg.Seal(store.Record{Kind: "k", ID: fmt.Sprintf("%04d", i), Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	all[store.MostSwept].Value[len(all[0].Value)-1] ^= 1 // it cannot be read
	cfg.Ring.Adopt(ring(t, 2, 1))
	away, sealed := true, 0
	s := store.SQL{
		Config: &cfg,
		Query: querying(func(of store.Statement) (some []store.Row) {
			for _, row := range all {
				if hex.EncodeToString(row.Value[1:4]) == of.Values[0] && row.ID > of.Values[2].(string) &&
					len(some) < of.Values[3].(int) {
					some = append(some, row)
				}
			}
			return some
		}),
		Change: func(_ context.Context, statements ...store.Statement) ([]int64, error) {
			if len(statements) == 0 || strings.HasPrefix(statements[0].Text, "DELETE") {
				return make([]int64, 1), nil
			}
			if away && sealed > 0 {
				return nil, errors.New("away")
			}
			for _, of := range statements {
				at := slices.IndexFunc(all, func(row store.Row) bool { return row.ID == of.Values[3] })
				all[at].Value = of.Values[1].([]byte)
				sealed++
			}
			return make([]int64, len(statements)), nil
		},
	}
	if _, err := s.Sweep(t.Context()); err == nil || sealed != store.MostSwept {
		t.Fatalf("got error %v and %d rows sealed again, want an error after %d", err, sealed, store.MostSwept)
	}
	away = false
	unread, err := s.Sweep(t.Context())
	if want := len(all) - 1; err != nil || sealed != want || unread != 1 {
		t.Errorf("got %d rows sealed again, %d unread and error %v, want %d and 1", sealed, unread, err, want)
	}
}
