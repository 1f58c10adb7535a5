package config

import "github.com/drawbridge-mcp/drawbridge/internal/pgdial"

// data reads where it is kept what outlives a restart. A folder serves one replica: what
// one has written there another would not know of.
func (r *reader) data(n *node) {
	to := &r.cfg.Data
	r.cfg.positions["data"] = n.problem("")
	r.object(n, "data", fields{
		"dir":           into(&to.Dir, r.path),
		"postgres_file": into(&to.PostgresFile, r.postgresFile),
	})
	r.oneOf(n, "data", "dir", "postgres_file")
	r.later = append(r.later, func() {
		dir := n.member("dir")
		r.faultFirst(
			wrong{
				dir != nil && (len(r.cfg.Redis.Addresses) > 0 || r.cfg.Replicas > 1), dir,
				"several replicas share what they keep; write postgres_file, with the address of a " +
					"PostgreSQL server in the file, in the place of dir",
			},
			wrong{
				to.PostgresFile != "" && r.cfg.Sessions.KeysFile == "", n,
				"what is kept at a server is sealed with the keys of sessions.keys_file, which is not " +
					"there; make it with: openssl rand -base64 32 > session.keys",
			})
	})
}

// postgresFile returns the path of a file with the address of a PostgreSQL server.
func (r *reader) postgresFile(n *node) string {
	path := r.path(n)
	if r.read(n) != nil {
		if err := pgdial.CheckFile(path); err != nil {
			r.fault(n, "%s", err)
		}
	}
	return path
}

// accessKeys reads whether access keys are taken. They need a place where they are kept.
func (r *reader) accessKeys(n *node) {
	r.cfg.AccessKeys = r.is("on", "on", "off")(n)
	r.later = append(r.later, func() {
		if r.cfg.AccessKeys && !r.cfg.Data.Exists() {
			r.fault(n, "access keys are kept where data says, which is not there; write data: {dir: "+
				"/var/lib/drawbridge}")
		}
	})
}
