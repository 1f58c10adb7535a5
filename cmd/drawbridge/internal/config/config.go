// Package config answers what a config file says: it reads the file and those that it includes and names, checks
// everything that needs no network, warns of what works and may not be meant, and tells when a file has changed. It reads
// the files in which clients list their servers by the same rules, and it is the only door to the environment.
//
// It starts and connects nothing, and does not know what becomes of a setting: commands put the parts together from it.
package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// Config is everything one config file says, checked, with the documented defaults in place. It is immutable once read.
type Config struct {
	File           string
	Listen         string
	Operator       string
	PublicURL      string // without /mcp and without a slash at the end; "" is the address that is listened on
	AllowedOrigins []string
	AllowedHosts   []string
	TrustedProxies []netip.Prefix
	LegacySSE      bool
	Issuers        []Issuer
	Tenants        []gateway.TenantConfig
	Servers        []Server
	Sessions       Sessions
	Audit          audit.Config
	LogLevel       slog.Level
	LogFormat      string
	PageSize       int
	Limits         Limits
	Sources        Sources
	Included       int                              // files that it was joined from, beside its own
	Warnings       []Warning                        // that it does not acknowledge, but for those of patterns
	patterns       map[gateway.PatternPlace]Problem // where each pattern stands, with its text as written
	idle           []Problem                        // what acknowledges nothing, but for no-match: its codes
	acknowledged   []acknowledgement                // of no-match
	places         map[string]Problem               // where each server and issuer stands, by "server NAME" or "issuer NAME"
}

// Sessions is about legacy sessions. Zero values are the defaults of the packages that use them.
type Sessions struct {
	Idle, MaxAge time.Duration
	Keys         [][]byte
	KeysFile     string
	EventCount   int
	EventBytes   int64
	EventAge     time.Duration
}

// Limits bounds the whole process. Zero values are the defaults of package server.
type Limits struct {
	MaxBody              int64
	MaxCalls, MaxStreams int
	ReadTimeout          time.Duration
	Heartbeat            time.Duration
}

// Default returns the documented defaults of what a file may leave out. The defaults of limits live in the packages that enforce them.
func Default() *Config {
	return &Config{
		Listen:    "127.0.0.1:8080",
		Operator:  "127.0.0.1:9090",
		LegacySSE: true,
		LogLevel:  slog.LevelInfo,
		LogFormat: "json",
		patterns:  map[gateway.PatternPlace]Problem{},
		places:    map[string]Problem{},
	}
}

// Load reads and checks a config file. A RefusedError lists everything wrong with it; any other error says that it cannot be read.
func Load(path string, env Environment) (*Config, error) {
	cfg, _, err := LoadWatched(path, env)
	return cfg, err
}

// LoadWatched is Load for a caller that watches the files: it returns what was read also when the config is refused,
// because a change there may mend it.
func LoadWatched(path string, env Environment) (*Config, Sources, error) {
	data, err := readFile(path)
	r := newReader(path, data, err, env)
	if err != nil {
		return nil, r.sources, err
	}
	cfg, err := r.parse(data)
	return cfg, r.sources, err
}

// Place returns where something stands in the config, as a problem without a text: "server NAME" or "issuer NAME". It is
// zero for what stands nowhere in it.
func (c *Config) Place(name string) Problem { return c.places[name] }

// PublicAddress is what clients type, without /mcp.
func (c *Config) PublicAddress() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}
