package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

//go:embed describedatabase.json
var describeDatabaseDefinition string

// layout is the structured content; describeDatabaseDefinition says what its members
// mean.
type layout struct {
	Database  string        `json:"database"`
	Tables    []tableLayout `json:"tables"`
	Truncated string        `json:"truncated,omitzero"`
}

type tableLayout struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`
	Columns []columnLayout `json:"columns"`
}

type columnLayout struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Required   bool   `json:"required"`
	Key        bool   `json:"key"`
	References string `json:"references,omitzero"`
}

// newDescribeDatabase makes the tool describe_database.
func newDescribeDatabase(cfg Config) (registry.Func, error) {
	return databaseTool(cfg,
		func(ctx context.Context, c *registry.Call, d namedSource) (mcp.Object, error) {
			one := database.Parameter{}
			if name := arguments(c).Text("table"); name != "" {
				one = database.Parameter{Kind: database.Text, Text: name}
			}
			q := &database.Query{
				Text: d.layout, Parameters: []database.Parameter{one}, Limit: database.MaxRows,
			}
			return d.answer(ctx, c, q, func(name string, table *database.Table) mcp.Object {
				if len(table.Rows) == 0 && one.Kind != database.Null {
					return mcp.ToolError("The database has no table or view of that name that can be read. " +
						"Leave the table out to see all.")
				}
				return layoutResult(name, table)
			})
		})
}

// layoutResult returns the result of describe_database from the rows of a layout: schema,
// table, kind, column, type, whether it is required, whether it is of the key, and what
// it refers to, in the order of the tables.
func layoutResult(name string, table *database.Table) mcp.Object {
	result := layout{Database: name, Tables: []tableLayout{}}
	if table.More || table.Full {
		result.Truncated = "There are more columns than one answer holds: name a table to see those of " +
			"that one."
	}
	for _, row := range table.Rows {
		text := func(i int) string {
			text, _ := mcp.RawJSON(row[i]).Text()
			return text
		}
		says := func(i int) bool { return string(row[i]) == "true" || string(row[i]) == "1" }
		whole := strings.TrimPrefix(text(0)+"."+text(1), ".")
		if n := len(result.Tables); n == 0 || result.Tables[n-1].Name != whole {
			result.Tables = append(result.Tables, tableLayout{Name: whole, Kind: text(2)})
		}
		last := &result.Tables[len(result.Tables)-1]
		last.Columns = append(last.Columns, columnLayout{text(3), text(4), says(5), says(6), text(7)})
	}
	return mcp.TextResult(result.text()).With("structuredContent", encoded(result))
}

// text writes a layout in short, a line for each table.
func (l *layout) text() string {
	var b strings.Builder
	for _, t := range l.Tables {
		columns := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			columns[i] = strings.TrimSpace(shortText(c.Name) + " " + shortText(c.Type))
			if c.Key {
				columns[i] += " key"
			}
			if c.References != "" {
				columns[i] += " → " + shortText(c.References)
			}
		}
		fmt.Fprintf(&b, "%s %s: %s\n", t.Kind, shortText(t.Name), strings.Join(columns, ", "))
	}
	fmt.Fprintf(&b, "(tables and views: %d)", len(l.Tables))
	if l.Truncated != "" {
		b.WriteString(" " + l.Truncated)
	}
	return b.String()
}
