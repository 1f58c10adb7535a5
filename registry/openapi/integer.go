package openapi

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// maxLooked is how many bytes of schemas are looked at for the integers of one call,
// since many values may lead to much of them. Beyond that, numbers stay as they are
// written.
const maxLooked = 8 << 20

// integerTime is about how long it takes to look at one byte of arguments.
const integerTime = 40 * time.Nanosecond

// integral returns the arguments of a call with every integer written as one. To a schema
// 7.0 is an integer, and clients that have all numbers as floats write it so, but few
// APIs take it for one. What is no integer by the tool's schema stays as it is written.
// The error is that of ctx, which ended while many arguments waited for their turn.
func (c *caller) integral(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	arguments := call.Params.Value("arguments")
	if bytes.Contains(arguments, []byte(".0")) {
		release, err := c.turns.Finish(ctx, call.Memory.User(), time.Duration(len(arguments))*integerTime)
		if err != nil {
			return mcp.Object{}, c.unavailable(ctx, false, err)
		}
		defer release()
		arguments = c.withoutPoints(arguments)
	}
	o, _ := mcp.ObjectOf(arguments)
	return o, nil
}

// withoutPoints is integral for arguments that may have such an integer.
func (c *caller) withoutPoints(arguments mcp.RawJSON) mcp.RawJSON {
	all := &shape{}
	i := &integers{Cursor: strictjson.CursorOf(arguments), from: arguments, left: maxLooked}
	i.defs, _ = mcp.ObjectOf(c.schema.Member("$defs"))
	i.join(all, c.schema)
	i.pass(all)
	return append(i.to, arguments[i.copied:]...)
}

// integers copies arguments without the points of integers. It goes through them beside
// the schema.
type integers struct {
	strictjson.Cursor

	from, to mcp.RawJSON // the arguments, and their copy
	copied   int         // bytes of from that stand in to, without the points
	defs     mcp.Object  // to which references in the schema lead, by name
	left     int         // bytes of schemas that may still be looked at
}

// shape is what the document says of values in one place: a schema, with those of which
// it consists and from which it chooses.
type shape struct {
	schemas []mcp.Object
	below   map[string]*shape // of members and elements, as far as they were looked for
}

// pass passes the value that is next.
func (i *integers) pass(s *shape) {
	kind := i.Kind()
	switch {
	case len(s.schemas) == 0:
		i.Next()
	case kind == '{':
		for i.Enter(); i.More(); {
			name, _ := strictjson.Text(i.Next())
			i.pass(i.find(s, "properties", name))
		}
	case kind == '[':
		for i.Enter(); i.More(); {
			i.pass(i.find(s, "items", ""))
		}
	case bytes.HasSuffix(i.Next(), []byte(".0")) && slices.ContainsFunc(s.schemas, saysInteger):
		i.to, i.copied = append(i.to, i.from[i.copied:i.At()-len(".0")]...), i.At()
	}
}

func saysInteger(schema mcp.Object) bool { return says(schema.Value("type"), "integer") }

// find returns the shape of the member of that name, or of elements.
func (i *integers) find(s *shape, keyword, name string) *shape {
	key := keyword + name
	if found := s.below[key]; found != nil {
		return found
	}
	found := &shape{}
	if i.left < 0 { // or names without end would each be looked for
		return found
	}
	for _, one := range s.schemas {
		said := one.Value(keyword)
		if keyword == "properties" {
			i.left -= len(said)
			if said = said.Member(name); said == nil {
				said = one.Value("additionalProperties")
			}
		}
		i.join(found, said)
	}
	if s.below == nil {
		s.below = map[string]*shape{}
	}
	s.below[key] = found
	return found
}

// join adds a schema to a shape.
func (i *integers) join(s *shape, raw mcp.RawJSON) {
	i.left -= len(raw)
	schema, ok := mcp.ObjectOf(raw)
	if !ok || i.left < 0 {
		return
	}
	s.schemas = append(s.schemas, schema)
	if name, refers := strings.CutPrefix(schema.Text("$ref"), "#/$defs/"); refers {
		i.join(s, i.defs.Value(name))
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := schema.Value(keyword).Elements()
		for _, part := range parts {
			i.join(s, part)
		}
	}
}
