package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
)

// maxGrants is how many grants an error names.
const maxGrants = 5

// dangers lists what the role of the connection, or one that it is a member of and could
// become, may do beyond reading. The first column is "refuse" or "warn", the second the
// grant. Tables of the system are not looked at: what is granted there to everybody is
// harmless in a transaction that reads.
const dangers = `WITH mine AS (SELECT oid, rolname FROM pg_roles
  WHERE pg_has_role(session_user, oid, 'MEMBER')),
tables AS (SELECT c.oid, c.relowner, n.nspname || '.' || c.relname AS name FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\_%')
SELECT 'refuse', a.name || CASE WHEN r.rolname = session_user THEN ''
  ELSE ' by membership in ' || r.rolname END
  FROM pg_roles r JOIN mine USING (oid),
    LATERAL (VALUES ('SUPERUSER', r.rolsuper), ('REPLICATION', r.rolreplication),
    ('BYPASSRLS', r.rolbypassrls), ('CREATEROLE', r.rolcreaterole)) AS a(name, has) WHERE a.has
UNION ALL SELECT 'refuse', 'membership in ' || rolname FROM mine
  WHERE rolname IN ('pg_write_all_data', 'pg_read_server_files',
  'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend', 'pg_maintain',
  'pg_create_subscription')
UNION ALL (SELECT 'refuse', 'ownership of ' || t.name FROM tables t JOIN mine ON mine.oid = t.relowner
  LIMIT 6)
UNION ALL (SELECT DISTINCT 'refuse', p.name || ' on ' || t.name FROM tables t, mine,
    (VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) AS p(name)
  WHERE mine.oid <> t.relowner AND CASE
    WHEN p.name IN ('INSERT', 'UPDATE') THEN has_any_column_privilege(mine.oid, t.oid, p.name)
    ELSE has_table_privilege(mine.oid, t.oid, p.name) END LIMIT 6)
UNION ALL (SELECT DISTINCT 'refuse', 'EXECUTE on ' || p.oid::regprocedure FROM mine, pg_proc p
  JOIN pg_depend d ON d.objid = p.oid
    AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
      AND d.refclassid = 'pg_extension'::regclass
  WHERE e.extname = 'dblink' AND has_function_privilege(mine.oid, p.oid, 'EXECUTE') LIMIT 6)
UNION ALL SELECT 'warn', 'CREATE on schema ' || nspname FROM pg_namespace
  WHERE nspname = 'public' AND has_schema_privilege(session_user, oid, 'CREATE')
UNION ALL SELECT 'warn', 'TEMP on database ' || datname FROM pg_database
  WHERE datname = current_database() AND has_database_privilege(session_user, oid, 'TEMP')`

// judgeRole returns what the role of the connection could go without, or a
// *database.Error that names what it must go without.
func (r *running) judgeRole(ctx context.Context) (notes []string, err error) {
	result := r.ExecParams(ctx, dangers, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, fmt.Errorf("look at the role: %w", result.Err)
	}
	var refused []string
	for _, row := range result.Rows {
		if string(row[0]) == "warn" {
			notes = append(notes, "the role has "+string(row[1])+", which it does not need")
		} else {
			refused = append(refused, string(row[1]))
		}
	}
	if len(refused) == 0 {
		return notes, nil
	}
	if more := len(refused) - maxGrants; more > 0 {
		refused = append(refused[:maxGrants], fmt.Sprintf("and %d more", more))
	}
	return nil, database.Errorf(
		"The operator has to give this database a role that can only read. The present one has %s.",
		strings.Join(refused, ", "))
}
