package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/postgres"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

const (
	storeFile = "drawbridge.db" // in data.dir
	ringFile  = "session.keys"  // in data.dir, in the form of sessions.keys_file

	storeCheck = 5 * time.Second // between two looks at whether the store is well
	storeSweep = time.Minute     // between two sweeps
	storeWait  = 6 * time.Second // of a look that no client waits for
)

// storing is what this process keeps for good. Of the zero value there is nothing kept.
type storing struct {
	db      store.Database // nil: nothing is kept
	ring    *seal.Ring
	log     *slog.Logger
	metrics *metrics.Metrics

	problem atomic.Pointer[error]          // why the store cannot be used now; nil in it: it can
	kinds   atomic.Pointer[map[string]int] // how many records there were of each kind at the last look
	unread  atomic.Int64                   // records that the last sweep could not read
}

// openStore opens what the config says; nil: nothing is kept. The folder is made if it is
// not there, for the user of this process alone.
func openStore(cfg *config.Config, ring *seal.Ring, log *slog.Logger) (store.Database, error) {
	settings := store.Config{Ring: ring, Log: log}
	switch {
	case cfg.Data.PostgresFile != "":
		return postgres.New(cfg.Data.PostgresFile, settings), nil
	case cfg.Data.Dir != "":
		if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("data.dir: %w", err)
		}
		db, err := sqlite.Open(filepath.Join(cfg.Data.Dir, storeFile), settings)
		if err != nil {
			return nil, fmt.Errorf("data.dir: %w", err)
		}
		return db, nil
	}
	return nil, nil //nolint:nilnil // nil is that nothing is kept
}

// newStoring opens the store and looks whether this process may use it. A server that is
// away is no error: what does not need it is served meanwhile.
func newStoring(cfg *config.Config, ring *seal.Ring, log *slog.Logger, m *metrics.Metrics) (*storing, error) {
	db, err := openStore(cfg, ring, log)
	if err != nil || db == nil {
		return &storing{}, err
	}
	s := &storing{db: measured{db, m}, ring: ring, log: log, metrics: m}
	m.StoreUp.Of(func(tell metrics.Tell) { tell("", metrics.OneIf(s.up() == nil)) })
	m.StoreRecords.Of(func(tell metrics.Tell) {
		for kind, n := range *s.kinds.Load() {
			tell(kind, float64(n))
		}
	})
	s.kinds.Store(&map[string]int{})
	err = s.check(context.Background())
	_, isOld := errors.AsType[*store.SchemaError](err)
	_, lacksKeys := errors.AsType[*store.KeyError](err)
	if isOld || lacksKeys || err != nil && cfg.Data.Dir != "" {
		return nil, errors.Join(err, db.Close())
	}
	if err := s.mayServe(cfg); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// up returns why the store cannot be used now.
func (s *storing) up() error { return *s.problem.Load() }

// check asks whether the store can be used, says when that changes, and counts the
// records.
func (s *storing) check(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, storeWait)
	defer stop()
	err := s.db.Check(ctx)
	if err == nil {
		err = store.MissingKeys(ctx, s.db, s.ring)
	}
	s.publish(ctx, err)
	if err != nil {
		return err
	}
	kinds, err := s.db.Kinds(ctx)
	if err == nil {
		s.kinds.Store(&kinds)
	}
	return err
}

// publish keeps why the store cannot be used, nil if it can, and says when that changes.
// A stop that ends the question says nothing of the store.
func (s *storing) publish(ctx context.Context, problem error) {
	before := s.problem.Swap(&problem)
	switch was := before != nil && *before != nil; {
	case problem != nil && !was && !errors.Is(problem, context.Canceled):
		s.log.ErrorContext(ctx, "the store cannot be used", slog.Any("error", problem))
	case problem == nil && was:
		s.log.InfoContext(ctx, "the store is used again")
	}
}

// run keeps house until ctx ends, and closes the store.
func (s *storing) run(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	var swept sync.WaitGroup
	swept.Go(func() { // which may take long, and the checks go on
		for pace.Wait(ctx, storeSweep) {
			s.sweep(ctx)
		}
	})
	for pace.Wait(ctx, storeCheck) {
		_ = s.check(ctx) // it has told of it
	}
	swept.Wait()
	return s.db.Close()
}

// sweep removes what has expired, and seals all with the newest key. It says of how many
// records it cannot do that when their number is another than before.
func (s *storing) sweep(ctx context.Context) {
	unread, err := s.db.Sweep(ctx)
	if err != nil {
		if s.up() == nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the store cannot be swept", slog.Any("error", err))
		}
		return
	}
	if before := s.unread.Swap(int64(unread)); unread > 0 && before != int64(unread) {
		s.log.ErrorContext(ctx, "records cannot be sealed with the newest key", slog.Int("records", unread))
	}
}

// mayAdopt returns an error if a key of the present ring that the next one lacks seals
// something that is kept.
func (s *storing) mayAdopt(present, next *seal.Ring) error {
	ended := func(id string) bool { return !slices.Contains(next.IDs(), id) }
	if s.db == nil || !slices.ContainsFunc(present.IDs(), ended) {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), storeWait)
	defer stop()
	if err := store.MissingKeys(ctx, s.db, next); err != nil {
		return fmt.Errorf("sessions.keys_file: %w; a minute after another key came first, it seals all", err)
	}
	return nil
}

// mayServe returns an error if what is kept speaks against the clients of a config. While
// the store is away nothing does: a reload may be what an operator needs then.
func (s *storing) mayServe(cfg *config.Config) error {
	if s.db == nil || s.up() != nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), storeWait)
	defer stop()
	if problem, is := errors.AsType[*namesakeError](namesake(ctx, s.db, cfg)); is {
		return problem
	}
	return nil // see above
}

// judge adds to what /readyz shows how the store is. That it is away makes the gateway
// not less ready: it meets all replicas at once, and most requests need no store.
func (s *storing) judge(view *admin.View) {
	if s.db == nil {
		return
	}
	view.Store = "used"
	if err := s.up(); err != nil {
		view.Store = "away"
		view.Warnings = append(view.Warnings, "the store cannot be used; valid tokens are served meanwhile, "+
			"and nobody can sign in: "+err.Error())
	}
	if unread := s.unread.Load(); unread > 0 {
		view.Warnings = append(view.Warnings, count(int(unread), "record")+
			" of the store, sealed by an older key, cannot be read; drawbridge data check tells of all")
	}
}

// measured is a store whose calls are counted.
type measured struct {
	store.Database

	metrics *metrics.Metrics
}

// count counts a call that began at a time.
func (m measured) count(call string, began time.Time, err error) {
	outcome := "failed"
	for known, word := range map[error]string{
		nil: "ok", store.ErrNotFound: "not_found", store.ErrConflict: "conflict", store.ErrFull: "full",
	} {
		if errors.Is(err, known) {
			outcome = word
		}
	}
	m.metrics.Store.Call(call, outcome, time.Since(began))
}

// Get implements store.Store.
func (m measured) Get(ctx context.Context, kind, id string) (r store.Record, err error) {
	defer func(began time.Time) { m.count("get", began, err) }(time.Now())
	return m.Database.Get(ctx, kind, id)
}

// Put implements store.Store.
func (m measured) Put(ctx context.Context, r store.Record) (version int64, err error) {
	defer func(began time.Time) { m.count("put", began, err) }(time.Now())
	return m.Database.Put(ctx, r)
}

// Delete implements store.Store.
func (m measured) Delete(ctx context.Context, kind, id string) (err error) {
	defer func(began time.Time) { m.count("delete", began, err) }(time.Now())
	return m.Database.Delete(ctx, kind, id)
}

// List implements store.Store.
func (m measured) List(ctx context.Context, q store.Query) (records []store.Record, err error) {
	defer func(began time.Time) { m.count("list", began, err) }(time.Now())
	return m.Database.List(ctx, q)
}

// newRing returns the keys that seal what clients hold for the gateway, and what it
// keeps. Without keys in the config they are those in the folder of the data, where they
// are made once, or else random: what was sealed before a restart, or by another replica,
// cannot be opened then.
func newRing(cfg *config.Config) (*seal.Ring, error) {
	switch {
	case len(cfg.Sessions.Keys) > 0:
		return seal.NewRing(cfg.Sessions.Keys...)
	case cfg.Data.Dir != "":
		return ringIn(cfg.Data.Dir)
	}
	return seal.RandomRing(), nil
}

// ringIn returns the keys in a folder. They are made if the folder has none, and are on
// the disk before anything is sealed with them.
func ringIn(dir string) (*seal.Ring, error) {
	path := filepath.Join(dir, ringFile)
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrNotExist) {
		data, err = makeKeys(dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("data.dir: %w", err)
	}
	keys, err := seal.ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return seal.NewRing(keys...)
}

// makeKeys writes a file with one key, whole or not at all, that only the user of this
// process may read, and returns what is in it. Of two processes that do so at once one
// makes it, and the other reads what that made.
func makeKeys(dir, path string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if isThere(filepath.Join(dir, storeFile)) {
		return nil, fmt.Errorf("%s is not there, and %s is sealed with its keys; put it back, or name its "+
			"keys in sessions.keys_file",
			path, storeFile)
	}
	secret := make([]byte, seal.KeySize)
	_, _ = rand.Read(secret) // crypto/rand never returns an error, it ends the program instead
	text := []byte(base64.StdEncoding.EncodeToString(secret) + "\n")
	err := writeWhole(dir, ringFile+".*", text, func(part string) error { return os.Link(part, path) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path) //nolint:gosec // the operator names the folder
}

// isThere tells whether there is something at a path, perhaps what cannot be read.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// writeWhole writes a file of which nobody reads a half, and that only the user of this
// process may read. name gives it its name, once it is on the disk.
func writeWhole(dir, pattern string, data []byte, name func(part string) error) error {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has another name, or is of no use
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return name(f.Name())
}
