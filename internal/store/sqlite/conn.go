package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/sqlitefile"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const busyTime = 5 * time.Second // until another process has written

// conn is a connection with the statements that it has compiled. One goroutine at a time
// uses it.
type conn struct {
	*sqlite3.Conn
	statements map[string]*sqlite3.Stmt
}

// connect opens a connection. One that only reads cannot write by mistake. The log, which
// the driver makes anew in the place of an empty one, has the rights of the file.
func connect(path string, reads bool) (*conn, error) {
	if err := createFiles(path); err != nil {
		return nil, err
	}
	opened, err := sqlitefile.Open(context.Background(), path,
		url.Values{"mode": {"rw"}, "modeof": {path}},
		func(c *sqlite3.Conn) error { return prepare(c, reads) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &conn{opened, map[string]*sqlite3.Stmt{}}, nil
}

// prepare makes a connection what this package needs. With synchronous=FULL a commit
// returns when the disk has it: https://sqlite.org/pragma.html#pragma_synchronous
func prepare(c *sqlite3.Conn, reads bool) error {
	pragmas := `PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;
		PRAGMA cache_size=-1024; PRAGMA cell_size_check=ON; PRAGMA journal_size_limit=4194304;`
	if reads {
		pragmas += "PRAGMA query_only=ON"
	}
	return errors.Join(
		sqlitefile.Configure(c, map[sqlite3.DBConfig]bool{
			sqlite3.DBCONFIG_DEFENSIVE:       true,
			sqlite3.DBCONFIG_TRUSTED_SCHEMA:  false,
			sqlite3.DBCONFIG_WRITABLE_SCHEMA: false,
		}),
		c.BusyTimeout(busyTime), c.Exec(pragmas))
}

// run runs a statement, and calls each for every row of its result; nil: there is none.
// Arguments are strings, numbers and bytes.
func (c *conn) run(each func(store.Columns), text string, arguments ...any) (err error) {
	s := c.statements[text]
	if s == nil {
		if s, _, err = c.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
		c.statements[text] = s
	}
	defer func() { err = errors.Join(err, s.Reset(), s.ClearBindings()) }()
	for i, argument := range arguments {
		if err := bind(s, i+1, argument); err != nil {
			return err
		}
	}
	for s.Step() {
		each(s)
	}
	return s.Err()
}

func bind(s *sqlite3.Stmt, at int, argument any) error {
	switch v := argument.(type) {
	case string:
		return s.BindText(at, v)
	case int:
		return s.BindInt(at, v)
	case int64:
		return s.BindInt64(at, v)
	case []byte:
		return s.BindBlob(at, v)
	default:
		panic(fmt.Sprintf("a %T cannot be bound", v))
	}
}

// shut closes a connection. The last one writes the log into the file and removes it.
func (c *conn) shut() error { return sqlitefile.Close(c.Conn) }

// passing tells whether a connection may go on after an error.
func passing(err error) bool {
	return err == nil || errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.INTERRUPT)
}
