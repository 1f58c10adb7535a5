package mcp

import "cmp"

// CapabilitiesOf returns what a client can be asked, out of what it declared in a
// revision. The result has one canonical form, which is the modern one: elicitation with
// form and url, sampling with context and tools, roots. All else is left out. So the rest
// of the gateway need not know what a revision let clients declare, and two clients that
// can be asked the same have the same text and can share what is kept by it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#capabilities
func CapabilitiesOf(revision string, declared Object) Object {
	return CapabilitiesIn(capabilityBits(revision, declared))
}

// capabilityBits returns what a client can be asked that declared this in a revision.
func capabilityBits(revision string, declared Object) (bits byte) {
	for i, one := range askable {
		whole := declared.Value(one.name)
		if revision >= one.since && whole.IsObject() &&
			(one.part == "" || whole.Member(one.part).IsObject()) {
			bits |= 1 << i
		}
	}
	if bits&asksElicitation != 0 && bits&asksURL == 0 {
		bits |= asksForm // no mode, or a revision that had no modes, means forms
	}
	return bits
}

// What a client can be asked, as bits. Tickets of sessions have them: see server/ticket
// before one changes.
const (
	asksElicitation byte = 1 << iota
	asksForm
	asksURL
	asksRoots
	asksSampling
	asksContext
	asksTools
	asksAll = 1<<iota - 1
)

// askable has the names for each bit, in the order of the canonical form, and the first
// revision in which they mean something. A part follows the whole that it belongs to.
var askable = [...]struct{ name, part, since string }{
	{"elicitation", "", Revision2506},
	{"elicitation", "form", Revision2506},
	{"elicitation", "url", Revision2511},
	{"roots", "", Revision2024},
	{"sampling", "", Revision2024},
	{"sampling", "context", Revision2511},
	{"sampling", "tools", Revision2511},
}

// canonical has the form of CapabilitiesOf for each combination of bits. It is made once,
// because modern clients declare their capabilities with every request. It is never
// changed.
var canonical = func() (forms [asksAll + 1]Object) {
	for bits := range forms {
		for i, one := range askable {
			if bits&(1<<i) == 0 {
				continue
			}
			forms[bits] = withPart(forms[bits], one.name, one.part)
		}
	}
	return forms
}()

// CapabilitiesIn returns the capabilities that CapabilityBits has as those bits. Bits of
// what is not known here mean nothing.
func CapabilitiesIn(bits byte) Object { return canonical[bits&asksAll] }

// CapabilityBits returns capabilities, in canonical form, as bits.
func CapabilityBits(capabilities Object) byte { return capabilityBits(LatestModern, capabilities) }

// withPart returns capabilities together with the one of that name, and with that part of
// it; "": with none.
func withPart(capabilities Object, name, part string) Object {
	whole := capabilities.Object(name)
	if part != "" {
		whole = whole.With(part, RawJSON("{}"))
	}
	return capabilities.With(name, whole.JSON())
}

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
	return withPart(capabilities, name, part), true
}

// neededFor returns the capability that a client needs for a question, and which part of
// it; part is "" when any client with the capability can be asked.
func neededFor(method string, params Object) (name, part string, ok bool) {
	switch method {
	case MethodElicit:
		mode := cmp.Or(params.Text("mode"), "form")
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
