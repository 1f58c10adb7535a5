package schema

import (
	"errors"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// dialect is a version of JSON Schema. Later ones compare as larger.
type dialect int

const (
	draft4 dialect = iota
	draft6
	draft7
	draft2019
	draft2020
)

var errDialect = errors.New(
	"the dialect in $schema is none of 2020-12, 2019-09, draft-07, draft-06 and draft-04")

// dialectOf returns the dialect that $schema names. Absent means 2020-12.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
func dialectOf(raw mcp.RawJSON) (dialect, error) {
	if raw == nil {
		return draft2020, nil
	}
	text, _ := raw.Text()
	text = strings.TrimSuffix(text, "#")
	switch strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://") {
	case "json-schema.org/draft/2020-12/schema":
		return draft2020, nil
	case "json-schema.org/draft/2019-09/schema":
		return draft2019, nil
	case "json-schema.org/draft-07/schema":
		return draft7, nil
	case "json-schema.org/draft-06/schema":
		return draft6, nil
	case "json-schema.org/draft-04/schema":
		return draft4, nil
	}
	return 0, errDialect
}

// knows tells whether the dialect has a keyword at all, of those that not all dialects
// have. Others are skipped in it.
func (d dialect) knows(keyword string) bool {
	switch keyword {
	case "prefixItems", "$dynamicAnchor", "$dynamicRef":
		return d == draft2020
	case "minContains", "maxContains", "dependentRequired", "dependentSchemas", "$anchor",
		"unevaluatedItems", "unevaluatedProperties":
		return d >= draft2019
	case "if", "then", "else":
		return d >= draft7
	case "const", "contains", "propertyNames":
		return d >= draft6
	case "additionalItems":
		return d < draft2020
	case "dependencies":
		return d <= draft7
	case "$recursiveAnchor":
		return d == draft2019
	}
	return true
}

// loneReferences tells whether everything beside $ref counts for nothing.
func (d dialect) loneReferences() bool { return d <= draft7 }

// tuples tells whether items may be a list of schemas.
func (d dialect) tuples() bool { return d < draft2020 }
