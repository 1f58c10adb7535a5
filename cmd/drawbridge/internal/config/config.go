// Package config answers what a config file says: it reads the file and those that it includes and names, checks
// everything that needs no network, warns of what works and may not be meant, and tells when a file has changed. It
// reads the files in which clients list their servers by the same rules, and it is the only door to the environment.
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

// Config is everything that a config file says, checked, with the documented defaults in place. Each field says by which
// key of the file it is set. A Config does not change once it is loaded, so it may be read from any goroutine; commands
// that need no file complete a Default before they use it.
type Config struct {
	File     string // that was loaded, as the operator wrote its name; "" for a Default
	Included int    // how many other files the config was joined from

	Listen    string // listen: host:port for clients; the host is an IP address or localhost
	Operator  string // operator: host:port for the operator's page and the metrics
	PublicURL string // public_url: what clients type, without /mcp and without a slash at the end; "": see PublicAddress

	AllowedOrigins []string       // allowed_origins: of pages in browsers that may call, beside the gateway's own
	AllowedHosts   []string       // allowed_hosts, beside those that follow from listen and public_url
	TrustedProxies []netip.Prefix // trusted_proxies, whose word on the client's address is taken; none without
	LegacySSE      bool           // revisions.legacy_sse: whether HTTP+SSE of 2024-11-05 is served to clients

	Issuers []Issuer               // issuers, at least one, in the order of the files
	Tenants []gateway.TenantConfig // tenants, at least one, in the order of the files
	Servers []Server               // servers, in the order of the files

	Sessions  Sessions     // sessions
	Audit     audit.Config // audit: File, Always and Drop alone; the functions are for whoever opens the log
	LogLevel  slog.Level   // log.level
	LogFormat string       // log.format: "json" or "text"
	PageSize  int          // lists.page_size: items in one answer of a list; zero: the default of package gateway
	Limits    Limits       // limits

	Sources  Sources   // the files that the config was read from, to be watched
	Warnings []Warning // that no acknowledge silences, in the order of the files; AllWarnings has those of patterns too

	patterns     map[gateway.PatternPlace]Problem // where each pattern stands, with its text as written
	idle         []Problem                        // acknowledged codes that silence nothing, as texts; no-match is not judged here
	acknowledged []acknowledgement                // of no-match, which only a catalogue can judge
	places       map[string]Problem               // where each server and issuer stands; keys as of Place
}

// Sessions is what the file says under sessions. Zero of a field stands for the default of package server or, of the
// events, of package session.
type Sessions struct {
	Idle   time.Duration // idle: a legacy session that nobody uses ends after it
	MaxAge time.Duration // max_age: every legacy session ends after it

	Keys     [][]byte // the content of keys_file, the newest first; nil: keys that are made at the start
	KeysFile string   // keys_file; "": none

	EventCount int           // events.count: events kept of one stream
	EventBytes int64         // events.bytes: bytes kept of one stream
	EventAge   time.Duration // events.age: how long an event is kept
}

// Limits is what the file says under limits; it bounds the whole process. Zero of a field stands for the default of
// package server.
type Limits struct {
	MaxBody     int64         // max_body: bytes of one request
	MaxCalls    int           // max_calls: requests in work at once
	MaxStreams  int           // max_streams: event streams open at once
	ReadTimeout time.Duration // read_timeout: how long a client may take to send a request
	Heartbeat   time.Duration // heartbeat: how long a stream is silent before a comment is sent
}

// Default returns a new config with the documented defaults of what a file may leave out. It has no issuers, tenants and
// servers, and its limits are zero: their defaults live in the packages that enforce them.
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

// Load reads and checks a config file. A RefusedError lists everything that is wrong with it; any other error says that
// the file cannot be read.
func Load(path string, env Environment) (*Config, error) {
	cfg, _, err := LoadWatched(path, env)
	return cfg, err
}

// LoadWatched is Load for a caller that watches the files. It returns what was read even when the config is refused,
// because a change of those files may mend it.
func LoadWatched(path string, env Environment) (*Config, Sources, error) {
	data, err := readFile(path)
	r := newReader(path, data, err, env)
	if err != nil {
		return nil, r.sources, err
	}
	cfg, err := r.parse(data)
	return cfg, r.sources, err
}

// Place returns where a server or an issuer stands in the files, as a problem without a text. The name is "server NAME"
// or "issuer NAME". The place of what the config does not have is zero.
func (c *Config) Place(name string) Problem { return c.places[name] }

// PublicAddress is the beginning of the address that clients type, without /mcp: PublicURL or, without that, Listen.
func (c *Config) PublicAddress() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}
