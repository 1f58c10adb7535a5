// Package mcp holds the words of the Model Context Protocol, so that every other package
// writes them in one way: messages, revisions, methods, headers, codes. It answers: what
// does this message say, and is it well formed? It deliberately does not know how a
// message travels, who may send it or what is done with it.
//
// mcp.go lists names, and method.go says in one table what each method is. message.go
// reads and writes JSON-RPC messages, object.go has the JSON objects that they consist
// of, and error.go errors and their codes. header.go, level.go, content.go,
// capability.go, extension.go and task.go have one matter of the protocol each.
//
// All that is read from outside passes strictjson.Check first, in ParseRaw. Links name
// the revision that they are about.
package mcp

import "slices"

// Era is one of the two halves of the protocol's history. Only the code that talks to
// clients (server) and to servers (registry/upstream) deals with eras; what is between
// them is the same for both.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
type Era int

// The eras. The zero Era is none.
const (
	Legacy Era = iota + 1 // a handshake opens a session: 2024-11-05 … 2025-11-25
	Modern                // every request carries its own metadata: 2026-07-28 …
)

// Revisions of the protocol are dates as text, so that the order of texts is that of
// time: code compares them with < and >=.
const (
	Revision2024 = "2024-11-05"
	Revision2503 = "2025-03-26"
	Revision2506 = "2025-06-18"
	Revision2511 = "2025-11-25"
	Revision2607 = "2026-07-28"

	LatestLegacy = Revision2511
	LatestModern = Revision2607
)

// Revisions returns every revision that the gateway serves, newest first. The slice is
// the caller's.
func Revisions() []string {
	return []string{Revision2607, Revision2511, Revision2506, Revision2503, Revision2024}
}

// EraOf returns the era of a revision that the gateway serves, and 0 for any other text.
func EraOf(revision string) Era {
	switch {
	case revision == Revision2607:
		return Modern
	case slices.Contains(Revisions(), revision):
		return Legacy
	}
	return 0
}

// Methods of requests, from clients and then from servers, and of notifications. Those of
// tasks are in task.go.
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
	MethodSkillsList    = "skills/list"
	MethodSkillsGet     = "skills/get"
	MethodDirectoryRead = "resources/directory/read"

	NotifyInitialized      = "notifications/initialized"
	NotifyCancelled        = "notifications/cancelled"
	NotifyProgress         = "notifications/progress"
	NotifyMessage          = "notifications/message"
	NotifyToolsChanged     = "notifications/tools/list_changed"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	NotifyResourceUpdated  = "notifications/resources/updated"
	NotifyAcknowledged     = "notifications/subscriptions/acknowledged"
	NotifyOpened           = "notifications/elicitation/complete" // of 2025-11-25 only
)

// Members of _meta, which are names for what travels beside the params of a request and
// beside a result.
const (
	MetaProgressToken      = "progressToken"
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// HTTP headers, in the canonical spelling of net/http, so that they can be used as keys
// of an http.Header.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderSessionID       = "Mcp-Session-Id"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderLastEventID     = "Last-Event-Id"
)
