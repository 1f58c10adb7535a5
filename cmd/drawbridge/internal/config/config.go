// Package config answers the question what a config file says. It reads the config file and the files that it includes
// and names, checks everything that needs no network, warns of settings that work but may not be meant, and tells when
// a file has changed. It also reads the JSON files in which clients such as editors list their servers, and checks
// those servers by the same rules. It is the only package that reads environment variables for the config.
//
// It starts and connects nothing, and it does not know what becomes of a setting: the commands of package main build
// the gateway from the Config.
//
// How bytes become a checked Config; a name on the right is a file of this package:
//
//	bytes of the config file
//	   |  scan into tokens, refuse what is unused or nested too deep, parse      yaml, syntax
//	   v
//	tree of nodes
//	   |  each value has its file, line and column; ${VAR} is replaced           node, environment
//	   |  join the trees of the included files to it                             include
//	   v
//	one tree, of which the tenants of included files are unread
//	   |  give the value of each key to the function that reads that key         format, reader, values,
//	   v                                                                         network, issuers, servers
//	Config, key by key
//	   |  checks that need all keys, such as whether a named tenant exists       reader.later
//	   |  parse, read and check the tenants, file by file                        part, tenants, patterns
//	   v
//	checked Config, or a RefusedError with every problem
//	   |  warn of what works and may not be meant                                warnings, acknowledged
//	   v
//	Config with Warnings
//
// A Loader (loader.go) does all this again for a reload, except for tenants that cannot have become others.
//
// No step stops at its first problem if the next step can still be done, so that an operator sees all problems at once
// and not one after each attempt.
//
// To read the package, begin with this file, then format.go (the keys at the top), reader.go and values.go (how a value
// is read and a problem recorded), and one section, say tenants.go. The files yaml.go and syntax.go are needed only for
// work on the format itself. Apart stand sources.go with watch.go (which files were read, and whether they changed) and
// clientfile.go with clientvariables.go and jsonc.go (the files of clients).
package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// Config is everything that a config file says, checked, with the documented defaults in place. The comment of each
// field names the key of the file that sets the field. A Config does not change once it is in use, so any goroutine may
// read it. Only KeepAddress and the commands that complete a Default change one, before anybody else sees it.
type Config struct {
	File     string // that was loaded, as the operator wrote its name; "" for a Default
	Included int    // how many other files the config was joined from
	Digest   string // of the contents of all its files, those of keys included: 8 hexadecimal digits; "" for a Default

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

	KeySetsDir string // key_sets_dir: where the last key set of each issuer is kept; "": in Redis, if there is that

	Replicas  int          // replicas: processes that serve the same tenants at most; zero: 1
	Redis     Redis        // redis
	Link      Link         // link
	Sessions  Sessions     // sessions
	Audit     audit.Config // audit: File, Always and Drop alone; the functions are for whoever opens the log
	LogLevel  slog.Level   // log.level
	LogFormat string       // log.format: "json" or "text"
	PageSize  int          // lists.page_size: items in one answer of a list; zero: the default of package gateway
	Limits    Limits       // limits

	Sources  Sources   // the files that the config was read from, to be watched
	Warnings []Warning // that no acknowledge silences, in the order of the files; AllWarnings has those of patterns too

	patterns map[gateway.PatternPlace]Problem // where each pattern stands, with its text as written
	// Places that acknowledge a code in vain, with the code as text. Those that acknowledge no-match are below instead:
	// whether they are needed depends on what the servers offer, see Needless.
	idle         []Problem
	acknowledged []acknowledgement   // of no-match
	places       map[string]Problem  // where each server and issuer stands; keys as of Place
	releases     map[release]Problem // where each release stands, with its text as written
	largeBody    awaited             // the warning about the largest body
	muchMemory   awaited             // the warning about limits.memory
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
	MaxBody            int64         // max_body: bytes of one request
	MaxCalls           int           // max_calls: requests in work at once
	MaxStreams         int           // max_streams: event streams open at once
	MaxConnections     int           // max_connections: of clients, open at once
	AddressConnections int           // address_connections: of one address, unless trusted_proxies has it
	ReadTimeout        time.Duration // read_timeout: how long a client may take to send a request
	Heartbeat          time.Duration // heartbeat: how long a stream is silent before a comment is sent
	Memory             int64         // memory: bytes that requests may hold together; zero: what the process may have decides
}

// Default returns a new config with the documented defaults of what a file may leave out. It has no issuers, tenants
// and servers, and its limits are zero: their defaults live in the packages that enforce them.
func Default() *Config {
	return &Config{
		Listen:    "127.0.0.1:8080",
		Link:      Link{Listen: ":0"},
		Operator:  "127.0.0.1:9090",
		LegacySSE: true,
		LogLevel:  slog.LevelInfo,
		LogFormat: "json",
		patterns:  map[gateway.PatternPlace]Problem{},
		places:    map[string]Problem{},
		releases:  map[release]Problem{},
	}
}

// Load reads and checks a config file. A RefusedError lists everything that is wrong with it; any other error says that
// the file cannot be read.
func Load(path string, env Environment) (*Config, error) {
	cfg, _, err := loadFile(path, env, nil)
	return cfg, err
}

// loadFile is Load, with a memory of tenants or without. It returns the sources also if the config is refused.
func loadFile(path string, env Environment, known *memory) (*Config, Sources, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, newReader(path, data, err, env).sources, err
	}
	return load(path, data, env, known)
}

// load reads a config whose file has that content. If there is any problem it reads everything again, all files as
// one, so that what is said about a refused config does not depend on what was left unread.
func load(path string, data []byte, env Environment, known *memory) (*Config, Sources, error) {
	r := newReader(path, data, nil, env)
	known.begin()
	r.apart, r.known = true, known
	cfg, err := r.parse(data)
	if err != nil {
		r = newReader(path, data, nil, env)
		r.known = known
		cfg, err = r.parse(data)
	}
	if err == nil {
		cfg.Digest = r.sources.digest()
	}
	return cfg, r.sources, err
}

// ReachedServers returns the servers that at least one tenant reaches. The others need
// not run.
func (c *Config) ReachedServers() []Server {
	reached := map[string]bool{}
	for i := range c.Tenants {
		for _, name := range c.Tenants[i].Servers {
			reached[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.Servers), func(s Server) bool { return !reached[s.Name] })
}

// Place returns where a server or an issuer stands in the files, as a Problem without a text. The name is "server NAME"
// or "issuer NAME". For a name that the config does not have, the result is the zero Problem.
func (c *Config) Place(name string) Problem { return c.places[name] }

// PublicAddress is the beginning of the address that clients type, without /mcp: PublicURL or, without that, Listen.
func (c *Config) PublicAddress() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}
