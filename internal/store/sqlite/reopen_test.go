package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// TestFilesOfALaterConnectionAreTheUsersAlone has the connection that writes meet an
// error that it may not survive: what the next one makes, nobody else may read.
func TestFilesOfALaterConnectionAreTheUsersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such rights there")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.db")
	s, err := Open(path, store.Config{Ring: seal.RandomRing(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // nothing else is to be seen
	broken := errors.New("the disk is full")
	_, err = s.write(t.Context(), func(*conn) ([]int64, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Fatalf("got error %v, want that of the write", err)
	}
	if _, err := s.Put(context.Background(), store.Record{
		Kind: "family", ID: "1", Expires: time.Now().Add(time.Hour), Value: []byte("x"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if about, err := os.Stat(name); err != nil || about.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, error %v, want the rights 0600", filepath.Base(name), about.Mode(), err)
		}
	}
}
