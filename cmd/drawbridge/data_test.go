package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// keepingConfig writes a config that keeps data in a folder beside it, with more lines,
// and returns its file.
func keepingConfig(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gateway.key":     signingKey,
		"drawbridge.yaml": keepingText + more,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "drawbridge.yaml")
}

const signingKey = "3f9c6a1be0d74852a6cf01937be48d25f1a09c73"

const keepingText = `
public_url: https://gw.example
issuers:
  - {issuer: local, hmac_secret_file: gateway.key, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [tools], rules: [{allow: ["*"]}]}
servers:
  tools: {builtin: [calculate]}
data: {dir: kept}
`

// storingOf opens what a config keeps, as the gateway does.
func storingOf(t *testing.T, file string) (*storing, error) {
	t.Helper()
	cfg, err := config.Load(file, config.ProcessEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := newRing(cfg)
	if err != nil {
		return nil, err
	}
	s, err := newStoring(cfg, ring, slog.New(slog.DiscardHandler), metrics.New(prometheus.NewRegistry()))
	if err == nil {
		t.Cleanup(func() { _ = s.db.Close() }) // the test may have closed it
	}
	return s, err
}

// keep opens what a config keeps, which must be possible.
func keep(t *testing.T, file string) *storing {
	t.Helper()
	s, err := storingOf(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *storing, id string) {
	t.Helper()
	if _, err := s.db.Put(t.Context(), store.Record{
		Kind: "family", ID: id, Tenant: "acme", Expires: time.Now().Add(time.Hour), Value: []byte("x"),
	}); err != nil {
		t.Fatal(err)
	}
}

// operate runs a command, and returns its exit code and what it said.
func operate(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	code = run(context.Background(), args, &out, &out)
	return code, out.String()
}

func TestDataIsBackedUpAndRestoredBesideAGateway(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	backup := filepath.Join(filepath.Dir(file), "monday.backup")
	code, said := operate(t, "data", "backup", backup, "-config", file)
	if code != exitOK || !strings.Contains(said, "1 record in") || !strings.Contains(said, "session.keys") {
		t.Fatalf("backup: got exit %d and %s", code, said)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".backup.*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, error %v", left, err)
	}
	if code, said = operate(t, "data", "backup", backup, "-config", file); code != exitFailure {
		t.Errorf("a second backup to the same file: got exit %d and %s", code, said)
	}
	before, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "2")
	if err := s.db.Delete(t.Context(), "family", "1"); err != nil {
		t.Fatal(err)
	}
	if code, said = operate(t, "data", "restore", backup, "-config", file); code != exitOK {
		t.Fatalf("restore: got exit %d and %s", code, said)
	}
	if _, err := s.db.Get(t.Context(), "family", "1"); err != nil {
		t.Errorf("the gateway does not see what was restored: %v", err)
	}
	if _, err := s.db.Get(t.Context(), "family", "2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was not in the backup: got error %v, want ErrNotFound", err)
	}
	if after, err := os.ReadFile(backup); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the backup was changed, error %v", err)
	}
	code, said = operate(t, "data", "check", "-config", file)
	if code != exitOK || !strings.Contains(said, "family: 1\nall records can be read") {
		t.Errorf("check: got exit %d and %s", code, said)
	}
}

// TestABackupGoesThroughStandardOutput takes a backup out of a container that has no
// program for copies.
func TestABackupGoesThroughStandardOutput(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	var out, said bytes.Buffer
	code := run(t.Context(), []string{"data", "backup", "-", "-config", file}, &out, &said)
	if code != exitOK || !strings.Contains(said.String(), "1 record in standard output") {
		t.Fatalf("backup: got exit %d and %s", code, said.String())
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "kept", ".backup.*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, error %v", left, err)
	}
	backup := filepath.Join(t.TempDir(), "monday.backup")
	if err := os.WriteFile(backup, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "2")
	if code, said := operate(t, "data", "restore", backup, "-config", file); code != exitOK ||
		!strings.Contains(said, "1 record restored") {
		t.Errorf("restore: got exit %d and %s", code, said)
	}
}

// heldBackup opens the new file of a backup before anything is written to it, and holds
// it open, so that its log stays beside it as on a disk that is full.
type heldBackup struct {
	store.Database

	t    *testing.T
	ring *seal.Ring
	dir  string // in which the backup is made
}

func (h heldBackup) Rows(ctx context.Context) iter.Seq2[store.Row, error] {
	parts, err := filepath.Glob(filepath.Join(h.dir, ".backup.*", "backup"))
	if err != nil || len(parts) != 1 {
		h.t.Fatalf("the new file: got %v, error %v", parts, err)
	}
	second, err := sqlite.Open(parts[0], store.Config{Ring: h.ring, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = second.Close() }) // its file is gone
	return h.Database.Rows(ctx)
}

// TestBackupThatIsNotWholeIsRefused makes a backup whose records are not all in its file.
func TestBackupThatIsNotWholeIsRefused(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	dir := t.TempDir()
	k := &keeping{cfg: &config.Config{}, ring: s.ring, db: heldBackup{s.db, t, s.ring, dir}}
	var out bytes.Buffer
	path := filepath.Join(dir, "monday.backup")
	if err := k.backup(t.Context(), path, streams{out: &out, err: &out}); err == nil || out.Len() > 0 {
		t.Errorf("got error %v and %q, want an error alone", err, out.String())
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file: got error %v, want none there", err)
	}
}

func TestBackupOfOtherKeysIsNotRestored(t *testing.T) {
	file, other := keepingConfig(t, ""), keepingConfig(t, "")
	put(t, keep(t, other), "1")
	put(t, keep(t, file), "2")
	backup := filepath.Join(filepath.Dir(file), "backup")
	if code, said := operate(t, "data", "backup", backup, "-config", other); code != exitOK {
		t.Fatal(said)
	}
	code, said := operate(t, "data", "restore", backup, "-config", file)
	if code != exitFailure || !strings.Contains(said, "is not among the keys") {
		t.Errorf("got exit %d and %s", code, said)
	}
	if _, err := keep(t, file).db.Get(t.Context(), "family", "2"); err != nil {
		t.Errorf("what was there is lost: %v", err)
	}
	damaged, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backup, damaged[:len(damaged)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said = operate(t, "data", "restore", backup, "-config", other); code != exitFailure {
		t.Errorf("half of a backup: got exit %d and %s", code, said)
	}
	code, said = operate(t, "data", "restore", other, "-config", other)
	if code != exitFailure || !strings.Contains(said, other+" is no backup that can be read: ") {
		t.Errorf("another file: got exit %d and %s", code, said)
	}
}

// TestFileThatIsNoBackupIsNotRestored restores files in which no records ever were: what
// is kept stays.
func TestFileThatIsNoBackupIsNotRestored(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	other := filepath.Join(t.TempDir(), "other.db")
	c, err := sqlite3.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec("CREATE TABLE notes(text TEXT)"), c.Close()); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.backup")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, other} {
		code, said := operate(t, "data", "restore", path, "-config", file)
		if code != exitFailure || !strings.Contains(said, "is no backup") {
			t.Errorf("%s: got exit %d and %s", filepath.Base(path), code, said)
		}
		if _, err := s.db.Get(t.Context(), "family", "1"); err != nil {
			t.Fatalf("%s: what was kept: %v", filepath.Base(path), err)
		}
	}
}

// TestFileThatLacksItsLogIsNotRestored restores the file of a gateway that runs, or was
// killed: its last records stand beside it.
func TestFileThatLacksItsLogIsNotRestored(t *testing.T) {
	file := keepingConfig(t, "")
	before := keep(t, file)
	put(t, before, "1")
	if err := before.db.Close(); err != nil {
		t.Fatal(err)
	}
	s := keep(t, file)
	put(t, s, "2")
	code, said := operate(t, "data", "restore", filepath.Join(filepath.Dir(file), "kept", storeFile), "-config", file)
	if code != exitFailure || !strings.Contains(said, storeFile+"-wal") || !strings.Contains(said, "data backup") {
		t.Errorf("got exit %d and %s", code, said)
	}
	if _, err := s.db.Get(t.Context(), "family", "2"); err != nil {
		t.Errorf("the last record: %v", err)
	}
}

// TestNothingIsDoneWithoutTheKeys has other keys than those that seal what is kept. Who
// is not seen then is neither signed out nor revoked.
func TestNothingIsDoneWithoutTheKeys(t *testing.T) {
	file := keepingConfig(t, "")
	put(t, keep(t, file), "1")
	another := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "kept", ringFile), []byte(another), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"sign-out", "https://login.example#ann"},
		{"keys", "list"},
		{"keys", "revoke", "ffff"},
		{"keys", "create", "-tenant", "acme", "-subject", "ci"},
	} {
		code, said := operate(t, append(args, "-config", file)...)
		if code != exitFailure || !strings.Contains(said, "is not among the keys") {
			t.Errorf("%v: got exit %d and %s", args, code, said)
		}
	}
}

// TestAStoreThatIsAwayIsNoFaultOfTheKeys has the server of the records down.
func TestAStoreThatIsAwayIsNoFaultOfTheKeys(t *testing.T) {
	file := keepingConfig(t, "")
	dir := filepath.Dir(file)
	text := strings.Replace(keepingText, "{dir: kept}", "{postgres_file: address}", 1) +
		"sessions: {keys_file: ring}\n"
	for name, content := range map[string]string{
		filepath.Base(file): text,
		"ring":              base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"address":           "postgres://u@127.0.0.1:1/x?sslmode=disable",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"keys", "list"}, {"sign-out", "https://login.example#ann"}} {
		code, said := operate(t, append(args, "-config", file)...)
		if code != exitFailure || !strings.Contains(said, "connection refused") || strings.Contains(said, "ring") {
			t.Errorf("%v: got exit %d and %s", args, code, said)
		}
	}
}

// TestWhatIsNotThereIsNotMade runs commands where no gateway has kept anything, such as
// on a disk that is not mounted. They make nothing, and a backup of nothing is none.
func TestWhatIsNotThereIsNotMade(t *testing.T) {
	file := keepingConfig(t, "")
	backup := filepath.Join(filepath.Dir(file), "monday.backup")
	for _, args := range [][]string{
		{"data", "backup", backup},
		{"data", "check"},
		{"sign-out", "https://login.example#ann"},
		{"keys", "list"},
		{"keys", "revoke", "none"},
	} {
		code, said := operate(t, append(args, "-config", file)...)
		if code != exitFailure || !strings.Contains(said, "nothing was kept there yet, or its disk is not") {
			t.Errorf("%v: got exit %d and %s", args, code, said)
		}
	}
	if isThere(backup) || isThere(filepath.Join(filepath.Dir(file), "kept")) {
		t.Error("something was made")
	}
	for _, args := range [][]string{
		{"keys", "create", "-tenant", "acme", "-subject", "ci"},
		{"data", "backup", backup},
	} {
		if code, said := operate(t, append(args, "-config", file)...); code != exitOK {
			t.Errorf("%v: got exit %d and %s", args, code, said)
		}
	}
}

func TestDataCommandSaysWhatIsMissing(t *testing.T) {
	without := filepath.Join(t.TempDir(), "drawbridge.yaml")
	text := strings.Replace(keepingText, "data: {dir: kept}", "", 1)
	if err := os.WriteFile(without, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(without), "gateway.key"),
		[]byte(signingKey), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"data", "-config", without}, "write check, backup FILE or restore FILE"},
		{[]string{"data", "burn", "-config", without}, "write check, backup FILE or restore FILE"},
		{[]string{"data", "backup", "-config", without}, "write check, backup FILE or restore FILE"},
		{[]string{"data", "check", "-config", without}, "has no data, so nothing is kept"},
	} {
		if code, said := operate(t, test.args...); code != exitRefused || !strings.Contains(said, test.want) {
			t.Errorf("%v: got exit %d and %s, want 2 and %q", test.args, code, said, test.want)
		}
	}
}

func TestKeysAreMadeOnceInTheFolderOfTheData(t *testing.T) {
	file := keepingConfig(t, "")
	first := keep(t, file).ring.IDs()
	if second := keep(t, file).ring.IDs(); second[0] != first[0] {
		t.Errorf("got key %s at the second start, want %s", second[0], first[0])
	}
	keys := filepath.Join(filepath.Dir(file), "kept", ringFile)
	if about, err := os.Stat(keys); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and error %v, want 600", about.Mode(), err)
	}
	if copies, err := filepath.Glob(keys + "?*"); err != nil || copies != nil {
		t.Errorf("got other copies of the keys, %q and error %v, want none", copies, err)
	}
	if about, err := os.Stat(filepath.Dir(keys)); err != nil || about.Mode().Perm() != 0o700 {
		t.Errorf("the folder: got mode %v and error %v, want 700", about.Mode(), err)
	}
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	if _, err := storingOf(t, file); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("without the keys: got error %v, want one that says so", err)
	}
}

func TestKeyThatSealsRecordsCannotBeEnded(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	other := seal.RandomRing()
	if err := s.mayAdopt(s.ring, other); err == nil || !strings.Contains(err.Error(), "seals records") {
		t.Errorf("got error %v, want one that speaks of the records", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(filepath.Dir(file), "other.keys")
	if err := errors.Join(
		os.WriteFile(keys, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600),
		os.WriteFile(file, append(text, "sessions: {keys_file: other.keys}\n"...), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = storingOf(t, file)
	if _, ok := errors.AsType[*store.KeyError](err); !ok {
		t.Errorf("a start with other keys: got error %v, want that of the key", err)
	}
}

// TestRecordsThatCannotBeReadAreTold spoils one of two records before the keys rotate.
func TestRecordsThatCannotBeReadAreTold(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "bad")
	put(t, s, "good")
	var rows []store.Row
	for row, err := range s.db.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if row.ID == "bad" {
			row.Value[len(row.Value)-1] ^= 1
		}
		rows = append(rows, row)
	}
	if _, err := s.db.Replace(t.Context(), func(yield func(store.Row, error) bool) {
		for i := 0; i < len(rows) && yield(rows[i], nil); i++ {
			continue
		}
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "kept", ringFile))
	if err != nil {
		t.Fatal(err)
	}
	older, err := seal.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	next, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize), older[0])
	if err != nil {
		t.Fatal(err)
	}
	s.ring.Adopt(next)
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	s.sweep(t.Context())
	s.sweep(t.Context())
	if got := strings.Count(log.String(), "records=1"); got != 1 {
		t.Errorf("got %d lines for two sweeps, want one\n%s", got, log.String())
	}
	view := admin.View{}
	s.judge(&view)
	want := []string{"1 record of the store, sealed by an older key, cannot be read; drawbridge data check tells of all"}
	if diff := cmp.Diff(want, view.Warnings); diff != "" {
		t.Errorf("/readyz (-want +got):\n%s", diff)
	}
	if code, said := operate(t, "data", "check", "-remove", "-config", file); code != exitFailure ||
		!strings.Contains(said, "nothing is removed") {
		t.Errorf("data check -remove without a key: got exit %d and %s", code, said)
	}
	newest := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.KeySize)) + "\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "kept", ringFile), append([]byte(newest), text...),
		0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := operate(t, "data", "check", "-config", file); code != exitFailure ||
		!strings.Contains(said, "1 record cannot be read") {
		t.Errorf("data check: got exit %d and %s", code, said)
	}
	if code, said := operate(t, "data", "check", "-remove", "-config", file); code != exitOK ||
		!strings.Contains(said, "1 record removed") {
		t.Errorf("data check -remove: got exit %d and %s", code, said)
	}
	if r, err := s.db.Get(t.Context(), "family", "good"); err != nil || string(r.Value) != "x" {
		t.Errorf("the other record: %q, %v", r.Value, err)
	}
	log.Reset()
	s.sweep(t.Context())
	if log.Len() > 0 {
		t.Errorf("got %s, want nothing once all can be read", log.String())
	}
}

// TestRecordsThatCanBeReadByNowAreNotRemoved has a gateway write a record in the place of
// a damaged one that has expired, after that was read and before it is removed.
func TestRecordsThatCanBeReadByNowAreNotRemoved(t *testing.T) {
	s := keep(t, keepingConfig(t, ""))
	put(t, s, "again")
	k, said := &keeping{ring: s.ring, db: s.db}, &bytes.Buffer{}
	err := k.removeAll(t.Context(), []store.Row{{Kind: "family", ID: "again"}}, streams{said, said})
	if err != nil || !strings.Contains(said.String(), "0 records removed") {
		t.Errorf("got %v and %s, want that nothing is removed", err, said)
	}
	if _, err := s.db.Get(t.Context(), "family", "again"); err != nil {
		t.Errorf("the new record: %v", err)
	}
}

// awayOnce is a store that cannot be reached when a record is read.
type awayOnce struct{ store.Database }

func (awayOnce) Get(context.Context, string, string) (store.Record, error) {
	return store.Record{}, context.DeadlineExceeded
}

// TestRecordsThatNobodyCouldReadNowAreNotRemoved has the store away for a moment: whether
// a record can be read by now is not known.
func TestRecordsThatNobodyCouldReadNowAreNotRemoved(t *testing.T) {
	s := keep(t, keepingConfig(t, ""))
	put(t, s, "1")
	k := &keeping{ring: s.ring, db: awayOnce{s.db}}
	var out bytes.Buffer
	err := k.removeAll(t.Context(), []store.Row{{Kind: "family", ID: "1"}}, streams{out: &out, err: &out})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v and %q, want that of the store", err, out.String())
	}
	if _, err := s.db.Get(t.Context(), "family", "1"); err != nil {
		t.Errorf("the record: %v", err)
	}
}

func TestGatewayStartsWhileItsStoreIsAway(t *testing.T) {
	file := keepingConfig(t, "sessions: {keys_file: session.keys}\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	away := strings.Replace(string(text), "{dir: kept}", "{postgres_file: pg.dsn}", 1)
	if err := errors.Join(os.WriteFile(file, []byte(away), 0o600),
		os.WriteFile(filepath.Join(dir, "session.keys"),
			[]byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "pg.dsn"), []byte("postgres://u:hush@127.0.0.1:1/db\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := keep(t, file)
	view := admin.View{Ready: true}
	s.judge(&view)
	if view.Store != "away" || len(view.Problems) > 0 || len(view.Warnings) != 1 ||
		strings.Contains(view.Warnings[0], "hush") {
		t.Errorf("got %+v, want a warning that the store is away", view)
	}
	if err := s.mayAdopt(s.ring, seal.RandomRing()); err == nil {
		t.Error("a key may be ended while nobody knows whether it seals records")
	}
	if err := s.mayAdopt(s.ring, s.ring); err != nil {
		t.Errorf("keys that stay: %v", err)
	}
}

func overwrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
