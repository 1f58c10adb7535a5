package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// summary says in a few words what the config holds.
func summary(c *config) string {
	parts := []string{count(len(c.issuers), "issuer"), count(len(c.tenants), "tenant"), count(len(c.servers), "server")}
	if c.included > 0 {
		parts = append(parts, count(c.included, "included file"))
	}
	return strings.Join(parts, ", ")
}

// auditPlace says where the audit records go.
func auditPlace(c *config) string {
	if c.audit.File == "-" {
		return "standard output"
	}
	whole, err := filepath.Abs(c.audit.File)
	if err != nil {
		return c.audit.File // as good as is known
	}
	return whole
}

// count writes a number of things, as "1 server" or "2 servers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// describe says in one line what a server is, without its secrets.
func describe(s *serverConfig) string {
	switch {
	case len(s.builtin) > 0:
		tools := slices.Clone(s.builtin)
		for i := range tools {
			tools[i] = s.name + "__" + tools[i]
		}
		return strings.Join(tools, " ")
	case s.command != "":
		return s.name + "__* from the command " + s.command
	}
	return s.name + "__* from an address"
}
