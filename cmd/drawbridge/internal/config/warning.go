package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// The codes of warnings. Configs acknowledge them and scripts read them, so they never change.
const (
	codeNoMatch        = gateway.CodeNoMatch  // a pattern that matches nothing
	codeForeignSubject = "foreign-subject"    // a subject whose issuer does not serve the tenant
	codeNoAudit        = "no-audit-directory" // the audit file's directory is not there
	codeNoCommand      = "no-command"         // a server's command is no program
	codeOpenOperator   = "open-operator"      // the operator's page is on all addresses
	codePlainHTTP      = "plain-http"         // credentials go over the internet unencrypted
	codeUnserved       = "unserved-tenant"    // no issuer's tokens are for the tenant
	codeUnused         = "unused-server"      // no tenant reaches the server
)

// Codes returns all of them, in order.
func Codes() []string {
	return []string{
		codeForeignSubject, codeNoAudit, codeNoCommand, codeNoMatch, codeOpenOperator, codePlainHTTP, codeUnserved, codeUnused,
	}
}

// Warning is something in a config that works and may not be what was meant.
type Warning struct {
	Problem

	Code string `json:"code"`
}

func (w Warning) String() string {
	marked := w.Problem
	marked.Text = "warning: " + marked.Text
	return marked.String() + " [" + w.Code + "]"
}

// sortWarnings puts warnings into the order of the file.
func sortWarnings(all []Warning) {
	slices.SortStableFunc(all, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// acknowledge reads the codes of warnings that are meant, in the config, a tenant, a rule or a server: they are not told
// of what stands within.
func (r *reader) acknowledge(n *node) {
	r.eachText(n, "acknowledge", func(at *node, code string) {
		if !slices.Contains(Codes(), code) {
			r.faultHint(at, nearest(at.raw, Codes()), "there is no warning %q; there are %s", at.raw, strings.Join(Codes(), ", "))
		}
		r.acknowledged = append(r.acknowledged, at)
	})
}

// acknowledgements returns where the mappings acknowledge the code.
func acknowledgements(code string, within ...*node) []*node {
	var found []*node
	for _, n := range within {
		for _, item := range n.child("acknowledge").items {
			if item.text == code {
				found = append(found, item)
			}
		}
	}
	return found
}

// warn records a warning at a node, unless the config or one of the mappings that it stands in acknowledges it.
func (r *reader) warn(code string, at *node, within []*node, format string, args ...any) {
	meant := acknowledgements(code, append(within, r.root)...)
	for _, item := range meant {
		r.needed[item] = true
	}
	if len(r.warnings) < maxProblems && len(meant) == 0 {
		r.warnings = append(r.warnings, Warning{Problem{at.file, at.line, at.col, fmt.Sprintf(format, args...), ""}, code})
	}
}
