package postgres_test

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
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
