package config

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// The codes of warnings. They never change, because configs acknowledge them and scripts
// that read the output of validate -json compare them.
const (
	codeNoMatch = gateway.CodeNoMatch // a pattern that matches nothing
	// a rule denies all tools, and prompts or resources stay allowed
	codeDeniesTools    = "denies-tools-alone"
	codeExposed        = "exposed-file"       // analyze_csv reads a file of the config
	codeForeignSubject = "foreign-subject"    // a subject whose issuer does not serve the tenant
	codeLargeBody      = "large-body"         // a body may be larger than one user's share of the memory
	codeMuchMemory     = "much-memory"        // limits.memory is more than the process has for requests
	codeNoAudit        = "no-audit-directory" // the audit file's directory is not there
	codeNoCommand      = "no-command"         // a server's command is no program
	codeNoRedis        = "no-redis"           // replicas without redis
	codeNoReplicas     = "no-replicas"        // redis without replicas
	codeNoRights       = "no-rights"          // a server cannot get the user or the limits that it is to have
	codeNothing        = "nothing-allowed"    // no rule of a tenant allows anything
	codeOpenOperator   = "open-operator"      // the operator's page is on all addresses
	codePlainHTTP      = "plain-http"         // credentials go over the internet unencrypted
	codeUnserved       = "unserved-tenant"    // no issuer's tokens are for the tenant
	codeUnused         = "unused-server"      // no tenant reaches the server
	codeWritable       = "writable-file"      // anybody on the machine may write a file of the config
	codeWrongPrefix    = "wrong-prefix"       // a name of tools is not of the kind that stands there

	// CodeUnusedRelease is for a digest in released that lets nothing in. Only who is
	// connected to the server knows, so package config gives this warning for others.
	CodeUnusedRelease = "unused-release"
)

// Codes returns the codes of all warnings, in alphabetical order.
func Codes() []string {
	return []string{
		codeDeniesTools, codeExposed, codeForeignSubject, codeLargeBody, codeMuchMemory, codeNoAudit,
		codeNoCommand, codeNoMatch, codeNoRedis, codeNoReplicas, codeNoRights, codeNothing, codeOpenOperator,
		codePlainHTTP, codeUnserved, CodeUnusedRelease, codeUnused, codeWritable, codeWrongPrefix,
	}
}

// Warning is something in a config that works and may not be what was meant. Its code
// says which kind it is.
type Warning struct {
	Problem

	Code string `json:"code"`
}

// String writes the warning as a line like that of a problem, with its code at the end.
func (w Warning) String() string {
	marked := w.Problem
	marked.Text = "warning: " + marked.Text
	return marked.String() + " [" + w.Code + "]"
}

// sortWarnings sorts warnings by file and place.
func sortWarnings(all []Warning) {
	slices.SortStableFunc(all, func(a, b Warning) int { return byPlace(a.Problem, b.Problem) })
}
