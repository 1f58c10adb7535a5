package config

import (
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/pgdial"
)

// data reads where it is kept what outlives a restart.
func (r *reader) data(n *node) {
	to := &r.cfg.Data
	r.cfg.positions["data"] = n.problem("")
	if r.object(n, "data", fields{
		"dir":           into(&to.Dir, r.path),
		"postgres_file": into(&to.PostgresFile, r.postgresFile),
	}) {
		r.oneOf(n, "data", "dir", "postgres_file")
	}
}

// postgresFile returns the path of a file with the address of a PostgreSQL server.
func (r *reader) postgresFile(n *node) string {
	path := r.path(n)
	if r.faultFirst(wrong{
		strings.Contains(n.text, "://"), n,
		"this is an address: write it into a file, and name that",
	}) {
		return ""
	}
	if r.read(n) != nil {
		if err := pgdial.CheckFile(path); err != nil {
			r.fault(n, "%s", err)
		}
	}
	return path
}
