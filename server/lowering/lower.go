// Package lowering brings results, errors, questions and the items of lists from the
// stateless form into what an older revision of the protocol knows. It is a set of
// functions of revision and text, and knows no session and no transport: lower has
// messages, and form the items of lists and what of tasks a revision has.
package lowering

import (
	"cmp"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Result brings a result from the stateless form into the form of a session's revision,
// by removing or replacing what that revision does not know. What it knows stays as it
// is, and so does what nobody here knows. The items of a list are in their form already
// (see forms).
func Result(revision, method string, result mcp.Object) mcp.Object {
	result = lowerMeta(result.Without("resultType", "ttlMs", "cacheScope"))
	switch mcp.MethodOf(method).Result {
	case mcp.ResultContent:
		if result.Has("task") && Tasks(revision) != 0 {
			return result // a task in the place of a result
		}
		return lowerCall(revision, result)
	case mcp.ResultMessages:
		return lowerPrompt(revision, result)
	case mcp.ResultContents:
		if revision < mcp.Revision2506 { // contents have _meta since then
			return withoutEach(result, "contents", "_meta")
		}
	}
	return result
}

// Error brings an error into the legacy era. There, a resource that does not exist
// had a code of its own, and a question that the client cannot be asked had none: if a
// tool asked it, the model is told in a result.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#error-handling
func Error(method string, rpcErr *mcp.Error) (mcp.Object, *mcp.Error) {
	switch {
	case rpcErr.Code == mcp.CodeMissingCapability && isOfTool(method):
		return mcp.ToolError("This tool needs to ask the user's client for something it cannot do: " +
			lacking(rpcErr) + ". The call was not carried out."), nil
	case rpcErr.Code == mcp.CodeMissingCapability:
		return mcp.Object{}, &mcp.Error{Code: mcp.CodeInternal, Message: rpcErr.Message, Data: rpcErr.Data}
	case rpcErr.Code == mcp.CodeInvalidParams && (method == mcp.MethodResourcesRead ||
		method == mcp.MethodSubscribe) && isNotFound(rpcErr):
		return mcp.Object{}, &mcp.Error{
			Code: mcp.CodeResourceNotFound, Message: rpcErr.Message,
			Data: rpcErr.Data,
		}
	}
	return mcp.Object{}, rpcErr
}

// isOfTool tells whether the method's result is one of a tool.
func isOfTool(method string) bool { return mcp.MethodOf(method).Result == mcp.ResultContent }

// lacking names the capabilities that an error says the client lacks.
func lacking(rpcErr *mcp.Error) string {
	data, _ := mcp.ObjectOf(rpcErr.Data)
	var names []string
	for name := range data.Object("requiredCapabilities").Members {
		parts := data.Object("requiredCapabilities").Object(name)
		if parts.Len() == 0 {
			names = append(names, name)
		}
		for part := range parts.Members {
			names = append(names, name+"."+part)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "a capability that it did not declare")
}

// isNotFound tells whether an error says that a resource does not exist. An error about
// how it was named has no URI in its data.
func isNotFound(rpcErr *mcp.Error) bool {
	data, _ := mcp.ObjectOf(rpcErr.Data)
	return rpcErr.StableCode() == "DB-RESOURCE" || data.Has("uri")
}

// lowerMeta removes from _meta what only the stateless form has there.
func lowerMeta(result mcp.Object) mcp.Object {
	return result.WithMeta(result.Object("_meta").Without(mcp.MetaServerInfo))
}

// Unanswerable is the answer to a request whose questions were not answered. If it is
// about a tool, the model is told in a result.
func Unanswerable(method string, why error) (mcp.Object, *mcp.Error) {
	if isOfTool(method) {
		return mcp.ToolError("This tool needs something from the user's client before it can go on, and " +
			reason(why) + ". The call was not completed."), nil
	}
	return mcp.Object{}, mcp.Stable(mcp.CodeInternal, "DB-INPUT",
		"This needs something from the client before it can go on, and "+reason(why))
}

// Why a request that asks its client something ends without a result.
var (
	ErrUnanswered = errors.New("nobody answered in time")
	ErrRounds     = errors.New("there are too many questions")
	ErrPauses     = errors.New("it is not ready in time")
)

// reason tells the client why there is no answer.
func reason(why error) string {
	for _, known := range []error{ErrUnanswered, ErrRounds, ErrPauses} {
		if errors.Is(why, known) {
			return known.Error()
		}
	}
	return "it could not be asked"
}

// lowerCall brings the result of a tool into a revision. Structured content must be an
// object in revisions since 2025-06-18 and does not exist before; links to resources
// exist since 2025-06-18 too, and audio since 2025-03-26.
func lowerCall(revision string, result mcp.Object) mcp.Object {
	structured := result.Value("structuredContent")
	if revision >= mcp.Revision2506 && result.Has("content") && (structured == nil || structured.IsObject()) {
		return result
	}
	if structured != nil && (revision < mcp.Revision2506 || !structured.IsObject()) {
		result = result.Without("structuredContent")
		// or the client would learn nothing
		if content, _ := result.Value("content").Elements(); len(content) == 0 {
			result = result.With("content", mcp.Array([]mcp.RawJSON{mcp.TextBlock(string(structured))}))
		}
	}
	if !result.Has("content") { // every handshake revision requires it
		result = result.With("content", mcp.RawJSON("[]"))
	}
	return changeEach(result, "content",
		func(block mcp.RawJSON) mcp.RawJSON { return lowerBlock(revision, block) })
}

// lowerPrompt brings the messages of a prompt into a revision. Each message has one block
// of content.
func lowerPrompt(revision string, result mcp.Object) mcp.Object {
	return changeEach(result, "messages", func(raw mcp.RawJSON) mcp.RawJSON {
		message, _ := mcp.ObjectOf(raw)
		block := lowerBlock(revision, message.Value("content"))
		if block == nil {
			return nil
		}
		return message.With("content", block).JSON()
	})
}

// Question brings a question to the client into a revision. It was checked before
// that the client can be asked it, so only its form may differ.
func Question(revision string, capabilities mcp.Object, method string, params mcp.Object) mcp.Object {
	params = params.Without("task").WithMeta(params.Object("_meta").Without(mcp.MetaProgressToken))
	switch {
	case method == mcp.MethodSample:
		return lowerSampling(revision, capabilities, params)
	case method != mcp.MethodElicit:
		return params
	case revision < mcp.Revision2511: // there is one mode
		return params.Without("mode")
	case params.Text("mode") == "url" && params.Text("elicitationId") == "":
		return params.With("elicitationId", mcp.String("q"+rand.Text()))
	}
	return params
}

// maxBeside bounds what stands in a message besides its content, in bytes, if that is
// split: each of its blocks would have a copy. Of more only the role stays.
const maxBeside = 256

// lowerSampling brings a request for sampling into a revision. Since 2025-11-25 a message
// may have several blocks, and including context needs a capability.
func lowerSampling(revision string, capabilities, params mcp.Object) mcp.Object {
	if revision >= mcp.Revision2511 {
		if !capabilities.Object("sampling").Has("context") && params.Text("includeContext") != "none" {
			params = params.Without("includeContext")
		}
		return params
	}
	messages, _ := params.Value("messages").Elements()
	split := make([]mcp.RawJSON, 0, len(messages))
	for _, raw := range messages {
		message, ok := mcp.ObjectOf(raw)
		blocks, several := message.Value("content").Elements()
		if !several {
			blocks = []mcp.RawJSON{message.Value("content")}
		}
		role := message.Value("role")
		if !ok || !several && !blocks[0].IsObject() || len(blocks) > 1 && len(role) > maxBeside {
			split = append(split, raw)
			continue
		}
		if len(blocks) > 1 && message.Without("content").Size() > maxBeside {
			message = mcp.NewObject(mcp.Member{Name: "role", Value: role})
		}
		for _, block := range blocks {
			if lowered := lowerBlock(revision, block); lowered != nil {
				block = lowered
			}
			split = append(split, message.With("content", block).JSON())
		}
	}
	return params.With("messages", mcp.Array(split))
}

// lowerBlock returns the text that stands for a block of content of a kind that the
// revision does not have, nil for a block that it has.
func lowerBlock(revision string, raw mcp.RawJSON) mcp.RawJSON {
	if revision >= mcp.Revision2506 {
		return nil
	}
	block, _ := mcp.ObjectOf(raw)
	switch kind := block.Text("type"); {
	case kind == "resource_link":
		text := block.Text("uri")
		if name := block.Text("name"); name != "" {
			text = name + ": " + text
		}
		return mcp.TextBlock(text)
	case kind == "audio" && revision < mcp.Revision2503:
		return mcp.TextBlock("[audio of type " + block.Text("mimeType") +
			", which this connection cannot carry]")
	}
	return nil
}

// withoutEach returns an object without that member of each object in one of its lists.
func withoutEach(object mcp.Object, list, member string) mcp.Object {
	return changeEach(object, list, func(raw mcp.RawJSON) mcp.RawJSON {
		one, _ := mcp.ObjectOf(raw)
		if !one.Has(member) {
			return nil
		}
		return one.Without(member).JSON()
	})
}

// changeEach returns an object in one of whose lists what change returns stands in the
// place of each element for which that is not nil.
func changeEach(object mcp.Object, list string, change func(mcp.RawJSON) mcp.RawJSON) mcp.Object {
	elements, _ := object.Value(list).Elements()
	changed := false
	for i, raw := range elements {
		if other := change(raw); other != nil {
			elements[i], changed = other, true
		}
	}
	if !changed {
		return object
	}
	return object.With(list, mcp.Array(elements))
}
