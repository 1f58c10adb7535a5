package mcp

// CapabilitiesOf returns what a client can be asked, out of what it declared in a
// revision. The result has one canonical form, which is the modern one: elicitation with
// form and url, sampling with context and tools, roots. All else is left out. So the rest
// of the gateway need not know what a revision let clients declare, and two clients that
// can be asked the same have the same text and can share what is kept by it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#capabilities
func CapabilitiesOf(revision string, declared Object) Object {
	asks := 0
	if elicitation := declared.Value("elicitation"); elicitation.IsObject() && revision >= Revision2506 {
		url := elicitation.Member("url").IsObject()
		if elicitation.Member("form").IsObject() || !url || revision < Revision2511 {
			asks |= asksForm // no mode, or a revision that had no modes, means forms
		}
		if url && revision >= Revision2511 {
			asks |= asksURL
		}
	}
	if declared.Value("roots").IsObject() {
		asks |= asksRoots
	}
	if sampling := declared.Value("sampling"); sampling.IsObject() {
		asks |= asksSampling
		if sampling.Member("context").IsObject() && revision >= Revision2511 {
			asks |= asksContext
		}
		if sampling.Member("tools").IsObject() && revision >= Revision2511 {
			asks |= asksTools
		}
	}
	return canonical[asks]
}

// What a client can be asked, as bits.
const (
	asksForm = 1 << iota
	asksURL
	asksRoots
	asksSampling
	asksContext
	asksTools
	asksAll = 1 << iota
)

// canonical has the form of CapabilitiesOf for each combination of bits. It is made once,
// because modern clients declare their capabilities with every request. It is never
// changed.
var canonical = func() (forms [asksAll]Object) {
	for asks := range forms {
		part := func(bits int, value RawJSON) RawJSON {
			if asks&bits == 0 {
				return nil
			}
			return value
		}
		elicitation := NewObject(
			Member{Name: "form", Value: part(asksForm, RawJSON("{}"))},
			Member{Name: "url", Value: part(asksURL, RawJSON("{}"))},
		)
		sampling := NewObject(
			Member{Name: "context", Value: part(asksContext, RawJSON("{}"))},
			Member{Name: "tools", Value: part(asksTools, RawJSON("{}"))},
		)
		forms[asks] = NewObject(
			Member{Name: "elicitation", Value: part(asksForm|asksURL, elicitation.JSON())},
			Member{Name: "roots", Value: part(asksRoots, RawJSON("{}"))},
			Member{Name: "sampling", Value: part(asksSampling, sampling.JSON())},
		)
	}
	return forms
}()

// CanBeAsked tells whether a client can be asked the question of a server, which is a
// request of that method with these params. capabilities are those of the client in
// canonical form.
func CanBeAsked(capabilities Object, method string, params Object) bool {
	name, part, ok := neededFor(method, params)
	return ok && capabilities.Has(name) && (part == "" || capabilities.Object(name).Has(part))
}

// WithNeeded returns capabilities, in canonical form, together with the one that a client
// needs to be asked the question. ok is false if the protocol has no such question; then
// capabilities are returned as they are.
func WithNeeded(capabilities Object, method string, params Object) (needed Object, ok bool) {
	name, part, ok := neededFor(method, params)
	if !ok {
		return capabilities, false
	}
	whole := capabilities.Object(name)
	if part != "" {
		whole = whole.With(part, RawJSON("{}"))
	}
	return capabilities.With(name, whole.JSON()), true
}

// neededFor returns the capability that a client needs for a question, and which part of
// it; part is "" when any client with the capability can be asked.
func neededFor(method string, params Object) (name, part string, ok bool) {
	switch method {
	case MethodElicit:
		mode := params.Text("mode")
		if mode == "" {
			mode = "form"
		}
		return "elicitation", mode, mode == "form" || mode == "url"
	case MethodSample:
		if params.Has("tools") || params.Has("toolChoice") {
			part = "tools"
		}
		return "sampling", part, true
	case MethodRoots:
		return "roots", "", true
	}
	return "", "", false
}
