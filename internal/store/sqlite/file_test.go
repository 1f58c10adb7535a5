package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
)

// childFile says in the environment of a child of this test which file it writes.
const childFile = "DRAWBRIDGE_STORE_CHILD"

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		if path, found := strings.CutPrefix(variable, childFile+"="); found {
			writeUntilKilled(path)
		}
	}
	os.Exit(m.Run())
}

// fixed returns a config whose ring is the same in every process.
func fixed() store.Config {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		panic(err)
	}
	return store.Config{Ring: ring, Log: slog.New(slog.DiscardHandler)}
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

// writeUntilKilled writes records from several goroutines, and says of each that it was
// acknowledged, a line each.
func writeUntilKilled(path string) {
	s, err := sqlite.Open(path, fixed())
	if err != nil {
		panic(err)
	}
	acknowledged := make(chan string)
	for writer := range 4 {
		go func() { // until the process is killed
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), writer, i)
				if _, err := s.Put(context.Background(), store.Record{
					Kind: "family", ID: id, Expires: time.Now().Add(time.Hour), Value: []byte(id),
				}); err != nil {
					panic(err)
				}
				acknowledged <- id
			}
		}()
	}
	for id := range acknowledged {
		if _, err := io.WriteString(os.Stdout, id+"\n"); err != nil {
			panic(err)
		}
	}
}

func TestNothingAcknowledgedIsLostWhenTheProcessIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	var acknowledged []string
	for round := range 5 {
		child := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx // it is killed below
		child.Env = append(os.Environ(), childFile+"="+path)
		child.Stderr = os.Stderr
		output, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(output)
		for before := len(acknowledged); len(acknowledged) < before+20+37*round && lines.Scan(); {
			acknowledged = append(acknowledged, lines.Text())
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // a line goes through the pipe whole
			acknowledged = append(acknowledged, lines.Text())
		}
		_ = child.Wait() // it was killed
	}
	if len(acknowledged) < 5*20 {
		t.Fatalf("got %d records acknowledged, want more", len(acknowledged))
	}
	s := openAt(t, path, fixed())
	for _, id := range acknowledged {
		r, err := s.Get(t.Context(), "family", id)
		if err != nil || string(r.Value) != id {
			t.Fatalf("record %s of %d: got %q and error %v", id, len(acknowledged), r.Value, err)
		}
	}
	records, kept := 0, 0
	for range s.Rows(t.Context()) {
		records++
	}
	for _, count := range counts(t, s) {
		kept += count
	}
	if records != kept {
		t.Errorf("got %d records, and %d are counted", records, kept)
	}
}

func counts(t *testing.T, s store.Store) map[string]int {
	t.Helper()
	counted, err := s.Count(t.Context(), "family")
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

func TestRecordsOutliveAClosedStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s := openAt(t, path, fixed())
	want := store.Record{Kind: "family", ID: "1", Expires: time.Now().Add(time.Hour), Value: []byte("x")}
	if _, err := s.Put(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
		t.Errorf("got files %v and error %v, want that of the database alone", left, err)
	}
	if _, err := s.Put(t.Context(), want); err == nil {
		t.Error("a closed store takes records")
	}
	if _, err := s.Get(t.Context(), "family", "1"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a closed store: got error %v", err)
	}
	if _, err := openAt(t, path, fixed()).Get(t.Context(), "family", "1"); err != nil {
		t.Error(err)
	}
}

func TestNobodyElseMayReadTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a file+the %20 & others.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, fixed())
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		about, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := about.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s: got mode %o, want 600", filepath.Base(name), mode)
		}
	}
}

// alter runs statements on a file as another program does.
func alter(t *testing.T, path, statements string) {
	t.Helper()
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec(statements), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLaterSchemaIsRefusedIfItMustBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s := openAt(t, path, fixed())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	alter(t, path, "UPDATE schema SET version = version + 2, oldest = version + 1")
	_, err := sqlite.Open(path, fixed())
	if err == nil || !strings.Contains(err.Error(), "later version") {
		t.Errorf("got error %v, want one that says so", err)
	}
}

func TestTwoProcessesUseOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	stores := []*sqlite.Store{openAt(t, path, fixed()), openAt(t, path, fixed())}
	for i := range 20 {
		r := store.Record{
			Kind: "family", ID: fmt.Sprint(i), Expires: time.Now().Add(time.Hour), Value: []byte("x"),
		}
		if _, err := stores[i%2].Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[1-i%2].Get(t.Context(), "family", r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACheckWrites looks for what a check has written: without that it would not find
// that a disk is full. SQLite writes nothing where a row stays as it is.
func TestACheckWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.db")
	s := openAt(t, path, fixed())
	size := func() int64 {
		t.Helper()
		about, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return about.Size()
	}
	before := size()
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := size(); after <= before {
		t.Errorf("the log has %d bytes, as before", after)
	}
}

// TestACheckSeesThatItsFileIsGone puts a copy in the place of a file in use, as who
// restores a backup by hand: what is written from then on is lost, and other processes do
// not see it.
func TestACheckSeesThatItsFileIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file in use cannot be replaced there")
	}
	path := filepath.Join(t.TempDir(), "kept.db")
	s := openAt(t, path, fixed())
	fatal.OK(t, s.Check(t.Context()))
	fatal.OK(t, os.WriteFile(path+".copy", fatal.Have(os.ReadFile(path))(t), 0o600))
	fatal.OK(t, os.Rename(path+".copy", path))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "was removed or replaced") {
		t.Errorf("another file: got error %v, want one that says so", err)
	}
	fatal.OK(t, os.Remove(path))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "was removed or replaced") {
		t.Errorf("no file: got error %v, want one that says so", err)
	}
}

func TestFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(path, fixed()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want one that names the file", err)
	}
}

func TestWriteEndsWhileAnotherProcessHoldsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s := openAt(t, path, fixed())
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	r := store.Record{Kind: "family", ID: "1", Expires: time.Now().Add(time.Hour)}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := s.Put(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put: got error %v, want that of the context", err)
	}
	if _, err := s.Get(t.Context(), "family", "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: got error %v, want ErrNotFound: reads go on", err)
	}
	if err := errors.Join(c.Exec("ROLLBACK"), c.Close()); err != nil {
		t.Fatal(err)
	}
	r.ID = "2"
	if _, err := s.Put(t.Context(), r); err != nil {
		t.Errorf("put after the lock: %v", err)
	}
}
