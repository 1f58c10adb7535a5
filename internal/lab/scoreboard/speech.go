package main

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// speech makes messages of one revision as its schema defines them, and tells which are
// as it defines them.
type speech struct {
	types   corpus.Types
	kinds   []kind // of messages that clients send
	strings []string
	echo    *jsonschema.Schema
}

// kind is one kind of message.
type kind struct {
	name, method string // method is "" for a response
	request      bool
	valid        *jsonschema.Schema
}

// newSpeech reads the schema of a revision.
func newSpeech(revision string, texts []string) *speech {
	data := corpus.Schema(must.TB{}, revision)
	s := &speech{types: corpus.TypesOf(must.TB{}, revision), strings: texts}
	place := page.Either(bytes.Contains(data, []byte(`"definitions"`)), "definitions", "$defs")
	compiler := jsonschema.NewCompiler()
	schema := must.Have(jsonschema.UnmarshalJSON(bytes.NewReader(data)))
	tool, err := jsonschema.UnmarshalJSON(strings.NewReader(echoSchema))
	must.OK(errors.Join(err, compiler.AddResource("mcp.json", schema),
		compiler.AddResource("echo.json", tool)))
	s.echo = must.Have(compiler.Compile("echo.json"))
	for _, union := range []string{"ClientRequest", "ClientNotification", "ClientResult"} {
		some := s.types[union].AnyOf
		some = page.Either(len(some) == 0, []*corpus.Type{{Ref: union}}, some)
		for _, one := range some {
			k := kind{name: one.Refers(), request: union == "ClientRequest"}
			if method := s.types.Of(one).Properties["method"]; method != nil {
				k.method, _ = method.Const.(string)
			}
			k.valid = must.Have(compiler.Compile("mcp.json#/" + place + "/" + k.name))
			s.kinds = append(s.kinds, k)
		}
	}
	return s
}

// make returns a message of that kind as the schema allows it. id is its id, if it has
// one.
func (s *speech) make(r *rand.Rand, k *kind, id string) *members {
	made, _ := s.value(r, s.types[k.name], 0).(*members)
	if k.method == "" { // the schema has the result alone
		return &members{{"jsonrpc", "2.0"}, {"id", id}, {"result", made}}
	}
	made.set("jsonrpc", "2.0")
	made.set("method", k.method)
	if made.remove("id"); k.request {
		made.set("id", id)
	}
	return made
}

// value returns a value of a type. Optional members come and go, less the deeper they
// are.
func (s *speech) value(r *rand.Rand, t *corpus.Type, depth int) any {
	t = s.types.Of(t)
	switch {
	case t.Const != nil:
		return t.Const
	case t.AnyOf != nil:
		return s.value(r, pick(r, t.AnyOf), depth)
	case t.Enum != nil:
		return pick(r, t.Enum)
	}
	kind := t.Kind
	if several, is := kind.([]any); is {
		kind = pick(r, several)
	}
	switch kind {
	case "object":
		return s.members(r, t, depth)
	case "array":
		list := make([]any, 0, 2)
		for range r.IntN(3) {
			if depth < 6 {
				list = append(list, s.value(r, t.Items, depth+1))
			}
		}
		return list
	case "string":
		return cmp.Or(map[string]string{
			"byte": "QUFB", "uri": "file:///open/a", "uri-template": "file:///open/a",
		}[t.Format], pick(r, s.strings))
	case "integer":
		return literal(strconv.Itoa(r.IntN(1000)))
	case "number":
		return literal(pick(r, []string{"0", "1", "0.5", "1"}))
	case "boolean":
		return r.IntN(2) == 0
	case "null":
		return nil
	}
	return pick(r, []any{nil, true, "x", literal("7"), []any{}, &members{}})
}

func (s *speech) members(r *rand.Rand, t *corpus.Type, depth int) *members {
	made := &members{}
	for _, name := range slices.Sorted(maps.Keys(t.Properties)) {
		if slices.Contains(t.Required, name) || depth < 6 && r.IntN(3+depth) == 0 {
			made.set(name, s.value(r, t.Properties[name], depth+1))
		}
	}
	if more := t.AdditionalProperties; more != nil && depth < 6 && r.IntN(3) == 0 {
		made.set("example.test/"+strconv.Itoa(r.IntN(9)), s.value(r, more, depth+1))
	}
	return made
}

// allows tells whether the schema of the revision allows a message. One of the tool
// box__echo needs arguments that its own schema allows, too.
func (s *speech) allows(method, text string) bool {
	i := slices.IndexFunc(s.kinds, func(k kind) bool { return k.method == method })
	if i < 0 {
		return false
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil || s.kinds[i].valid.Validate(value) != nil {
		return false
	}
	if method != mcp.MethodToolsCall {
		return true
	}
	whole, _ := value.(map[string]any)
	params, _ := whole["params"].(map[string]any)
	if params["name"] != "box__echo" {
		return true
	}
	arguments, has := params["arguments"]
	return has && s.echo.Validate(arguments) == nil
}
