package sanitize

// place is where a value stands. It decides what becomes of the strings in it, and where its members stand.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
type place uint8

const (
	free     place = iota // cleaned, and all in it
	envelope              // an object of the protocol that holds other places
	requests              // id → request, as in inputRequests
	block                 // a content block, or an array of them
	inner                 // the same within a block
	textual               // a content block that carries no binary
	contents              // the contents of a resource, or an array of them
	counted               // text that counts against the limit
	binary                // base64: bounded, else left alone
	address               // a URI: flagged only
	opaque                // not looked at
	fixed                 // flagged only, and all in it
	defined               // a definition, or a list of them
	located               // a definition of a resource or template, whose name is a text for readers
	schema                // a JSON Schema
	schemas               // name → schema
)

// member returns where the member with that name stands.
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
	case "tools": // of a question for sampling
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

// ofSchema leaves alone what validates: another text there would be another schema.
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
