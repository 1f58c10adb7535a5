package sanitize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// entries say at which place the messages of servers enter the table, by their names in
// the schemas, and by the member of the message that does. The definitions in lists enter
// for themselves.
var entries = map[string]struct {
	member string // "" for the message itself
	at     position
}{
	"CallToolResult": {"", completed}, "GetPromptResult": {"", completed}, "ReadResourceResult": {
		"",
		completed,
	},
	"CompleteResult": {"", completed}, "Result": {"", completed},
	"InputRequiredResult": {"", asking}, "CreateTaskResult": {"", taskMade},
	"GetTaskResult": {"", taskState}, "CancelTaskResult": {"", taskState},
	"GetTaskPayloadResult": {"", completed}, // it has the form of the result of its tool
	"ProgressNotification": {"params", notification}, "LoggingMessageNotification": {"params", notification},
	"ResourceUpdatedNotification": {"params", notification}, "TaskStatusNotification": {"params", taskState},
	"CreateMessageRequest": {"", request}, "ElicitRequest": {"", request}, "ListRootsRequest": {
		"",
		request,
	},
	"Error": {"", failed}, "URLElicitationRequiredError": {"error", failed},
	"Tool": {"", tool}, "Prompt": {"", prompt}, "Resource": {"", resource}, "ResourceTemplate": {
		"",
		resourceTemplate,
	},
}

// unheard are messages that do not enter the table, because they do not reach a client.
var unheard = map[string]string{
	"ListToolsResult": "its definitions do", "ListPromptsResult": "its definitions do",
	"ListResourcesResult": "its definitions do", "ListResourceTemplatesResult": "its definitions do",
	"InitializeResult": "the gateway introduces itself", "DiscoverResult": "the gateway introduces itself",
	"ListTasksResult":                       "nobody asks for one",
	"SubscriptionsListenResult":             "it ends a stream of the gateway's own",
	"ToolListChangedNotification":           "the gateway tells of the change",
	"PromptListChangedNotification":         "the gateway tells of the change",
	"ResourceListChangedNotification":       "the gateway tells of the change",
	"CancelledNotification":                 "it withdraws a question",
	"ElicitationCompleteNotification":       "dropped",
	"SubscriptionsAcknowledgedNotification": "it begins a stream of the gateway's own",
	"PingRequest":                           "the gateway answers",
	"GetTaskRequest":                        "refused: a server cannot make tasks",
	"GetTaskPayloadRequest":                 "refused: a server cannot make tasks",
	"CancelTaskRequest":                     "refused: a server cannot make tasks",
	"ListTasksRequest":                      "refused: a server cannot make tasks",
}

// elsewhere are the entries of the table that the schemas do not have, by the
// specification that does.
var elsewhere = map[position][]string{
	taskMade: {"resultType"}, // added when the answer of an older server is passed on
	// https://modelcontextprotocol.io/extensions/tasks
	taskState: {"resultType", "result", "error", "inputRequests", "requestState"},
	// https://json-schema.org/draft/2020-12/json-schema-core#section-10, and its
	// forerunners
	schema: {
		"patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "additionalItems",
		"contentSchema",
		"prefixItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties",
		"propertyNames",
		"allOf", "not", "if", "then", "else", "pattern", "examples", "$comment", "$id", "$ref", "$anchor",
	},
	// The texts of a block of an unknown type count like those of other blocks.
	strangeBlock: {"type", "text", "data", "blob"},
	// Contents of a resource of an extension, by their media type.
	extended: {"uri", "frontmatter", "resources", "_meta"}, skillFile: {"uri", "digest"},
	skillGot:  {"skill", "resultType", "cacheScope", "_meta"},
	directory: {"resources", "nextCursor", "resultType", "cacheScope", "_meta"},
	file:      {"uri", "mimeType", "text", "blob", "_meta"},
	view:      {"uri", "mimeType", "text", "blob", "_meta"},
}

// comparison goes through the schema of one revision and the table side by side.
type comparison struct {
	t        *testing.T
	revision string
	named    map[string]any // the definitions of the schema
	used     map[position]map[string]bool
	seen     map[string]bool // a name in the schema with the place it was compared with
	strings  int             // places of strings that were compared
}

func (c *comparison) fault(path, format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: %s: %s", c.revision, path, fmt.Sprintf(format, args...))
}

// value compares what the schema says of the value at path with its place in the table.
func (c *comparison) value(path string, schema any, at position) {
	o, _ := schema.(map[string]any)
	if ref, is := o["$ref"].(string); is {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		if key := fmt.Sprint(name, " ", at); !c.seen[key] {
			c.seen[key] = true
			c.value(path+"="+name, c.named[name], at)
		}
		return
	}
	for _, one := range alternatives(o) {
		c.value(path, one, at)
	}
	if items := o["items"]; items != nil {
		c.value(path+"[]", items, at)
	}
	if isString(o) {
		c.text(path, o, at)
	}
	if len(o) == 0 && at > exact && at <= sealed {
		c.fault(path, "anything may stand there, but its place is %d", at)
	}
	c.object(path, o, at)
}

func alternatives(schema map[string]any) []any {
	some, _ := schema["anyOf"].([]any)
	all, _ := schema["allOf"].([]any)
	return slices.Concat(some, all)
}

func isString(schema map[string]any) bool {
	kinds, _ := schema["type"].([]any)
	return schema["type"] == "string" || slices.Contains(kinds, "string")
}

// text compares a string.
func (c *comparison) text(path string, schema map[string]any, at position) {
	c.strings++
	want := []position{free, counted, exact, sealed}
	switch format, _ := schema["format"].(string); {
	case schema["const"] != nil || schema["enum"] != nil:
		want = []position{exact}
	case format == "byte":
		want = []position{binary, blob}
	case strings.HasPrefix(format, "uri"):
		want = []position{address}
	}
	if at == content || at == sampled || !slices.Contains(want, at) {
		c.fault(path, "a string of the schema %v stands at %d, want one of %d", schema, at, want)
	}
}

// object compares the members of an object.
func (c *comparison) object(path string, o map[string]any, at position) {
	properties, _ := o["properties"].(map[string]any)
	if len(properties) > 0 && (at == content || at == sampled) {
		kind, _ := properties["type"].(map[string]any)["const"].(string)
		if at = blockPosition(at, strictjson.CursorOf([]byte(`{"type":"`+kind+`"}`))); at == strangeBlock {
			c.fault(path, "the table does not have a block of type %q there", kind)
		}
	}
	for name, inner := range properties {
		if !c.speaks(inner) || at == request && (name == "jsonrpc" || name == "id") { // frames of a message
			continue
		}
		if at > sealed {
			if _, known := at.lookup([]byte(name)); !known {
				c.fault(path, "the table lacks %s", name)
				continue
			}
			if c.used[at] == nil {
				c.used[at] = make(map[string]bool)
			}
			c.used[at][name] = true
		}
		c.value(path+"."+name, inner, at.member([]byte(name)))
	}
	if more := o["additionalProperties"]; c.speaks(more) {
		c.value(path+".*", more, at.member([]byte("a name that nobody knows")))
	}
}

// speaks tells whether a value of that schema can hold a string.
func (c *comparison) speaks(schema any) bool {
	o, isObject := schema.(map[string]any)
	if !isObject || len(o) == 0 {
		return isObject || schema == true
	}
	if ref, is := o["$ref"].(string); is {
		inner, _ := c.named[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
		return isString(inner) || len(alternatives(inner)) > 0 || inner["type"] == "object" && c.speaks(inner)
	}
	if properties, some := o["properties"].(map[string]any); some && len(properties) > 0 &&
		o["additionalProperties"] == nil {
		return slices.ContainsFunc(slices.Collect(maps.Values(properties)), c.speaks)
	}
	kinds, several := o["type"].([]any)
	if !several {
		kinds = []any{o["type"]}
	}
	return slices.ContainsFunc(kinds, func(kind any) bool {
		return !slices.Contains([]any{"boolean", "integer", "number", "null"}, kind)
	})
}

// definitions returns what the schema of a revision defines.
func definitions(t *testing.T, revision string) map[string]any {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(corpus.Schema(t, revision), &whole); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"$defs", "definitions"} {
		if named, ok := whole[member].(map[string]any); ok {
			return named
		}
	}
	t.Fatalf("%s defines nothing", revision)
	return nil
}

// TestProtocolIsThatOfTheSchemas fails where the table lacks a string that a server can
// say, has one that no revision has, or treats one in a way that its schema forbids:
// Base64, URIs and fixed words are told by their type there.
func TestProtocolIsThatOfTheSchemas(t *testing.T) {
	used, met, compared := map[position]map[string]bool{}, map[string]bool{}, 0
	for _, revision := range mcp.Revisions() {
		c := &comparison{
			t: t, revision: revision, named: definitions(t, revision), used: used,
			seen: map[string]bool{},
		}
		for _, kind := range []string{"ServerResult", "ServerNotification", "ServerRequest"} {
			sum, _ := c.named[kind].(map[string]any)
			for _, one := range alternatives(sum) {
				ref := one.(map[string]any)["$ref"].(string)
				name := ref[strings.LastIndexByte(ref, '/')+1:]
				if _, enters := entries[name]; !enters && unheard[name] == "" {
					c.fault(name, "does it reach a client?")
				}
				met[name] = true
			}
		}
		for name, entry := range entries {
			schema := c.named[name]
			if schema == nil {
				continue
			}
			met[name] = true
			if entry.member != "" {
				schema = schema.(map[string]any)["properties"].(map[string]any)[entry.member]
			}
			c.value(name, schema, entry.at)
		}
		compared += c.strings
	}
	for name := range maps.Keys(unheard) {
		if !met[name] {
			t.Errorf("no revision has %s", name)
		}
	}
	for name := range maps.Keys(entries) {
		if !met[name] {
			t.Errorf("no revision has %s", name)
		}
	}
	for at := range positions {
		for name := range protocol[at].members {
			if !used[at][name] && !slices.Contains(elsewhere[at], name) {
				t.Errorf("no revision has the member %s that the table has at %d", name, at)
			}
		}
		for _, name := range elsewhere[at] {
			if _, known := at.lookup([]byte(name)); used[at][name] || !known {
				t.Errorf("%s at %d: a schema has it, or the table has not", name, at)
			}
		}
	}
	if compared < 400 {
		t.Errorf("only %d strings were compared", compared)
	}
}
