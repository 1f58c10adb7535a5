// Package schema answers one question: does this JSON value fit that JSON Schema? It is
// made for schemas and values of strangers, so the answer must be right, come soon, and
// help whoever made the value. The package does not know what the values are for: tools,
// prompts, tenants and callers are unknown here.
//
// In goes the text of a schema, in the dialect 2020-12, 2019-09, draft-07, draft-06 or
// draft-04. Out comes a Schema or the reason why the text is refused. A Schema takes
// values and returns nil, or an error whose text says which member is wrong, how, and
// what is allowed; the text repeats the schema, never a value. Texts of both kinds must
// be strict JSON, as strictjson.Check defines it.
//
// Compile takes a schema through these steps, of which each may refuse it:
//
//	text --guard--> nodes --weaken--> nodes --measure--> cost
//	                                    |
//	                                    '----rewrite---> plain copy --library--> compiled copy
//
// Check takes a value through these, cheap ones first:
//
//	value --too much for the patterns that would see it?--> refused
//	  |
//	  '--> nodes accept it, without decoding? --yes--> valid
//	            |
//	            no, or not sure
//	            '--> too much work for the library? --yes--> refused
//	                      '--no--> compiled copy judges --> valid
//	                                     '--invalid--> explainer --> error
//
// Two judges are there because neither does alone. The nodes decide nearly every valid
// value in a fraction of the time, but only ever say yes; the library knows every
// keyword, but is slow and has faults of its own. What the library gets wrong is written
// differently in the copy or refused by the guard, so that both judges agree with the
// specification. Measured by BenchmarkChain of internal/gateway, a call of a tool with
// one property takes 6.6 µs of processor time at the desk if the nodes accept it and 10.2
// µs if the library must judge; with ten properties it is 8.7 and 44.8 µs, and of a whole
// call about a third.
//
// Bounded are the size of a schema, its subschemas, patterns and enums, and the work of
// one check: how many subschemas one value can meet, how many instructions patterns run
// over it, how long its strings are. The work is estimated before it is done, because
// what began cannot be stopped. What patterns may see is bounded by the text and not by
// the schema: a large pattern for a short text, or the other way round, see countSteps.
// Without the bounds a schema of a few lines can take minutes for a value of a few bytes,
// by references that double at every step or by patterns with large programs.
//
// Refused are schemas that lead out of themselves (a $ref to another document), that have
// an $id below the root, that refer to themselves without consuming data, that recur with
// overlapping branches, that are beyond the bounds, and whose keywords have values of the
// wrong form. A pattern that RE2 cannot run, or would read differently from ECMA-262, and
// a reference that needs a dynamic scope refuse no schema: they are not enforced, nor is
// what hangs on them (weaken.go). Formats and contentEncoding are annotations and never
// refuse a value.
package schema

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Schema checks values. It is immutable and safe for concurrent use.
type Schema struct {
	dialect dialect
	dynamic bool // it has references that Inline does not follow
	root    *node
	nodes   []*node // all of them, as read
	cost    *cost
	library *library
	gaps    []string
}

// Unenforced returns what of the schema is not enforced, each with its place and the
// reason, for operators; nil when all of it is. Values are then checked against less than
// the schema says, and none is refused that the schema accepts.
func (s *Schema) Unenforced() []string { return s.gaps }

// Compile reads a schema and makes it ready for checks. It does not keep raw. The error
// is ErrTooLarge for a schema that is too large; every other one tells an operator what
// is refused, and where in the schema it stands.
func Compile(raw mcp.RawJSON) (*Schema, error) {
	p, root, c, err := guard(raw)
	if err != nil {
		return nil, err
	}
	patterns := slices.ContainsFunc(p.nodes, func(n *node) bool { return n.program > 0 })
	library, err := newLibrary(rewrite(root, p.nodes), patterns)
	if err != nil {
		return nil, err
	}
	return &Schema{
		dialect: p.dialect, dynamic: p.dynamic, root: root, nodes: p.nodes, cost: c,
		library: library, gaps: p.gaps,
	}, nil
}
