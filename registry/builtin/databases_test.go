package builtin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/database/sqlite"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

var server *postgrestest.Server // nil: PostgreSQL is not installed

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(s *postgrestest.Server) { server = s }))
}

const shop = `
CREATE TABLE users(id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE orders(id integer PRIMARY KEY, user_id integer REFERENCES users(id), total numeric(10,2));
CREATE VIEW spent AS SELECT user_id, sum(total) AS total FROM orders GROUP BY user_id;
INSERT INTO users VALUES (1, 'Ada'), (2, 'Bob');
INSERT INTO orders VALUES (1, 1, 10.5), (2, 1, 20.25), (3, 2, 5.5);
`

// file makes a database of SQLite.
func file(t *testing.T, statements string) builtin.Database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec(statements), c.Close()); err != nil {
		t.Fatal(err)
	}
	return builtin.Database{Name: "shop", SQLite: path}
}

// ask calls a tool, and returns its text and structured content, which must fit the
// output schema.
func ask(t *testing.T, offer registry.Offer, arguments string) (text string, structured mcp.Object) {
	t.Helper()
	result, err := tryCall(t.Context(), t, offer, arguments)
	if err != nil {
		t.Fatalf("call with %s: %v", arguments, err)
	}
	if result.Has("structuredContent") {
		conform(t, offer.Definition.Value("outputSchema"), result.Value("structuredContent"))
	} else {
		refusal(t, result)
	}
	return textOf(t, result), result.Object("structuredContent")
}

// TestAColumnOfTwoForeignKeysIsOneColumn has one that is a reference by itself and part
// of another, as the tenant's is in many databases.
func TestAColumnOfTwoForeignKeysIsOneColumn(t *testing.T) {
	t.Parallel()
	const text = `CREATE TABLE tenants(id integer PRIMARY KEY);
CREATE TABLE people(tenant integer REFERENCES tenants(id), id integer, PRIMARY KEY (tenant, id));
CREATE TABLE notes(tenant integer REFERENCES tenants(id), author integer,
  FOREIGN KEY (tenant, author) REFERENCES people(tenant, id));`
	for _, kind := range []string{"SQLite", "PostgreSQL"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			database := file(t, text)
			if kind == "PostgreSQL" {
				server.Need(t).Create(t, "notes", text+"GRANT SELECT ON ALL TABLES IN SCHEMA public TO notes")
				database = builtin.Database{Name: "notes", PostgresFile: server.File(t, "notes", "notes")}
			}
			describe := open(t, builtin.Config{Databases: []builtin.Database{database}}, "describe_database")
			got, _ := ask(t, describe, `{"table":"notes"}`)
			const want = "notes: tenant integer → people.tenant, author integer → people.id"
			if !strings.Contains(strings.ReplaceAll(got, "INTEGER", "integer"), want) {
				t.Errorf("got\n%s\nwant %q in it", got, want)
			}
		})
	}
}

// TestWhatCannotBeReadHidesNoOtherTable has a view of a table that is gone, and a table
// of a module that SQLite lacks here.
func TestWhatCannotBeReadHidesNoOtherTable(t *testing.T) {
	t.Parallel()
	cfg := builtin.Config{Databases: []builtin.Database{file(t, shop+`CREATE VIEW old AS SELECT * FROM gone;
PRAGMA writable_schema = ON;
INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql)
VALUES ('table', 'docs', 'docs', 0, 'CREATE VIRTUAL TABLE docs USING fts5(body)');`)}}
	describe := open(t, cfg, "describe_database")
	text, _ := ask(t, describe, `{}`)
	if !strings.Contains(strings.ToLower(text), "table users: id integer key") ||
		!strings.Contains(text, "view spent: ") || !strings.Contains(text, "(tables and views: 3)") {
		t.Errorf("got\n%s\nwant the three that can be read", text)
	}
	for _, name := range []string{"old", "docs"} {
		text, _ := ask(t, describe, `{"table": "`+name+`"}`)
		if !strings.Contains(text, "no table or view of that name that can be read") {
			t.Errorf("of %s: got %q", name, text)
		}
	}
}

// TestAModelDescribesAsksErrsAndMends is a session of a model with a database of each
// kind.
func TestAModelDescribesAsksErrsAndMends(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"SQLite", "PostgreSQL"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			database, prefix, parameter := file(t, shop), "", "?1"
			if kind == "PostgreSQL" {
				server.Need(t).Create(t, "shop", shop+"GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop")
				database, prefix, parameter = builtin.Database{
					Name:         "shop",
					PostgresFile: server.File(t, "shop", "shop"),
				}, "public.", "$1"
			}
			cfg := builtin.Config{Databases: []builtin.Database{database, {Name: "other", SQLite: "none.db"}}}
			describe, query := open(t, cfg, "describe_database"), open(t, cfg, "query_database")
			if d := query.Definition.Text("description"); !strings.Contains(d, "Databases: shop ("+kind+
				"), other (SQLite).") {
				t.Errorf("the description is %q", d)
			}

			text, structured := ask(t, describe, `{}`)
			for _, want := range []string{
				"table " + prefix + "users: id integer key, name text",
				"user_id integer → users.id", "view " + prefix + "spent: user_id", "(tables and views: 3)",
			} {
				if !strings.Contains(strings.NewReplacer("INTEGER", "integer", "TEXT", "text").Replace(text),
					want) {
					t.Errorf("describe_database says\n%s\nwant %q in it", text, want)
				}
			}
			if tables, _ := structured.Value("tables").Elements(); len(tables) != 3 {
				t.Errorf("got %s", structured.JSON())
			}
			if text, _ := ask(t, describe, `{"table": "users"}`); strings.Contains(text, "orders:") ||
				!strings.Contains(text, "users:") {
				t.Errorf("of one table:\n%s", text)
			}
			if text, _ := ask(t, describe, `{"table": "user"}`); !strings.Contains(text,
				"no table or view of that name") {
				t.Errorf("of none:\n%s", text)
			}

			// in PostgreSQL, user is the role
			text, _ = ask(t, query, `{"query": "SELECT user, total FROM orders"}`)
			if kind == "SQLite" && text != "SQLite says: no such column: user" {
				t.Errorf("an error says %q", text)
			}
			if text, _ = ask(t, query, `{"query": "SELECT nam FROM users"}`); !strings.Contains(text,
				kind+" says: ") || !strings.Contains(text, "nam") {
				t.Errorf("an error says %q", text)
			}
			if text, _ = ask(t, query, `{"query": "SELECT name FROM users WHERE id = `+parameter+
				`"}`); text != "The query has 1 parameters, and 0 values were given." {
				t.Errorf("an error says %q", text)
			}
			if text, _ = ask(t, query, `{"query": "DELETE FROM users"}`); !strings.Contains(text,
				"Only reading is allowed here") {
				t.Errorf("an error says %q", text)
			}
			if text, _ = ask(t, query,
				`{"query": "SELECT 1", "database": "none"}`); text != "There is no such database; there are shop, other." {
				t.Errorf("an error says %q", text)
			}
			text, structured = ask(t, query,
				`{"query": "SELECT name, total FROM users JOIN spent ON user_id = id WHERE total > `+
					parameter+` ORDER BY name", "parameters": [1], "database": "shop"}`)
			if want := "name | total\nAda | 30.75\nBob | 5.5"; !strings.HasPrefix(strings.ReplaceAll(text,
				"5.50", "5.5"), want) {
				t.Errorf("got\n%s\nwant\n%s", text, want)
			}
			if got := string(structured.Value("row_count")); got != "2" || structured.Has("truncated") {
				t.Errorf("got %s", structured.JSON())
			}
			text, structured = ask(t, query, `{"query": "SELECT id FROM orders ORDER BY id", "limit": 2}`)
			if got := string(structured.Value("rows")); got != "[[1],[2]]" ||
				!strings.Contains(structured.Text("truncated"), "the first 2") ||
				!strings.Contains(text, "There are more rows") {
				t.Errorf("got %s and %q", structured.JSON(), text)
			}
			// as clients write integers that have all numbers as floats
			_, structured = ask(t, query, `{"query": "SELECT id FROM orders WHERE user_id = `+parameter+
				` ORDER BY id", "parameters": [1.0], "limit": 1.0}`)
			if got := string(structured.Value("rows")); got != "[[1]]" {
				t.Errorf("got %s, want the first order of user 1", structured.JSON())
			}
		})
	}
}

// TestHiddenCharactersOfADatabaseAreCleaned has them in names and values, as a stranger
// may have stored them.
func TestHiddenCharactersOfADatabaseAreCleaned(t *testing.T) {
	t.Parallel()
	const hidden = "\U000E0041\u202E\u200B"
	cfg := builtin.Config{Databases: []builtin.Database{file(t, `CREATE TABLE "t`+hidden+`"("c`+hidden+
		`" text); INSERT INTO "t`+hidden+`" VALUES ('v`+hidden+`');`)}}
	for tool, arguments := range map[string]string{
		"query_database": `{"query": "SELECT * FROM \"t` + hidden + `\""}`, "describe_database": `{}`,
	} {
		result, err := tryCall(t.Context(), t, open(t, cfg, tool), arguments)
		if err != nil {
			t.Fatal(err)
		}
		clean, _, err := new(sanitize.Policy).Result(result)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(clean.JSON()), hidden) || !strings.Contains(string(clean.JSON()), "t") {
			t.Errorf("%s: got %s", tool, clean.JSON())
		}
	}
}

// TestValuesCannotForgeATable has values that look like rows and columns.
func TestValuesCannotForgeATable(t *testing.T) {
	t.Parallel()
	cfg := builtin.Config{Databases: []builtin.Database{file(t, shop)}}
	text, _ := ask(t, open(t, cfg, "query_database"),
		`{"query": "SELECT 'a | b' || char(10) || '(rows: 9)' AS x, printf('%.*c', 200, 'y') AS y, x'00' AS z"}`)
	want := "x | y | z\n" + `a \| b\n(rows: 9) | ` + strings.Repeat("y", 80) + "… | (1 bytes)\n(rows: 1)"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAQueryHoldsItsMemory runs a query while somebody else has taken what there is.
func TestAQueryHoldsItsMemory(t *testing.T) {
	t.Parallel()
	cfg := builtin.Config{Databases: []builtin.Database{file(t, shop)}}
	offer := open(t, cfg, "query_database")
	user := share.User{TenantID: "acme", Subject: "ann"}
	params := mcp.NewObject(mcp.Member{Name: "arguments", Value: mcp.RawJSON(`{"query":"SELECT 1"}`)})
	for total, fits := range map[int64]bool{sqlite.Memory: false, 8 * sqlite.Memory: true} {
		budget := share.New(total)
		room := budget.Reserve(user)
		_, err := offer.Call(t.Context(), &registry.Call{Params: params, Memory: room})
		if fits != (err == nil) || !fits && !errors.Is(err, share.ErrNever) {
			t.Errorf("of %d bytes: got error %v", total, err)
		}
		if held := budget.InUse(); held > share.Step {
			t.Errorf("of %d bytes: %d are held afterwards", total, held)
		}
		room.Release()
	}
}

func TestQueriesEndWithTheirCalls(t *testing.T) {
	t.Parallel()
	cfg := builtin.Config{Databases: []builtin.Database{file(t, shop)}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := tryCall(ctx, t, open(t, cfg, "query_database"), `{"query": "SELECT 1"}`); !errors.Is(err,
		context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// TestDatabasesAreChecked is what validate -online says.
func TestDatabasesAreChecked(t *testing.T) {
	t.Parallel()
	good := file(t, shop)
	lines, err := builtin.CheckDatabases(t.Context(), builtin.Config{Databases: []builtin.Database{good}})
	if diff := cmp.Diff([]string{"shop is SQLite"}, lines); diff != "" || err != nil {
		t.Errorf("lines (-want +got), error %v:\n%s", err, diff)
	}
	if server != nil {
		server.Create(t, "checked", "GRANT CREATE ON SCHEMA public TO checked")
		lines, err = builtin.CheckDatabases(t.Context(),
			builtin.Config{Databases: []builtin.Database{{
				Name:         "orders",
				PostgresFile: server.File(t, "checked", "checked"),
			}}})
		want := []string{"orders is PostgreSQL, but the role has CREATE on schema public, which it does not need"}
		if diff := cmp.Diff(want, lines); diff != "" || err != nil {
			t.Errorf("lines of PostgreSQL (-want +got), error %v:\n%s", err, diff)
		}
		server.Exec(t, "checked", "CREATE TABLE t(a int); GRANT INSERT ON t TO checked")
		_, err = builtin.CheckDatabases(t.Context(),
			builtin.Config{Databases: []builtin.Database{{
				Name:         "orders",
				PostgresFile: server.File(t, "checked", "checked"),
			}}})
		if err == nil || !strings.Contains(err.Error(), "database orders: ") ||
			!strings.Contains(err.Error(), "INSERT on public.t") {
			t.Errorf("got error %v", err)
		}
	}
	lines, err = builtin.CheckDatabases(t.Context(),
		builtin.Config{Databases: []builtin.Database{
			{Name: "gone", SQLite: filepath.Join(t.TempDir(), "gone.db")}, // the others are checked all the same
			good,
		}})
	if err == nil || !strings.Contains(err.Error(), "database gone: ") ||
		!slices.Equal(lines, []string{"shop is SQLite"}) {
		t.Errorf("got %q and error %v, want the line of shop, and that gone cannot be used", lines, err)
	}
}
