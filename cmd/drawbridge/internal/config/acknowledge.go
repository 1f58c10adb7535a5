package config

import (
	"fmt"
	"slices"
	"strings"
)

// acknowledge reads a list of warning codes. Warnings with these codes are not given
// about anything inside the mapping that holds the list, be it the whole config, a
// tenant, a rule or a server.
func (r *reader) acknowledge(n *node) {
	r.eachText(n, "acknowledge", func(at *node, code string) {
		if !slices.Contains(Codes(), code) {
			r.faultHint(at, nearest(at.raw, Codes()), "there is no warning %q; there are %s", at.raw,
				strings.Join(Codes(), ", "))
		}
		r.acknowledged = append(r.acknowledged, at)
	})
}

// acknowledgements returns the items with that code in the lists acknowledge of the given
// mappings. There is a use for them now.
func (r *reader) acknowledgements(code string, within ...*node) []*node {
	var found []*node
	for _, n := range within {
		for _, item := range n.child("acknowledge").items {
			if item.text == code {
				found = append(found, item)
				r.needed[item] = true
			}
		}
	}
	return found
}

// warn records a warning at a node unless it is acknowledged, either by the config as a
// whole or by one of the mappings in within, which are those that the node stands in.
func (r *reader) warn(code string, at *node, within []*node, format string, args ...any) {
	if len(r.acknowledgements(code, append(within, r.root)...)) > 0 {
		return
	}
	if r.warned++; r.warned <= maxProblems {
		r.cfg.Warnings = append(r.cfg.Warnings,
			Warning{at.problem(fmt.Sprintf(format, args...)), code})
	}
}
