package config

import (
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

func (r *reader) nonEmptyBuiltin(n *node) []string {
	var out []string
	r.eachText(n, "builtin", func(at *node, name string) {
		if !slices.Contains(builtin.Names(), name) {
			r.faultHint(at, nearest(at.raw, builtin.Names()), "there is no built-in tool %q; there are %s", at.raw, strings.Join(builtin.Names(), ", "))
		}
		out = append(out, name)
	})
	if n.kind == list && len(n.items) == 0 {
		r.fault(n, "an empty list of built-in tools; there are %s", strings.Join(builtin.Names(), ", "))
	}
	return out
}

func (r *reader) checkBuiltin(s *Server, n *node) {
	wants := map[string][]string{"analyze_csv": {"csv_root"}, "get_weather": {"weather_url", "geocoding_url"}}
	for _, tool := range s.Builtin {
		for _, name := range wants[tool] {
			if n.member(name) == nil {
				r.fault(n.member("builtin"), "%s needs %s", tool, name)
			}
		}
	}
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

// BuiltinConfig is what package builtin makes the tools of a server with built-in tools from.
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
