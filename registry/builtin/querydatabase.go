package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
	"github.com/drawbridge-mcp/drawbridge/internal/database/postgres"
	"github.com/drawbridge-mcp/drawbridge/internal/database/sqlite"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// defaultRows is how many rows a query returns if it does not say.
const defaultRows = 100

// Bounds of the text beside the structured content.
const (
	maxTextRows = 50
	maxTextCell = 80 // characters
)

//go:embed querydatabase.json
var queryDatabaseDefinition string

// Database is a database that query_database and describe_database read. One of SQLite
// and PostgresFile is set.
type Database struct {
	Name         string
	SQLite       string // the path of a file
	PostgresFile string // the path of a file with the address of a database, which is read for each query
}

// source is a database of either kind.
type source interface {
	Query(ctx context.Context, q *database.Query) (*database.Table, error)
	Check(ctx context.Context) (notes []string, err error)
}

var (
	_ source = (*sqlite.File)(nil)
	_ source = (*postgres.Server)(nil)
)

// databases are those that a server entry has, in the order of the config.
type databases []namedSource

type namedSource struct {
	name, dialect string
	layout        string // the query that describe_database runs
	memory        int64  // bytes that one query takes at most
	source
}

// openDatabases returns the databases of a config. It opens none of them: each query
// does.
func openDatabases(cfg Config) (databases, error) {
	if len(cfg.Databases) == 0 {
		return nil, errors.New("needs databases")
	}
	var all databases
	for _, d := range cfg.Databases {
		switch {
		case d.SQLite != "":
			file, err := sqlite.New(d.SQLite, cfg.Turns)
			if err != nil {
				return nil, fmt.Errorf("database %s: %w", d.Name, err)
			}
			all = append(all, namedSource{d.Name, sqlite.Dialect, sqlite.Layout, sqlite.Memory, file})
		case d.PostgresFile != "":
			all = append(all, namedSource{
				d.Name, postgres.Dialect, postgres.Layout, postgres.Memory, postgres.New(d.PostgresFile),
			})
		default:
			return nil, fmt.Errorf("database %s: needs sqlite or postgres_file", d.Name)
		}
	}
	return all, nil
}

// defined returns a definition in which the names of the databases stand.
func defined(definition string, cfg Config) string {
	var names, described []string
	for _, d := range cfg.Databases {
		names = append(names, string(strictjson.AppendQuote(nil, d.Name)))
		dialect := postgres.Dialect
		if d.SQLite != "" {
			dialect = sqlite.Dialect
		}
		described = append(described, d.Name+" ("+dialect+")")
	}
	return strings.NewReplacer(`"$NAMES"`, strings.Join(names, ", "), "$DATABASES",
		strings.Join(described, ", ")).Replace(definition)
}

// CheckDatabases connects to each database of the config. A line for each says what it
// is, and what its role could go without. The error says which cannot be used, for the
// operator.
func CheckDatabases(ctx context.Context, cfg Config) (lines []string, err error) {
	all, err := openDatabases(cfg)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, d := range all {
		notes, err := d.Check(ctx)
		if err != nil {
			faults = append(faults, fmt.Errorf("database %s: %w", d.name, err))
			continue
		}
		lines = append(lines, strings.Join(append([]string{d.name + " is " + d.dialect}, notes...),
			", but "))
	}
	return lines, errors.Join(faults...)
}

// newQueryDatabase makes the tool query_database.
func newQueryDatabase(cfg Config) (registry.Func, error) {
	return databaseTool(cfg,
		func(ctx context.Context, c *registry.Call, d namedSource) (mcp.Object, error) {
			args := arguments(c)
			q := &database.Query{Text: args.Text("query"), Limit: defaultRows}
			// 20.0 is an integer
			if n, err := strconv.ParseFloat(string(args.Value("limit")), 64); err == nil {
				q.Limit = int(min(max(n, 1), database.MaxRows))
			}
			if fault := readParameters(q, args.Value("parameters")); fault != "" {
				return mcp.Object{}, registry.Usagef("%s", fault)
			}
			return d.answer(ctx, c, q, queryResult)
		})
}

// databaseTool makes a tool that uses the database which its argument of that name names,
// or the first one without it.
func databaseTool(cfg Config,
	use func(ctx context.Context, c *registry.Call, d namedSource) (mcp.Object, error),
) (registry.Func, error) {
	all, err := openDatabases(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		name := arguments(c).Text("database")
		i := slices.IndexFunc(all, func(d namedSource) bool { return name == "" || d.name == name })
		if i < 0 {
			return mcp.Object{}, registry.Usagef("There is no such database; there are %s.", all.names())
		}
		return use(ctx, c, all[i])
	}, nil
}

func (all databases) names() string {
	var names []string
	for _, d := range all {
		names = append(names, d.name)
	}
	return strings.Join(names, ", ")
}

// answer runs a query and returns the result that render makes of its table. Memory for
// the whole query is held for the caller from before it runs.
func (d namedSource) answer(ctx context.Context, c *registry.Call, q *database.Query,
	render func(string, *database.Table) mcp.Object,
) (mcp.Object, error) {
	q.User = share.User(c.Principal.User())
	if err := c.Memory.Resize(d.memory); err != nil {
		return mcp.Object{}, fmt.Errorf("room for a query: %w", err)
	}
	table, err := d.Query(ctx, q)
	if fault, ours := errors.AsType[*database.Error](err); ours {
		c.Memory.Shrink(0)
		return mcp.Object{}, registry.Usagef("%s", fault.Text)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return mcp.Object{}, fmt.Errorf("query the database %s: %w", d.name, ctx.Err())
	case err != nil:
		return mcp.Object{}, &registry.UnavailableError{Server: "database " + d.name, Err: err}
	}
	result := render(d.name, table)
	c.Memory.Shrink(int64(2*result.Size() + share.Covered))
	return result, nil
}

// readParameters reads the values that a query binds. fault says what is wrong with them.
func readParameters(q *database.Query, list mcp.RawJSON) (fault string) {
	values, _ := list.Elements()
	if len(values) > database.MaxParameters {
		return fmt.Sprintf("There are more than %d parameters.", database.MaxParameters)
	}
	for i, v := range values {
		p := database.Parameter{Kind: database.Number, Text: string(v)}
		switch text, isText := v.Text(); {
		case v.IsNull():
			p = database.Parameter{}
		case isText:
			p = database.Parameter{Kind: database.Text, Text: text}
		case p.Text == "true" || p.Text == "false":
			p.Kind = database.Boolean
		case v.IsObject() || v.IsArray():
			return fmt.Sprintf("Parameter %d must be a text, a number, a boolean or null.", i+1)
		}
		q.Parameters = append(q.Parameters, p)
	}
	return ""
}

// queryResult returns the result of query_database.
func queryResult(name string, table *database.Table) mcp.Object {
	rows := make([]mcp.RawJSON, len(table.Rows))
	for i, row := range table.Rows {
		rows[i] = mcp.Array(row)
	}
	structured := mcp.NewObject(
		mcp.Member{Name: "database", Value: mcp.String(name)},
		mcp.Member{Name: "columns", Value: encoded(table.Columns)},
		mcp.Member{Name: "rows", Value: mcp.Array(rows)},
		mcp.Member{Name: "row_count", Value: mcp.Int(int64(len(rows)))},
	)
	mark := truncation(table)
	if mark != "" {
		structured = structured.With("truncated", mcp.String(mark))
	}
	return mcp.TextResult(tableText(table, mark)).With("structuredContent", structured.JSON())
}

// truncation says that a table is not whole, and why; "" if it is.
func truncation(table *database.Table) string {
	switch {
	case table.Full:
		return fmt.Sprintf(
			"There are more rows: these are as many as fit into %d KiB. Select fewer columns, or parts of "+
				"long values.", database.MaxResult>>10)
	case table.More:
		return fmt.Sprintf(
			"There are more rows: these are the first %d. Ask with a larger limit, or with LIMIT and OFFSET.",
			len(table.Rows))
	}
	return ""
}

// tableText writes a table in short, with a bar between the values.
func tableText(table *database.Table, mark string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString(strings.Join(cells, " | ") + "\n") }
	head := make([]string, len(table.Columns))
	for i, c := range table.Columns {
		head[i] = shortText(c.Name)
	}
	line(head)
	for _, row := range table.Rows[:min(len(table.Rows), maxTextRows)] {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cellText(mcp.RawJSON(c))
		}
		line(cells)
	}
	if more := len(table.Rows) - maxTextRows; more > 0 {
		fmt.Fprintf(&b, "… and %d more in the structured content\n", more)
	}
	fmt.Fprintf(&b, "(rows: %d)", len(table.Rows))
	if mark != "" {
		b.WriteString(" " + mark)
	}
	return b.String()
}

// cellText writes a value of a table in short.
func cellText(cell mcp.RawJSON) string {
	if text, ok := cell.Text(); ok {
		return shortText(text)
	}
	if o, ok := mcp.ObjectOf(cell); ok {
		return "(" + cmp.Or(string(o.Value("bytes")), "0") + " bytes)"
	}
	return string(cell)
}

// shortText returns a text for one line, in which a bar ends a value.
func shortText(text string) string {
	text = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`, "|", `\|`).Replace(text)
	if utf8.RuneCountInString(text) <= maxTextCell {
		return text
	}
	return string([]rune(text)[:maxTextCell]) + "…"
}
