// Package config answers what a config file says: it reads the file and those that it includes and names, checks
// everything that needs no network, warns of what works and may not be meant, and tells when a file has changed. It reads
// the files in which clients list their servers by the same rules, and it is the only door to the environment.
//
// It starts and connects nothing, and does not know what becomes of a setting: commands put the parts together from it.
package config

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
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

// acknowledgement is one place that says no-match is meant, with one of the things that this is about.
type acknowledgement struct {
	at     Problem // with the code as its text
	tenant string
	rule   int // its number from 1, or anyRule
}

// anyRule is every rule of a tenant, and its limits.
const anyRule = -1

// Sources are the files that a config was read from, or was meant to be.
type Sources struct {
	files    []string // the config file, then those that it includes and names
	sum      []byte   // digest of their content, in that order
	patterns []string // of files to include
	names    []string // that these matched
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

// parse returns what the text of the config file says. The error is a RefusedError.
func (r *reader) parse(data []byte) (*Config, error) {
	cfg := Default()
	cfg.File = r.file
	if r.root = r.parseYAML(data); r.root != nil {
		r.config(cfg, r.root)
	}
	if len(r.problems) > 0 {
		return nil, RefusedError(sorted(r.problems))
	}
	cfg.Sources, cfg.Included = r.sources, r.included
	r.warnAll(cfg)
	return cfg, nil
}

// finish runs the checks that need the whole config.
func (r *reader) finish(cfg *Config) {
	r.index = r.newIndex(cfg)
	for _, check := range r.later {
		check()
	}
}

// Config reads the top level. The order of the file means nothing: what depends on other parts is looked at last.
func (r *reader) config(cfg *Config, root *node) {
	known := r.topFields(cfg)
	if !r.includes(root, known) || !r.object(root, "the config", known) || !r.need(root, "the config", "issuers", "tenants", "servers") {
		return
	}
	cfg.Audit.File = r.auditFile(cfg)
	r.checkAddresses(cfg)
	r.finish(cfg)
	r.prefixTenants(cfg)
}

func (r *reader) topFields(cfg *Config) fields {
	known := r.networkFields(cfg)
	known["issuers"] = func(n *node) { r.issuers(cfg, n) }
	known["tenants"] = func(n *node) { r.tenants(cfg, n) }
	known["servers"] = func(n *node) { r.servers(cfg, n) }
	known["sessions"] = func(n *node) { r.sessions(&cfg.Sessions, n) }
	known["audit"] = func(n *node) { r.audit(cfg, n) }
	known["log"] = func(n *node) { r.log(cfg, n) }
	known["limits"] = func(n *node) { r.limits(&cfg.Limits, n) }
	known["lists"] = func(n *node) {
		r.object(n, "lists", fields{"page_size": func(n *node) { cfg.PageSize = r.integer(n, 1, 10000) }})
	}
	known["replicas"] = func(n *node) {
		if r.integer(n, 1, 10000) > 1 {
			r.later = append(r.later, func() { r.checkReplicas(cfg, n) })
		}
	}
	known["acknowledge"] = r.acknowledge
	known["include"] = func(*node) {} // done before all others
	known["redis"] = func(n *node) { r.fault(n, "sessions and limits over Redis are not there yet; take redis out") }
	return known
}

func (r *reader) networkFields(cfg *Config) fields {
	return fields{
		"listen":          func(n *node) { cfg.Listen = r.address(n) },
		"operator":        func(n *node) { cfg.Operator = r.address(n) },
		"public_url":      func(n *node) { cfg.PublicURL = r.publicURL(n) },
		"allowed_origins": func(n *node) { cfg.AllowedOrigins = r.checkedTexts(n, "allowed_origins", checkOrigin) },
		"allowed_hosts":   func(n *node) { cfg.AllowedHosts = r.checkedTexts(n, "allowed_hosts", checkHost) },
		"trusted_proxies": func(n *node) { cfg.TrustedProxies = r.prefixes(n) },
		"revisions": func(n *node) {
			r.object(n, "revisions", fields{"legacy_sse": func(n *node) { cfg.LegacySSE = r.boolean(n) }})
		},
	}
}

// checkedTexts returns a list of texts, each of which passes check.
func (r *reader) checkedTexts(n *node, what string, check func(string) error) []string {
	var out []string
	r.eachText(n, what, func(at *node, text string) {
		if err := check(text); err != nil {
			r.fault(at, "%q: %s", at.raw, err)
			return
		}
		out = append(out, text)
	})
	return out
}

func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.Scheme+"://"+u.Host != text {
		return errors.New("an origin is scheme://host or scheme://host:port, like https://app.example.com")
	}
	if !validPort(u.Port()) {
		return errPort
	}
	return nil
}

var hostPattern = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func checkHost(text string) error {
	if !hostPattern.MatchString(text) {
		return errors.New("a host is a name or an address, with or without :port")
	}
	if _, port, _ := strings.Cut(text[strings.LastIndex(text, "]")+1:], ":"); !validPort(port) {
		return errPort
	}
	return nil
}

func (r *reader) prefixes(n *node) []netip.Prefix {
	var out []netip.Prefix
	r.eachText(n, "trusted_proxies", func(at *node, text string) {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err == nil && prefix.Masked() == prefix:
			out = append(out, prefix)
		case err == nil:
			r.faultHint(at, prefix.Masked().String(), "%q has bits beyond its length", at.raw)
		default:
			hint := ""
			if address, err := netip.ParseAddr(text); err == nil && !at.expanded {
				hint = netip.PrefixFrom(address, address.BitLen()).String()
			}
			r.faultHint(at, hint, "%q is not a CIDR like 10.0.0.0/8", at.raw)
		}
	})
	return out
}

// address returns host:port to listen on. The host is an address, so that nothing depends on name resolution.
func (r *reader) address(n *node) string {
	if host, port, err := net.SplitHostPort(n.text); err == nil && (host == "localhost" || isAddress(host)) && isNumber(port) && port != "0" && !validPort(port) {
		r.fault(n, "%q: %s", n.raw, errPort)
		return ""
	}
	return parsed(r, n, "an address and a port, like 127.0.0.1:8080", func(s string) (string, error) {
		_, err := netip.ParseAddrPort(strings.Replace(s, "localhost:", "127.0.0.1:", 1))
		return s, err
	})
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func (r *reader) publicURL(n *node) string {
	text := strings.TrimSuffix(r.text(n), "/")
	if text == "" {
		return ""
	}
	if err := checkOrigin(text); errors.Is(err, errPort) {
		r.fault(n, "public_url: %s", err)
	} else if err != nil {
		hint := ""
		if cut := strings.TrimSuffix(text, "/mcp"); checkOrigin(cut) == nil && !n.expanded {
			hint = cut
		}
		r.faultHint(n, hint, "public_url is scheme://host or scheme://host:port, without a path")
	}
	return text
}

// checkAddresses needs all addresses, so it runs last.
func (r *reader) checkAddresses(cfg *Config) {
	if cfg.Listen != "" && cfg.Listen == cfg.Operator && !strings.HasSuffix(cfg.Listen, ":0") {
		r.fault(r.at("operator"), "operator and listen are the same address; the operator's page is not for clients")
	}
	if cfg.PublicURL == "" && r.root.member("public_url") == nil && cfg.Listen != "" && (!IsLoopback(cfg.Listen) || strings.HasSuffix(cfg.Listen, ":0")) {
		r.fault(r.at("listen"), "clients elsewhere cannot type this address: set public_url to what they type, like https://mcp.example.com")
	}
}

// IsLoopback tells whether only this machine can reach a host:port.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (r *reader) sessions(s *Sessions, n *node) {
	r.object(n, "sessions", fields{
		"idle":      func(n *node) { s.Idle = r.duration(n) },
		"max_age":   func(n *node) { s.MaxAge = r.duration(n) },
		"keys_file": func(n *node) { s.KeysFile, s.Keys = r.path(n), r.sealKeys(n) },
		"events": func(n *node) {
			r.object(n, "events", fields{
				"count": func(n *node) { s.EventCount = r.integer(n, 1, 1_000_000) },
				"bytes": func(n *node) { s.EventBytes = r.size(n) },
				"age":   func(n *node) { s.EventAge = r.duration(n) },
			})
		},
	})
}

func (r *reader) sealKeys(n *node) [][]byte {
	data := r.read(n)
	if data == nil {
		return nil
	}
	keys, err := seal.ParseKeys(data)
	if err == nil {
		_, err = seal.NewRing(keys...)
	}
	if err != nil {
		r.fault(n, "keys_file: %s", err)
	}
	return keys
}

func (r *reader) checkReplicas(cfg *Config, n *node) {
	if cfg.Sessions.KeysFile == "" {
		r.fault(n, "several replicas need a common sessions.keys_file")
	}
}

func (r *reader) audit(cfg *Config, n *node) {
	r.object(n, "audit", fields{
		"file": func(n *node) {
			if cfg.Audit.File = r.path(n); n.text == "-" {
				cfg.Audit.File = "-"
			}
		},
		"when_full": func(n *node) { cfg.Audit.Drop = r.choice(n, "block", "drop") == "drop" },
		"sync":      func(n *node) { cfg.Audit.Always = r.choice(n, "always", "interval") == "always" },
	})
}

// auditFile is where the record goes when the config does not say.
func (r *reader) auditFile(cfg *Config) string {
	if cfg.Audit.File != "" {
		return cfg.Audit.File
	}
	return r.path(&node{kind: scalar, file: r.file, text: "audit.jsonl"})
}

func (r *reader) log(cfg *Config, n *node) {
	r.object(n, "log", fields{
		"level": func(n *node) {
			if err := cfg.LogLevel.UnmarshalText([]byte(r.choice(n, "debug", "info", "warn", "error"))); err != nil {
				cfg.LogLevel = slog.LevelInfo // reported by choice
			}
		},
		"format": func(n *node) { cfg.LogFormat = r.choice(n, "json", "text") },
	})
}

func (r *reader) limits(l *Limits, n *node) {
	r.object(n, "limits", fields{
		"max_body":     func(n *node) { l.MaxBody = r.size(n) },
		"max_calls":    func(n *node) { l.MaxCalls = r.integer(n, 1, 1_000_000) },
		"max_streams":  func(n *node) { l.MaxStreams = r.integer(n, 1, 1_000_000) },
		"read_timeout": func(n *node) { l.ReadTimeout = r.duration(n) },
		"heartbeat":    func(n *node) { l.Heartbeat = r.duration(n) },
	})
}

// Place returns where something stands in the config, as a problem without a text: "server NAME" or "issuer NAME". It is
// zero for what stands nowhere in it.
func (c *Config) Place(name string) Problem { return c.places[name] }
