// Package postgres runs queries on a PostgreSQL server, and lets no query do more than
// read. Of the driver, github.com/jackc/pgx, it uses only the lowest parts.
//
// What is dangerous about it: the texts of strangers reach a server that does what the
// role may do. So, in this order:
//
//	connect.go   a connection of its own for each query, opened by internal/pgdial, with TLS beyond this machine; nothing
//	             that a query leaves on a connection (settings, locks, prepared statements) meets another one
//	role.go      a role that may do more than read is refused
//	this file    the extended protocol, which takes one statement; a statement that returns no rows is refused before
//	             it runs (COPY, SET, DO, LOCK, NOTIFY, COMMIT); a transaction that only reads, and that is never committed
package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
)

// Dialect is the name of the language.
const Dialect = "PostgreSQL"

// Memory is the most that one query takes here, in bytes: a row as it comes, twice, and
// the result.
const Memory = 2*maxRow + 4*database.MaxResult

// maxRow bounds a row of a result as it comes from the server, in bytes.
const maxRow = 4 << 20

// Server is a database at a PostgreSQL server. It is safe for concurrent use, and keeps
// no connection open.
type Server struct {
	file string // that has the address
}

// New returns the database at the address in a file, which is read for each connection.
func New(file string) *Server { return &Server{file} }

// Query runs a query. The error is a *database.Error if the query is at fault or the
// database cannot be used, or that of ctx if it ends.
func (s *Server) Query(ctx context.Context, q *database.Query) (*database.Table, error) {
	if strings.ContainsRune(q.Text, 0) {
		return nil, database.Errorf("The query has a NUL character.")
	}
	c, err := s.connect(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	r := &running{PgConn: c}
	defer r.end(ctx)
	if _, err := r.judgeRole(ctx); err != nil {
		return nil, explain(ctx, err)
	}
	table, err := r.query(ctx, q)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return table, nil
}

// Check returns an error that says why the database cannot be used, for the operator, or
// what the role could go without.
func (s *Server) Check(ctx context.Context) (notes []string, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	r := &running{PgConn: c}
	defer r.end(ctx)
	return r.judgeRole(ctx)
}

// Layout is a query that lists all columns that the role may read, as describe_database
// wants them. It binds the name of one table, with or without its schema, or null.
const Layout = `SELECT n.nspname AS schema, c.relname AS table_name,
  CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' ELSE 'table' END AS kind,
  a.attname AS column_name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary
    AND a.attnum = ANY (i.indkey)) AS key,
  (SELECT min(f.confrelid::regclass::text || coalesce('.' || r.attname, '')) FROM pg_constraint f
    LEFT JOIN pg_attribute r ON r.attrelid = f.confrelid
      AND r.attnum = f.confkey[array_position(f.conkey, a.attnum)]
    WHERE f.contype = 'f' AND f.conrelid = c.oid AND a.attnum = ANY (f.conkey)) AS refers
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_%'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
  AND ($1::text IS NULL OR $1::text IN (c.relname::text, n.nspname || '.' || c.relname))
ORDER BY 1, 2, a.attnum`

// running is a connection on which something may run at the server.
type running struct {
	*pgconn.PgConn
	busy bool // a statement of a caller runs: the server has not said that it is ready
}

// query runs one statement in a transaction that reads and is never committed.
func (r *running) query(ctx context.Context, q *database.Query) (*database.Table, error) {
	if _, err := r.ExecParams(ctx, "BEGIN READ ONLY", nil, nil, nil, nil).Close(); err != nil {
		return nil, err
	}
	description, err := r.Prepare(ctx, "", q.Text, nil)
	if err != nil {
		return nil, err
	}
	if len(description.Fields) == 0 {
		return nil, database.ErrWrites()
	}
	if wanted := len(description.ParamOIDs); wanted != len(q.Parameters) {
		return nil, database.Errorf("The query has %d parameters, and %d values were given.", wanted,
			len(q.Parameters))
	}
	columns := make([]database.Column, len(description.Fields))
	for i, f := range description.Fields {
		columns[i] = database.Column{Name: f.Name, Type: typeName(f.DataTypeOID)}
	}
	table := database.NewTable(q, columns)
	if err := r.fetch(ctx, q, table, description.Fields); err != nil {
		return nil, err
	}
	return table, nil
}

// fetch binds the parameters of the statement that was prepared, and keeps no more rows
// than the table takes. The server is asked for one more than that, and makes no others.
// It is read until it is ready, unless too much is to come.
func (r *running) fetch(ctx context.Context, q *database.Query, table *database.Table,
	fields []pgconn.FieldDescription,
) error {
	bind := &pgproto3.Bind{}
	for _, p := range q.Parameters {
		value := []byte(p.Text)
		switch {
		case p.Kind == database.Null:
			value = nil
		case p.Kind == database.Number: // a client that has all numbers as floats writes an integer so
			value = bytes.TrimSuffix(value, []byte(".0"))
		case strings.ContainsRune(p.Text, 0):
			return database.Errorf("A parameter has a NUL character.")
		}
		bind.Parameters = append(bind.Parameters, value)
	}
	r.busy = true
	f := r.Frontend()
	f.SendBind(bind)
	f.SendExecute(&pgproto3.Execute{MaxRows: uint32(q.Limit) + 1}) //nolint:gosec // the limit is small
	f.SendSync(&pgproto3.Sync{})
	if err := f.Flush(); err != nil {
		return err
	}
	var fault error
	for {
		message, err := r.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.DataRow:
			row := make([]database.Cell, len(m.Values))
			for i, value := range m.Values {
				row[i] = cell(fields[i].DataTypeOID, value)
			}
			if !table.Add(row) && table.Full {
				return nil
			}
		case *pgproto3.ErrorResponse:
			fault = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyInResponse, *pgproto3.CopyOutResponse, *pgproto3.CopyBothResponse:
			return database.ErrWrites()
		case *pgproto3.ReadyForQuery:
			r.busy = false
			return fault
		}
	}
}

// Types whose values are no texts.
// https://www.postgresql.org/docs/current/catalog-pg-type.html
const (
	boolType    = 16
	byteaType   = 17
	int8Type    = 20
	int2Type    = 21
	int4Type    = 23
	oidType     = 26
	float4Type  = 700
	float8Type  = 701
	numericType = 1700
)

// cell returns a value, which the server wrote as a text.
func cell(kind uint32, value []byte) database.Cell {
	if value == nil {
		return database.NullCell()
	}
	text := string(value)
	switch kind {
	case boolType:
		return database.BooleanCell(text == "t")
	case int2Type, int4Type, int8Type, oidType:
		if integer, err := strconv.ParseInt(text, 10, 64); err == nil {
			return database.IntegerCell(integer)
		}
	case float4Type, float8Type:
		if float, err := strconv.ParseFloat(text, 64); err == nil {
			return database.FloatCell(float)
		}
	case numericType:
		return database.DecimalCell(text)
	case byteaType:
		if binary, err := hex.DecodeString(strings.TrimPrefix(text, `\x`)); err == nil {
			return database.BinaryCell(binary)
		}
	}
	return database.TextCell(text)
}

// typeName returns the name of a usual type, else its number.
func typeName(oid uint32) string {
	if name := map[uint32]string{
		boolType: "boolean", byteaType: "bytea", int2Type: "smallint", int4Type: "integer",
		int8Type: "bigint", oidType: "oid",
		float4Type: "real", float8Type: "double precision", numericType: "numeric", 18: "char", 19: "name",
		25: "text", 114: "json",
		1042: "character", 1043: "character varying", 1082: "date", 1083: "time", 1114: "timestamp",
		1184: "timestamp with time zone",
		1186: "interval", 1266: "time with time zone", 2205: "regclass", 2950: "uuid", 3802: "jsonb",
		1007: "integer[]", 1009: "text[]",
	}[oid]; name != "" {
		return name
	}
	return "type " + strconv.FormatUint(uint64(oid), 10)
}

// explain returns an error as the caller is to see it. What the server says of a
// statement is for the model; other errors could hold an address, a user or a file.
func explain(ctx context.Context, err error) error {
	fault, isServers := errors.AsType[*pgconn.PgError](err)
	large, isLarge := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err)
	switch ours, isOurs := errors.AsType[*database.Error](err); {
	case isOurs:
		return ours
	case isLarge:
		return database.Errorf(
			"A row has %d bytes, and %d are the most: select fewer columns, or parts of them with left().",
			large.ActualBodyLen, maxRow)
	case isServers && fault.Code == "57014" && ctx.Err() == nil:
		return database.Errorf("The query took longer than it may: ask for less, or use an index.")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isServers && strings.HasPrefix(fault.Code, "42601") &&
		strings.Contains(fault.Message, "multiple commands"):
		return database.ErrSeveral()
	case isServers && fault.Code == "25006":
		return database.Errorf("%s %s", strings.TrimSuffix(database.ErrWrites().Error(), "."),
			"(PostgreSQL says: "+fault.Message+").")
	case isServers && !isOfConnection(fault.Code):
		return database.Errorf("PostgreSQL says: %s%s%s (%s)", fault.Message, hint(" Detail: ", fault.Detail),
			hint(" Hint: ", fault.Hint), fault.Code)
	case isServers && (fault.Code == "53300" || strings.HasPrefix(fault.Code, "57P")):
		return database.Errorf("The database does not take queries now: try again later.")
	}
	return fmt.Errorf("query PostgreSQL: %w", err)
}

// isOfConnection tells whether an error is about the connection, so that its text may
// name users and hosts. https://www.postgresql.org/docs/current/errcodes-appendix.html
func isOfConnection(code string) bool {
	return slices.ContainsFunc([]string{"08", "28", "3D", "53", "57P"},
		func(class string) bool { return strings.HasPrefix(code, class) })
}

func hint(what, text string) string {
	if text == "" {
		return ""
	}
	return "." + what + text
}
