package sanitize

// form is a type of the protocol: where its members stand, and where those do that the
// protocol does not have.
type form struct {
	members map[string]position
	others  position
}

// protocol is the table of what the types of the protocol hold, of all revisions
// together, each by its place. A test derives every string that a server can say from the
// official schemas, and fails where the table lacks one, has one that no schema has, or
// treats one in a way that its type in the schema forbids.
//
// Numbers and truth values are not in it: nothing can hide in them.
//
// In results and notifications, texts are what a person or a model reads, and any member
// that is not listed is one. Definitions are stricter: title and description are texts,
// and nothing else is ever edited there, because programs compare it and a digest of it
// is kept. So their other members stand at exact. The same goes for JSON Schemas,
// wherever they stand: a schema with another text in its enum, const, default or pattern
// accepts other values.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
var protocol = [positions]form{
	// Of places for strings these are never edited; whatever is within the others is
	// free.
	exact: {others: exact}, address: {others: exact}, whole: {others: exact}, wholeView: {others: exact},
	wholeFile: {others: exact}, sealed: {others: sealed},

	completed: {members: map[string]position{
		"content": content, "structuredContent": free, // of a tool
		"contents":    contents,                  // of a resource
		"description": free, "messages": message, // of a prompt
		"completion": completion,
		"resultType": exact, "cacheScope": exact, "_meta": meta,
	}},
	asking: {members: map[string]position{
		"inputRequests": requests, "requestState": sealed,
		"resultType": exact, "_meta": meta,
	}},
	// Of an extension.
	skillGot: {members: map[string]position{
		"skill": sealed, "resultType": exact, "cacheScope": exact, "_meta": meta,
	}},
	directory: {members: map[string]position{
		"resources": resource, "nextCursor": sealed, "resultType": exact, "cacheScope": exact, "_meta": meta,
	}},
	taskMade: {members: map[string]position{"task": taskState, "resultType": exact, "_meta": meta}},
	taskState: {members: map[string]position{
		"taskId": sealed, "status": exact, "statusMessage": free, "createdAt": exact, "lastUpdatedAt": exact,
		"_meta": meta,
		// https://modelcontextprotocol.io/extensions/tasks
		"resultType": exact, "result": completed, "error": failed, "inputRequests": requests,
		"requestState": sealed,
	}},
	failed:  {members: map[string]position{"message": free, "data": failure}},
	failure: {members: map[string]position{"elicitations": question}},
	notification: {members: map[string]position{
		"message": free, "progressToken": exact, // of progress
		"logger": free, "level": exact, "data": free, // of a log message
		"uri":   address, // of a resource that changed
		"_meta": meta,
	}},

	textBlock: {members: map[string]position{
		"type": exact, "text": counted, "annotations": annotations,
		"_meta": free,
	}},
	mediaBlock: {members: map[string]position{
		"type": exact, "data": binary, "mimeType": exact,
		"annotations": annotations, "_meta": free,
	}},
	linkBlock: {members: map[string]position{
		"type": exact, "uri": address, "name": free, "title": free, "description": free, "mimeType": exact,
		"icons":       icon,
		"annotations": annotations, "_meta": free,
	}},
	resourceBlock: {members: map[string]position{
		"type": exact, "resource": contents, "annotations": annotations,
		"_meta": free,
	}},
	callBlock: {members: map[string]position{
		"type": exact, "id": exact, "name": exact, "input": free,
		"_meta": free,
	}},
	outcomeBlock: {members: map[string]position{
		"type": exact, "toolUseId": exact, "content": content, "structuredContent": free, "_meta": free,
	}},
	// If its type were cleaned, it could become one of those above, of which nothing was
	// judged as such.
	strangeBlock: {members: map[string]position{
		"type": exact, "text": counted, "data": counted,
		"blob": counted,
	}},

	contents: {members: map[string]position{
		"uri": address, "mimeType": exact, "text": counted, "blob": blob,
		"_meta": free,
	}},
	// Of an extension whose hosts compare or run what they read (mcp.Extension).
	file: {members: map[string]position{
		"uri": address, "mimeType": exact, "text": whole, "blob": wholeFile,
		"_meta": exact,
	}, others: exact},
	view: {members: map[string]position{
		"uri": address, "mimeType": exact, "text": whole, "blob": wholeView,
		"_meta": exact,
	}, others: exact},
	annotations: {members: map[string]position{"audience": exact, "lastModified": exact}},
	icon: {members: map[string]position{
		"src": address, "mimeType": exact, "sizes": exact,
		"theme": exact,
	}, others: exact},
	meta: {members: map[string]position{
		"progressToken": exact, "io.modelcontextprotocol/subscriptionId": exact,
		"io.modelcontextprotocol/serverInfo": implementation,
	}},
	implementation: {members: map[string]position{
		"name": free, "title": free, "version": free, "description": free, "websiteUrl": address,
		"icons": icon,
	}},
	message:    {members: map[string]position{"role": exact, "content": content}},
	completion: {members: map[string]position{"values": free}},

	requests: {others: request},
	request:  {members: map[string]position{"method": exact, "params": question}},
	question: {members: map[string]position{
		"message": free, "mode": exact, "_meta": meta,
		"requestedSchema": schema,                          // of a form
		"url":             address, "elicitationId": exact, // of a page to open
		// of sampling; so is the rest
		"messages": sample, "systemPrompt": free, "tools": tool, "toolChoice": exact,
		"modelPreferences": exact, "includeContext": exact, "stopSequences": exact, "metadata": free,
	}},
	sample: {members: map[string]position{"role": exact, "content": sampled, "_meta": free}},

	tool: {members: map[string]position{
		"name": exact, "title": free, "description": free, "inputSchema": schema, "outputSchema": schema,
		"annotations": toolAnnotations, "execution": exact, "icons": icon, "_meta": exact,
	}, others: exact},
	toolAnnotations: {members: map[string]position{"title": free}, others: exact},
	prompt: {members: map[string]position{
		"name": exact, "title": free, "description": free, "arguments": promptArgument, "icons": icon,
		"_meta": exact,
	}, others: exact},
	promptArgument: {
		members: map[string]position{"name": exact, "title": free, "description": free},
		others:  exact,
	},
	resource: {members: map[string]position{
		"uri": address, "name": exact, "title": free, "description": free, "mimeType": exact,
		"annotations": exact,
		"icons":       icon, "_meta": exact,
	}, others: exact},
	resourceTemplate: {members: map[string]position{
		"uriTemplate": address, "name": exact, "title": free, "description": free, "mimeType": exact,
		"annotations": exact,
		"icons":       icon, "_meta": exact,
	}, others: exact},

	// Of an extension (mcp.Extension.Item): hosts compare all of it with the file that it
	// describes.
	extended: {members: map[string]position{
		"uri": address, "frontmatter": exact, "resources": skillFile,
		"_meta": exact,
	}, others: exact},
	skillFile: {members: map[string]position{"uri": address, "digest": exact}, others: exact},

	// Keywords that hold schemas are those of the drafts 4 to 2020-12; enumNames is
	// MCP's.
	// https://json-schema.org/draft/2020-12/json-schema-core#section-10
	schema: {members: map[string]position{
		"title": free, "description": free, "enumNames": free,
		"properties": schemas, "patternProperties": schemas, "$defs": schemas, "definitions": schemas,
		"dependentSchemas": schemas, "dependencies": schemas,
		"items": schema, "prefixItems": schema, "additionalItems": schema, "unevaluatedItems": schema,
		"contains":             schema,
		"additionalProperties": schema, "unevaluatedProperties": schema, "propertyNames": schema,
		"contentSchema": schema,
		"allOf":         schema, "anyOf": schema, "oneOf": schema, "not": schema, "if": schema,
		"then": schema,
		"else": schema,
		// What follows would be treated in this way if it were not listed. It is so that
		// it can be named.
		"type": exact, "enum": exact, "const": exact, "default": exact, "required": exact, "pattern": exact,
		"format":   exact,
		"examples": exact, "$comment": exact, "$id": exact, "$schema": exact, "$ref": exact, "$anchor": exact,
	}, others: exact},
	schemas: {others: schema},
}
