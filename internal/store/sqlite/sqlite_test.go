package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
	"github.com/drawbridge-mcp/drawbridge/internal/store/storetest"
)

func open(t *testing.T, cfg store.Config) store.Database {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "drawbridge.db"), cfg)
}

func openAt(t *testing.T, path string, cfg store.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }
