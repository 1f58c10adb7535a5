// Package builtin has the tools that run in the gateway itself. It answers which of them
// there are, and makes offers of the configured ones for the catalogue; none is offered
// unless it is configured. It knows neither tenants nor transports: who may call a tool,
// how often and for how long is decided by the gateway.
//
// Arguments come from a model and may be hostile, and so may files and services that a
// tool reads. Every tool therefore bounds its work and memory, checks its arguments
// although the catalogue has validated them, and words its errors for the model without
// repeating what it read.
//
// Reading order: this file, config.go and result.go, then one tool after the other:
//
//	current_time   currenttime.go
//	calculate      calculate.go, expression.go (the parser), function.go, rational.go (exact numbers)
//	analyze_csv    analyzecsv.go, turnreader.go, rowlimiter.go (bounds rows), column.go (exact sums)
//	get_weather    getweather.go, openmeteo.go (the service)
//	query_database, describe_database   querydatabase.go (both, and the databases), describedatabase.go
//
// The definition of each tool, as models read it, stands beside its file, as JSON. To add
// a tool, add a file with its constructor and one with its definition, and a line in
// tools.
package builtin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const defaultTimeout = 30 * time.Second

// tool is one built-in tool.
type tool struct {
	name       string
	definition string // JSON, as in tools/list
	// make returns the Func that runs the tool, which is safe for concurrent use and
	// keeps nothing open. The error says what is wrong with the Config.
	make func(Config) (registry.Func, error)
}

// tools returns every built-in tool, sorted by name.
func tools() []tool {
	return []tool{
		{"analyze_csv", analyzeCSVDefinition, newAnalyzeCSV},
		{"calculate", calculateDefinition, newCalculate},
		{"current_time", currentTimeDefinition, newCurrentTime},
		{"describe_database", describeDatabaseDefinition, newDescribeDatabase},
		{"get_weather", getWeatherDefinition, newGetWeather},
		{"query_database", queryDatabaseDefinition, newQueryDatabase},
	}
}

// Names returns the names of all built-in tools, sorted.
func Names() []string {
	var names []string
	for _, t := range tools() {
		names = append(names, t.name)
	}
	return names
}

// New returns the configured tools as offers, in the order of cfg.Tools.
func New(cfg Config) ([]registry.Offer, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	var offers []registry.Offer
	for i, name := range cfg.Tools {
		if slices.Contains(cfg.Tools[:i], name) {
			return nil, fmt.Errorf("built-in tool %q is listed twice", name)
		}
		offer, err := newOffer(cfg, name)
		if err != nil {
			return nil, err
		}
		offers = append(offers, offer)
	}
	return offers, nil
}

// newOffer returns the offer of one tool.
func newOffer(cfg Config, name string) (registry.Offer, error) {
	all := tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == name })
	if i < 0 {
		return registry.Offer{}, fmt.Errorf("no built-in tool is called %q; there are %s", name,
			strings.Join(Names(), ", "))
	}
	call, err := all[i].make(cfg)
	if err != nil {
		return registry.Offer{}, fmt.Errorf("built-in tool %s: %w", name, err)
	}
	definition, err := mcp.ParseObject([]byte(defined(all[i].definition, cfg)))
	if err != nil {
		return registry.Offer{}, fmt.Errorf("definition of built-in tool %s: %w", name, err)
	}
	return registry.Offer{Definition: definition, Timeout: cfg.Timeout, Call: call}, nil
}
