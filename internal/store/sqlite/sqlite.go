// Package sqlite is a store in a file of SQLite, for a gateway of one replica. It needs
// nothing installed. Other processes of the same machine may use the file at the same
// time, such as a command that makes a backup.
//
// One goroutine writes (writer.go). It commits what has come meanwhile in one
// transaction, so that many writers wait for one and the same write to the disk. Reads go
// over connections of their own and see what is committed.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/sqlitefile"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// readers is how many connections read. Each takes memory, and two are as many as there
// are processors in a small machine.
const readers = 2

var errClosed = errors.New("the store is closed")

// Store is a file of SQLite.
type Store struct {
	store.SQL

	path    string
	file    fs.FileInfo // what was opened at path
	writes  chan *write // whoever sends waits until it is taken
	readers chan *conn  // nil in it: to be opened by whoever takes it
	closed  chan struct{}
	over    chan struct{} // closed when the goroutine that writes has ended
	ended   error         // of the connection that writes; read after over
	once    sync.Once
}

var _ store.Database = (*Store)(nil)

// Open opens a file or makes it, and brings its schema up to date. Nobody but the user of
// this process may read what it makes.
func Open(path string, cfg store.Config) (*Store, error) { return open(path, cfg, false) }

// OpenBackup is Open for a file that was a store before. The error says so of one that
// was none, such as an empty file: it would be a store without records.
func OpenBackup(path string, cfg store.Config) (*Store, error) { return open(path, cfg, true) }

// open opens a file. made tells that it must have been a store before.
func open(path string, cfg store.Config, made bool) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	c, err := connect(path, false)
	if err != nil {
		return nil, err
	}
	if err := migrate(c, made); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.shut())
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(err, c.shut())
	}
	s := &Store{
		path: path, file: file, writes: make(chan *write), readers: make(chan *conn, readers),
		closed: make(chan struct{}), over: make(chan struct{}),
	}
	s.SQL = store.SQL{
		Config: &cfg, Query: s.query, Scan: s.query, Change: s.change, Anew: s.anew,
	}
	for range readers {
		s.readers <- nil
	}
	go s.writer(c) // Close waits for it
	return s, nil
}

// createFiles makes the files of a database that are not there, as the driver would do
// with the rights that everybody has. The folder is written to the disk, so that the file
// is not lost with a commit in it.
func createFiles(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names it
		if err != nil {
			return err
		}
		if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
			return err
		}
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // Windows has no such thing
	}
	return errors.Join(err, dir.Close())
}

// Close waits for what is being written and closes the file.
func (s *Store) Close() error {
	err := errClosed
	s.once.Do(func() {
		close(s.closed)
		<-s.over
		err = s.ended
		for range readers {
			if c := <-s.readers; c != nil {
				err = errors.Join(err, c.shut())
			}
		}
	})
	return err
}

// read calls do with a connection that reads. Whoever waits for one waits no longer than
// ctx, which also interrupts what runs.
func (s *Store) read(ctx context.Context, do func(c *conn) error) (err error) {
	var c *conn
	select {
	case c = <-s.readers:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.readers <- c }()
	err = s.use(&c, true, func(c *conn) error {
		c.SetInterrupt(ctx)
		defer c.SetInterrupt(context.Background())
		return do(c)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// use calls do with a connection, nil: which it opens. One that may not survive the error
// of do is closed, and nil from then on.
func (s *Store) use(c **conn, reads bool, do func(c *conn) error) (err error) {
	if *c == nil {
		if *c, err = connect(s.path, reads); err != nil {
			return err
		}
	}
	if err = guarded(*c, do); !passing(err) {
		_ = (*c).shut() // the error says why it is of no use any more
		*c = nil
	}
	return err
}

// guarded calls do, and makes an error of a panic of the driver.
func guarded(c *conn, do func(c *conn) error) (err error) {
	defer sqlitefile.Recovered(&err)
	return do(c)
}

// query runs a statement that reads.
func (s *Store) query(ctx context.Context, of store.Statement, each func(store.Columns)) error {
	return s.read(ctx, func(c *conn) error { return c.run(each, of.Text, of.Values...) })
}

// Check returns an error if records cannot be written and read now, or if the file is not
// the one at its path any more: no other process sees what is written to it, and it is
// gone when the last connection is closed.
// https://www.sqlite.org/howtocorrupt.html#_unlinking_or_renaming_a_database_file_while_in_use
func (s *Store) Check(ctx context.Context) error {
	now, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(now, s.file) {
		return fmt.Errorf("%s was removed or replaced while it was in use: restart the gateway, and put "+
			"backups back with drawbridge data restore", s.path)
	}
	return s.SQL.Check(ctx)
}

// Intact reads the whole file, and returns an error that says how it is damaged.
func (s *Store) Intact(ctx context.Context) error {
	damage := ""
	err := s.query(ctx, store.NewStatement("PRAGMA integrity_check(1)"),
		func(of store.Columns) { damage = of.ColumnText(0) })
	if err != nil {
		return fmt.Errorf("check the file: %w", err)
	}
	if damage != "ok" {
		return fmt.Errorf("the file is damaged: %s", damage)
	}
	return nil
}
