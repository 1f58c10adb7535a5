package corpus

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

// Type is a type of the protocol, as far as the schema of a revision has facts of it. It
// is shared: do not modify it.
type Type struct {
	Kind                 any              `json:"type"` // a name or several; nil: any value
	Ref                  string           `json:"$ref"` // to another type; "": this is one itself
	Const                any              `json:"const"`
	Enum                 []any            `json:"enum"`
	AnyOf                []*Type          `json:"anyOf"`
	AllOf                []*Type          `json:"allOf"` // none in what Types.Of returns
	Format               string           `json:"format"`
	Items                *Type            `json:"items"`
	Properties           map[string]*Type `json:"properties"`
	Required             []string         `json:"required"`
	AdditionalProperties *Type            `json:"additionalProperties"` // nil: the schema does not say
}

// UnmarshalJSON implements json.Unmarshaler. A schema may be true, which allows anything.
func (t *Type) UnmarshalJSON(data []byte) error {
	type plain Type
	if string(data) == "true" {
		return nil
	}
	return json.Unmarshal(data, (*plain)(t)) //nolint:forbidigo // a file of the tests
}

// Refers returns the name of the type that this one refers to, "" if it is one itself.
func (t *Type) Refers() string { return t.Ref[strings.LastIndexByte(t.Ref, '/')+1:] }

// Types are those of a revision, by name.
type Types map[string]*Type

// TypesOf returns the types of a revision.
func TypesOf(t testing.TB, revision string) Types {
	t.Helper()
	var whole struct {
		Defs        Types `json:"$defs"`
		Definitions Types `json:"definitions"`
	}
	fatal.OK(t, json.Unmarshal(Schema(t, revision), &whole)) //nolint:forbidigo // a file of the tests
	if whole.Defs != nil {
		return whole.Defs
	}
	return whole.Definitions
}

// Of returns the type that one refers to, if it does, with what it is all of put
// together.
func (s Types) Of(t *Type) *Type {
	for t.Ref != "" {
		t = s[t.Refers()]
	}
	if t.AllOf == nil {
		return t
	}
	whole := &Type{Kind: "object", Properties: make(map[string]*Type)}
	for _, part := range t.AllOf {
		part = s.Of(part)
		maps.Copy(whole.Properties, part.Properties)
		whole.Required = append(whole.Required, part.Required...)
	}
	return whole
}
