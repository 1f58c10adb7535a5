package mcp

// CapabilitiesOf returns what a client can be asked, out of what it declared in a revision. The result has one
// canonical form, which is the modern one: elicitation with form and url, sampling with context and tools, roots. All
// else is left out. So the rest of the gateway need not know what a revision let clients declare, and two clients that
// can be asked the same have the same text and can share what is kept by it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#capabilities
func CapabilitiesOf(revision string, declared Object) Object {
	var asks Object
	if elicitation := declared.Value("elicitation"); elicitation.IsObject() && revision >= Revision2506 {
		modes := declared.Object("elicitation")
		var known Object
		if modes.Value("form").IsObject() || !modes.Value("url").IsObject() || revision < Revision2511 {
			known = known.With("form", RawJSON("{}")) // no mode, or a revision that had no modes, means forms
		}
		if modes.Value("url").IsObject() && revision >= Revision2511 {
			known = known.With("url", RawJSON("{}"))
		}
		asks = asks.With("elicitation", known.JSON())
	}
	if declared.Value("roots").IsObject() {
		asks = asks.With("roots", RawJSON("{}"))
	}
	if declared.Value("sampling").IsObject() {
		sampling := declared.Object("sampling")
		var known Object
		for _, name := range []string{"context", "tools"} {
			if sampling.Value(name).IsObject() && revision >= Revision2511 {
				known = known.With(name, RawJSON("{}"))
			}
		}
		asks = asks.With("sampling", known.JSON())
	}
	return asks
}

// CanBeAsked tells whether a client can be asked the question of a server, which is a request of that method with these
// params. capabilities are those of the client in canonical form.
func CanBeAsked(capabilities Object, method string, params Object) bool {
	name, part, ok := neededFor(method, params)
	return ok && capabilities.Has(name) && (part == "" || capabilities.Object(name).Has(part))
}

// WithNeeded returns capabilities, in canonical form, together with the one that a client needs to be asked the
// question. ok is false if the protocol has no such question; then capabilities are returned as they are.
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

// neededFor returns the capability that a client needs for a question, and which part of it; part is "" when any client
// with the capability can be asked.
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
