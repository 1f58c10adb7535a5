package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// migrations are the steps, of which the first makes version 1. The triggers count
// the rows of each tenant; they take the counts in one order, so that two of them never
// wait for each other.
var migrations = []store.Migration{{Oldest: 1, Text: `
CREATE TABLE records(
  kind text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL, expires bigint NOT NULL, version bigint NOT NULL,
  key text COLLATE "C" NOT NULL, value bytea NOT NULL, PRIMARY KEY(kind, id));
ALTER TABLE records ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE INDEX records_tenant ON records(kind, tenant, id);
CREATE INDEX records_owner ON records(kind, owner, id) WHERE owner <> '';
CREATE INDEX records_expires ON records(expires);
CREATE INDEX records_key ON records(key, kind, id);
CREATE TABLE counts(kind text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, records bigint NOT NULL,
  PRIMARY KEY(kind, tenant)) WITH (fillfactor = 50);
CREATE FUNCTION count_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO counts AS c SELECT kind, tenant, count(*) FROM added GROUP BY kind, tenant ORDER BY kind, tenant
    ON CONFLICT (kind, tenant) DO UPDATE SET records = c.records + excluded.records;
  RETURN NULL;
END $$;
CREATE FUNCTION count_less() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM FROM counts c WHERE (c.kind, c.tenant) IN (SELECT kind, tenant FROM removed)
    ORDER BY c.kind, c.tenant FOR UPDATE;
  UPDATE counts c SET records = c.records - r.n
    FROM (SELECT kind, tenant, count(*) AS n FROM removed GROUP BY kind, tenant) r
    WHERE c.kind = r.kind AND c.tenant = r.tenant;
  RETURN NULL;
END $$;
CREATE FUNCTION count_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO counts AS c SELECT kind, tenant, sum(n) FROM (
    SELECT kind, tenant, 1 AS n FROM added UNION ALL SELECT kind, tenant, -1 FROM removed) moved
    GROUP BY kind, tenant HAVING sum(n) <> 0 ORDER BY kind, tenant
    ON CONFLICT (kind, tenant) DO UPDATE SET records = c.records + excluded.records;
  RETURN NULL;
END $$;
CREATE TRIGGER records_insert AFTER INSERT ON records REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_more();
CREATE TRIGGER records_delete AFTER DELETE ON records REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION count_less();
CREATE TRIGGER records_move AFTER UPDATE ON records REFERENCING OLD TABLE AS removed NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_moved();`}}

// migrationLock is a number that only replicas which migrate take a lock on.
const migrationLock = 0x6472617762726467

// migrate brings the schema to the version that this program knows, or leaves a later one
// that this program may use. Of several replicas one does it, and the others wait.
func migrate(ctx context.Context, c *pgconn.PgConn) error {
	text, err := upgrade(ctx, c)
	if err != nil || text == "" {
		return err
	}
	if err := execute(ctx, c, "BEGIN; SELECT pg_advisory_xact_lock("+strconv.Itoa(migrationLock)+
		"); CREATE SCHEMA IF NOT EXISTS drawbridge; "+
		"CREATE TABLE IF NOT EXISTS schema(version integer NOT NULL, oldest integer NOT NULL)"); err != nil {
		return err
	}
	if text, err = upgrade(ctx, c); err != nil { // another replica may have done it
		return err
	}
	return execute(ctx, c, text+" COMMIT")
}

// upgrade returns the statements that the schema lacks.
func upgrade(ctx context.Context, c *pgconn.PgConn) (string, error) {
	version, oldest, err := schemaOf(ctx, c)
	if err != nil {
		return "", err
	}
	return store.Upgrade(migrations, version, oldest)
}

// schemaOf returns the version of the schema, and the oldest that a program must know;
// zeros: there is none.
func schemaOf(ctx context.Context, c *pgconn.PgConn) (version, oldest int, err error) {
	tables := int64(0)
	err = run(ctx, c, store.NewStatement("SELECT count(to_regclass('drawbridge.schema'))"),
		func(c store.Columns) { tables = c.ColumnInt64(0) })
	if err != nil || tables == 0 {
		return 0, 0, err
	}
	err = run(ctx, c, store.NewStatement("SELECT version, oldest FROM schema"),
		func(c store.Columns) { version, oldest = int(c.ColumnInt64(0)), int(c.ColumnInt64(1)) })
	return version, oldest, err
}

// execute runs statements of this file.
func execute(ctx context.Context, c *pgconn.PgConn, text string) error {
	_, err := c.Exec(ctx, text).ReadAll()
	return err
}
