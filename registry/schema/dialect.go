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

// dialects are those that $schema may name, without the scheme of their URIs.
var dialects = map[string]dialect{
	"json-schema.org/draft/2020-12/schema": draft2020,
	"json-schema.org/draft/2019-09/schema": draft2019,
	"json-schema.org/draft-07/schema":      draft7,
	"json-schema.org/draft-06/schema":      draft6,
	"json-schema.org/draft-04/schema":      draft4,
}

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
	d, known := dialects[strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")]
	if !known {
		return 0, errDialect
	}
	return d, nil
}

// keyword is what a keyword is, apart from what it asserts.
type keyword struct {
	since dialect // the first that has it
	until dialect // the last that has it; zero: it is still there
	shape shape
	part  part
	// the name of the keywords that depend on each other and on this one; "": it means
	// the same whatever stands beside it
	group      string
	annotation bool // it only describes
}

// shape says how the value of a keyword holds subschemas.
type shape int

const (
	noSchema shape = iota
	oneSchema
	manySchemas  // a list
	namedSchemas // an object
)

// part says of what in a value the subschemas under a keyword speak.
type part int

const (
	nothing    part = iota // only references lead to them
	whole                  // the value itself
	oneMember              // the member of that name
	eachMember             // all members, or those that no other keyword names
	eachName               // the names of all members
	oneItem                // the item with that index
	eachItem               // all items, or those that no other keyword names
)

// keywords are those of which there is something to say. All others are in every dialect,
// and hold no subschemas.
var keywords = map[string]keyword{
	"$ref":              {part: whole},
	"$defs":             {shape: namedSchemas},
	"definitions":       {shape: namedSchemas},
	"properties":        {shape: namedSchemas, part: oneMember, group: "members"},
	"patternProperties": {shape: namedSchemas, part: eachMember, group: "members"},
	"dependentSchemas":  {shape: namedSchemas, part: whole, since: draft2019},
	"dependencies":      {shape: namedSchemas, part: whole, until: draft7},

	"allOf":       {shape: manySchemas, part: whole},
	"anyOf":       {shape: manySchemas, part: whole},
	"oneOf":       {shape: manySchemas, part: whole},
	"prefixItems": {shape: manySchemas, part: oneItem, since: draft2020, group: "items"},

	"items":                 {shape: oneSchema, part: eachItem, group: "items"}, // or many, see shapeOf
	"additionalItems":       {shape: oneSchema, part: eachItem, until: draft2019, group: "items"},
	"contains":              {shape: oneSchema, part: eachItem, since: draft6, group: "items"},
	"propertyNames":         {shape: oneSchema, part: eachName, since: draft6},
	"additionalProperties":  {shape: oneSchema, part: eachMember, group: "members"},
	"unevaluatedItems":      {shape: oneSchema, part: eachItem, since: draft2019, group: "unevaluated"},
	"unevaluatedProperties": {shape: oneSchema, part: eachMember, since: draft2019, group: "unevaluated"},
	"not":                   {shape: oneSchema, part: whole},
	"if":                    {shape: oneSchema, part: whole, since: draft7, group: "if"},
	"then":                  {shape: oneSchema, part: whole, since: draft7, group: "if"},
	"else":                  {shape: oneSchema, part: whole, since: draft7, group: "if"},

	"const":             {since: draft6},
	"minContains":       {since: draft2019, group: "items"},
	"maxContains":       {since: draft2019, group: "items"},
	"dependentRequired": {since: draft2019},
	"$anchor":           {since: draft2019},
	"$dynamicAnchor":    {since: draft2020},
	"$dynamicRef":       {since: draft2020},
	"$recursiveAnchor":  {since: draft2019, until: draft2019},

	"title":       {annotation: true},
	"description": {annotation: true},
	"$comment":    {annotation: true},
	"default":     {annotation: true},
	"examples":    {annotation: true},
	"deprecated":  {annotation: true},
	"readOnly":    {annotation: true},
	"writeOnly":   {annotation: true},
}

// knows tells whether the dialect has a keyword at all. Others are skipped in it.
func (d dialect) knows(name string) bool {
	k := keywords[name]
	return d >= k.since && (k.until == 0 || d <= k.until)
}

// shapeOf returns how the value of a keyword holds subschemas in the dialect.
func (d dialect) shapeOf(name string, value mcp.RawJSON) shape {
	switch {
	case !d.knows(name):
		return noSchema
	case name == "items" && d.tuples() && value.IsArray():
		return manySchemas
	}
	return keywords[name].shape
}

// loneReferences tells whether everything beside $ref counts for nothing.
func (d dialect) loneReferences() bool { return d <= draft7 }

// tuples tells whether items may be a list of schemas.
func (d dialect) tuples() bool { return d < draft2020 }
