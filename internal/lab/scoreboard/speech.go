package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// reader lets this program read what internal/corpus keeps for tests. What fails there
// ends the program.
type reader struct{ testing.TB }

func (reader) Helper()             {}
func (reader) Logf(string, ...any) {}
func (reader) Fatal(args ...any)   { panic(fmt.Sprint(args...)) }
func (reader) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// speech makes messages of one revision as its schema defines them, and tells which are
// as it defines them.
type speech struct {
	revision string
	named    map[string]any
	kinds    []kind // of messages that clients send
	strings  []string
	echo     *jsonschema.Schema
}

// kind is one kind of message.
type kind struct {
	name, method string // method is "" for a response
	request      bool
	valid        *jsonschema.Schema
}

// newSpeech reads the schema of a revision.
func newSpeech(revision string, texts []string) *speech {
	data := corpus.Schema(reader{}, revision)
	var whole map[string]any
	must.OK(json.Unmarshal(data, &whole)) //nolint:forbidigo // a file of this repository
	s := &speech{revision: revision, strings: texts}
	place := "$defs"
	if whole[place] == nil {
		place = "definitions"
	}
	s.named, _ = whole[place].(map[string]any)
	compiler := jsonschema.NewCompiler()
	schema := must.Have(jsonschema.UnmarshalJSON(bytes.NewReader(data)))
	tool, err := jsonschema.UnmarshalJSON(strings.NewReader(echoSchema))
	must.OK(errors.Join(err, compiler.AddResource("mcp.json", schema),
		compiler.AddResource("echo.json", tool)))
	s.echo = must.Have(compiler.Compile("echo.json"))
	for _, union := range []string{"ClientRequest", "ClientNotification", "ClientResult"} {
		for _, name := range s.alternatives(union) {
			compiled := must.Have(compiler.Compile("mcp.json#/" + place + "/" + name))
			s.kinds = append(s.kinds, kind{name, s.methodOf(name), union == "ClientRequest", compiled})
		}
	}
	return s
}

// alternatives returns the types of a union, or the name of what is none.
func (s *speech) alternatives(name string) []string {
	o, _ := s.named[name].(map[string]any)
	some, _ := o["anyOf"].([]any)
	if len(some) == 0 {
		return []string{name}
	}
	var names []string
	for _, one := range some {
		inner, _ := one.(map[string]any)
		names = append(names, refersTo(inner))
	}
	return names
}

func refersTo(o map[string]any) string {
	path, _ := o["$ref"].(string)
	return path[strings.LastIndexByte(path, '/')+1:]
}

func (s *speech) methodOf(name string) string {
	o, _ := s.named[name].(map[string]any)
	properties, _ := o["properties"].(map[string]any)
	method, _ := properties["method"].(map[string]any)
	fixed, _ := method["const"].(string)
	return fixed
}

// make returns a message of that kind as the schema allows it. id is its id, if it has
// one.
func (s *speech) make(r *rand.Rand, k *kind, id string) *members {
	made, _ := s.value(r, s.named[k.name], 0).(*members)
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

// value returns a value that a schema allows. Optional members come and go, less the
// deeper they are.
func (s *speech) value(r *rand.Rand, schema any, depth int) any {
	o, _ := schema.(map[string]any)
	if name := refersTo(o); name != "" {
		return s.value(r, s.named[name], depth)
	}
	if fixed, is := o["const"].(string); is {
		return fixed
	}
	for _, keyword := range []string{"anyOf", "enum"} {
		some, _ := o[keyword].([]any)
		if len(some) == 0 {
			continue
		}
		if one := some[r.IntN(len(some))]; keyword == "anyOf" {
			return s.value(r, one, depth)
		} else if text, is := one.(string); is {
			return text
		}
	}
	if parts, is := o["allOf"].([]any); is {
		whole := &members{}
		for _, part := range parts {
			if some, is := s.value(r, part, depth).(*members); is {
				for _, m := range *some {
					whole.set(m.name, m.value)
				}
			}
		}
		return whole
	}
	return s.plain(r, o, depth)
}

// plain returns a value of a schema that names a type, or any.
func (s *speech) plain(r *rand.Rand, o map[string]any, depth int) any {
	name, _ := o["type"].(string)
	if several, is := o["type"].([]any); is {
		name, _ = several[r.IntN(len(several))].(string)
	}
	switch name {
	case "object":
		return s.members(r, o, depth)
	case "array":
		list := make([]any, 0, 2)
		for range r.IntN(3) {
			if depth < 6 {
				list = append(list, s.value(r, o["items"], depth+1))
			}
		}
		return list
	case "string":
		return s.text(r, o)
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

func (s *speech) text(r *rand.Rand, o map[string]any) any {
	switch o["format"] {
	case "uri", "uri-template":
		return "file:///open/a"
	case "byte":
		return "QUFB"
	}
	return pick(r, s.strings)
}

func (s *speech) members(r *rand.Rand, o map[string]any, depth int) *members {
	made := &members{}
	properties, _ := o["properties"].(map[string]any)
	required, _ := o["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth < 6 && r.IntN(3+depth) == 0 {
			made.set(name, s.value(r, properties[name], depth+1))
		}
	}
	if more, is := o["additionalProperties"].(map[string]any); is && depth < 6 && r.IntN(3) == 0 {
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
