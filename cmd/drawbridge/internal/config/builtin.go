package config

import (
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// nonEmptyBuiltin reads the names of a server's built-in tools. It reports names that do
// not exist and an empty list.
func (r *reader) nonEmptyBuiltin(n *node) []string {
	var out []string
	r.eachText(n, "builtin", func(at *node, name string) {
		if !slices.Contains(builtin.Names(), name) {
			r.faultHint(at, nearest(at.raw, builtin.Names()), "there is no built-in tool %q; there are %s",
				at.raw, strings.Join(builtin.Names(), ", "))
		}
		out = append(out, name)
	})
	if n.kind == list && len(n.items) == 0 {
		r.fault(n, "an empty list of built-in tools; there are %s", strings.Join(builtin.Names(), ", "))
	}
	return out
}

// checkBuiltin reports what keeps the built-in tools of a server from being made. Package
// builtin has most of these checks, so the tools are made once, on trial, and released.
func (r *reader) checkBuiltin(s *Server, n *node) {
	wants := map[string][]string{"analyze_csv": {"csv_root"}, "get_weather": {"weather_url", "geocoding_url"}}
	for _, tool := range s.Builtin {
		for _, name := range wants[tool] {
			if n.member(name) == nil {
				r.fault(n.member("builtin"), "%s needs %s", tool, name)
			}
		}
	}
	// After any problem, s may be incomplete, and package builtin would complain about
	// values that the file does not have.
	if len(r.problems) > 0 {
		return
	}
	_, release, err := builtin.New(s.BuiltinConfig())
	if err != nil {
		r.fault(n.member("builtin"), "%s", err)
		return
	}
	if err := release(); err != nil {
		r.fault(n.member("builtin"), "%s", err)
	}
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
		Client:       dial.Client(dial.Config{PrivateAddresses: s.PrivateAddresses}),
		Now:          time.Now,
		Timeout:      s.Timeout,
	}
}
