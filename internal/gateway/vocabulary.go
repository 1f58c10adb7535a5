package gateway

import (
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Ending is a row of the vocabulary: a way in which a request can end, in the words of
// the records, and the stable code that its client reads. Several endings share a code on
// purpose, such as unknown and forbidden; none has two.
type Ending struct{ Outcome, Reason, Code string }

// Codes that stand in the vocabulary for one of several.
const (
	codeOfKind   = "DB-TOOL, DB-PROMPT or DB-RESOURCE" // by what the request is for
	codeOfServer = "DB-UPSTREAM-ERROR"                 // unless the server's error has a code of its own
)

// Vocabulary returns every ending but those whose reason is the code itself. Reasons of
// unauthenticated are those of package auth.
func Vocabulary() []Ending {
	return []Ending{
		{"ok", "", ""},
		{outcomeTask, "", ""},
		{outcomeToolError, "", ""},
		{outcomeAsks, "", ""},
		{outcomeRepeated, "", ""},
		{outcomeInvalid, "", ""},
		{outcomeBadOutput, "", ""},
		{"unknown", "", codeOfKind},
		{"unknown", taskForged, "DB-TASK"},
		{"unknown", taskForeign, "DB-TASK"},
		{"unknown", taskMismatch, "DB-TASK"},
		{"unknown", taskForbidden, "DB-TASK"},
		{"unknown", taskGone, "DB-TASK"},
		{outcomeRequest, stateForged, "DB-STATE"},
		{outcomeRequest, stateForeign, "DB-STATE"},
		{outcomeRequest, stateMismatch, "DB-STATE"},
		{outcomeRequest, stateExpired, "DB-STATE"},
		{outcomeForbidden, reasonDenied, codeOfKind},
		{outcomeForbidden, reasonNoRule, codeOfKind},
		{outcomeForbidden, reasonLacking, codeOfKind},
		{outcomeForbidden, reasonScope, "DB-SCOPE"},
		{outcomeForbidden, "host", "DB-HOST"},
		{outcomeForbidden, "origin", "DB-ORIGIN"},
		{"missing_capability", "", "DB-CAPABILITY"},
		{kindUnavailable, reasonDown, "DB-UPSTREAM-DOWN"},
		{kindUnavailable, reasonStart, "DB-UPSTREAM-DOWN"},
		{kindUnavailable, reasonLost, "DB-UPSTREAM-LOST"},
		{kindUnavailable, reasonReplicas, "DB-REPLICAS"},
		{kindUnavailable, reasonReplicaLost, "DB-REPLICA-LOST"},
		{kindUnavailable, reasonNotAnnounced, "DB-SUBSCRIBE"},
		{kindUnavailable, string(credential.FaultRefused), "DB-UPSTREAM-CREDENTIAL"},
		{kindUnavailable, string(credential.FaultClock), "DB-UPSTREAM-CREDENTIAL"},
		{kindUnavailable, string(credential.FaultMissing), "DB-UPSTREAM-CREDENTIAL"},
		{kindUnavailable, string(credential.FaultExchange), "DB-UPSTREAM-TOKEN"},
		{kindUnavailable, string(credential.FaultAway), "DB-UPSTREAM-TOKEN-DOWN"},
		{kindUnavailable, string(credential.FaultSignIn), "DB-UPSTREAM-SIGN-IN"},
		{"timeout", "", "DB-TIMEOUT"},
		{"cancelled", "", "DB-CANCELLED"},
		{"cancelled", reasonRevoked, "DB-CANCELLED"},
		{"cancelled", reasonStopped, "DB-STOPPED"},
		{kindProtocol, "", "DB-UPSTREAM-PROTOCOL"},
		{"upstream_error", "", codeOfServer},
		{"blocked", "", "DB-OUTPUT-SECRET"},
		{"too_large", "", "DB-OUTPUT-SIZE"},
		{kindHidden, "", "DB-OUTPUT-HIDDEN"},
		{"unheld", "user", "DB-OUTPUT-MEMORY"},
		{"unheld", "tenant", "DB-OUTPUT-MEMORY"},
		{"unheld", "total", "DB-OUTPUT-MEMORY"},
		{"unheld", "never", "DB-OUTPUT-MEMORY"},
		{"unrecorded", "", "DB-AUDIT"},
		{"internal", "", "DB-INTERNAL"},
		{"unauthenticated", "missing", "DB-AUTH-MISSING"},
		{"unauthenticated", "scheme", "DB-AUTH-MISSING"},
		{"unauthenticated", "malformed", "DB-AUTH-TOKEN"},
		{"unauthenticated", "algorithm", "DB-AUTH-TOKEN"},
		{"unauthenticated", "key", "DB-AUTH-TOKEN"},
		{"unauthenticated", "signature", "DB-AUTH-TOKEN"},
		{"unauthenticated", "issuer", "DB-AUTH-TOKEN"},
		{"unauthenticated", "audience", "DB-AUTH-AUDIENCE"},
		{"unauthenticated", "expired", "DB-AUTH-EXPIRED"},
		{"unauthenticated", "early", "DB-AUTH-EARLY"},
		{"unauthenticated", "lifetime", "DB-AUTH-LIFETIME"},
		{"unauthenticated", "tenant", "DB-AUTH-CLAIMS"},
		{"unauthenticated", "claims", "DB-AUTH-CLAIMS"},
		{"unauthenticated", "unavailable", "DB-AUTH-UNAVAILABLE"},
	}
}

// CodeOf returns the code that the client of a request read which ended so, "" where it
// read none. method is the request's.
func CodeOf(outcome, reason, method string) string {
	if strings.HasPrefix(reason, "DB-") {
		return reason
	}
	all := Vocabulary()
	i := slices.IndexFunc(all, func(e Ending) bool { return e.Outcome == outcome && e.Reason == reason })
	if i < 0 {
		i = slices.IndexFunc(all, func(e Ending) bool { return e.Outcome == outcome })
	}
	switch {
	case i < 0:
		return ""
	case all[i].Code != codeOfKind:
		return all[i].Code
	case method == mcp.MethodPromptsGet:
		return "DB-PROMPT"
	case method == mcp.MethodToolsCall:
		return "DB-TOOL"
	}
	return "DB-RESOURCE"
}

// OutcomeOf returns the outcome of the first ending with that code, "" if the vocabulary
// has none.
func OutcomeOf(code string) string {
	all := Vocabulary()
	has := func(e Ending) bool {
		return e.Code == code || e.Code == codeOfKind && strings.Contains(codeOfKind, code)
	}
	if i := slices.IndexFunc(all, has); i >= 0 {
		return all[i].Outcome
	}
	return ""
}
