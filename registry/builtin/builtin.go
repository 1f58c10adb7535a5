// Package builtin holds the tools that run in the gateway itself, one per file, off unless configured. It knows
// neither tenants nor transports: it makes offers for the catalogue.
package builtin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const defaultTimeout = 30 * time.Second

// Config says which tools to offer and what they may touch.
type Config struct {
	Tools        []string         // names; an unknown or repeated one is an error of New
	CSVRoot      string           // directory below which analyze_csv reads; required for it
	WeatherURL   string           // Open-Meteo shaped forecast API, without /v1/forecast; required for get_weather
	GeocodingURL string           // Open-Meteo shaped geocoding API, without /v1/search; required for get_weather
	Client       *http.Client     // must follow no redirect; required for get_weather
	Now          func() time.Time // nil: time.Now
	Timeout      time.Duration    // of one call; zero: 30 s
}

// tool is one built-in tool. make returns what runs it and, unless nil, what releases what it holds.
type tool struct {
	name       string
	definition string // JSON, as in tools/list
	make       func(Config) (registry.Func, func() error, error)
}

// tools returns every built-in tool, by name.
func tools() []tool {
	return []tool{
		{"analyze_csv", analyzeCSVDefinition, newAnalyzeCSV},
		{"calculate", calculateDefinition, newCalculate},
		{"current_time", currentTimeDefinition, newCurrentTime},
		{"get_weather", getWeatherDefinition, newGetWeather},
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

// New returns the configured tools as offers, in the order of cfg.Tools. The second result releases what they hold;
// it is never nil when the error is, and calls that come after it answer that there is no such file.
func New(cfg Config) ([]registry.Offer, func() error, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	var offers []registry.Offer
	var releases []func() error
	release := func() error {
		var errs []error
		for _, r := range releases {
			errs = append(errs, r())
		}
		return errors.Join(errs...)
	}
	for i, name := range cfg.Tools {
		if slices.Contains(cfg.Tools[:i], name) {
			return nil, nil, errors.Join(fmt.Errorf("built-in tool %q is listed twice", name), release())
		}
		offer, done, err := newOffer(cfg, name)
		if err != nil {
			return nil, nil, errors.Join(err, release())
		}
		if done != nil {
			releases = append(releases, done)
		}
		offers = append(offers, offer)
	}
	return offers, release, nil
}

func newOffer(cfg Config, name string) (registry.Offer, func() error, error) {
	all := tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == name })
	if i < 0 {
		return registry.Offer{}, nil, fmt.Errorf("no built-in tool is called %q; there are %s", name, strings.Join(Names(), ", "))
	}
	call, done, err := all[i].make(cfg)
	if err != nil {
		return registry.Offer{}, nil, fmt.Errorf("built-in tool %s: %w", name, err)
	}
	definition, err := mcp.ParseObject([]byte(all[i].definition))
	if err != nil {
		return registry.Offer{}, nil, fmt.Errorf("definition of built-in tool %s: %w", name, err)
	}
	return registry.Offer{Definition: definition, Timeout: cfg.Timeout, Call: call}, done, nil
}
