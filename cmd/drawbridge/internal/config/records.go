package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// auditFields returns the keys under audit.
func (r *reader) auditFields() fields {
	records := &r.cfg.Records
	return fields{
		"file":      into(&r.cfg.Audit.File, r.auditPath),
		"when_full": into(&r.cfg.Audit.Drop, r.is("drop", "block", "drop")),
		"sync":      into(&r.cfg.Audit.Always, r.is("always", "always", "interval")),
		"claims": func(n *node) {
			records.Claims = r.checkedTexts("claims", checkRecordedClaim)(n)
			r.checkMembers(n, "claims", records.Claims)
		},
		"arguments": func(n *node) {
			r.entries(n, "arguments", func(m member) {
				if err := checkRecordedItems(m.name); err != nil {
					r.fault(m.key, "%q: %s", m.name, err)
				}
				names := r.checkedTexts("the names of arguments", checkRecordedName)(m.value)
				r.checkMembers(m.value, "the names of arguments", names)
				records.Arguments = append(records.Arguments, gateway.Recorded{Pattern: m.name, Names: names})
			})
		},
		"key_file": func(n *node) { records.KeyFile, records.Keys = r.path(n), r.sealKeys(n, "key_file") },
	}
}

// checkMembers reports more names than a record has room for.
func (r *reader) checkMembers(n *node, what string, names []string) {
	if len(names) > audit.MaxMembers {
		r.fault(n, "%s are at most %d: a record has no room for more", what, audit.MaxMembers)
	}
}

func checkRecordedName(name string) error {
	if !audit.IsName(name) {
		return fmt.Errorf("a name in a record is visible ASCII without quotation marks and backslashes, "+
			"and has at most %d bytes", audit.MaxMemberName)
	}
	return nil
}

func checkRecordedClaim(path string) error {
	return errors.Join(checkRecordedName(path), auth.CheckClaimPath(path))
}

// checkRecordedItems tells why a pattern names nothing that has arguments.
func checkRecordedItems(pattern string) error {
	kind, _ := gateway.PatternKind(pattern)
	if !slices.Contains([]registry.Kind{registry.KindTool, registry.KindPrompt}, kind) {
		return errors.New("want a tool's name or prompt:NAME, with * for any run of characters: " +
			"nothing else has arguments")
	}
	return nil
}
