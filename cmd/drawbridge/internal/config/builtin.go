package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// builtin reads which built-in tools a server has: a mapping of each to its keys, or a
// list of their names where none has any. It reports names that do not exist, and an
// empty list or mapping.
func (r *reader) builtin(s *Server, n *node) {
	if len(n.items)+len(n.members) == 0 {
		r.fault(n, "built-in tools are wanted here, as in [calculate] or {calculate: {}}; there are %s",
			strings.Join(builtin.Names(), ", "))
		return
	}
	if n.kind == mapping {
		r.object(n, "builtin", r.builtinFields(s))
		return
	}
	r.eachText(n, "builtin", func(at *node, name string) {
		if !slices.Contains(builtin.Names(), name) {
			r.faultHint(at, nearest(at.raw, builtin.Names()), "there is no built-in tool %q; there are %s",
				at.raw, strings.Join(builtin.Names(), ", "))
		}
		if keys := builtinNeeds()[name]; keys != nil {
			r.fault(at, "%s needs %s: write builtin: {%s: {%s: …}}", name, strings.Join(keys, " and "), name,
				strings.Join(keys, ": …, "))
		}
		s.Builtin = append(s.Builtin, name)
	})
}

// builtinNeeds returns the keys that a built-in tool cannot do without.
func builtinNeeds() map[string][]string {
	return map[string][]string{
		"analyze_csv": {"csv_root"}, "get_weather": {"weather_url", "geocoding_url"},
		"query_database": {"databases"},
	}
}

// builtinFields returns the built-in tools, each with the function that reads its keys
// into s.
func (r *reader) builtinFields(s *Server) fields {
	tool := func(name string, keys fields) func(*node) {
		return func(n *node) {
			if r.object(n, name, keys) {
				r.need(n, name, builtinNeeds()[name]...)
			}
			s.Builtin = append(s.Builtin, name)
		}
	}
	return fields{
		"calculate":    tool("calculate", nil),
		"current_time": tool("current_time", nil),
		"analyze_csv": tool("analyze_csv", fields{
			"csv_root": into(&s.CSVRoot, r.existing("%q is not a directory", os.FileMode.IsDir)),
		}),
		"get_weather": tool("get_weather", fields{
			"weather_url":   into(&s.WeatherURL, r.serverURL(s)),
			"geocoding_url": into(&s.GeocodingURL, r.serverURL(s)),
		}),
		"query_database": tool("query_database", fields{
			"databases": func(n *node) { r.databases(s, n) },
		}),
		"describe_database": tool("describe_database", nil),
	}
}

// databaseName is the shape of a database's name.
var databaseName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// databases reads the databases of query_database, in the order of the file: the first is
// the default.
func (r *reader) databases(s *Server, n *node) {
	if n.kind == mapping && len(n.members) == 0 {
		r.fault(n, "query_database needs a database, as in {users: {sqlite: users.db}}")
	}
	r.entries(n, "databases", func(m member) {
		d := builtin.Database{Name: m.name}
		if !databaseName.MatchString(m.name) {
			r.fault(m.key, "%q is not a database's name: 1 to 64 letters, digits, _ and -", m.name)
		}
		if r.object(m.value, "a database", r.databaseFields(&d)) {
			r.oneOf(m.value, "the database", "sqlite", "postgres_file")
		}
		s.Databases = append(s.Databases, d)
	})
}

// databaseFields returns the keys of a database, each with the function that reads it
// into d.
func (r *reader) databaseFields(d *builtin.Database) fields {
	return fields{
		"sqlite":        into(&d.SQLite, r.existing("%s is not a file", os.FileMode.IsRegular)),
		"postgres_file": into(&d.PostgresFile, r.postgresFile),
	}
}

// checkBuiltin reports what keeps the built-in tools of a server from being made. Package
// builtin has most of these checks, so the tools are made once, on trial.
func (r *reader) checkBuiltin(s *Server, n *node) {
	at := n.child("builtin").member("describe_database")
	r.faultFirst(wrong{
		at != nil && n.child("builtin").member("query_database") == nil, at,
		"describe_database describes the databases of query_database, which this server does not have",
	})
	// After any problem, s may be incomplete, and package builtin would complain about
	// values that the file does not have.
	if len(r.problems) > 0 {
		return
	}
	r.checkTimed(n, s.Builtin)
	if _, err := builtin.New(s.BuiltinConfig()); err != nil {
		r.fault(n.member("builtin"), "%s", err)
	}
}

// BuiltinKeys returns what the file says under builtin, to compare it with another
// config's.
func (s Server) BuiltinKeys() []any {
	return []any{s.Builtin, s.CSVRoot, s.WeatherURL, s.GeocodingURL, s.Databases}
}

// BuiltinConfig returns the config from which package builtin makes the server's built-in
// tools. Validation and the running gateway use the same, so that what was checked is
// what runs.
func (s Server) BuiltinConfig() builtin.Config {
	return builtin.Config{
		Tools:        s.Builtin,
		CSVRoot:      s.CSVRoot,
		WeatherURL:   s.WeatherURL,
		GeocodingURL: s.GeocodingURL,
		Databases:    s.Databases,
		Client:       dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}),
		Now:          time.Now,
		Timeout:      s.Timeout,
	}
}
