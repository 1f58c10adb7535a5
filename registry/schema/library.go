package schema

// The library behind this file is dangerous in the hands of strangers: it fetches remote
// references, takes what it cannot resolve for true, keeps schemas by $id for whoever
// compiles next, panics on null, writes to a shared schema while validating patterns, and
// echoes values in its errors. So it only ever gets a copy that guard has read and
// rewrite has written, one compiler for each, no loaders, and a recover around every use.

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/kaptinlin/jsonschema"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// library is one schema as the library compiled it. It is safe for concurrent use.
//
// The library writes to a schema while it validates patterns, so a schema with patterns
// is never used by two goroutines at once: each borrows a compiled copy and gives it
// back. All others share one compiled schema.
type library struct {
	copy   []byte                  // the schema as rewritten, to compile more copies from; nil when shared
	shared *jsonschema.Schema      // nil when the schema has patterns
	spare  chan *jsonschema.Schema // copies that nobody uses now, at most one for each processor
}

// newLibrary compiles a copy that rewrite has written. patterns tells whether the schema
// has any: then no two validations may share what was compiled.
func newLibrary(rewritten []byte, patterns bool) (*library, error) {
	l := &library{copy: rewritten}
	compiled, err := l.compile()
	if err != nil {
		return nil, err
	}
	if patterns {
		l.spare = make(chan *jsonschema.Schema, runtime.GOMAXPROCS(0))
		l.spare <- compiled
		return l, nil
	}
	l.shared, l.copy = compiled, nil
	return l, nil
}

var errCompile = errors.New("the schema does not compile")

// compile makes one compiled copy.
func (l *library) compile() (compiled *jsonschema.Schema, err error) {
	defer func() {
		if recover() != nil {
			compiled, err = nil, errCompile
		}
	}()
	compiler := jsonschema.NewCompiler()
	clear(compiler.Loaders)
	compiler.SetAssertFormat(false)
	compiled, err = compiler.Compile(l.copy)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errCompile, mcp.Clip(err.Error(), 200))
	}
	if len(compiled.UnresolvedReferenceURIs()) > 0 {
		return nil, errCompile
	}
	return compiled, nil
}

var errJudge = errors.New("the value cannot be checked against the schema")

// judge lets the library check value, decoded as decode does. It returns nil when value
// is valid, else what is wrong. The error says that there was no verdict; the value must
// then count as invalid.
func (l *library) judge(value any) (found *fault, err error) {
	compiled := l.shared
	if compiled == nil {
		if compiled, err = l.borrow(); err != nil {
			return nil, err
		}
		defer l.giveBack(compiled)
	}
	defer func() {
		if recover() != nil {
			found, err = nil, errJudge
		}
	}()
	result := compiled.ValidateStruct(value)
	if result == nil {
		return nil, errJudge
	}
	if result.IsValid() {
		return nil, nil //nolint:nilnil // no fault and no error: it is valid
	}
	budget := maxFaults
	return collect(result, &budget), nil
}

// borrow takes a compiled copy that nobody else uses, and compiles another when all are
// in use.
func (l *library) borrow() (*jsonschema.Schema, error) {
	select {
	case compiled := <-l.spare:
		return compiled, nil
	default:
		return l.compile()
	}
}

// giveBack keeps a copy for the next check, or drops it when enough of them are kept.
func (l *library) giveBack(compiled *jsonschema.Schema) {
	select {
	case l.spare <- compiled:
	default: // enough of them
	}
}

// maxFaults bounds how many invalid nodes of one result are kept: the text about them has
// room for much less.
const maxFaults = 200

// fault is one invalid node of the library's result: which of its keywords failed, and
// the invalid nodes below.
type fault struct {
	step     string   // keyword that led here; "" for $ref and else
	which    string   // property, pattern or index under that keyword
	at       string   // name or index of the value within the value above; "" when it is the same value
	keywords []string // in order
	inner    []*fault
	cut      bool // some of inner were not collected
}

// collect copies a result and the invalid nodes below it, as long as budget lasts. What
// failed below not and if is left out, because for these keywords failing is no fault.
func collect(result *jsonschema.EvaluationResult, budget *int) *fault {
	*budget--
	f := &fault{
		at:       strings.TrimPrefix(result.InstanceLocation, "/"),
		keywords: slices.Sorted(maps.Keys(result.Errors)),
	}
	f.step, f.which, _ = strings.Cut(strings.TrimPrefix(result.EvaluationPath, "/"), "/")
	for _, detail := range result.Details {
		if detail == nil || detail.IsValid() {
			continue
		}
		if *budget <= 0 {
			f.cut = true
			break
		}
		if inner := collect(detail, budget); inner.step != "not" && inner.step != "if" {
			f.inner = append(f.inner, inner)
		}
	}
	return f
}
