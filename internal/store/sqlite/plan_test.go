package sqlite

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// opened returns a new store, which is closed at the end of the test.
func opened(t *testing.T) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s, err := Open(path, store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestListsReadNoMoreThanTheyReturn asks SQLite how it finds the records of each list. A
// list of one owner read all records of its kind, so that each sign-in took longer than
// the one before.
func TestListsReadNoMoreThanTheyReturn(t *testing.T) {
	t.Parallel()
	s := opened(t)
	const byOwner = "INDEX records_owner (kind=? AND owner=? AND id>?)"
	check := func(name, index, text string, arguments ...any) {
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			return c.run(func(of store.Columns) { plan = append(plan, of.ColumnText(3)) }, "EXPLAIN QUERY PLAN "+text, arguments...)
		})
		got := strings.Join(plan, "; ")
		if err != nil || !strings.Contains(got, index) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: got the plan %q and error %v, want %s", name, got, err, index)
		}
	}
	for q, index := range map[store.Query]string{
		{Kind: "k", After: "a"}:              "INDEX sqlite_autoindex_records_1 (kind=? AND id>?)",
		{Kind: "k", Tenant: "t"}:             "INDEX records_tenant (kind=? AND tenant=? AND id>?)",
		{Kind: "k", Owner: "o"}:              byOwner,
		{Kind: "k", Owner: "o", Tenant: "t"}: byOwner,
	} {
		of := store.Listing(q, 1)
		check(fmt.Sprintf("%+v", q), index, of.Text, of.Values...)
	}
	check("keys in use", "INDEX records_key (key>?)", store.UsedKeys().Text)
	ofKey := store.OfKey("k", "a", "b")
	check("rows of a key", "INDEX records_key (key=? AND (kind,id)>(?,?))", ofKey.Text, ofKey.Values...)
}
