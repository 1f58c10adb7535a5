package sqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// migration is one step of the schema, which stands in the database for good. A step that
// the program before survives leaves oldest as it is: it adds tables, or columns that
// have a default. Any other needs two releases.
type migration struct {
	oldest int // version of the schema that a program must know to use the database after this step
	text   string
}

// migrations returns the steps, of which the first makes version 1.
func migrations() []migration {
	return []migration{{1, `
CREATE TABLE records(
  kind TEXT NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL, owner TEXT NOT NULL,
  expires INTEGER NOT NULL, version INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY(kind, id)) STRICT;
CREATE INDEX records_tenant ON records(kind, tenant, id);
CREATE INDEX records_owner ON records(kind, owner, id) WHERE owner <> '';
CREATE INDEX records_expires ON records(expires);
CREATE INDEX records_key ON records(key);
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
}

// migrate brings the schema to the version that this program knows, or leaves a later one
// that this program may use.
func migrate(c *conn) (err error) {
	steps := migrations()
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
	if err := c.run(func(s *sqlite3.Stmt) { version, oldest = s.ColumnInt(0), s.ColumnInt(1) },
		"SELECT version, oldest FROM schema"); err != nil {
		return err
	}
	if oldest > len(steps) {
		return &store.SchemaError{Schema: version, Known: len(steps)}
	}
	if version >= len(steps) {
		return nil
	}
	for _, step := range steps[version:] {
		if err := c.Exec(step.text); err != nil {
			return fmt.Errorf("migrate the database: %w", err)
		}
		oldest = step.oldest
	}
	return errors.Join(c.Exec("DELETE FROM schema"),
		c.run(nil, "INSERT INTO schema VALUES (?, ?)", len(steps), oldest))
}
