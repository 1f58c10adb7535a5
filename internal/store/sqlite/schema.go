package sqlite

import (
	"errors"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// migrations are the steps, of which the first makes version 1.
var migrations = []store.Migration{{Oldest: 1, Text: `
CREATE TABLE records(
  kind TEXT NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL, owner TEXT NOT NULL,
  expires INTEGER NOT NULL, version INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY(kind, id)) STRICT;
CREATE INDEX records_tenant ON records(kind, tenant, id);
CREATE INDEX records_owner ON records(kind, owner, id) WHERE owner <> '';
CREATE INDEX records_expires ON records(expires);
CREATE INDEX records_key ON records(key, kind, id);
CREATE TABLE counts(kind TEXT NOT NULL, tenant TEXT NOT NULL, records INTEGER NOT NULL,
  PRIMARY KEY(kind, tenant)) STRICT, WITHOUT ROWID;
CREATE TRIGGER records_insert AFTER INSERT ON records BEGIN
  INSERT INTO counts VALUES (new.kind, new.tenant, 1)
    ON CONFLICT DO UPDATE SET records = records + 1;
END;
CREATE TRIGGER records_delete AFTER DELETE ON records BEGIN
  UPDATE counts SET records = records - 1 WHERE kind = old.kind AND tenant = old.tenant;
  DELETE FROM counts WHERE kind = old.kind AND tenant = old.tenant AND records = 0;
END;
CREATE TRIGGER records_move AFTER UPDATE OF tenant ON records WHEN old.tenant <> new.tenant BEGIN
  UPDATE counts SET records = records - 1 WHERE kind = old.kind AND tenant = old.tenant;
  DELETE FROM counts WHERE kind = old.kind AND tenant = old.tenant AND records = 0;
  INSERT INTO counts VALUES (new.kind, new.tenant, 1)
    ON CONFLICT DO UPDATE SET records = records + 1;
END;`}}

var errNoStore = errors.New("no store of drawbridge was ever in it")

// migrate brings the schema to the version that this program knows, or leaves a later one
// that this program may use. made tells that there must be one.
func migrate(c *conn, made bool) (err error) {
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if err := c.Exec("CREATE TABLE IF NOT EXISTS schema(version INTEGER NOT NULL, oldest INTEGER NOT NULL) " +
		"STRICT"); err != nil {
		return err
	}
	version, oldest := 0, 0
	if err := c.run(func(of store.Columns) {
		version, oldest = int(of.ColumnInt64(0)), int(of.ColumnInt64(1))
	}, "SELECT version, oldest FROM schema"); err != nil {
		return err
	}
	if made && version == 0 {
		return errNoStore
	}
	text, err := store.Upgrade(migrations, version, oldest)
	if err != nil {
		return err
	}
	if err := c.Exec(text); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}
