package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// summary says in a few words how much the config holds, as in "1 issuer, 2 tenants, 3
// servers".
func summary(c *config.Config) string {
	issuers := len(c.Issuers)
	for i := range c.Logins {
		if c.Logins[i].GitHub { // which signs no tokens, and is an entry of issuers all the same
			issuers++
		}
	}
	parts := []string{
		count(issuers, "issuer"), count(len(c.Tenants), "tenant"),
		count(len(c.Servers), "server"),
	}
	if c.Included > 0 {
		parts = append(parts, count(c.Included, "included file"))
	}
	return strings.Join(parts, ", ")
}

// auditLocation says where the audit records go: the absolute path of a file, or standard
// output.
func auditLocation(c *config.Config) string {
	if c.Audit.File == "-" {
		return "standard output"
	}
	whole, _ := filepath.Abs(c.Audit.File) // "" if the working directory is unknown
	return cmp.Or(whole, c.Audit.File)
}

// count writes a number of things with their noun, as "1 server" or "2 servers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// describe says in one line which tools a server brings and from where. It leaves out
// arguments and addresses, which may hold secrets.
func describe(s *config.Server) string {
	switch {
	case len(s.Builtin) > 0:
		return s.Name + "__" + strings.Join(s.Builtin, " "+s.Name+"__")
	case s.Command != "":
		return s.Name + "__* from the command " + s.Command
	}
	return s.Name + "__* from an address"
}
