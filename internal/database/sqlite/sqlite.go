// Package sqlite runs queries on files of SQLite, and lets no query do more than read. Of
// the driver, github.com/ncruces/go-sqlite3, each connection has a memory of its own with
// a bound, and nothing of it outlives the connection.
//
// What is dangerous about it: it runs in this process. A text that a stranger wrote is
// compiled and run by SQLite, which could otherwise write, attach other files, keep a
// processor busy for hours or fill the memory. So a connection is opened for one query,
// for reading alone, with everything shut that SQLite has a lock for (restrict and
// authorize), and gives its slot back every few milliseconds (slice.go). functions.go
// replaces functions that take long in one step, which nothing could interrupt.
package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/sqlitefile"
)

// Dialect is the name of the language.
const Dialect = "SQLite"

// Memory is the most that one query takes, in bytes.
const Memory = sqlitefile.Memory

// File is a database file. It is safe for concurrent use, and keeps nothing open.
type File struct {
	path  string
	turns *fairqueue.Queue
}

// New returns the database in a file. Queries take turns there; nil: they do not wait.
func New(path string, turns *fairqueue.Queue) (*File, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &File{whole, turns}, nil
}

// Query runs a query. The error is a *database.Error if the query is at fault, or that of
// ctx if it ends.
func (f *File) Query(ctx context.Context, q *database.Query) (table *database.Table, err error) {
	turn := &slice{Context: ctx, turns: f.turns, user: q.User}
	if err := turn.enter(); err != nil {
		return nil, err
	}
	defer turn.finish()
	// Whatever SQLite can lock is locked before a text of a stranger is compiled.
	c, err := sqlitefile.Open(turn, f.path, url.Values{"mode": {"ro"}},
		func(c *sqlite3.Conn) error { return restrict(c, turn) })
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	defer func() {
		if failed := sqlitefile.Close(c); err == nil && failed != nil {
			err = f.explain(ctx, failed)
		}
	}()
	table, err = run(c, q)
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	return table, nil
}

// Check returns an error that says why the file cannot be read, for the operator.
func (f *File) Check(ctx context.Context) (notes []string, err error) {
	_, err = f.Query(ctx, &database.Query{Text: "SELECT count(*) FROM sqlite_schema", Limit: 1})
	if says, ok := errors.AsType[*database.Error](err); ok {
		return nil, fmt.Errorf("%s: %w", f.path, says)
	}
	return nil, err
}

// Layout is a query that lists all columns, as describe_database wants them. It binds the
// name of one table, or null. It leaves out what cannot be read, because to ask for the
// columns of one of these would be an error of the whole: a view of what is gone, and a
// table of a module that is not here, such as FTS5.
const Layout = `SELECT '' AS schema, t.name AS table_name, t.type AS kind, c.name AS column_name,
  c.type AS type, c."notnull" OR c.pk > 0 AS required, c.pk > 0 AS key,
  (SELECT min(f."table" || coalesce('.' || f."to", '')) FROM pragma_foreign_key_list(t.name) f
    WHERE f."from" = c.name) AS refers
FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c
WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\'
  AND (?1 IS NULL OR t.name = ?1) AND c.hidden <> 1 AND has_columns(t.name)
ORDER BY t.name, c.cid`

// restrict shuts everything that a query needs not.
func restrict(c *sqlite3.Conn, turn *slice) error {
	if readOnly, found := c.ReadOnly("main"); !readOnly || found {
		return errors.New("the file was not opened for reading alone")
	}
	options := map[sqlite3.DBConfig]bool{
		sqlite3.DBCONFIG_DEFENSIVE: true,
		// views and defaults of the file call harmless functions alone
		sqlite3.DBCONFIG_TRUSTED_SCHEMA:   false,
		sqlite3.DBCONFIG_ENABLE_TRIGGER:   false,
		sqlite3.DBCONFIG_WRITABLE_SCHEMA:  false,
		sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE: true,
	}
	// Without temp_store, what is sorted would go to a file of this machine.
	const pragmas = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; " +
		"PRAGMA cell_size_check=ON"
	for limit, value := range map[sqlite3.LimitCategory]int{
		sqlite3.LIMIT_ATTACHED:        0, // neither ATTACH nor VACUUM INTO
		sqlite3.LIMIT_LENGTH:          database.MaxValue,
		sqlite3.LIMIT_SQL_LENGTH:      database.MaxQuery,
		sqlite3.LIMIT_EXPR_DEPTH:      200,
		sqlite3.LIMIT_COMPOUND_SELECT: 100,
		sqlite3.LIMIT_FUNCTION_ARG:    100,
		// a pattern takes one step, of time by its length times that of the text
		sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 50,
		sqlite3.LIMIT_VARIABLE_NUMBER:     database.MaxParameters,
		sqlite3.LIMIT_TRIGGER_DEPTH:       0,
		sqlite3.LIMIT_WORKER_THREADS:      0,
	} {
		c.Limit(limit, value)
	}
	c.SetInterrupt(turn)
	if err := errors.Join(sqlitefile.Configure(c, options), c.Exec(pragmas), c.BusyHandler(turn.rest),
		addFunctions(c), c.SetAuthorizer(authorize)); err != nil {
		return fmt.Errorf("restrict the connection: %w", err)
	}
	return nil
}

// authorize decides about everything that a statement would do while SQLite compiles it.
// What it does not name is refused.
func authorize(action sqlite3.AuthorizerActionCode, first, second, _, _ string) sqlite3.AuthorizerReturnCode {
	switch action {
	case sqlite3.AUTH_SELECT, sqlite3.AUTH_RECURSIVE, sqlite3.AUTH_READ:
		return sqlite3.AUTH_OK
	case sqlite3.AUTH_FUNCTION:
		if !slices.Contains(slowFunctions, strings.ToLower(second)) {
			return sqlite3.AUTH_OK
		}
	case sqlite3.AUTH_PRAGMA: // those that describe the schema, which tell and change nothing
		if slices.Contains([]string{
			"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
			"foreign_key_list",
		}, strings.ToLower(first)) {
			return sqlite3.AUTH_OK
		}
	default: // whatever writes, attaches or begins something
	}
	return sqlite3.AUTH_DENY
}

// run compiles and runs one statement.
func run(c *sqlite3.Conn, q *database.Query) (table *database.Table, err error) {
	defer sqlitefile.Recovered(&err)
	if strings.ContainsRune(q.Text, 0) {
		return nil, database.Errorf("The query has a NUL character.")
	}
	s, tail, err := c.Prepare(q.Text)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, database.Errorf("The query is empty.")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if another, _, err := c.Prepare(tail); another != nil || err != nil {
		return nil, errors.Join(database.ErrSeveral(), err, another.Close())
	}
	if s.ColumnCount() == 0 || !s.ReadOnly() {
		return nil, database.ErrWrites()
	}
	if err := bind(s, q.Parameters); err != nil {
		return nil, err
	}
	columns := make([]database.Column, s.ColumnCount())
	for i := range columns {
		columns[i] = database.Column{Name: s.ColumnName(i), Type: s.ColumnDeclType(i)}
	}
	table = database.NewTable(q, columns)
	for s.Step() {
		row := make([]database.Cell, len(columns))
		for i := range row {
			row[i] = cell(s, i)
		}
		if !table.Add(row) {
			return table, nil
		}
	}
	return table, s.Err()
}

// cell returns a value of the row that the statement is at.
func cell(s *sqlite3.Stmt, column int) database.Cell {
	switch s.ColumnType(column) {
	case sqlite3.INTEGER:
		return database.IntegerCell(s.ColumnInt64(column))
	case sqlite3.FLOAT:
		return database.FloatCell(s.ColumnFloat(column))
	case sqlite3.TEXT:
		return database.TextCell(string(s.ColumnRawText(column)))
	case sqlite3.BLOB:
		return database.BinaryCell(s.ColumnRawBlob(column))
	default: // NULL
		return database.NullCell()
	}
}

// explain returns an error as the caller is to see it. Only what SQLite says of a
// statement is for the model: other errors could name files of this machine.
func (f *File) explain(ctx context.Context, err error) error {
	says, isOurs := errors.AsType[*database.Error](err)
	fault, isSQLite := errors.AsType[*sqlite3.Error](err)
	code := func(c error) bool { return errors.Is(err, c) }
	switch {
	case ctx.Err() != nil: // first, for it may have ended what looks like a fault of the query
		return context.Cause(ctx)
	case isOurs:
		return says
	case errors.Is(err, sqlitefile.ErrMemory):
		return database.Errorf(
			"The query needs more than %d MiB of memory here: sort, group or join fewer rows, or select "+
				"fewer columns.", Memory>>20)
	case code(sqlite3.AUTH):
		if _, function, found := strings.Cut(fmt.Sprint(fault), "not authorized to use function: "); found {
			return database.Errorf("The function %s cannot be used here.", function)
		}
		return database.ErrWrites()
	case code(sqlite3.TOOBIG):
		return database.Errorf(
			"A value or the query is longer than %d bytes: select parts of it with substr().",
			database.MaxValue)
	case code(sqlite3.ERROR) && isSQLite, code(sqlite3.RANGE) && isSQLite, code(sqlite3.MISMATCH) && isSQLite:
		return database.Errorf("SQLite says: %s", sentence(fault))
	case code(sqlite3.READONLY_ROLLBACK), code(sqlite3.READONLY_RECOVERY):
		return database.Errorf(
			"A program that writes this database has ended in the middle of it. It can be read again when " +
				"that program has opened it once more.")
	case f.isWAL() && (code(sqlite3.CANTOPEN) || code(sqlite3.READONLY) || code(sqlite3.IOERR)):
		return database.Errorf(
			"This database is in WAL mode, which can only be read where its folder can be written: the " +
				"operator makes the folder writable for the gateway, or sets PRAGMA journal_mode=DELETE.")
	case code(sqlite3.BUSY), code(sqlite3.LOCKED):
		return database.Errorf("Another program is writing this database: try again.")
	case code(sqlite3.NOTADB), code(sqlite3.CORRUPT):
		return database.Errorf("The file is no database of SQLite, or is damaged.")
	case code(sqlite3.CANTOPEN), code(sqlite3.IOERR):
		return database.Errorf(
			"The database file cannot be opened or read. The operator has to look after it.")
	}
	return fmt.Errorf("query %s: %w", f.path, err)
}

// sentence returns what SQLite says of a statement.
func sentence(err *sqlite3.Error) string {
	_, text, _ := strings.Cut(err.Error(), ": ") // sqlite3:
	return strings.TrimPrefix(text, "SQL logic error: ")
}

// isWAL tells whether the file is in WAL mode: bytes 18 and 19 of its header say so.
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func (f *File) isWAL() bool {
	file, err := os.Open(f.path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was only read
	header := make([]byte, 20)
	if _, err := io.ReadFull(file, header); err != nil {
		return false
	}
	return hex.EncodeToString(header[18:20]) == "0202"
}

// bind binds the parameters, which are numbered.
func bind(s *sqlite3.Stmt, values []database.Parameter) error {
	wanted := 0
	positions := make([]int, s.BindCount())
	for i := range positions {
		positions[i] = i + 1
		if name := s.BindName(i + 1); name != "" {
			if _, err := fmt.Sscanf(name[1:]+"\n", "%d\n", &positions[i]); err != nil || positions[i] < 1 {
				return database.Errorf("The parameter %s has no number: write ?1, ?2 and so on.", name)
			}
		}
		wanted = max(wanted, positions[i])
	}
	if wanted != len(values) {
		return database.Errorf("The query has %d parameters, and %d values were given.", wanted, len(values))
	}
	for i, position := range positions {
		if err := bindOne(s, i+1, values[position-1]); err != nil {
			return err
		}
	}
	return nil
}

func bindOne(s *sqlite3.Stmt, at int, v database.Parameter) error {
	switch v.Kind {
	case database.Null:
		return s.BindNull(at)
	case database.Boolean:
		return s.BindBool(at, v.Text == "true")
	case database.Number:
		if integer, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return s.BindInt64(at, integer)
		}
		float, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return database.Errorf("Parameter %d is too large a number: give it as a text.", at)
		}
		return s.BindFloat(at, float)
	default:
		return s.BindText(at, v.Text)
	}
}

// retryPause is how long a query waits before it tries again to read what another program
// writes.
const retryPause = 5 * time.Millisecond
