package sanitize

// place is where a value stands in a message of the protocol. It decides what becomes of the strings in the value, and
// at which places its members stand. A member that the protocol does not know stands at free and is cleaned: what
// nobody knows must not become a way around the rules.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
type place uint8

const (
	free     place = iota // cleaned, and so is everything in it
	envelope              // an object of the protocol whose members stand at other places, as a result
	requests              // an object of requests by key, as inputRequests
	block                 // a content block, or an array of them
	inner                 // a content block within a block, as in tool_result; only one level is read as blocks
	textual               // a content block of a type that carries no binary, so that its data is cleaned
	contents              // the contents of a resource, or an array of them
	counted               // text that is cleaned and counts against the limit
	binary                // Base64: its size is bounded, otherwise it keeps its bytes
	address               // a URI: flagged, never rewritten
	opaque                // not looked at: ids, tokens and cursors, which go back to the server as they came
	fixed                 // flagged, never rewritten, and so is everything in it: programs compare it
	defined               // a definition, or a list of them
	located               // a definition of a resource or template, whose name is a text for readers
	schema                // a JSON Schema
	schemas               // an object of schemas by name, as properties
)

// member returns the place of the member with that name of an object at this place.
func (at place) member(name []byte) place {
	switch at {
	case envelope:
		return ofEnvelope(name)
	case block, inner, textual:
		return ofBlock(at, name)
	case contents:
		return ofContents(name)
	case defined:
		return ofDefinition(name)
	case located:
		if string(name) == "name" {
			return free
		}
		return ofDefinition(name)
	case schema:
		return ofSchema(name)
	case requests:
		return envelope
	case schemas:
		return schema
	case fixed, opaque:
		return at
	default:
		return free
	}
}

// ofEnvelope returns the place of a member of a result, a notification, a request or another object of the protocol.
func ofEnvelope(name []byte) place {
	switch string(name) {
	case "content":
		return block
	case "contents":
		return contents
	case "messages", "params", "icons", "elicitations", "serverInfo", "task", "result":
		return envelope
	case "inputRequests":
		return requests
	case "tools": // of a request for sampling
		return defined
	case "uri", "uriTemplate", "url", "src", "websiteUrl":
		return address
	case "id", "requestId", "taskId", "elicitationId", "progressToken", "cursor", "nextCursor", "requestState":
		return opaque
	case "requestedSchema":
		return fixed
	}
	return free
}

// ofBlock returns the place of a member of a content block. Types of blocks are not told apart, except those that carry
// no binary, so that blocks of a type that is not known yet are cleaned like others.
func ofBlock(at place, name []byte) place {
	switch string(name) {
	case "text":
		return counted
	case "data", "blob":
		if at != textual {
			return binary
		}
	case "resource":
		return contents
	case "content":
		if at == block {
			return inner
		}
	case "uri":
		return address
	case "id", "toolUseId":
		return opaque
	case "icons":
		return envelope
	}
	return free
}

// ofContents returns the place of a member of the contents of a resource.
func ofContents(name []byte) place {
	switch string(name) {
	case "text":
		return counted
	case "data", "blob":
		return binary
	case "uri":
		return address
	}
	return free
}

// ofDefinition returns the place of a member of a definition, or of one of a prompt's arguments, which has the same
// form.
func ofDefinition(name []byte) place {
	switch string(name) {
	case "name":
		return fixed
	case "arguments":
		return defined
	case "inputSchema", "outputSchema":
		return schema
	case "uri", "uriTemplate":
		return address
	case "icons":
		return envelope
	}
	return free
}

// ofSchema never rewrites what validates, because a schema with another text there accepts other values. Texts for
// readers are cleaned. Every other member is taken for a schema, as those of allOf or items are.
func ofSchema(name []byte) place {
	switch string(name) {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return schemas
	case "description", "title", "$comment", "examples":
		return free
	case "enum", "const", "default", "pattern", "required", "dependentRequired", "dependencies", "type", "format",
		"contentEncoding", "contentMediaType", "x-mcp-header",
		"$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary":
		return fixed
	}
	return schema
}
