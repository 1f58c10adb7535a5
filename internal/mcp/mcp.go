// Package mcp holds the words of the Model Context Protocol: messages, revisions, methods, codes. It knows what a
// message looks like and nothing of how one travels, who may send it or what is done with it.
package mcp

import "slices"

// Era is one of the two halves of the protocol's history. Only the doors know it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
type Era int

// The eras. The zero Era is none.
const (
	Legacy Era = iota + 1 // a handshake opens a session: 2024-11-05 … 2025-11-25
	Modern                // every request carries its own metadata: 2026-07-28 …
)

// Revisions of the protocol, by date.
const (
	Revision2024 = "2024-11-05"
	Revision2503 = "2025-03-26"
	Revision2506 = "2025-06-18"
	Revision2511 = "2025-11-25"
	Revision2607 = "2026-07-28"

	LatestLegacy = Revision2511
	LatestModern = Revision2607
)

// Revisions returns every revision served, newest first.
func Revisions() []string {
	return []string{Revision2607, Revision2511, Revision2506, Revision2503, Revision2024}
}

// EraOf returns the era of a revision that is served, 0 for any other.
func EraOf(revision string) Era {
	switch {
	case revision == Revision2607:
		return Modern
	case slices.Contains(Revisions(), revision):
		return Legacy
	}
	return 0
}

// Methods.
const (
	MethodInitialize    = "initialize"
	MethodPing          = "ping"
	MethodDiscover      = "server/discover"
	MethodToolsList     = "tools/list"
	MethodToolsCall     = "tools/call"
	MethodPromptsList   = "prompts/list"
	MethodPromptsGet    = "prompts/get"
	MethodResourcesList = "resources/list"
	MethodTemplatesList = "resources/templates/list"
	MethodResourcesRead = "resources/read"
	MethodSubscribe     = "resources/subscribe"
	MethodUnsubscribe   = "resources/unsubscribe"
	MethodComplete      = "completion/complete"
	MethodSetLevel      = "logging/setLevel"
	MethodListen        = "subscriptions/listen"
	MethodElicit        = "elicitation/create"
	MethodSample        = "sampling/createMessage"
	MethodRoots         = "roots/list"

	NotifyInitialized      = "notifications/initialized"
	NotifyCancelled        = "notifications/cancelled"
	NotifyProgress         = "notifications/progress"
	NotifyMessage          = "notifications/message"
	NotifyToolsChanged     = "notifications/tools/list_changed"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	NotifyResourceUpdated  = "notifications/resources/updated"
	NotifyAcknowledged     = "notifications/subscriptions/acknowledged"
)

// Members of _meta.
const (
	MetaProgressToken      = "progressToken"
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// HTTP headers, in canonical spelling of net/http.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderSessionID       = "Mcp-Session-Id"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderLastEventID     = "Last-Event-Id"
)
