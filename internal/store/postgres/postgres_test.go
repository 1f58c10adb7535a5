package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/postgres"
)

var server *postgrestest.Server // of all tests here; nil: PostgreSQL is not installed

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(s *postgrestest.Server) { server = s }))
}

var databases atomic.Int64 // that were made

// create makes an empty database that belongs to its role, and returns the file of its
// address and its name.
func create(t *testing.T) (file, name string) {
	t.Helper()
	s := server.Need(t)
	name = fmt.Sprintf("store%d", databases.Add(1))
	s.Create(t, name, "")
	s.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %[1]s OWNER TO %[1]s", name))
	return s.File(t, name, name), name
}

// config returns a config with keys of its own.
func config() store.Config {
	return store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, file string, cfg store.Config) *postgres.Store {
	t.Helper()
	s := postgres.New(file, cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestASessionBeginsAsAPoolerTakesIt asks which settings came with the connection: of
// those a pooler refuses all that it does not know.
func TestASessionBeginsAsAPoolerTakesIt(t *testing.T) {
	file, _ := create(t)
	s := open(t, file, config())
	for _, test := range []struct{ source, want string }{
		{"client", "application_name client_encoding"},
		{"session", "default_transaction_isolation idle_in_transaction_session_timeout lock_timeout search_path " +
			"statement_timeout synchronous_commit"},
	} {
		got := ""
		err := s.Query(t.Context(), store.NewStatement(
			"SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM pg_settings WHERE source = $1", test.source),
			func(c store.Columns) { got = c.ColumnText(0) })
		if err != nil || got != test.want {
			t.Errorf("settings of the %s: got %q and error %v, want %q", test.source, got, err, test.want)
		}
	}
}

// TestAWrongClockRemovesNothing has a replica whose clock is a year ahead sweep, and
// write where there are as many records as there may be.
func TestAWrongClockRemovesNothing(t *testing.T) {
	file, _ := create(t)
	cfg := config()
	cfg.Bound = 1
	s := open(t, file, cfg)
	cfg.Now = func() time.Time { return time.Now().Add(365 * 24 * time.Hour) }
	ahead := open(t, file, cfg)
	_, err := s.Put(t.Context(), record("1"))
	_, unswept := ahead.Sweep(t.Context())
	fatal.OK(t, errors.Join(err, unswept))
	if _, err := ahead.Put(t.Context(), record("2")); !errors.Is(err, store.ErrFull) {
		t.Errorf("another record: got error %v, want %v", err, store.ErrFull)
	}
	if _, err := s.Get(t.Context(), "family", "1"); err != nil {
		t.Errorf("the record: %v", err)
	}
}

// TestARestoreCountsManyRowsAtOnce looks at how often the count of a tenant was written:
// each time goes through all that were written before in the transaction.
func TestARestoreCountsManyRowsAtOnce(t *testing.T) {
	file, name := create(t)
	cfg := config()
	replaced, err := open(t, file, cfg).Replace(t.Context(), func(yield func(store.Row, error) bool) {
		for i := range 1010 {
			if !yield(cfg.Seal(record(fmt.Sprint(i)))) {
				return
			}
		}
	})
	if err != nil || replaced != 1010 {
		t.Fatalf("got %d rows and error %v, want 1010", replaced, err)
	}
	if got := server.Exec(t, name, "SELECT sum(records) FROM drawbridge.counts"); got != "1010" {
		t.Errorf("got a count of %s, want 1010", got)
	}
	size := fatal.Have(strconv.Atoi(server.Exec(t, name, "SELECT pg_relation_size('drawbridge.counts')")))(t)
	if size > 16<<10 {
		t.Errorf("the counts have %d bytes: each row was counted by itself", size)
	}
}
