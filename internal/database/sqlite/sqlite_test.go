package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
	"github.com/drawbridge-mcp/drawbridge/internal/database/sqlite"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

const schema = `
CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT NOT NULL, score REAL, photo BLOB, big INTEGER);
CREATE TABLE orders(id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users(id), total NUMERIC);
CREATE VIEW names AS SELECT name FROM users;
CREATE VIEW sly AS SELECT base64(photo) AS code FROM users;
INSERT INTO users VALUES (1, 'Ada', 1.5, x'0102', 9007199254740993), (2, 'Bob', NULL, NULL, 7);
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 2, 5);
CREATE TRIGGER spy AFTER INSERT ON orders BEGIN DELETE FROM users; END;
`

// create makes a database file with a schema, and returns its path.
func create(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.db")
	c := writer(t, path)
	if err := errors.Join(c.Exec(text), c.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// writer opens a file as the program does that it belongs to.
func writer(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, path string) *sqlite.File {
	t.Helper()
	f, err := sqlite.New(path, fairqueue.New(1))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ask(ctx context.Context, f *sqlite.File, text string, parameters ...database.Parameter) (*database.Table,
	error,
) {
	return f.Query(ctx, &database.Query{
		Text: text, Parameters: parameters, Limit: 100,
		User: share.User{TenantID: "acme"},
	})
}

// rows writes the rows of a table, a line each.
func rows(table *database.Table) string {
	var b strings.Builder
	for _, row := range table.Rows {
		fmt.Fprintf(&b, "%s\n", bytes.Join(cast(row), []byte("|")))
	}
	return b.String()
}

func cast(row []database.Cell) [][]byte {
	out := make([][]byte, len(row))
	for i, c := range row {
		out[i] = c
	}
	return out
}

// folder returns the content of each file of a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[f.Name()] = string(data)
	}
	return content
}

func TestQueriesReadEveryKindOfValue(t *testing.T) {
	t.Parallel()
	f := open(t, create(t, schema))
	text := func(s string) database.Parameter { return database.Parameter{Kind: database.Text, Text: s} }
	number := func(s string) database.Parameter { return database.Parameter{Kind: database.Number, Text: s} }
	for name, test := range map[string]struct {
		query      string
		parameters []database.Parameter
		want       string
	}{
		"a table": {
			"SELECT * FROM users ORDER BY id", nil,
			`1|"Ada"|1.5|{"base64":"AQI=","bytes":2}|"9007199254740993"` + "\n" + `2|"Bob"|null|null|7` +
				"\n",
		},
		"a join": {
			"SELECT name, sum(total) FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.id",
			nil, "\"Ada\"|30\n\"Bob\"|5\n",
		},
		"a view": {"SELECT * FROM names ORDER BY 1 DESC", nil, "\"Bob\"\n\"Ada\"\n"},
		"parameters": {"SELECT ?2, ?1, ?1", []database.Parameter{
			text("'; DROP TABLE users; --"),
			number("5"),
		}, `5|"'; DROP TABLE users; --"|"'; DROP TABLE users; --"` + "\n"},
		"dollar parameters": {"SELECT $2, $1", []database.Parameter{number("1"), number("2.5")}, "2.5|1\n"},
		"nameless parameters": {
			"SELECT ?, ?, ?",
			[]database.Parameter{{}, {Kind: database.Boolean, Text: "true"}, text("x")},
			"null|1|\"x\"\n",
		},
		"no number of JSON": {
			"SELECT 9e999, -9e999, 9223372036854775807", nil,
			`"Infinity"|"-Infinity"|"9223372036854775807"` + "\n",
		},
		"functions":        {"SELECT trim('xxaxx', 'x'), ltrim('éa', 'é'), rtrim('ab', 'b'), instr('héllo', 'l'), replace('aXbX', 'X', '--')", nil, `"a"|"a"|"a"|3|"a--b--"` + "\n"},
		"no bytes":         {"SELECT x''", nil, `{"base64":"","bytes":0}` + "\n"},
		"no UTF-8":         {"SELECT cast(x'61ff62' AS TEXT)", nil, "\"a\uFFFDb\"\n"},
		"a comment behind": {"SELECT 1; -- and no more", nil, "1\n"},
		"the schema": {
			"SELECT name FROM pragma_table_info('orders')", nil,
			"\"id\"\n\"user_id\"\n\"total\"\n",
		},
		"a plan": {"SELECT count(*) > 0 FROM (SELECT 1)", nil, "1\n"},
	} {
		table, err := ask(t.Context(), f, test.query, test.parameters...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, rows(table)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNoStatementChangesAnything runs every way to write or to reach beyond the file that
// SQLite knows.
func TestNoStatementChangesAnything(t *testing.T) {
	t.Parallel()
	path := create(t, schema)
	other := filepath.Join(t.TempDir(), "other.db")
	before := folder(t, filepath.Dir(path))
	f := open(t, path)
	for _, query := range []string{
		"INSERT INTO users VALUES (3, 'Eve', 0, NULL, 0)",
		"INSERT INTO users VALUES (3, 'Eve', 0, NULL, 0) RETURNING id",
		"UPDATE users SET name = 'x'", "DELETE FROM users RETURNING *",
		"REPLACE INTO users(id, name) VALUES (1, 'x')",
		"WITH x AS (SELECT 1) DELETE FROM users",
		"WITH x AS (SELECT 1) INSERT INTO orders SELECT 9, 1, 1 FROM x RETURNING *",
		"CREATE TABLE t(a)", "CREATE TEMP TABLE t(a)", "CREATE TEMP VIEW v AS SELECT 1",
		"CREATE VIRTUAL TABLE t USING generate_series", "DROP TABLE users",
		"ALTER TABLE users ADD COLUMN x", "CREATE INDEX i ON users(name)", "REINDEX", "ANALYZE", "VACUUM",
		"VACUUM INTO '" + other + "'",
		"ATTACH '" + other + "' AS o", "ATTACH ':memory:' AS o", "DETACH main", "BEGIN", "BEGIN IMMEDIATE",
		"COMMIT", "ROLLBACK", "SAVEPOINT s", "RELEASE s",
		"PRAGMA query_only = OFF", "PRAGMA writable_schema = ON", "PRAGMA journal_mode = WAL",
		"PRAGMA user_version = 7", "PRAGMA application_id = 7",
		"PRAGMA trusted_schema = ON", "PRAGMA temp_store_directory = '/tmp'", "PRAGMA hard_heap_limit = 0",
		"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA optimize",
		"PRAGMA incremental_vacuum", "PRAGMA database_list", "SELECT * FROM pragma_journal_mode('wal')",
		"SELECT * FROM pragma_database_list", "SELECT * FROM pragma_user_version",
		"SELECT load_extension('x')", "SELECT sqlite_log(1, 'x')", "SELECT writefile('" + other + "', 'x')",
		"SELECT readfile('/etc/passwd')", "SELECT edit('x')",
		"UPDATE sqlite_schema SET sql = NULL", "DELETE FROM sqlite_schema", "SELECT * FROM sqlite_dbpage",
		"UPDATE sqlite_dbpage SET data = zeroblob(4096)",
		"SELECT 1; DELETE FROM users", "SELECT 1; SELECT 2", "DELETE FROM users; SELECT 1",
		"SELECT 1;;SELECT 2", "SELECT 1; garbage", "SELECT 1 /* ; */; DROP TABLE users --",
		"SELECT * FROM sly", "EXPLAIN DELETE FROM users; DELETE FROM users", "DELETE\u200B FROM users",
		"DELETE\u00A0FROM users", "/*\u202E*/DELETE FROM users--\U000E0041",
		"SELECT 1;\u2028DELETE FROM users",
		"", " -- nothing", "\x00", "SELECT 1\x00; DELETE FROM users",
	} {
		table, err := ask(t.Context(), f, query)
		if _, ours := errors.AsType[*database.Error](err); !ours {
			t.Errorf("%q: got %v and error %v, want an error for the model", query, table, err)
		} else if strings.Contains(err.Error(), filepath.Dir(path)) || strings.Contains(err.Error(),
			"sqlite3:") {
			t.Errorf("%q: the error %q has a path or the name of the driver", query, err)
		}
	}
	if diff := cmp.Diff(before, folder(t, filepath.Dir(path))); diff != "" {
		t.Errorf("the folder has changed (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("another file was made")
	}
}

// TestLongQueriesEnd runs queries that would take hours or more memory than there is.
func TestLongQueriesEnd(t *testing.T) {
	t.Parallel()
	path := create(t, schema)
	f := open(t, path)
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	long := "WITH a(t) AS (SELECT printf('%.*c', 500000, 'a')) SELECT "
	for name, test := range map[string]struct{ query, want string }{
		"rows":   {numbers + "SELECT i FROM n LIMIT 10000000", ""},
		"a sort": {numbers + "SELECT i, randomblob(200) FROM n LIMIT 10000000", ""},
		"a sort in memory": {
			numbers +
				"SELECT * FROM (SELECT i, randomblob(200) AS b FROM n LIMIT 1000000) ORDER BY b",
			"needs more than 16 MiB of memory",
		},
		"a set":          {"WITH RECURSIVE n(i, t) AS (SELECT 1, '' UNION SELECT i + 1, printf('%.*c', 500, 'x') FROM n LIMIT 5000000) SELECT count(*) FROM n", "needs more than 16 MiB of memory"},
		"a huge value":   {"SELECT zeroblob(1000000000)", "longer than 1048576 bytes"},
		"a huge text":    {"SELECT printf('%.*c', 2000000, 'x')", "longer than 1048576 bytes"},
		"a doubled text": {"WITH RECURSIVE d(s) AS (SELECT 'ab' UNION ALL SELECT s || s FROM d) SELECT max(length(s)) FROM d", "longer than 1048576 bytes"},
		"a huge answer":  {"SELECT replace(t, 'a', 'bcd') FROM a", ""},
		"trim":           {long + "length(trim(t, printf('%.*c', 500000, 'b') || 'a')) FROM a", ""},
		"instr":          {long + "instr(t, printf('%.*c', 250000, 'a') || 'b') FROM a", ""},
		"replace":        {long + "length(replace(t, printf('%.*c', 250000, 'a') || 'b', '')) FROM a", ""},
		"a pattern": {
			"SELECT 'a' LIKE '" + strings.Repeat("%a", 100) + "'",
			"LIKE or GLOB pattern too complex",
		},
		"depth": {
			"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
			"SQLite says: ",
		},
		"unions":         {"SELECT 1" + strings.Repeat(" UNION SELECT 1", 500), "SQLite says: "},
		"views of views": {doubling(40), ""},
		"a long query":   {"SELECT '" + strings.Repeat("x", database.MaxQuery) + "'", ""},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		table, err := ask(ctx, f, test.query)
		stop()
		if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: it did not end by itself", name)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got error %v, want one with %q", name, err, test.want)
		}
		if _, ours := errors.AsType[*database.Error](err); err != nil && !ours {
			t.Errorf("%s: the error %v is not for the model", name, err)
		}
		if err == nil && (table.Size() > database.MaxResult || len(table.Rows) > 100) {
			t.Errorf("%s: %d rows of %d bytes", name, len(table.Rows), table.Size())
		}
	}
	if _, err := ask(t.Context(), f, "SELECT 1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// doubling returns a query in which each of n names stands for two of the one before.
func doubling(n int) string {
	query := "WITH c0 AS (SELECT 1 AS a)"
	for i := range n {
		query += fmt.Sprintf(", c%d AS (SELECT a FROM c%d UNION ALL SELECT a FROM c%d)", i+1, i, i)
	}
	return query + fmt.Sprintf(" SELECT count(*) FROM c%d", n)
}

// TestEndlessQueriesTakeTurnsAtOnce has ten callers with queries that never end. A caller
// with a short one is served meanwhile, and all end with their contexts.
func TestEndlessQueriesTakeTurnsAtOnce(t *testing.T) {
	t.Parallel()
	turns := fairqueue.New(1)
	f, err := sqlite.New(create(t, schema), turns)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	for range 10 {
		go func() {
			_, err := ask(
				ctx, f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
			ended <- err
		}()
	}
	for range 20 {
		_, err := f.Query(t.Context(), &database.Query{
			Text: "SELECT count(*) FROM users", Limit: 1,
			User: share.User{TenantID: "quiet"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	for range 10 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	}
	if turns.Busy() != 0 || len(turns.Waiting()) != 0 {
		t.Errorf("%d slots are held and %v wait", turns.Busy(), turns.Waiting())
	}
}

// ending is a context that ends when it is asked about its end for the n-th time.
type ending struct {
	context.Context //nolint:containedctx // it is the context

	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestTheEndOfACallerIsNoFaultOfTheQuery has callers leave at every step of a query.
func TestTheEndOfACallerIsNoFaultOfTheQuery(t *testing.T) {
	t.Parallel()
	f := open(t, create(t, schema))
	for steps := range 40 {
		_, err := ask(&ending{context.Background(), steps}, f, "SELECT count(*) FROM users; -- and no more")
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d steps: got error %v, want %v", steps, err, context.Canceled)
		}
	}
}

func TestWholeResultsAreBounded(t *testing.T) {
	t.Parallel()
	f := open(t, create(t, schema))
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	table, err := ask(t.Context(), f, numbers+"SELECT i FROM n")
	if err != nil || len(table.Rows) != 100 || !table.More || table.Full {
		t.Errorf("got %+v and error %v, want 100 rows of more", table, err)
	}
	table, err = ask(t.Context(), f, numbers+"SELECT i FROM n LIMIT 100")
	if err != nil || len(table.Rows) != 100 || table.More {
		t.Errorf("got %d rows, more: %v, error %v, want 100 and no more", len(table.Rows), table.More, err)
	}
	table, err = ask(t.Context(), f, numbers+"SELECT printf('%.*c', 9000, 'ü'), zeroblob(9000) FROM n")
	if err != nil || !table.Full || table.Size() > database.MaxResult {
		t.Fatalf("got %d rows, full: %v, error %v", len(table.Rows), table.Full, err)
	}
	if cell := string(table.Rows[0][0]); !strings.HasSuffix(cell, `ü… [cut: 18000 bytes in all]"`) {
		t.Errorf("a text ends with %q", cell[len(cell)-60:])
	}
	if cell := string(table.Rows[0][1]); !strings.HasSuffix(cell, `","bytes":9000,"cut":true}`) {
		t.Errorf("a blob ends with %q", cell[len(cell)-60:])
	}
}

// TestWALIsReadAndNotChanged reads a file in WAL mode beside the program that writes it.
func TestWALIsReadAndNotChanged(t *testing.T) {
	t.Parallel()
	path := create(t, "PRAGMA journal_mode=WAL;"+schema)
	c := writer(t, path)
	defer c.Close()
	if err := c.Exec("INSERT INTO users(id, name) VALUES (3, 'Cy')"); err != nil {
		t.Fatal(err)
	}
	before := folder(t, filepath.Dir(path))
	f := open(t, path)
	table, err := ask(t.Context(), f, "SELECT count(*) FROM users")
	if err != nil || rows(table) != "3\n" {
		t.Fatalf("got %v and error %v, want 3", table, err)
	}
	after := folder(t, filepath.Dir(path))
	for _, name := range []string{"users.db", "users.db-wal"} {
		if before[name] != after[name] || after[name] == "" {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestWALWithoutAFolderToWriteIsRefusedInWords puts a folder where SQLite would make a
// file: root may write everywhere.
func TestWALWithoutAFolderToWriteIsRefusedInWords(t *testing.T) {
	t.Parallel()
	path := create(t, "PRAGMA journal_mode=WAL;"+schema)
	if err := os.Mkdir(path+"-shm", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t.Context(), open(t, path), "SELECT 1 FROM users")
	if err == nil || !strings.Contains(err.Error(),
		"is in WAL mode, which can only be read where its folder can be written") {
		t.Errorf("got error %v", err)
	}
}

func TestFilesThatCannotBeReadAreRefusedInWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.db")
	if err := os.WriteFile(junk, bytes.Repeat([]byte("no database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		junk: "is no database of SQLite", dir: "cannot be opened or read", filepath.Join(dir,
			"none.db"): "cannot be opened or read",
		filepath.Join(dir, "none.db?mode=rwc&vfs=memdb"): "cannot be opened or read",
	} {
		_, err := ask(t.Context(), open(t, path), "SELECT * FROM sqlite_schema")
		if _, ours := errors.AsType[*database.Error](err); !ours || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got error %v, want one with %q", path, err, want)
		}
		if _, err := open(t, path).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v of Check, want one with %q", path, err, want)
		}
	}
	if files := folder(t, dir); len(files) != 1 {
		t.Errorf("files were made: %v", files)
	}
}

// TestWritersAreWaitedForAtOnce holds the lock of a writer for a while.
func TestWritersAreWaitedForAtOnce(t *testing.T) {
	t.Parallel()
	path := create(t, schema)
	c := writer(t, path)
	defer c.Close()
	if err := c.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	turns := fairqueue.New(1)
	f, err := sqlite.New(path, turns)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), f, "SELECT count(*) FROM users"); err == nil ||
		!strings.Contains(err.Error(), "Another program is writing") {
		t.Errorf("while it is written: got error %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := ask(t.Context(), f, "SELECT count(*) FROM users")
		done <- err
	}()
	if err := c.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("afterwards: got error %v", err)
	}
}
