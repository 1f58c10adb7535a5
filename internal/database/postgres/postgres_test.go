package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
	"github.com/drawbridge-mcp/drawbridge/internal/database/postgres"
	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

var server *postgrestest.Server // of all tests here; nil: PostgreSQL is not installed

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(s *postgrestest.Server) { server = s }))
}

const schema = `
CREATE EXTENSION dblink;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
CREATE TABLE users(id integer PRIMARY KEY, name text NOT NULL, score double precision, photo bytea, big bigint, exact numeric, at timestamptz);
CREATE TABLE orders(id integer PRIMARY KEY, user_id integer REFERENCES users(id), total numeric(10,2));
CREATE TABLE secrets(value text);
CREATE SEQUENCE numbers;
CREATE VIEW names AS SELECT name FROM users;
CREATE FUNCTION sly() RETURNS integer LANGUAGE plpgsql AS 'BEGIN INSERT INTO secrets VALUES (''x''); RETURN 1; END';
CREATE FUNCTION slier() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM users; RETURN 1; END';
CREATE VIEW calls AS SELECT slier() AS n;
CREATE PROCEDURE proc() LANGUAGE plpgsql AS 'BEGIN DELETE FROM users; COMMIT; END';
CREATE PROCEDURE answering(INOUT n integer) LANGUAGE plpgsql AS 'BEGIN COMMIT; DELETE FROM users; END';
INSERT INTO users VALUES (1, 'Ada', 1.5, '\x0102', 9007199254740993, 1.10, '2026-01-02 03:04:05Z'), (2, 'Bob', 'NaN', NULL, 7, 123456789012345678901234567890, NULL);
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20.5);
`

// create makes a database whose role may read three of its relations, and call what an
// operator may have written.
func create(t *testing.T, name string) *postgres.Server {
	t.Helper()
	s := server.Need(t)
	s.Create(t, name, schema+
		fmt.Sprintf(
			"GRANT SELECT ON users, orders, names, calls TO %[1]s; GRANT EXECUTE ON FUNCTION sly(), slier() TO %[1]s; GRANT EXECUTE ON PROCEDURE proc(), answering(integer) TO %[1]s; GRANT USAGE ON SEQUENCE numbers TO %[1]s;", name))
	return postgres.New(s.File(t, name, name))
}

func ask(ctx context.Context, s *postgres.Server, text string,
	parameters ...database.Parameter,
) (*database.Table, error) {
	return s.Query(ctx, &database.Query{Text: text, Parameters: parameters, Limit: 100})
}

func rows(table *database.Table) string {
	var b strings.Builder
	for _, row := range table.Rows {
		for i, c := range row {
			if i > 0 {
				b.WriteByte('|')
			}
			b.Write(c)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// state returns all that a query could change: rows, relations, roles, settings, large
// objects and locks.
func state(t *testing.T, name string) string {
	t.Helper()
	var parts []string
	for _, query := range []string{
		"SELECT * FROM users ORDER BY 1", "SELECT * FROM orders ORDER BY 1", "SELECT * FROM secrets",
		"SELECT last_value, is_called FROM numbers",
		"SELECT relname, relkind, relowner FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg_toast%') ORDER BY oid",
		"SELECT rolname, rolsuper, rolcanlogin, rolconfig FROM pg_roles WHERE rolname = '" + name +
			"'", "SELECT oid FROM pg_largeobject_metadata",
		"SELECT datname, datacl FROM pg_database WHERE datname = '" + name +
			"'", "SELECT * FROM pg_db_role_setting",
		"SELECT nspname, nspacl FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' ORDER BY 1",
		"SELECT proname, proacl FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY oid",
		"SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'ssl%' ORDER BY name",
		"SELECT slot_name FROM pg_replication_slots", "SELECT gid FROM pg_prepared_xacts WHERE owner = '" +
			name + "'",
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = '" + name + "')",
	} {
		parts = append(parts, server.Exec(t, name, query))
	}
	return strings.Join(parts, "\n--\n")
}

func TestQueriesReadEveryKindOfValue(t *testing.T) {
	t.Parallel()
	s := create(t, "kinds")
	text := func(s string) database.Parameter { return database.Parameter{Kind: database.Text, Text: s} }
	number := func(s string) database.Parameter { return database.Parameter{Kind: database.Number, Text: s} }
	for name, test := range map[string]struct {
		query      string
		parameters []database.Parameter
		want       string
	}{
		"a table": {
			"SELECT id, name, score, photo, big, exact FROM users ORDER BY id", nil,
			`1|"Ada"|1.5|{"base64":"AQI=","bytes":2}|"9007199254740993"|1.10` + "\n" +
				`2|"Bob"|"NaN"|null|7|"123456789012345678901234567890"` + "\n",
		},
		"a join": {
			"SELECT name, sum(total) FROM users u JOIN orders o ON o.user_id = u.id GROUP BY name",
			nil, "\"Ada\"|30.50\n",
		},
		"a view": {"TABLE names ORDER BY 1 DESC", nil, "\"Bob\"\n\"Ada\"\n"},
		"parameters": {
			"SELECT $2::int, $1::text, $3::boolean, $4::jsonb->>'a', $5::text",
			[]database.Parameter{
				text("'; DROP TABLE users; --"), number("5"),
				{Kind: database.Boolean, Text: "true"},
				text(`{"a":1}`),
				{},
			},
			`5|"'; DROP TABLE users; --"|true|"1"|null` + "\n",
		},
		"values": {"VALUES (true, ARRAY[1,2], '{\"a\":1}'::jsonb)", nil, `true|"{1,2}"|"{\"a\": 1}"` +
			"\n"},
		"a setting": {"SHOW transaction_read_only", nil, "\"on\"\n"},
		"a plan":    {"SELECT 1 WHERE EXISTS (SELECT FROM users)", nil, "1\n"},
	} {
		table, err := ask(t.Context(), s, test.query, test.parameters...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, rows(table)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNoStatementChangesAnything runs every way to write or to reach beyond the database
// that PostgreSQL knows.
func TestNoStatementChangesAnything(t *testing.T) {
	t.Parallel()
	s := create(t, "attacked")
	before := state(t, "attacked")
	out := t.TempDir()
	// the server is another user's
	if err := errors.Join(os.Chmod(filepath.Dir(out), 0o755), os.Chmod(out, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"INSERT INTO users VALUES (3, 'Eve')", "DELETE FROM users RETURNING *",
		"UPDATE users SET name = 'x' RETURNING id", "TRUNCATE users",
		"WITH gone AS (DELETE FROM users RETURNING *) SELECT * FROM gone",
		"WITH x AS (INSERT INTO secrets VALUES ('x') RETURNING *) SELECT * FROM x",
		"MERGE INTO users u USING orders o ON u.id = o.id WHEN MATCHED THEN DELETE",
		"EXPLAIN ANALYZE DELETE FROM users",
		"SELECT sly()", "SELECT slier()", "SELECT * FROM calls", "CALL proc()", "CALL answering(1)",
		"SELECT query_to_xml('DELETE FROM users RETURNING *', true, true, '')",
		"SELECT ts_stat('DELETE FROM users RETURNING NULL::tsvector')",
		"DO $$BEGIN DELETE FROM users; COMMIT; END$$",
		"SELECT nextval('numbers')", "SELECT setval('numbers', 77)", "SELECT 1 INTO t",
		"CREATE TABLE t(a int)", "CREATE TEMP TABLE t(a int)", "CREATE TABLE t AS SELECT 1",
		"DROP TABLE users", "ALTER ROLE attacked SUPERUSER", "ALTER ROLE attacked SET work_mem = '1GB'",
		"CREATE ROLE eve", "GRANT SELECT ON secrets TO attacked", "SET ROLE postgres",
		"SET SESSION AUTHORIZATION postgres", "RESET ROLE", "SET TRANSACTION READ WRITE",
		"SET default_transaction_read_only = off", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s",
		"COMMIT; DELETE FROM users", "SELECT 1; DELETE FROM users", "SELECT 1; SELECT 2",
		"COPY users TO STDOUT", "COPY users FROM STDIN", "COPY users TO '" + out + "/copied'",
		"COPY (DELETE FROM users RETURNING *) TO STDOUT",
		"COPY users TO PROGRAM 'id'", "COPY (SELECT 1) TO STDOUT", "SELECT pg_read_file('/etc/passwd')",
		"SELECT pg_ls_dir('/')", "SELECT pg_stat_file('/etc/passwd')",
		"SELECT lo_import('/etc/passwd')", "SELECT pg_read_binary_file('/etc/passwd')",
		"SELECT lo_export(1, '" + out + "/exported')", "SELECT dblink('dbname=postgres', 'SELECT 1')",
		"SELECT dblink_connect('dbname=postgres')",
		"SELECT dblink_exec('dbname=postgres', 'DELETE FROM users')",
		"SELECT set_config('transaction_read_only', 'off', false)",
		"SELECT set_config('role', 'postgres', false)",
		"SELECT set_config('session_authorization', 'postgres', false)",
		"SELECT pg_reload_conf()",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'",
		"ALTER SYSTEM SET work_mem = '1GB'", "SELECT * FROM secrets",
		"LOCK TABLE users", "LISTEN x", "NOTIFY x", "UNLISTEN *", "VACUUM", "ANALYZE", "CLUSTER",
		"REINDEX TABLE users", "DISCARD ALL", "PREPARE p AS DELETE FROM users", "EXECUTE p",
		"DECLARE c CURSOR FOR SELECT 1", "LOAD 'auto_explain'",
		"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"IMPORT FOREIGN SCHEMA x FROM SERVER y INTO public",
		"SELECT * FROM users FOR UPDATE", "", "-- nothing", ";", "SELECT 1\x00; DELETE FROM users",
		"DELETE\u200B FROM users", "SELECT 1\u2028; DELETE FROM users",
		"/*\u202E*/DELETE FROM users--\U000E0041", "SELECT pg_promote()",
		"SELECT pg_create_restore_point('x')",
	} {
		table, err := ask(t.Context(), s, query)
		if _, ours := errors.AsType[*database.Error](err); !ours {
			t.Errorf("%q: got %v and error %v, want an error for the model", query, table, err)
		}
	}
	// These are answered, and leave nothing behind.
	for _, query := range []string{
		"SELECT set_config('work_mem', '1GB', false)",
		"SELECT set_config('default_transaction_read_only', 'off', false)",
		"SELECT set_config('statement_timeout', '0', false)",
		"SELECT pg_advisory_lock(42)", "SELECT pg_notify('x', 'y')", "SELECT lo_from_bytea(0, '\\x01')",
		"SELECT lo_create(0)", "SELECT txid_current()", "EXPLAIN DELETE FROM users",
		"SELECT 1 AS \"a\u202E\U000E0041\", '\u200B' AS b", "SELECT pg_export_snapshot()",
		"SELECT pg_logical_emit_message(true, 'x', 'y')",
	} {
		if _, err := ask(t.Context(), s, query); err != nil {
			if _, ours := errors.AsType[*database.Error](err); !ours {
				t.Errorf("%q: got error %v", query, err)
			}
		}
	}
	if diff := cmp.Diff(before, state(t, "attacked")); diff != "" {
		t.Errorf("the database has changed (-before +after):\n%s", diff)
	}
	if files, err := os.ReadDir(out); err != nil || len(files) > 0 {
		t.Errorf("files were made: %v, error %v", files, err)
	}
	for setting, want := range map[string]string{
		"work_mem": "4MB", "default_transaction_read_only": "on",
		"role": "none",
	} {
		if table, err := ask(t.Context(), s, "SHOW "+setting); err != nil || rows(table) != `"`+want+"\"\n" {
			t.Errorf("%s: got %v and error %v, want %s", setting, table, err, want)
		}
	}
}

// TestLargeResultsAreBounded asks for more rows, and larger values, than there may be.
func TestLargeResultsAreBounded(t *testing.T) {
	t.Parallel()
	s := create(t, "large")
	for name, test := range map[string]struct {
		query, fault string
		more, full   bool
	}{
		"rows": {"SELECT * FROM generate_series(1, 10000000)", "", true, false},
		"endless rows": {
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
			"", true, false,
		},
		"bytes":        {"SELECT repeat('x', 8000) FROM generate_series(1, 1000)", "", false, true},
		"a huge value": {"SELECT repeat('x', 20000000)", "2000000", false, false},
		"an impossible": {
			"SELECT repeat('x', 2000000000)", "PostgreSQL says: requested length too large",
			false, false,
		},
		"a sort": {
			"SELECT i, repeat('x', 100) FROM generate_series(1, 300000) AS i ORDER BY md5(i::text)",
			"", true, false,
		},
		"many huge values": {
			"SELECT repeat('x', 5000000) FROM generate_series(1, 1000)",
			"select fewer columns", false, false,
		},
		"deep": {
			"SELECT " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000),
			"PostgreSQL says: ", false, false,
		},
	} {
		table, err := ask(t.Context(), s, test.query)
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: got error %v, want one with %q", name, err, test.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case table.More != test.more || table.Full != test.full || len(table.Rows) > 100 ||
			table.Size() > database.MaxResult:
			t.Errorf("%s: got %d rows, more: %v, full: %v", name, len(table.Rows), table.More, table.Full)
		}
	}
	// of the sort
	waitFor(t, "", func() string { return server.Exec(t, "large", "SELECT name FROM pg_ls_tmpdir()") })
}

// TestQueriesEndWithTheirCallers has ten callers whose queries hang, and looks whether
// anything runs on.
func TestQueriesEndWithTheirCallers(t *testing.T) {
	t.Parallel()
	s := create(t, "hanging")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	for range 10 {
		go func() {
			_, err := ask(ctx, s, "SELECT pg_sleep(600)")
			ended <- err
		}()
	}
	running := func() string {
		return server.Exec(t, "hanging",
			"SELECT count(*) FROM pg_stat_activity WHERE usename = 'hanging' AND query LIKE '%pg_sleep%' AND state = 'active'")
	}
	waitFor(t, "10", running)
	stop()
	for range 10 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	}
	waitFor(t, "0", running)

	limited, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := ask(limited, s,
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"); err == nil {
		t.Error("a query without an end has ended")
	}
	waitFor(t, "0", func() string {
		return server.Exec(t, "hanging",
			"SELECT count(*) FROM pg_stat_activity WHERE usename = 'hanging' AND state = 'active'")
	})
}

// TestAQueryTakesOneConnection counts those of queries that end by themselves, well or
// not. Another one would be to cancel what does not run any more.
func TestAQueryTakesOneConnection(t *testing.T) {
	t.Parallel()
	create(t, "counted")
	proxy, err := netfault.Start(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	address, err := os.ReadFile(server.File(t, "counted", "counted"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	through := strings.Replace(string(address), server.Address, proxy.Address, 1)
	if err := os.WriteFile(file, []byte(through), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT 1", "SELECT i FROM generate_series(1, 1000) AS i", "SELECT nothing", "SELECT 1 / 0",
		"SELECT $1::int", "DELETE FROM users", "SELECT value FROM secrets",
	} {
		before := proxy.Met()
		_, _ = ask(t.Context(), postgres.New(file), query) // some are refused
		if took := proxy.Met() - before; took != 1 {
			t.Errorf("%s: took %d connections, want 1", query, took)
		}
	}
}

// waitFor returns when get returns what is wanted.
func waitFor(t *testing.T, want string, get func() string) {
	t.Helper()
	for began := time.Now(); get() != want; {
		if time.Since(began) > time.Minute {
			t.Fatalf("got %s, want %s", get(), want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestRolesThatMayDoMoreAreRefused gives a role one grant after the other.
func TestRolesThatMayDoMoreAreRefused(t *testing.T) {
	t.Parallel()
	s := create(t, "granted")
	if notes, err := s.Check(t.Context()); err != nil || len(notes) > 0 {
		t.Fatalf("without grants: got %v and error %v", notes, err)
	}
	server.Exec(t, "granted",
		"CREATE ROLE granted_group; CREATE ROLE granted_boss SUPERUSER; CREATE ROLE granted_nested NOINHERIT")
	type grant struct{ grant, revoke, want string }
	grants := []grant{
		{"ALTER ROLE granted SUPERUSER", "ALTER ROLE granted NOSUPERUSER", "SUPERUSER"},
		{"ALTER ROLE granted REPLICATION", "ALTER ROLE granted NOREPLICATION", "REPLICATION"},
		{"ALTER ROLE granted BYPASSRLS", "ALTER ROLE granted NOBYPASSRLS", "BYPASSRLS"},
		{"ALTER ROLE granted CREATEROLE", "ALTER ROLE granted NOCREATEROLE", "CREATEROLE"},
		{
			"GRANT granted_boss TO granted", "REVOKE granted_boss FROM granted",
			"SUPERUSER by membership in granted_boss",
		},
		{
			"GRANT pg_write_all_data TO granted", "REVOKE pg_write_all_data FROM granted",
			"membership in pg_write_all_data",
		},
		{
			"GRANT pg_read_server_files TO granted", "REVOKE pg_read_server_files FROM granted",
			"membership in pg_read_server_files",
		},
		{
			"GRANT pg_write_server_files TO granted", "REVOKE pg_write_server_files FROM granted",
			"membership in pg_write_server_files",
		},
		{
			"GRANT pg_execute_server_program TO granted", "REVOKE pg_execute_server_program FROM granted",
			"membership in pg_execute_server_program",
		},
		{
			"GRANT pg_signal_backend TO granted", "REVOKE pg_signal_backend FROM granted",
			"membership in pg_signal_backend",
		},
		{
			"ALTER TABLE orders OWNER TO granted", "ALTER TABLE orders OWNER TO postgres",
			"ownership of public.orders",
		},
		{"GRANT INSERT ON users TO granted", "REVOKE INSERT ON users FROM granted", "INSERT on public.users"},
		{
			"GRANT UPDATE (name) ON users TO granted", "REVOKE UPDATE (name) ON users FROM granted",
			"UPDATE on public.users",
		},
		{"GRANT DELETE ON users TO PUBLIC", "REVOKE DELETE ON users FROM PUBLIC", "DELETE on public.users"},
		{"GRANT TRUNCATE ON users TO granted_group; GRANT granted_group TO granted_nested; GRANT granted_nested TO granted", "REVOKE granted_nested FROM granted", "TRUNCATE on public.users"},
		{
			"GRANT EXECUTE ON FUNCTION dblink(text) TO granted",
			"REVOKE EXECUTE ON FUNCTION dblink(text) FROM granted", "EXECUTE on dblink(text)",
		},
	}
	// not in every version
	later := "SELECT rolname FROM pg_roles WHERE rolname IN ('pg_maintain', 'pg_create_subscription')"
	for role := range strings.FieldsSeq(server.Exec(t, "granted", later)) {
		grants = append(grants, grant{
			"GRANT " + role + " TO granted", "REVOKE " + role + " FROM granted",
			"membership in " + role,
		})
	}
	for _, test := range grants {
		server.Exec(t, "granted", test.grant)
		_, err := ask(t.Context(), s, "SELECT 1")
		if ours, ok := errors.AsType[*database.Error](err); !ok ||
			!strings.Contains(ours.Text, "The present one has "+test.want) {
			t.Errorf("%s: got error %v, want one with %q", test.grant, err, test.want)
		}
		if _, err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v of Check, want one with %q", test.grant, err, test.want)
		}
		server.Exec(t, "granted", test.revoke)
		if _, err := ask(t.Context(), s, "SELECT 1"); err != nil && !strings.Contains(test.grant, "OWNER") {
			t.Errorf("after %s: %v", test.revoke, err)
		}
	}
	server.Exec(t, "granted",
		"GRANT CREATE ON SCHEMA public TO granted; GRANT TEMP ON DATABASE granted TO granted")
	notes, err := s.Check(t.Context())
	want := []string{
		"the role has CREATE on schema public, which it does not need",
		"the role has TEMP on database granted, which it does not need",
	}
	if diff := cmp.Diff(want, notes); diff != "" || err != nil {
		t.Errorf("warnings (-want +got), error %v:\n%s", err, diff)
	}
}

// TestErrorsOfTheConnectionAreNotForModels connects with a wrong password, to a database
// that is not there, and to nobody.
func TestErrorsOfTheConnectionAreNotForModels(t *testing.T) {
	server.Need(t)
	t.Setenv("PGPASSWORD", "from-the-environment")
	t.Setenv("PGUSER", "postgres")
	for name, address := range map[string]string{
		"a wrong password": "postgres://postgres:wrong-secret@" + server.Address + "/postgres",
		"no database":      "postgres://postgres:postgrestest-secret@" + server.Address + "/none",
		"nobody":           "postgres://postgres:wrong-secret@127.0.0.1:1/postgres",
	} {
		file := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(file, []byte(address), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ask(t.Context(), postgres.New(file), "SELECT 1")
		if _, ours := errors.AsType[*database.Error](err); ours || err == nil {
			t.Errorf("%s: got error %v, want one for the log", name, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error %v has the password", name, err)
		}
	}
}

// TestTheEnvironmentDoesNotCount has variables by which the driver could not connect.
func TestTheEnvironmentDoesNotCount(t *testing.T) {
	server.Need(t).Create(t, "environment", "")
	s := postgres.New(server.File(t, "environment", "environment"))
	for name, value := range map[string]string{
		"PGPORT": "none", "PGSSLROOTCERT": "/none", "PGSSLCERT": "/none", "PGSSLCERTMODE": "require",
		"PGCONNECT_TIMEOUT": "none", "PGMINPROTOCOLVERSION": "none", "PGMAXPROTOCOLVERSION": "none",
		"PGCHANNELBINDING": "require", "PGREQUIREAUTH": "gss", "PGTARGETSESSIONATTRS": "standby",
		"PGSSLMODE": "verify-full", "PGSSLNEGOTIATION": "direct", "PGOPTIONS": "-crole=postgres",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := ask(t.Context(), s, "SELECT 1"); err != nil {
				t.Errorf("with %s: %v", value, err)
			}
		})
	}
}

// TestServersAreKnownByTheirCertificates speaks TLS with a server that the authority in
// the address knows, and with one that it does not.
func TestServersAreKnownByTheirCertificates(t *testing.T) {
	t.Parallel()
	create(t, "secured")
	authority := server.Secure(t)
	data, err := os.ReadFile(server.File(t, "secured", "secured"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	address := func(options string) *postgres.Server {
		if err := os.WriteFile(file, []byte(strings.TrimSpace(string(data))+options), 0o600); err != nil {
			t.Fatal(err)
		}
		return postgres.New(file)
	}
	waitFor(t, "true\n", func() string { // the server turns TLS on when it has read its settings again
		table, err := ask(t.Context(), address("?sslmode=verify-full&sslrootcert="+authority),
			"SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
		if err != nil {
			return err.Error()
		}
		return rows(table)
	})
	if _, err := ask(t.Context(), address("?sslmode=verify-full"), "SELECT 1"); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: got error %v", err)
	}
}
