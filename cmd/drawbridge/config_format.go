package main

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

// config is everything one config file says, checked, with the documented defaults in place. It is immutable once read.
type config struct {
	file           string
	listen         string
	operator       string
	publicURL      string // without /mcp and without a slash at the end; "" is the address that is listened on
	allowedOrigins []string
	allowedHosts   []string
	trustedProxies []netip.Prefix
	legacySSE      bool
	issuers        []issuerConfig
	tenants        []gateway.TenantConfig
	servers        []serverConfig
	sessions       sessionsConfig
	audit          audit.Config
	logLevel       slog.Level
	logFormat      string
	pageSize       int
	limits         limitsConfig
	sources        sources
	included       int                              // files that it was joined from, beside its own
	warnings       []warning                        // that it does not acknowledge, but for those of patterns
	patterns       map[gateway.PatternPlace]problem // where each pattern stands, with its text as written
	needless       []problem                        // what acknowledges nothing, but for no-match: its codes
	acknowledged   []acknowledgement                // of no-match
	places         map[string]problem               // where each server and issuer stands, by "server NAME" or "issuer NAME"
}

// acknowledgement is one place that says no-match is meant, with one of the things that this is about.
type acknowledgement struct {
	at     problem // with the code as its text
	tenant string
	rule   int // its number from 1, or anyRule
}

// anyRule is every rule of a tenant, and its limits.
const anyRule = -1

// sources are the files that a config was read from, or was meant to be.
type sources struct {
	files    []string // the config file, then those that it includes and names
	sum      []byte   // digest of their content, in that order
	patterns []string // of files to include
	names    []string // that these matched
}

// sessionsConfig is about legacy sessions. Zero values are the defaults of the packages that use them.
type sessionsConfig struct {
	idle, maxAge time.Duration
	keys         [][]byte
	keysFile     string
	eventCount   int
	eventBytes   int64
	eventAge     time.Duration
}

// limitsConfig bounds the whole process. Zero values are the defaults of package server.
type limitsConfig struct {
	maxBody              int64
	maxCalls, maxStreams int
	readTimeout          time.Duration
	heartbeat            time.Duration
}

// defaultConfig returns the documented defaults of what a file may leave out. The defaults of limits live in the packages that enforce them.
func defaultConfig() *config {
	return &config{
		listen:    "127.0.0.1:8080",
		operator:  "127.0.0.1:9090",
		legacySSE: true,
		logLevel:  slog.LevelInfo,
		logFormat: "json",
		patterns:  map[gateway.PatternPlace]problem{},
		places:    map[string]problem{},
	}
}

// loadConfig reads and checks a config file. A problems error lists everything wrong with it; any other error says that it cannot be read.
func loadConfig(path string, env environment) (*config, error) {
	cfg, _, err := readConfig(path, env)
	return cfg, err
}

// readConfig is loadConfig for who wants to know what was read even when the config is refused: a change there may mend it.
func readConfig(path string, env environment) (*config, sources, error) {
	data, err := readFile(path)
	r := newReader(path, data, err, env)
	if err != nil {
		return nil, r.sources, err
	}
	cfg, err := r.parse(data)
	return cfg, r.sources, err
}

// parse returns what the text of the config file says. The error is problems.
func (r *reader) parse(data []byte) (*config, error) {
	cfg := defaultConfig()
	cfg.file = r.file
	if r.root = r.parseYAML(data); r.root != nil {
		r.config(cfg, r.root)
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	cfg.sources, cfg.included = r.sources, r.included
	r.warnAll(cfg)
	return cfg, nil
}

// finish runs the checks that need the whole config.
func (r *reader) finish(cfg *config) {
	r.index = r.newIndex(cfg)
	for _, check := range r.later {
		check()
	}
}

// config reads the top level. The order of the file means nothing: what depends on other parts is looked at last.
func (r *reader) config(cfg *config, root *node) {
	known := r.topFields(cfg)
	if !r.includes(root, known) || !r.object(root, "the config", known) || !r.need(root, "the config", "issuers", "tenants", "servers") {
		return
	}
	cfg.audit.File = r.auditFile(cfg)
	r.checkAddresses(cfg)
	r.finish(cfg)
	r.prefixTenants(cfg)
}

func (r *reader) topFields(cfg *config) fields {
	known := r.networkFields(cfg)
	known["issuers"] = func(n *node) { r.issuers(cfg, n) }
	known["tenants"] = func(n *node) { r.tenants(cfg, n) }
	known["servers"] = func(n *node) { r.servers(cfg, n) }
	known["sessions"] = func(n *node) { r.sessions(&cfg.sessions, n) }
	known["audit"] = func(n *node) { r.audit(cfg, n) }
	known["log"] = func(n *node) { r.log(cfg, n) }
	known["limits"] = func(n *node) { r.limits(&cfg.limits, n) }
	known["lists"] = func(n *node) {
		r.object(n, "lists", fields{"page_size": func(n *node) { cfg.pageSize = r.integer(n, 1, 10000) }})
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

func (r *reader) networkFields(cfg *config) fields {
	return fields{
		"listen":          func(n *node) { cfg.listen = r.address(n) },
		"operator":        func(n *node) { cfg.operator = r.address(n) },
		"public_url":      func(n *node) { cfg.publicURL = r.publicURL(n) },
		"allowed_origins": func(n *node) { cfg.allowedOrigins = r.checkedTexts(n, "allowed_origins", checkOrigin) },
		"allowed_hosts":   func(n *node) { cfg.allowedHosts = r.checkedTexts(n, "allowed_hosts", checkHost) },
		"trusted_proxies": func(n *node) { cfg.trustedProxies = r.prefixes(n) },
		"revisions": func(n *node) {
			r.object(n, "revisions", fields{"legacy_sse": func(n *node) { cfg.legacySSE = r.boolean(n) }})
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
func (r *reader) checkAddresses(cfg *config) {
	if cfg.listen != "" && cfg.listen == cfg.operator && !strings.HasSuffix(cfg.listen, ":0") {
		r.fault(r.at("operator"), "operator and listen are the same address; the operator's page is not for clients")
	}
	if cfg.publicURL == "" && r.root.member("public_url") == nil && cfg.listen != "" && (!loopback(cfg.listen) || strings.HasSuffix(cfg.listen, ":0")) {
		r.fault(r.at("listen"), "clients elsewhere cannot type this address: set public_url to what they type, like https://mcp.example.com")
	}
}

// loopback tells whether only this machine can reach a host:port.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (r *reader) sessions(s *sessionsConfig, n *node) {
	r.object(n, "sessions", fields{
		"idle":      func(n *node) { s.idle = r.duration(n) },
		"max_age":   func(n *node) { s.maxAge = r.duration(n) },
		"keys_file": func(n *node) { s.keysFile, s.keys = r.path(n), r.sealKeys(n) },
		"events": func(n *node) {
			r.object(n, "events", fields{
				"count": func(n *node) { s.eventCount = r.integer(n, 1, 1_000_000) },
				"bytes": func(n *node) { s.eventBytes = r.size(n) },
				"age":   func(n *node) { s.eventAge = r.duration(n) },
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

func (r *reader) checkReplicas(cfg *config, n *node) {
	if cfg.sessions.keysFile == "" {
		r.fault(n, "several replicas need a common sessions.keys_file")
	}
}

func (r *reader) audit(cfg *config, n *node) {
	r.object(n, "audit", fields{
		"file": func(n *node) {
			if cfg.audit.File = r.path(n); n.text == "-" {
				cfg.audit.File = "-"
			}
		},
		"when_full": func(n *node) { cfg.audit.Drop = r.choice(n, "block", "drop") == "drop" },
		"sync":      func(n *node) { cfg.audit.Always = r.choice(n, "always", "interval") == "always" },
	})
}

// auditFile is where the record goes when the config does not say.
func (r *reader) auditFile(cfg *config) string {
	if cfg.audit.File != "" {
		return cfg.audit.File
	}
	return r.path(&node{kind: scalar, file: r.file, text: "audit.jsonl"})
}

func (r *reader) log(cfg *config, n *node) {
	r.object(n, "log", fields{
		"level": func(n *node) {
			if err := cfg.logLevel.UnmarshalText([]byte(r.choice(n, "debug", "info", "warn", "error"))); err != nil {
				cfg.logLevel = slog.LevelInfo // reported by choice
			}
		},
		"format": func(n *node) { cfg.logFormat = r.choice(n, "json", "text") },
	})
}

func (r *reader) limits(l *limitsConfig, n *node) {
	r.object(n, "limits", fields{
		"max_body":     func(n *node) { l.maxBody = r.size(n) },
		"max_calls":    func(n *node) { l.maxCalls = r.integer(n, 1, 1_000_000) },
		"max_streams":  func(n *node) { l.maxStreams = r.integer(n, 1, 1_000_000) },
		"read_timeout": func(n *node) { l.readTimeout = r.duration(n) },
		"heartbeat":    func(n *node) { l.heartbeat = r.duration(n) },
	})
}

// place returns where something stands in the config, as a problem without a text: "server NAME" or "issuer NAME". It is
// zero for what stands nowhere in it.
func (c *config) place(name string) problem { return c.places[name] }
